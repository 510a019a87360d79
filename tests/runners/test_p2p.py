"""The check's flow with played tiers, on recorded GPUs: every verdict, and what the result says."""

import contextlib
import json

import jsonschema
import pytest
import torch

from models.errors import RankFailed, RunnerUnavailable, RunTimedOut
from models.result import dump, json_schema
from runners import p2p, p2p_copies
from runners.events import Events
from runners.p2p_copies import patterns
from runners.spec import P2PSpec

UUIDS = ["GPU-aaaa", "GPU-bbbb", "GPU-cccc"]
COPIES = "runners.p2p_copies:gpu_copies"
MEASURE = "runners.allreduce_rank:measure"
LOAD = "runners.p2p_load:under_load"


class Played:
    """Stands in for run_ranks; a tier can be told to fail for a pair of GPUs."""

    def __init__(self):
        self.calls = []
        self.granted = True
        self.trouble = {}
        self.on_us, self.off_us = 6.5, 12.0
        self.transport = "P2P/CUMEM"

    def __call__(self, target, payload, *, gpus, link, on_message, **how):
        if payload.get("engine"):
            target += " in vLLM"
        self.calls.append((target, tuple(gpus), link))
        trouble = self.trouble.get((target, tuple(gpus)), self.trouble.get(target))
        if isinstance(trouble, Exception):
            raise trouble
        if target.endswith(":device"):
            for name, unit in (("matmul_rate", "TFLOP/s"), ("copy_bandwidth", "GB/s")):
                row = {"metric": name, "statistic": "max", "unit": unit, "value": 4000.0, "n": 3}
                on_message(0, {"probe": {**row, "dims": {"device": "cuda:0"}, "definition": "d"}})
        elif target.endswith(":grants"):
            n = payload["members"]
            table = [[a == b or self.granted for b in range(n)] for a in range(n)]
            return [{"granted": table}]
        elif target == COPIES:
            on_message(0, {"fault": ""})
            for src, dst in ((0, 1), (1, 0)):
                place = {"src": src, "dst": dst, "bytes": 4096, "test": "mixed"}
                on_message(0, {"copy": {**place, "wrong": 5 if trouble == "wrong" else 0}})
            timed = {"src": 0, "dst": 1, "direction": "one", "bytes": 2**28, "seconds": 0.001}
            on_message(0, {"timed": {**timed, "quantity": "bandwidth"}})
            on_message(0, {"timed": {**timed, "quantity": "latency", "seconds": 2e-6}})
        elif target == MEASURE:
            us = self.on_us if link == "on" else self.off_us
            for size in payload["spec"]["sizes_bytes"]:
                wrong = 3 if trouble == "wrong" else 0
                unit = {"bytes": size, "values_us": [us] * 3, "wrong": wrong}
                on_message(0, {"unit": unit})
            name = self.transport if link == "on" else "SHM/direct/direct"
            on_message(0, {"transports": {name: 4}})
        elif target.startswith(LOAD):
            return [{"checked": 1000, "wrong": 1 if trouble == "wrong" else 0, "seconds": 60.0}] * 2
        return [{}]


@pytest.fixture
def played(monkeypatch, tmp_path):
    recording = tmp_path / "nvml.json"
    gpus = [{"index": i, "uuid": uuid, "name": "Card"} for i, uuid in enumerate(UUIDS)]
    recording.write_text(json.dumps({"gpus": gpus, "samples": [[]]}))
    monkeypatch.setenv("LINKWORTH_NVML_RECORDING", str(recording))
    stand_in = Played()
    monkeypatch.setattr(p2p, "run_ranks", stand_in)
    return stand_in


def check(tmp_path, **changes):
    spec = P2PSpec(**{"device": "cuda", "gpus": [0, 1], **changes})
    result = p2p.run(spec, Events(str(tmp_path / "events.jsonl")))
    jsonschema.validate(json.loads(json.dumps(dump(result))), json_schema())
    return result


def test_a_link_that_works(played, tmp_path):
    result = check(tmp_path)
    (pair,) = result.environment["pairs"]
    assert (pair["code"], pair["tier"], pair["src"], pair["dst"]) == ("works", "collective", 0, 1)
    assert result.validity == "valid"
    assert result.p2p == [["X", "OK"], ["OK", "X"]]
    assert [gpu.uuid for gpu in result.gpus] == UUIDS[:2]
    (bandwidth,) = result.find("p2p_bandwidth")
    assert bandwidth.value == pytest.approx(268.435456)
    assert bandwidth.dims == {
        **{"src": 0, "dst": 1, "bytes": 2**28, "direction": "one"},
        **{"method": "CE", "link": "on"},
    }
    assert result.find("p2p_latency")[0].value == pytest.approx(2.0)
    assert [m.dims["device"] for m in result.find("copy_bandwidth")] == [0, 1]
    assert pair["collective_us"]["off"]["3072"] == 12.0
    arms = [link for target, _, link in played.calls if target == MEASURE]
    assert arms == ["on", "off"]


def test_wrong_data_ends_the_pair_and_its_bandwidth_is_not_told(played, tmp_path):
    played.trouble[COPIES] = "wrong"
    result = check(tmp_path)
    (pair,) = result.environment["pairs"]
    assert pair["code"] == "wrong"
    assert "10 values arrived wrong, first from GPU 0 to GPU 1" in pair["sentence"]
    assert result.validity == "suspect"
    assert result.find("p2p_bandwidth") == []
    assert [m.value for m in result.find("wrong_values")] == [5, 5]
    assert MEASURE not in [target for target, _, _ in played.calls]


def test_a_hang_names_where_and_the_next_pair_is_still_checked(played, tmp_path):
    played.trouble[COPIES, ("GPU-aaaa", "GPU-bbbb")] = RunTimedOut("The run hung at a copy.")
    result = check(tmp_path, gpus=[0, 1, 2])
    codes = [pair["code"] for pair in result.environment["pairs"]]
    assert codes == ["hangs", "works", "works"]
    assert "hung at a copy" in result.reasons[0]


def test_after_a_process_that_cannot_be_ended_nothing_more_is_started(played, tmp_path):
    stuck = "The run hung. Even SIGKILL did not end rank 0 (process 7): its GPU needs a look."
    played.trouble[COPIES] = RunTimedOut(stuck)
    result = check(tmp_path, gpus=[0, 1, 2])
    assert [pair["code"] for pair in result.environment["pairs"]] == ["hangs", "works", "works"]
    assert [pair["tier"] for pair in result.environment["pairs"]] == ["grant", "grant", "grant"]
    assert len([1 for target, _, _ in played.calls if target == COPIES]) == 1


def test_a_crash_is_told_apart_from_a_hang(played, tmp_path):
    played.trouble[MEASURE] = RankFailed("Rank 1 was ended by signal 7 (SIGBUS).")
    (pair,) = check(tmp_path).environment["pairs"]
    assert (pair["code"], pair["tier"]) == ("fails", "copies")


def test_without_peer_access_copies_still_go_through_the_host(played, tmp_path):
    played.granted = False
    result = check(tmp_path)
    (pair,) = result.environment["pairs"]
    assert pair["code"] == "not_granted"
    assert result.p2p == [["X", "NS"], ["NS", "X"]]
    assert result.find("p2p_bandwidth")[0].dims["link"] == "off"
    assert result.validity == "valid"
    assert "peer_not_granted" in [notice.code for notice in result.warnings]


def test_slower_than_through_the_host(played, tmp_path):
    played.on_us, played.off_us = 20.0, 12.0
    result = check(tmp_path)
    (pair,) = result.environment["pairs"]
    assert (pair["code"], pair["tier"]) == ("works", "copies")
    assert "3 KB: 20.0 us against 12.0" in pair["sentence"]
    assert [notice.code for notice in result.warnings] == ["slower_than_host"]


def test_a_collective_that_went_round_the_link_proves_nothing(played, tmp_path):
    played.transport = "SHM/direct/direct"
    (pair,) = check(tmp_path).environment["pairs"]
    assert (pair["code"], pair["tier"]) == ("works", "copies")
    assert "did not use peer-to-peer" in pair["sentence"]


def test_load_runs_only_when_asked_for(played, tmp_path):
    check(tmp_path)
    assert LOAD not in [target for target, _, _ in played.calls]
    (pair,) = check(tmp_path, engine_under_load=True).environment["pairs"]
    assert (pair["code"], pair["tier"]) == ("works", "load")
    assert pair["load"]["kernel"] == "NCCL"
    played.trouble[LOAD] = "wrong"
    (pair,) = check(tmp_path, engine_under_load=True).environment["pairs"]
    assert pair["code"] == "wrong"


def test_the_engine_s_own_kernel_is_loaded_in_its_interpreter(played, tmp_path):
    asked = {"engine_under_load": True, "vllm_python": "/somewhere/python"}
    (pair,) = check(tmp_path, **asked).environment["pairs"]
    assert (pair["code"], pair["tier"], pair["load"]["kernel"]) == ("works", "load", "vLLM")
    assert pair["load"]["note"] == ""
    played.trouble[f"{LOAD} in vLLM"] = "wrong"
    (pair,) = check(tmp_path, **asked).environment["pairs"]
    assert (pair["code"], pair["tier"]) == ("wrong", "collective")


@pytest.mark.parametrize(
    "refusal",
    [
        "vLLM's own all-reduce refuses these GPUs.",
        "vLLM's own all-reduce is not in the interpreter",
    ],
)
def test_a_kernel_that_declines_ends_neither_the_pair_nor_the_check(played, tmp_path, refusal):
    played.trouble[f"{LOAD} in vLLM", ("GPU-aaaa", "GPU-bbbb")] = RunnerUnavailable(refusal)
    asked = {"engine_under_load": True, "vllm_python": "/somewhere/python", "gpus": [0, 1, 2]}
    pairs = check(tmp_path, **asked).environment["pairs"]
    assert [pair["code"] for pair in pairs] == ["works"] * 3
    assert [pair["tier"] for pair in pairs] == ["load"] * 3
    assert [pair["load"]["kernel"] for pair in pairs] == ["NCCL", "vLLM", "vLLM"]
    assert pairs[0]["load"]["note"] == refusal


def test_without_peer_access_the_engine_s_kernel_is_not_even_started(played, tmp_path):
    played.granted = False
    asked = {"engine_under_load": True, "vllm_python": "/somewhere/python"}
    (pair,) = check(tmp_path, **asked).environment["pairs"]
    assert pair["code"] == "not_granted"
    assert (pair["load"]["kernel"], pair["load"]["note"]) == (
        "NCCL", "vLLM's own all-reduce needs peer access.",
    )  # fmt: skip
    assert f"{LOAD} in vLLM" not in [target for target, _, _ in played.calls]


def test_one_gpu_has_no_pair_and_still_its_own_copy(played, tmp_path):
    result = check(tmp_path, gpus=[2])
    assert result.environment["pairs"] == []
    assert [m.dims["device"] for m in result.find("copy_bandwidth")] == [2]


def test_a_device_that_does_not_work_ends_the_check(played, tmp_path):
    played.trouble["runners.p2p_rank:device"] = RunnerUnavailable("No usable GPU.")
    with pytest.raises(RunnerUnavailable):
        check(tmp_path)


def test_the_end_of_the_whole_run_is_no_hang_of_a_link(played, tmp_path):
    played.trouble[COPIES] = RunTimedOut("The time limit of 1 s ended the run.")
    events = Events(str(tmp_path / "events.jsonl"))
    with pytest.raises(RunTimedOut, match="time limit"):
        p2p.run(P2PSpec(device="cuda", gpus=[0, 1], time_limit_s=1), events)
    assert events.partial is not None
    assert events.partial.environment["pairs"][0]["code"] == "works"  # as far as it came: granted


def test_patterns_are_unlike_the_poison():
    for name, period in patterns().items():
        assert int((period == -559038737).sum()) == 0, name
    assert int(patterns()["alternating"][1]) == -(0x55555555 + 1)


class SimulatedStream:
    def __init__(self, device):
        self.device = device

    def synchronize(self):
        pass


class SimulatedEvent:
    """Reads a clock that each copy moves on by a millisecond."""

    now_ms = 0.0

    def __init__(self, enable_timing):
        self.at_ms = None

    def record(self, stream):
        self.at_ms = SimulatedEvent.now_ms

    def elapsed_time(self, other):
        return other.at_ms - self.at_ms


class PlayedRank:
    rank, n_ranks = 0, 1

    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)

    def within(self, label, limit_s):
        return contextlib.nullcontext()


@pytest.fixture
def simulated(monkeypatch):
    cuda = p2p_copies.torch.cuda
    words = p2p_copies._words
    real_copy = torch.Tensor.copy_

    def copy(target, source, non_blocking=False):
        if non_blocking:
            SimulatedEvent.now_ms += 1.0
        return real_copy(target, source)

    monkeypatch.setattr(cuda, "Stream", SimulatedStream)
    monkeypatch.setattr(cuda, "Event", SimulatedEvent)
    monkeypatch.setattr(cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(cuda, "_sleep", lambda cycles: None)
    monkeypatch.setattr(cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(p2p_copies, "_words", lambda n_bytes, device: words(n_bytes, "cpu"))
    monkeypatch.setattr(torch.Tensor, "copy_", copy)
    monkeypatch.setattr(SimulatedEvent, "now_ms", 0.0)


def copied():
    rank = PlayedRank()
    payload = {"sizes_bytes": [4, 40_000], "bandwidth_bytes": 4096, "limit_s": 9}
    assert p2p_copies.gpu_copies(rank, payload) == {}
    return rank.said


def test_gpu_copies_verify_both_directions_and_time_them(simulated):
    said = copied()
    copies = [message["copy"] for message in said if "copy" in message]
    assert len(copies) == 2 * 2 * len(patterns())
    assert {(row["src"], row["dst"]) for row in copies} == {(0, 1), (1, 0)}
    assert sum(row["wrong"] for row in copies) == 0
    timed = [message["timed"] for message in said if "timed" in message]
    assert [(row["quantity"], row["direction"], row["bytes"]) for row in timed] == [
        *(("bandwidth", "one", 4096), ("bandwidth", "one", 4096), ("bandwidth", "both", 8192)),
        *(("latency", "one", 16), ("latency", "one", 16)),
    ]
    assert timed[0]["seconds"] == pytest.approx(0.001)


def test_a_copy_that_changes_a_word_is_counted_where_it_arrives(simulated, monkeypatch):
    monkeypatch.setenv("LINKWORTH_TEST_FAULT", "wrong-values")
    copies = [message["copy"] for message in copied() if "copy" in message]
    assert {row["wrong"] for row in copies} == {1}
