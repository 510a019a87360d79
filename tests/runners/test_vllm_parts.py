"""Tokenizer, flags, log, commands and counters: the parts of a vLLM program, without one."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.errors import InvalidSpec, RunnerUnavailable
from runners import serving_metrics, vllm_log
from runners.serving_client import Client
from runners.spec import ServingSpec, Workload, parse_spec
from runners.vllm_command import bench_command, serve_command
from runners.vllm_flags import ALLOWED, MANAGED, engine_arguments, parse_help, settable
from runners.vllm_log import facts, find_reason, tail
from runners.vllm_model import byte_symbols, served_config, vocabulary, write_model_folder

QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 2048,
    "eos_token_id": 1999,
}


def test_the_tokenizer_reads_back_what_it_writes(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    folder = write_model_folder(tmp_path / "model", QWEN)
    made = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert made.get_vocab_size() == 2048
    # a run of words, as random prompts are made, keeps its length and its numbers
    words = list(range(400, 1400))
    assert made.encode(made.decode(words), add_special_tokens=False).ids == words
    text = "Any text: naïve 日本 \n\t {}"
    assert made.decode(made.encode(text).ids) == text
    assert made.token_to_id("<|endoftext|>") == 0


def test_words_extend_words_so_that_every_merge_has_its_parts() -> None:
    vocab, merges = vocabulary(5000)
    assert len(vocab) == 5000 == len(set(vocab.values()))
    assert set(byte_symbols()) <= vocab.keys()
    seen = set(byte_symbols())
    for left, right in merges:
        assert {left, right} <= seen
        seen.add(left + right)
    assert len(vocabulary(151_936)[0]) < 33_000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architectures": []}, "no architecture"),
        ({"auto_map": {"AutoModel": "evil.py"}}, "code"),
        ({"vocab_size": None}, "no vocab_size"),
        ({"vocab_size": 100}, "too small"),
    ],
)
def test_a_config_that_cannot_be_served_says_why(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidSpec, match=words):
        write_model_folder(tmp_path / "model", {**QWEN, **change})


def test_the_special_tokens_are_the_tokenizers_own() -> None:
    assert served_config(QWEN)["eos_token_id"] == 0


HELP = """usage: vllm serve [model_tag] [options]

options:
  --max-model-len MAX_MODEL_LEN
                        Model context length. --not-a-flag in a text is none.
  --enforce-eager, --no-enforce-eager
                        Always use eager-mode PyTorch.
  --dtype {auto,bfloat16,float16}
  --kv-cache-dtype {auto,fp8,a-list-that-is-cut
  --quantization QUANTIZATION, -q QUANTIZATION
  --cudagraph-capture-sizes SIZES [SIZES ...]
  --middleware MIDDLEWARE
  --tensor-parallel-size TENSOR_PARALLEL_SIZE, -tp TENSOR_PARALLEL_SIZE
"""


def test_flags_are_read_from_the_help() -> None:
    known = parse_help(HELP)
    assert known["max-model-len"].takes_value
    assert not known["enforce-eager"].takes_value
    assert known["dtype"].choices == ("auto", "bfloat16", "float16")
    assert known["kv-cache-dtype"].takes_value
    assert known["kv-cache-dtype"].choices == ()  # cut: not known in full
    assert known["cudagraph-capture-sizes"].many
    assert "not-a-flag" not in known
    assert settable(known) == [
        "cudagraph-capture-sizes",
        "dtype",
        "enforce-eager",
        "kv-cache-dtype",
        "max-model-len",
        "quantization",
    ]


def test_no_managed_flag_may_be_set() -> None:
    assert not ALLOWED & MANAGED.keys()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"max_model_len": 4096}, ["--max-model-len", "4096"]),
        ({"enforce-eager": True}, ["--enforce-eager"]),
        ({"enforce-eager": False}, ["--no-enforce-eager"]),
        ({"enforce-eager": None}, []),
        ({"cudagraph-capture-sizes": "1 2 4"}, ["--cudagraph-capture-sizes", "1", "2", "4"]),
    ],
)
def test_flags_become_arguments(args: dict[str, Any], expected: list[str]) -> None:
    assert engine_arguments(args, parse_help(HELP)) == expected


@pytest.mark.parametrize(
    "args",
    [
        {"middleware": "os.system"},
        {"tensor-parallel-size": 2},
        {"worker-cls": "evil"},
        {"dtype": "evil"},
        {"dtype": True},
        {"enforce-eager": "yes"},
        {"max-model-len": "--middleware"},
        {"max-model-len": "1\n2"},
        {"max-num-seqs": 4},
        {"--x y": 1},
    ],
)
def test_what_may_not_be_set_is_refused(args: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        engine_arguments(args, parse_help(HELP))


@pytest.mark.parametrize(
    ("value", "is_fine"),
    [
        ('{"method": "ngram", "num_speculative_tokens": 2}', True),
        ('{"method": "ngram", "custom_module": "evil.py"}', False),
        ("[1]", False),
        ("{", False),
    ],
)
def test_a_json_flag_may_hold_known_keys_only(value: str, is_fine: bool) -> None:
    args = {"speculative-config": value}
    if is_fine:
        assert engine_arguments(args) == ["--speculative-config", value]
    else:
        with pytest.raises(InvalidSpec):
            engine_arguments(args)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("vllm: error: argument --dtype: invalid choice: 'x'", "bad_flag", "--dtype was refused"),
        (
            "(EngineCore pid=7) ERROR 08-18 02:57:12 [core.py:1] ValueError: Free memory on device "
            "cuda:0 (9.50/79.10 GiB) on startup is less than desired GPU memory utilization (0.9, "
            "71.19 GiB). Decrease",
            "gpu_busy",
            "71.19 GiB were to be taken and 9.50 of 79.10 GiB are free",
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has",
            "no_memory",
            "when 2.32 GiB were asked for",
        ),
        (
            "ValueError: Total number of attention heads (12) must be divisible by tensor parallel "
            "size (5).",
            "bad_tp",
            "12 attention heads cannot be split over TP=5",
        ),
        ("OSError: Can't load the configuration of 'x'", "no_model", "not found"),
        ("RuntimeError: NCCL error: unhandled system error", "nccl", "NCCL"),
        ("RuntimeError: something new", "other", "RuntimeError: something new"),
    ],
)
def test_a_log_gives_its_reason(line: str, code: str, words: str) -> None:
    text = f"INFO 08-18 02:57:12 [a.py:1] fine\n{line}\nRuntimeError: Engine core initialization "
    found = find_reason(text + "failed. See root cause above.\n")
    assert found is not None
    assert found.code == code
    assert words in found.sentence


def test_a_log_without_a_reason_gives_none() -> None:
    assert find_reason("INFO all is well\n") is None
    assert tail("a\n\nb\n", 1) == "b"


def test_facts_of_a_log() -> None:
    text = (
        "(EngineCore pid=1) Initializing a V1 LLM engine (v0.25.1) with config\n"
        "Model loading took 27.59 GiB memory and 3.2 seconds\n"
        "GPU KV cache size: 400,448 tokens, Maximum concurrency\n"
        "Custom allreduce is disabled because your platform lacks GPU P2P capability\n"
    )
    assert facts(text) == {
        "version": "0.25.1",
        "kv_cache_tokens": 400_448,
        "weights_gib": 27.59,
        "custom_all_reduce": "off: because your platform lacks GPU P2P capability",
    }


@pytest.mark.parametrize(
    ("backends", "found"), [("'CUSTOM', 'PYNCCL'", "CUSTOM, PYNCCL"), ("'PYNCCL'", "PYNCCL")]
)
def test_a_log_tells_what_sums_over_the_group(backends: str, found: str) -> None:
    text = (
        "(Worker pid=7) INFO [c.py:264] Using ['PYNCCL'] all-reduce backends (in dispatch order) "
        "for group 'dp:0' out of potential backends: ['CUSTOM', 'PYNCCL'].\n"
        f"(Worker pid=7) INFO [c.py:264] Using [{backends}] all-reduce backends (in dispatch "
        "order) for group 'tp:0' out of potential backends: ['CUSTOM', 'SYMM_MEM', 'PYNCCL'].\n"
    )
    assert facts(text) == {"all_reduce": found}


def serving(arm: dict[str, Any], **changes: Any) -> ServingSpec:
    spec = parse_spec({"kind": "serving", "model": "own/model", "arm": arm, **changes})
    assert isinstance(spec, ServingSpec)
    return spec


def test_the_server_listens_on_this_machine_only_and_caches_no_prefixes() -> None:
    command = serve_command(serving({"gpus": [1]}), "own/model", python="p", port=1234, gpus=[1])
    words = list(command.arguments)
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert "--no-enable-prefix-caching" in words
    assert command.variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert command.variables["CUDA_VISIBLE_DEVICES"] == "1"
    asked = serving({"gpus": [1], "engine_args": {"enable-prefix-caching": True}})
    words = list(serve_command(asked, "m", python="p", port=1, gpus=[1]).arguments)
    assert "--no-enable-prefix-caching" not in words
    with pytest.raises(InvalidSpec):
        serve_command(asked, "--evil", python="p", port=1, gpus=[1])


def test_warm_ups_cover_the_concurrency_and_the_detail_is_kept() -> None:
    load = Workload(concurrency=4, num_prompts=40, input_len=8, output_len=5, request_rate=2.5)
    command = bench_command(load, python="p", base_url="http://h:1", model="m", seed=7)
    text = command.text()
    for part in (
        "--num-warmups 4", "--save-detailed", "--ignore-eos", "--seed 7", "--max-concurrency 4",
        "--random-range-ratio 0", "--request-rate 2.5",
    ):  # fmt: skip
        assert part in text
    endless = bench_command(
        Workload(concurrency=None, num_prompts=3), python="p", base_url="u", model="m", seed=1
    )
    assert "--max-concurrency" not in endless.text()


SCRAPE = """# HELP vllm:e2e_request_latency_seconds x
vllm:e2e_request_latency_seconds_bucket{engine="0",le="1.0"} 5.0
vllm:e2e_request_latency_seconds_count{engine="0"} 10.0
vllm:e2e_request_latency_seconds_count{engine="1"} 10.0
vllm:e2e_request_latency_seconds_sum{engine="0"} 4.0
vllm:request_queue_time_seconds_count{engine="0"} 20.0
vllm:request_queue_time_seconds_sum{engine="0"} 1.0
vllm:num_preemptions_total{engine="0"} 3.0
vllm:gpu_cache_usage_perc NaN
vllm:cache_config_info{num_gpu_blocks="100",block_size="16"} 1.0
"""


def test_counters_of_several_engines_add_up_and_differences_are_means() -> None:
    before = serving_metrics.parse(SCRAPE)
    assert before.values["vllm:e2e_request_latency_seconds_count"] == 20
    assert "vllm:gpu_cache_usage_perc" not in before.values
    assert serving_metrics.kv_cache_tokens(before) == 1600
    after = serving_metrics.parse(
        SCRAPE.replace('count{engine="0"} 10.0', 'count{engine="0"} 14.0')
        .replace('sum{engine="0"} 4.0', 'sum{engine="0"} 6.0')
        .replace('total{engine="0"} 3.0', 'total{engine="0"} 5.0')
    )
    found = serving_metrics.between(before, after)
    assert found is not None
    assert (found.requests, found.end_to_end_ms, found.preemptions) == (4, 500, 2)
    assert found.phase_ms == {}  # no request's queue time was added
    assert serving_metrics.between(after, before) is None  # restarted between
    assert serving_metrics.between(None, after) is None


def test_an_address_without_a_server_has_no_counters() -> None:
    assert serving_metrics.scrape("http://127.0.0.1:9") is None
    with pytest.raises(RunnerUnavailable):
        Client("http://127.0.0.1:9").model()
    with pytest.raises(RunnerUnavailable, match="no address"):
        Client("http://127.0.0.1:port")


def test_the_model_folder_is_plain_json(tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "m", QWEN)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        assert json.loads((folder / name).read_text(encoding="utf-8"))


def test_a_log_is_read_on_from_the_last_whole_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert vllm_log.added(log, 0) == ("", 0)
    log.write_bytes(b"one\ntwo\nhal")
    text, place = vllm_log.added(log, 0)
    assert text == "one\ntwo"
    assert vllm_log.added(log, place) == ("", place)
    with log.open("ab") as file:
        file.write(b"f\nfour\n")
    assert vllm_log.added(log, place)[0] == "half\nfour"
