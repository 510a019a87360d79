"""Planning a decode-step test: arms, order, memory, duration."""

import json
from pathlib import Path

import pytest

from models.errors import InvalidSpec, OutOfMemory
from runners.decode_plan import decode_jobs, decode_seconds, largest_need
from runners.spec import parse_spec

FOLDER = Path(__file__).parents[2] / "data" / "models"
TINY = json.loads((FOLDER / "tiny-test-shape.json").read_text())
BIG = json.loads((FOLDER / "llama-3.1-70b.json").read_text())
GPUS = ["GPU-aaaa", "GPU-bbbb"]
ALL = ["wall_eager", "wall_served", "wall_graph", "replay", "replay_no_allreduce"]


def jobs(**changes):
    settings = {"model": TINY, "model_name": "tiny", "tps": [1, 2], "device": "cuda", "gpus": GPUS}
    return decode_jobs(**(settings | {"links": ["on", "off"], "clocks": ALL} | changes))


def test_one_gpu_has_one_arm_and_no_collectives_to_leave_out():
    planned = jobs()
    assert [job["evaluation"]["arm"] for job in planned] == [
        "TP=1",
        "TP=2, link on",
        "TP=2, link off",
    ]
    assert [job["spec"]["link"] for job in planned] == [None, "on", "off"]
    assert planned[0]["spec"]["clocks"] == ALL[:4]
    assert planned[1]["spec"]["clocks"] == ALL
    assert planned[0]["spec"]["gpus"] == GPUS[:1]
    assert len({job["evaluation"]["id"] for job in planned}) == 1


def test_the_only_clock_that_one_gpu_lacks_is_replaced_by_its_replay():
    assert jobs(tps=[1], clocks=ALL[3:])[0]["spec"]["clocks"] == ["replay"]


def test_starts_are_interleaved():
    planned = jobs(links=["on"], starts=2)
    assert [job["evaluation"]["arm"] for job in planned] == [
        "TP=1",
        "TP=2, link on",
        "TP=2, link on",
        "TP=1",
    ]
    assert [job["evaluation"]["start"] for job in planned] == [0, 0, 1, 1]
    assert [job["order"] for job in planned] == [0, 1, 2, 3]


def test_threads_are_swept_as_arms():
    planned = jobs(tps=[1], omp_num_threads=[None, 1, 8])
    assert [job["evaluation"]["arm"] for job in planned] == ["TP=1", "TP=1, OMP 1", "TP=1, OMP 8"]
    assert [job["spec"]["omp_num_threads"] for job in planned] == [None, 1, 8]


def test_pinning_is_swept_as_arms():
    planned = jobs(tps=[1], cpu_affinities=[None, [0, 1, 2], [8]])
    assert [job["evaluation"]["arm"] for job in planned] == [
        "TP=1, not pinned",
        "TP=1, CPUs 0-2",
        "TP=1, CPUs 8",
    ]
    assert [job["spec"]["cpu_affinity"] for job in planned] == [None, [0, 1, 2], [8]]
    (alone,) = jobs(tps=[1], cpu_affinities=[[4, 5]])
    assert alone["evaluation"]["arm"] == "TP=1, CPUs 4-5"


def test_cpu_ranks_are_named_as_such():
    planned = jobs(device="cpu", gpus=[], links=[], clocks=["wall_eager"])
    assert [job["evaluation"]["arm"] for job in planned] == ["1 CPU rank", "2 CPU ranks"]


def test_what_does_not_fit_is_refused_with_the_sum():
    with pytest.raises(OutOfMemory, match=r"At TP=2 each GPU needs .* GB weights .* has 48.0 GB"):
        jobs(model=BIG, tps=[2], memory_bytes=48e9)
    assert jobs(model=BIG, tps=[2], memory_bytes=100e9)


def test_sizes_that_would_fit_are_named_beside_the_one_that_does_not():
    with pytest.raises(OutOfMemory, match="At TP=1 each GPU needs") as refused:
        jobs(model=BIG, tps=[1, 2], memory_bytes=100e9)
    assert refused.value.next_step.startswith("Leave TP=1 out (TP=2 would fit), or pick a smaller")
    with pytest.raises(OutOfMemory) as refused:
        jobs(model=BIG, tps=[1, 2], memory_bytes=10e9)
    assert refused.value.next_step.startswith("Pick a smaller model")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tps": []}, "at least one TP size"),
        ({"tps": [4]}, "needs 4 GPUs and 2 are chosen"),
        ({"tps": [1, 3], "gpus": [*GPUS, "GPU-cccc"]}, "heads do not divide over 3"),
        ({"kv_lens": [8192]}, "longer than the model's"),
        ({"batches": [0]}, "batches"),
        ({"model": {"model_type": "qwen2"}}, "does not say"),
        ({"model": TINY | {"hidden_act": "xielu"}}, "the activation 'xielu'"),
        ({"model": TINY | {"rms_norm_eps": "tiny"}}, "rms_norm_eps is 'tiny'"),
    ],
)
def test_what_cannot_be_measured_is_refused_while_the_form_is_filled_in(change, words):
    with pytest.raises(InvalidSpec, match=words):
        jobs(**change)


def test_the_largest_case_decides_the_memory():
    small = largest_need(TINY, 1, [1], [128])
    large = largest_need(TINY, 1, [1, 8], [128, 1024])
    assert large.kv_cache == 64 * small.kv_cache


def test_more_work_takes_longer_and_a_broken_model_still_has_a_duration():
    spec = {"kind": "decode", "device": "cuda", "gpus": GPUS[:1], "clocks": ["replay"]}
    few = decode_seconds(parse_spec({**spec, "model": TINY}))
    assert decode_seconds(parse_spec({**spec, "model": TINY, "batches": [1, 8]})) > few
    assert decode_seconds(parse_spec({**spec, "model": BIG})) > few
    assert decode_seconds(parse_spec({**spec, "model": {}})) > 0
