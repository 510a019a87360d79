from typing import Any

import pytest

from models.errors import InvalidSpec
from runners.spec import AllReduceSpec, DecodeSpec, parse_spec

GPU = "GPU-0a1b2c3d-1111-2222-3333-444455556666"


def test_the_documented_forms_are_read() -> None:
    cpu = parse_spec(
        {
            "kind": "allreduce",
            "device": "cpu",
            "ranks": 2,
            "sizes_bytes": [1024, 3072],
            "modes": ["eager"],
            "link": None,
            "rounds": 3,
            "time_limit_s": 120,
        }
    )
    assert isinstance(cpu, AllReduceSpec)
    assert cpu.n_ranks == 2
    gpus = parse_spec(
        {"kind": "allreduce", "device": "cuda", "gpus": [0, GPU], "link": "on", "modes": ["graph"]}
    )
    assert isinstance(gpus, AllReduceSpec)
    assert gpus.n_ranks == 2
    decode = parse_spec(
        {
            "kind": "decode",
            "device": "cuda",
            "gpus": [0, 1],
            "model": {"hidden_size": 8},
            "tp": 2,
            "clocks": ["wall_graph", "replay"],
            "link": "on",
        }
    )
    assert isinstance(decode, DecodeSpec)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"kind": "speed"}, "no benchmark called 'speed'"),
        ({"sizes_bytes": []}, "sizes_bytes"),
        ({"sizes_bytes": [1023]}, "no whole number of bfloat16"),
        ({"sizes_bytes": [0]}, "outside 1 B"),
        ({"sizes_bytes": [1024, 1024]}, "size is named twice"),
        ({"dtype": "int3"}, "dtype"),
        ({"modes": ["graph"]}, "CUDA graphs need GPUs"),
        ({"modes": ["eager", "eager"]}, "mode is named twice"),
        ({"device": "cuda"}, "name the GPUs"),
        ({"device": "cuda", "gpus": [0, 0]}, "same GPU is named twice"),
        ({"device": "cuda", "gpus": ["0; rm -rf ~"]}, "gpus"),
        ({"device": "cuda", "gpus": [0, 1], "ranks": 3}, "leave ranks out"),
        ({"gpus": [0]}, "CPU ranks take no GPUs"),
        ({"link": "on"}, "no GPU link"),
        ({"rounds": 0}, "rounds"),
        ({"time_limit_s": -1}, "time_limit_s"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_one_sentence_names_what_is_wrong(changes: dict[str, Any], word: str) -> None:
    good = {"kind": "allreduce", "device": "cpu", "ranks": 2, "sizes_bytes": [1024]}
    with pytest.raises(InvalidSpec, match=word) as caught:
        parse_spec(good | changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [None, [], "allreduce", 7])
def test_not_even_an_object(data: Any) -> None:
    with pytest.raises(InvalidSpec, match="no benchmark"):
        parse_spec(data)
