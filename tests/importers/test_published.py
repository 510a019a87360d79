"""The three published studies, number by number."""

import json
from pathlib import Path

import pytest

from importers.published import is_published, read
from models.errors import UnreadableFile
from models.result import Bundle, dumps, parse

FOLDER = Path(__file__).parents[2] / "data" / "published"
FILES = sorted(FOLDER.glob("*.json"))


def bundle(name: str) -> Bundle:
    return read((FOLDER / f"{name}.json").read_bytes())


def one(result, metric, statistic=None, **dims):
    found = result.find(metric, statistic, **dims)
    assert len(found) == 1, (metric, statistic, dims, found)
    return found[0]


def numbers(value) -> list[float]:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    children = value.values() if isinstance(value, dict) else value
    return [number for child in children for number in numbers(child)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_number_of_a_result_table_is_a_measurement(path):
    content = json.loads(path.read_text())
    told = read(path.read_bytes())
    stored: list[float] = []
    for result in told.results:
        for row in result.measurements:
            stored += [v for v in (row.value, row.low, row.high) if v is not None]
            stored += numbers(row.dims)
    tables = (
        "decode_wall_clock",
        "decode_graph_replay",
        "allreduce_3kb",
        "results",
        "derived",
        "gains_when_on",
        "scaling_claims",
    )
    wanted = [number for table in tables for number in numbers(content.get(table, []))]
    assert wanted
    assert set(wanted) <= set(stored)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_reading_twice_gives_the_same_results_and_the_shape_round_trips(path):
    first, second = read(path.read_bytes()), read(path.read_bytes())
    assert first == second
    assert [parse(row) for row in json.loads(dumps(first.results))] == first.results
    assert len({result.id for result in first.results}) == len(first.results)
    assert {result.origin for result in first.results} == {"published"}
    assert {result.study for result in first.results} == {first.study.id}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_claims_checks_and_limits_are_kept(path):
    content = json.loads(path.read_text())
    study = read(path.read_bytes()).study
    assert [claim.claim for claim in study.claims] == [row["claim"] for row in content["claims"]]
    assert [claim.check for claim in study.claims] == [
        row.get("check") for row in content["claims"]
    ]
    assert study.limits == content.get("limits", [])
    assert study.origin == "published"
    for key in ("consistency", "confounds", "do_not_invent"):
        assert content.get(key) is None or content[key] in study.notes


def test_5090_and_b200_as_printed():
    told = bundle("tp-on-5090-and-b200")
    reduce = {r.evaluation.arm: r for r in told.results if r.kind == "allreduce"}
    assert one(reduce["5090-pcie"], "allreduce_step_cost").value == 1.59  # as printed, not 1.568
    assert one(reduce["b200-nvlink"], "allreduce_step_cost").value == 0.57
    assert one(reduce["5090-pcie"], "allreduce_fixed").value == 28
    assert one(reduce["b200-nvlink"], "allreduce_transfer").value == 0.003
    assert one(reduce["5090-pcie"], "calls_per_step").value == 56
    assert one(reduce["5090-pcie"], "allreduce_latency").definition == (
        "published:tp-on-5090-and-b200:allreduce-3kb"
    )
    decode = {r.evaluation.arm: r for r in told.results if r.kind == "decode"}
    assert set(decode) == {f"{h} TP={t}" for h in ("5090-pcie", "b200-nvlink") for t in (1, 2)}
    fast = decode["5090-pcie TP=2"]
    assert one(fast, "decode_step", clock="wall").value == 2.13
    assert one(fast, "decode_step", clock="replay").value == 2.12
    assert one(fast, "decode_throughput").value == 470
    assert one(fast, "decode_speedup", clock="wall").relative_to == "5090-pcie TP=1"
    assert decode["5090-pcie TP=1"].find("decode_speedup") == []


def test_3090_topology_and_empty_cells():
    told = bundle("nvlink-on-4x3090")
    topology = next(r for r in told.results if r.kind == "topology")
    assert topology.links[0] == ["X", "PHB", "NV4", "PHB"]
    assert [gpu.index for gpu in topology.gpus] == [0, 1, 2, 3]
    assert topology.nics is None  # the page shows no NIC column: unknown, not 0
    serving = [r for r in told.results if r.kind == "serving"]
    assert len(serving) == 6
    busy = next(r for r in serving if r.title.startswith("A:") and r.title.endswith("4"))
    assert busy.find("spec_decode_acceptance_length") == []
    assert one(busy, "output_throughput", "value").value == 181.9
    gain = one(busy, "output_throughput", "change_pct")
    assert (gain.value, gain.relative_to, gain.unit) == (52.6, "B", "%")
    assert busy.tool.version == "0.20.1"
    assert busy.spec["engine_args"]["max_num_seqs"] == 8


def test_ranges_stay_ranges_and_absent_absolutes_stay_absent():
    told = bundle("two-gpu-interconnect-evaluation")
    on = [r for r in told.results if r.evaluation.arm == "link on"]
    assert len(on) == 2
    for result in on:
        assert {row.statistic for row in result.measurements} == {"change_pct"}
        assert {row.relative_to for row in result.measurements} == {"link off"}
        assert "no_absolutes" in {notice.code for notice in result.warnings}
    single = next(r for r in on if r.spec["workload"]["concurrency"] == 1)
    gain = one(single, "output_throughput")
    assert (gain.value, gain.low, gain.high) == (None, 8, 10)
    four = next(r for r in on if r.spec["workload"]["concurrency"] == 4)
    assert one(four, "latency").value == -50
    off = next(
        r
        for r in told.results
        if r.evaluation.arm == "link off" and r.spec["workload"]["concurrency"] == 4
    )
    scaling = one(off, "output_throughput", "change_pct")
    assert (scaling.value, scaling.low, scaling.high) == (None, 160, 170)
    assert one(off, "output_throughput", "value").value == 104.87


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1, 2]",
        b'{"kind": "published", "id": "x"}',
        b'{"kind": "published", "allreduce_3kb": [], "id": "x", "title": "t"}',
        b"\xff\xfe",
        b'{"kind": "published", "gains_when_on": 3}',
        b" " * 3_000_000,
    ],
)
def test_anything_else_is_refused_with_a_sentence(data):
    with pytest.raises(UnreadableFile) as caught:
        read(data)
    assert caught.value.sentence


def test_a_cut_file_is_refused():
    data = FILES[0].read_bytes()
    with pytest.raises(UnreadableFile):
        read(data[: len(data) // 2])


def test_our_own_results_are_not_taken_for_published_ones():
    assert not is_published([{"schema": 1}])
    assert not is_published({"schema": 1, "kind": "allreduce"})
