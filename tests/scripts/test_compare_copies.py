"""Our copies beside CUDA's: the pure parts, and the loops on a CUDA that is made up."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from models.metrics import metric
from models.peer_check import TierOutcome
from models.result import Measurement, dump, utc_now
from runners.p2p_result import Members, PairFound, build
from runners.spec import P2PSpec

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import compare_copies  # noqa: E402
import cuda_copies  # noqa: E402
import side_by_side  # noqa: E402

INSIDE_GBPS, BETWEEN_GBPS, BOTH_GBPS = 4000.0, 400.0, 780.0


class MadeUpCuda:
    """Two GPUs with a clock that only copies move, one rate inside, one for each direction.

    ``slow`` copies take ten times as long: a GPU that wakes up. ``spoil`` changes a word of every
    copy.
    """

    def __init__(self, *, slow=0, spoil=False, granted=True):
        self.memory, self.calls, self.open = {}, [], 0
        self.slow, self.spoil, self.granted = slow, spoil, granted
        self.now = {}

    def facts(self):
        return {"cuda_runtime": "13.0"}

    def grant(self, device, peer):
        return self.granted

    def allocate(self, device, n_bytes):
        pointer = len(self.memory) + 1
        self.memory[pointer] = np.zeros(n_bytes // 4, dtype=np.uint32)
        return pointer

    def free(self, pointer):
        self.memory[pointer] = None

    def write(self, pointer, data):
        self.memory[pointer][:] = data

    def read(self, pointer, n_words):
        return self.memory[pointer][:n_words].copy()

    def stream(self, device):
        self.now[len(self.now)] = 0.0
        return len(self.now) - 1

    def mark(self, stream):
        return (stream, self.now[stream])

    def copy(self, way):
        rate = INSIDE_GBPS / 2 if way.src == way.dst else BETWEEN_GBPS
        taken = way.n_bytes / rate / 1e9
        if self.slow:
            self.slow -= 1
            taken *= 10
        self.now[way.stream] += taken
        self.memory[way.target][:] = self.memory[way.source]
        if self.spoil:
            self.memory[way.target][0] ^= 1
        self.calls.append((way.src, way.dst))

    def hold(self, stream):
        self.open += 1

        def release():
            self.open -= 1

        return release

    def seconds(self, begin, end):
        assert not self.open, "waiting behind a closed gate would never end"
        assert begin[0] == end[0], "two events of one stream"
        return end[1] - begin[1]


def measure(cuda, n_gpus=2, clock=lambda place: {"sm_clock_mhz": 1980.0}):
    # sizes at which the made-up rates need few copies to fill a batch
    sizes = {"inside_bytes": 2**24, "between_bytes": 2**22, "small_bytes": 16}
    return cuda_copies.measure(cuda, n_gpus=n_gpus, clock=clock, **sizes)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(cuda_copies, "BATCH_S", {"inside": 1e-4, "between": 1e-4})
    monkeypatch.setattr(cuda_copies, "SINGLES_S", 1e-4)
    monkeypatch.setattr(cuda_copies, "CHUNK_S", 1e-4)


@pytest.mark.usefixtures("short")
def test_bytes_count_twice_inside_a_gpu_and_once_between():
    done = measure(MadeUpCuda())
    found = [(row["what"], row["src"], row["dst"], row["unit"]) for row in done["rows"]]
    assert found == [
        ("inside, loop", 0, 0, "GB/s"),
        ("inside, fastest", 0, 0, "GB/s"),
        ("inside, loop", 1, 1, "GB/s"),
        ("inside, fastest", 1, 1, "GB/s"),
        ("one way", 0, 1, "GB/s"),
        ("one way", 1, 0, "GB/s"),
        ("both ways", 0, 1, "GB/s"),
        ("small", 0, 1, "us"),
        ("small", 1, 0, "us"),
    ]
    values = [row["value"] for row in done["rows"]]
    assert values[:4] == pytest.approx([INSIDE_GBPS] * 4)
    assert values[4:7] == pytest.approx([BETWEEN_GBPS, BETWEEN_GBPS, 2 * BETWEEN_GBPS])
    assert values[7] == pytest.approx(16 / BETWEEN_GBPS / 1e3)
    assert done["rows"][6]["bytes"] == 2 * 2**22
    assert done["granted"] == [True, True]


@pytest.mark.usefixtures("short")
def test_one_gpu_is_asked_for_nothing_between():
    done = measure(MadeUpCuda(), n_gpus=1)
    assert {row["what"] for row in done["rows"]} == {"inside, loop", "inside, fastest"}
    assert done["granted"] is None
    assert [row["wrong"] for row in done["wrong"]] == [0]


@pytest.mark.usefixtures("short")
def test_every_word_that_arrives_is_compared():
    wrong = measure(MadeUpCuda(spoil=True))["wrong"]
    assert [row["wrong"] for row in wrong] == [1] * 6
    assert wrong[0] == {"src": 0, "dst": 0, "bytes": 2**24, "wrong": 1, "of": 2**22}


@pytest.mark.usefixtures("short")
def test_directions_that_run_together_are_queued_in_turn():
    cuda = MadeUpCuda()
    ways = [cuda_copies._way(cuda, src, 1 - src, 16) for src in (0, 1)]
    cuda_copies._seconds(cuda, ways, 2)
    assert cuda.calls == [(0, 1), (1, 0), (0, 1), (1, 0)]


@pytest.mark.usefixtures("short")
def test_it_warms_up_until_time_and_clock_hold_still():
    clocks = iter([345, 345, 900, 1400, 1700, 1980, 1980, 1980])
    first = measure(MadeUpCuda(), 1, lambda place: {"sm_clock_mhz": next(clocks)})["warm_ups"][0]
    assert first["is_steady"]
    assert first["clock_before"] == [{"sm_clock_mhz": 345}]
    assert first["clock_during"] == [{"sm_clock_mhz": 1980}]
    restless = iter(range(100, 10_000, 100))
    never = measure(MadeUpCuda(), 1, lambda place: {"sm_clock_mhz": next(restless)})
    assert never["warm_ups"][0]["is_steady"] is False, "it stops, and says so"


def test_a_gpu_that_wakes_up_is_not_steady():
    assert not cuda_copies.is_steady([1.0, 1.0])
    assert not cuda_copies.is_steady([1.0, 1.0, 1.02])
    assert cuda_copies.is_steady([9.0, 1.0, 1.005, 1.0])
    assert cuda_copies.is_steady([None, None, None]), "a clock that cannot be read"


def test_the_pattern_has_no_word_twice():
    words = cuda_copies.pattern(2**20, 0)
    assert len(np.unique(words)) == len(words)
    assert (words != cuda_copies.pattern(2**20, 1)).all()
    assert (words != ~words).all()


def our_result(*, wrong=0, pairs=True, state="passed"):
    """A peer-to-peer check of GPUs 2 and 5, as its program writes it."""
    found = PairFound(0, 1, outcomes=[TierOutcome("grant", "passed"), TierOutcome("copies", state)])
    found.copies = [{"src": 0, "dst": 1, "bytes": 4096, "test": "counter", "wrong": wrong}]
    place = {"src": 0, "dst": 1, "direction": "one"}
    found.timed = [
        {**place, "quantity": "bandwidth", "bytes": 2**28, "seconds": 2**28 / 390e9},
        {**place, "src": 1, "dst": 0, "quantity": "bandwidth", "bytes": 2**28, "seconds": 7e-4},
        {**place, "direction": "both", "quantity": "bandwidth", "bytes": 2**29, "seconds": 7e-4},
        {**place, "quantity": "latency", "bytes": 16, "seconds": 5e-6},
    ]
    members = Members([2, 5] if pairs else [2], [2, 5] if pairs else [2], [], is_cpu=False)
    probe = [
        Measurement(
            metric=name,
            statistic="max",
            unit=metric(name).unit,
            value=4100.0,
            n=900,
            definition="linkworth:test:1",
            dims={"device": "cuda:0", **({} if name == "matmul_rate" else {"bytes": 2**30})},
        ).model_dump(mode="json")
        for _ in members.names
        for name in ("matmul_rate", "copy_bandwidth")
    ]
    result = build(
        P2PSpec(device="cuda", gpus=members.names),
        members,
        [[True, True], [True, True]] if pairs else [[True]],
        [found] if pairs else [],
        probe,
        (),
        host={},
        started_at=utc_now(),
    )
    return json.loads(json.dumps(dump(result)))


def test_a_check_of_two_gpus_is_read_with_gpus_by_place():
    read = compare_copies.judged("linkworth", 0, our_result())
    assert read["status"] == "ok", read["why"]
    rows = {(row["what"], row["src"], row["dst"], row["bytes"]): row for row in read["rows"]}
    assert set(rows) == {
        ("inside, loop", 0, 0, 2**30),
        ("inside, fastest", 0, 0, 2**30),
        ("inside, loop", 1, 1, 2**30),
        ("inside, fastest", 1, 1, 2**30),
        ("one way", 0, 1, 2**28),
        ("one way", 1, 0, 2**28),
        ("both ways", 0, 1, 2**29),
        ("small", 0, 1, 16),
    }
    assert rows["one way", 0, 1, 2**28]["value"] == pytest.approx(390)
    assert rows["both ways", 0, 1, 2**29]["value"] == pytest.approx(2**29 / 7e-4 / 1e9)
    assert rows["small", 0, 1, 16]["value"] == pytest.approx(5)


def test_a_check_of_one_gpu_holds_the_probe_alone():
    read = compare_copies.judged("linkworth", 0, our_result(pairs=False))
    assert read["status"] == "ok", read["why"]
    assert [row["what"] for row in read["rows"]] == ["inside, loop", "inside, fastest"]
    assert {row["n"] for row in read["rows"]} == {900}


def test_wrong_values_fail_either_side():
    ours = compare_copies.judged("linkworth", 0, our_result(wrong=3, state="wrong"))
    assert ours["status"] == "failed"
    assert "3 values arrived wrong." in ours["why"]
    row = {"what": "small", "src": 0, "dst": 1, "bytes": 16, "unit": "us", "value": 2.0}
    theirs = compare_copies.judged("cuda", 0, {"rows": [row], "wrong": [{"wrong": 1}]})
    assert theirs["why"] == ["1 values arrived wrong."]


def test_a_side_without_a_result_has_failed():
    read = compare_copies.judged("cuda", 1, None)
    assert (read["status"], read["rows"]) == ("failed", [])
    assert read["why"] == ["It ended with 1.", "It left no result."]


def steps(ours, theirs, what="one way"):
    row = {"what": what, "src": 0, "dst": 1, "bytes": 2**28, "unit": "GB/s"}
    return [
        {"side": side, "status": "ok", "rows": [{**row, "value": value}]}
        for side, values in (("linkworth", ours), ("cuda", theirs))
        for value in values
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "what", "ratio", "ok"),
    [
        ([380, 390, 400], [400, 395, 300], "one way", 390 / 395, True),
        ([370], [400], "one way", 0.925, False),
        ([430], [400], "one way", 1.075, False),
        ([430], [400], "small", 1.075, None),
        ([390], [], "one way", None, False),
        ([], [400], "both ways", None, False),
    ],
)
def test_medians_are_set_against_each_other(ours, theirs, what, ratio, ok):
    (row,) = compare_copies.table(steps(ours, theirs, what))
    assert row["ratio"] == (None if ratio is None else pytest.approx(ratio))
    assert row["ok"] is ok
    assert (row["linkworth_all"], row["cuda_all"]) == (ours, theirs)
    report = {"steps": steps(ours, theirs, what), "table": [row]}
    assert compare_copies.verdict(report) == (1 if ok is False else 0)


def test_a_failed_step_or_an_empty_table_is_no_success():
    made = steps([400], [400])
    assert compare_copies.verdict({"steps": made, "table": []}) == 1
    made[0]["status"] = "failed"
    assert compare_copies.verdict({"steps": made, "table": compare_copies.table(made)}) == 1


def test_the_table_names_both_figures_and_the_verdict():
    made = steps([384], [400]) + steps([760], [700], "both ways") + steps([5], [2], "small")
    lines = compare_copies.render(compare_copies.table(made), [4, "GPU-x"]).splitlines()
    assert lines[1].split() == (
        "GPU 4 to GPU-x, one way 256 MB 384.00 400.00 GB/s 0.960 within 5 %".split()
    )
    assert lines[2].startswith("GPUs 4 and GPU-x, both ways")
    assert lines[2].endswith("1.086  MISSES 5 %")
    assert lines[3].endswith("2.500  no bar here")


def test_who_begins_changes():
    order = [(step["alternation"], step["side"]) for step in compare_copies.plan(3)]
    first = [(0, "linkworth"), (0, "cuda"), (1, "cuda"), (1, "linkworth")]
    assert order == [*first, (2, "linkworth"), (2, "cuda")]


def test_clocks_before_and_while_copying():
    samples = [{"uuid": "GPU-a", "sm_clock_mhz": value} for value in (345, 345, 1900, 1980, 345)]
    assert compare_copies.clock_ranges([*samples, {"uuid": "GPU-b", "sm_clock_mhz": None}]) == {
        "GPU-a": {"sm_clock_mhz": {"before": 345, "low": 1900, "high": 1980}}
    }


def test_without_a_gpu_it_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compare_copies, "_count", lambda: 0)
    out = tmp_path / "copies.json"
    assert compare_copies.main(["--out", str(out)]) == 2
    assert capsys.readouterr().err == "There is no NVIDIA GPU here that torch can use.\n"
    assert not out.exists()


def test_all_rounds_and_conditions_are_written(monkeypatch, tmp_path, capsys):
    ours = compare_copies.judged("linkworth", 0, our_result(pairs=False))
    theirs_rows = [{**row, "value": 4000.0} for row in ours["rows"]]
    facts = {"cuda_runtime": "13.0", "torch": "2.11.0+cu130"}
    theirs = {"status": "ok", "why": [], "rows": theirs_rows, "wrong": [], "facts": facts}
    monkeypatch.setattr(compare_copies, "_count", lambda: 1)
    monkeypatch.setattr(
        compare_copies, "run_side", lambda side, *_: ours if side == "linkworth" else theirs
    )
    out = tmp_path / "new" / "copies.json"
    assert compare_copies.main(["--out", str(out), "--alternations", "2"]) == 0
    report = json.loads(out.read_text())
    assert [step["side"] for step in report["steps"]] == ["linkworth", "cuda", "cuda", "linkworth"]
    assert [row["ratio"] for row in report["table"]] == pytest.approx([1.025, 1.025])
    said = capsys.readouterr().out
    assert "CUDA runtime 13.0" in said
    assert "bytes read plus written" in said
    assert said.count("within 5 %") == 2


def test_a_loaded_library_is_found_by_its_file():
    assert side_by_side.mapped_library("libc.so") is not None
    assert side_by_side.mapped_library("libnothing.so") is None
