"""The decode program from spec to result: gloo ranks for real, refusals, memory, conditions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from models.architecture import read_config
from models.errors import InvalidSpec, OutOfMemory, ValuesWrong
from models.numerics import read_numerics
from models.result import parse
from runners import decode, decode_clocks, decode_rank, decode_result
from runners.decode_clocks import DISCARDED, WallLoop
from runners.decode_step import Model, NoCollectives, Step
from runners.decoder import PLAIN
from runners.decoder_weights import build_shard, random_source
from runners.events import Events
from runners.spec import parse_spec

ROOT = Path(__file__).parents[2]
MODEL = {
    "model_type": "qwen2",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 53,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}
SPEC = {
    "kind": "decode",
    "device": "cpu",
    "model": MODEL,
    "model_name": "tiny",
    "batches": [1, 2],
    "kv_lens": [8],
    "rounds": 3,
    "steps_per_round": 5,
    "dtype": "float32",
    "time_limit_s": 120,
}


def program(folder, spec):
    """Exit code, result or None, last line on the error stream, and events."""
    (folder / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "runners.decode"]
    command += ["--spec", str(folder / "spec.json"), "--result", str(folder / "result.json")]
    ended = subprocess.run(
        [*command, "--events", str(folder / "events")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    path = folder / "result.json"
    result = parse(json.loads(path.read_text())) if path.exists() else None
    lines = ended.stderr.strip().splitlines()
    log = folder / "events"
    events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return ended.returncode, result, lines[-1] if lines else "", events


def test_two_gloo_ranks_from_spec_to_result(tmp_path):
    spec = {**SPEC, "tp": 2, "omp_num_threads": 1, "cpu_affinity": [min(os.sched_getaffinity(0))]}
    code, result, said, events = program(tmp_path, spec)
    assert code == 0, said
    assert result.validity == "valid"
    steps = result.find("decode_step", "median", clock="wall_eager", tp=2)
    assert [(row.dims["batch"], row.round) for row in steps] == [
        (batch, number) for batch in (1, 2) for number in range(3)
    ]
    assert {row.definition for row in steps} == {"linkworth:decode-wall-eager:1"}
    assert {row.dims["omp_num_threads"] for row in steps} == {1}
    assert all(len(row.values) == 5 for row in result.samples)
    effective = result.environment["ranks"]
    assert [rank["threads"] for rank in effective] == [1, 1]
    assert {rank["n_cpus"] for rank in effective} == {1}
    assert len(result.find("copy_bandwidth")) == 2
    assert result.warnings[0].code == "cpu_wall_only"
    rounds = [event["data"]["round"] for event in events if event["type"] == "round"]
    assert rounds == list(range(6))
    fractions = [event["fraction"] for event in events if event["type"] == "stage"]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": {**MODEL, "model_type": "mamba2"}}, "family 'mamba2'"),
        ({"model": {"model_type": "qwen2"}}, "does not say hidden_size"),
        ({"model": {**MODEL, "rope_theta": "far"}}, "rope_theta is 'far'"),
        ({"tp": 3}, "4 attention heads do not divide over 3"),
        ({"batches": [0]}, "batches"),
        ({"kv_lens": [65]}, "longer than the model's 64"),
        ({"clocks": ["replay"]}, "CUDA graphs need GPUs"),
        ({"batches": [1, 1]}, "named twice"),
        ({"cpu_affinity": [4095]}, "The CPUs 4095 are not there"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(tmp_path, change, words):
    with pytest.raises(InvalidSpec, match=words):
        decode.run(parse_spec(SPEC | change), Events(str(tmp_path / "events")))


def test_a_refused_spec_ends_with_code_2_and_one_line(tmp_path):
    code, result, said, _ = program(tmp_path, {**SPEC, "tp": 3})
    assert code == 2
    assert result is None
    assert said.startswith("4 attention heads do not divide over 3 GPUs.")


def test_a_model_that_does_not_fit_fails_with_the_sum(tmp_path):
    huge = MODEL | {"hidden_size": 65536, "intermediate_size": 262144, "num_hidden_layers": 200}
    code, result, said, _ = program(tmp_path, {**SPEC, "model": huge, "batches": [1]})
    assert code == 3
    assert "GB weights + " in said
    assert "reserve for libraries and graphs" in said
    assert result.validity == "invalid"
    assert "free" in result.reasons[0]


def test_memory_that_runs_out_between_two_rounds_ends_every_rank_with_the_sum(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("LINKWORTH_TEST_FAULT", "no-memory")
    code, result, said, events = program(tmp_path, {**SPEC, "tp": 2})
    assert code == 3
    for words in ("Rank 1", "Memory ran out while the decode step ran", "key-value cache", "free"):
        assert words in said
    assert result.validity == "invalid"
    assert result.find("decode_step") == []
    rounds = [event["data"]["round"] for event in events if event["type"] == "round"]
    assert rounds == [0], "it broke in mid-run"


class LonelyRank:
    """Enough of a rank for the parts that need no peers."""

    rank, n_ranks, time_limit_s = 0, 1, 60.0
    device = torch.device("cpu")

    def __init__(self):
        self.said = []

    def say(self, data):
        self.said.append(data)

    def gather(self, values):
        return [list(values)]


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_memory_exhausted_in_mid_run_fails_with_the_sum(monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(decode_rank, "_measure", fail)
    with pytest.raises(OutOfMemory, match="key-value cache") as raised:
        decode_rank.measure(LonelyRank(), {"spec": SPEC})
    assert "weights" in raised.value.sentence


def test_another_error_in_mid_run_keeps_its_own_words(monkeypatch):
    def fail(*_):
        raise RuntimeError("something else")

    monkeypatch.setattr(decode_rank, "_measure", fail)
    with pytest.raises(RuntimeError, match="something else"):
        decode_rank.measure(LonelyRank(), {"spec": SPEC})


@pytest.fixture
def step():
    arch = read_config(MODEL)
    source = random_source(torch.device("cpu"), torch.float32)
    model = Model(arch, read_numerics(MODEL, arch), build_shard(arch, source, 1, 0), 1)
    with torch.no_grad():
        return Step(model, 2, 8)


def test_a_failed_compilation_runs_plain_and_says_so(monkeypatch, step):
    def broken(mode):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(decode_rank, "fused", broken)
    found = {}
    spec = parse_spec(SPEC)
    with torch.no_grad():
        assert decode_rank._fast_blocks(LonelyRank(), spec, step, found) is PLAIN
    assert found["not_fused"] == "RuntimeError: no compiler here"
    case = {"batch": 2, "kv_len": 8, **found}
    notices = decode_result.notices(spec, [{"cases": [case], "numerics": ""}])
    assert "unfused and slower" in notices[-1].text


def test_a_fused_step_that_computes_something_else_is_wrong(monkeypatch, step):
    wrong = type(PLAIN)(**{**vars(PLAIN), "vocabulary": lambda *a: -PLAIN.vocabulary(*a)})
    monkeypatch.setattr(decode_rank, "fused", lambda mode: wrong)
    with torch.no_grad(), pytest.raises(ValuesWrong, match="something else than the plain one"):
        decode_rank._fast_blocks(LonelyRank(), parse_spec(SPEC), step, {})


def test_a_fused_step_that_yields_nan_is_wrong(monkeypatch, step):
    nan = type(PLAIN)(**{**vars(PLAIN), "vocabulary": lambda *a: PLAIN.vocabulary(*a) * torch.nan})
    monkeypatch.setattr(decode_rank, "fused", lambda mode: nan)
    with torch.no_grad(), pytest.raises(ValuesWrong):
        decode_rank._fast_blocks(LonelyRank(), parse_spec(SPEC), step, {})


def test_ranks_that_chose_different_tokens_are_wrong(step):
    rank = LonelyRank()
    rank.gather = lambda values: [values, [value + 1 for value in values]]
    with torch.no_grad(), pytest.raises(ValuesWrong, match="do not agree"):
        decode_rank._check_same_token(rank, step, NoCollectives())


def test_a_wall_loop_does_a_serving_loops_host_work(step):
    positions = []

    def work():
        positions.append(int(step.positions[0]))
        step.run(PLAIN, NoCollectives())

    with torch.no_grad():
        times = WallLoop(step, work)(4)
    assert len(times) == 4
    assert min(times) > 0
    assert positions == [step.position(number) for number in range(4 + DISCARDED)]


class FakeGraph:
    def __init__(self):
        self.n = 0

    def replay(self):
        self.n += 1


def test_the_warm_up_lasts_a_second_and_200_replays(monkeypatch):
    monkeypatch.setattr(decode_clocks.torch.cuda, "synchronize", lambda: None)
    elapsed = iter([0.2, 0.9, 1.0, *[1.1] * 100])
    graph = FakeGraph()
    assert decode_clocks.warm_up(graph, lambda _: next(elapsed)) == 200
    assert graph.n == 200
    slow = FakeGraph()
    assert decode_clocks.warm_up(slow, lambda _: 6.0) == 20  # five seconds end it for a large model


def test_a_replay_sample_is_a_batch_of_replays(monkeypatch):
    now = iter(range(10_000))

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.t = next(now) * 10

        def elapsed_time(self, later):
            return later.t - self.t

    monkeypatch.setattr(decode_clocks.torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(decode_clocks.torch.cuda, "Event", Event)
    graph = FakeGraph()
    samples = decode_clocks.ReplayLoop(graph)(120)
    assert samples == [10 / 4] * 30
    assert graph.n == 4 * (30 + DISCARDED)


def test_what_the_runner_set_to_read_nccls_log_is_no_condition():
    variables = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "x", "NCCL_P2P_DISABLE": "1"}
    kept = decode_result._own_environment({"variables": variables, "python": "3.12"})
    assert kept == {"variables": {"NCCL_P2P_DISABLE": "1"}, "python": "3.12"}


def test_the_slowest_rank_counts_step_by_step():
    assert decode_result.slowest([[[1.0, 5.0]], [[2.0, 3.0]]]) == [[2.0, 5.0]]


def test_rounds_that_differ_are_said():
    assert decode_result.spread([[1.0], [1.02], [1.01]]) == ("", "")
    spread, apart = decode_result.spread([[2.0], [1.0], [1.0]])
    assert "100% apart" in spread
    assert "+100%" in apart


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_one_gpu_reads_all_its_clocks(tmp_path):
    clocks = ["wall_eager", "wall_served", "wall_graph", "replay"]
    gpu = {"device": "cuda", "gpus": [0], "dtype": "bfloat16", "clocks": clocks}
    code, result, said, _ = program(tmp_path, SPEC | gpu | {"batches": [1]})
    assert code == 0, said
    fastest = {
        clock: min(row.value for row in result.find("decode_step", "median", clock=clock))
        for clock in clocks
    }
    assert fastest["replay"] <= fastest["wall_graph"] * 1.05
    assert not [notice for notice in result.warnings if notice.code == "not_fused"]
