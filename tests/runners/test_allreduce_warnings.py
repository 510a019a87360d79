"""Each warning on hand-made sweeps: there when it must be, silent when not."""

import json
from datetime import UTC, datetime

import jsonschema
import pytest

from models.result import dump, json_schema
from runners.allreduce_result import Sweep
from runners.allreduce_warnings import Seen, warnings
from runners.spec import AllReduceSpec

STEADY = [10.0, 10.1, 9.9, 10.0, 10.2]


def spec(**changes):
    base = {"device": "cuda", "gpus": [0, 1], "link": "on", "modes": ["graph"], "rounds": 3}
    return AllReduceSpec(**{**base, "sizes_bytes": [1024, 2048], **changes})


def unit(index=0, mode="graph", n_bytes=1024, values=STEADY, wrong=0):
    layout = {"calls": 57, "replays": 14, "buffers": 57}
    return {
        **{"round": index, "mode": mode, "bytes": n_bytes, "values_us": list(values)},
        **{"wrong": wrong, "layout": layout},
    }


def clock(index=0, rank=0, during=1980, reasons=()):
    return {
        **{"round": index, "mode": "graph", "bytes": 1024, "rank": rank, "before_mhz": 345},
        **{"during_mhz": during, "after_mhz": during, "throttle_reasons": list(reasons)},
    }


def rounds(*factors, sizes=(1024, 2048)):
    return [
        unit(index, n_bytes=size, values=[value * factor for value in STEADY])
        for index, factor in enumerate(factors)
        for size in sizes
    ]


def codes(what=None, **seen):
    return [notice.code for notice in warnings(what or spec(), Seen(**seen))]


def test_a_clean_sweep_needs_no_warning():
    assert codes(units=rounds(1, 1, 1), clocks=[clock()], transports={0: {"P2P/CUMEM": 8}}) == []


def test_few_rounds_counts_the_whole_evaluation():
    assert codes(spec(rounds=2)) == ["few_rounds"]
    assert codes(spec(rounds=1, planned_rounds=3)) == []


def test_spread_names_mode_and_size():
    (notice,) = warnings(spec(), Seen(units=[unit(values=[10, 10, 10, 10, 15, 15])]))
    assert notice.code == "spread"
    assert "graph 1 KB" in notice.text


def test_first_round_apart():
    assert codes(units=rounds(1.3, 1.0, 1.01)) == ["first_round_differs"]
    assert codes(units=rounds(0.8, 1.0, 1.01)) == ["first_round_differs"]


@pytest.mark.parametrize("factors", [(1.05, 1, 1), (1.3, 1.0, 1.4), (1.3, 1.0)])
def test_first_round_like_the_others(factors):
    """Close, inside the others' own spread, or too few rounds to tell."""
    assert codes(units=rounds(*factors)) == []


def test_one_size_that_jumps_does_not_damn_the_first_round():
    units = rounds(1, 1, 1, sizes=(1024, 2048, 4096))
    units[0]["values_us"] = [20.0] * 5
    assert codes(units=units) == []


def test_clock_that_fell_and_throttling():
    fell = [clock(during=1980), clock(1, during=1700), clock(2, rank=1, during=1700)]
    assert codes(units=rounds(1, 1, 1), clocks=fell) == ["clock_fell"]
    assert codes(clocks=[clock(during=None), clock(reasons=["hw_thermal_slowdown"])]) == [
        "throttled"
    ]
    assert codes(clocks=[clock(reasons=["sw_power_cap", "gpu_idle"])]) == []


def test_the_arm_must_be_what_its_label_says():
    shared, direct = {"SHM/direct/direct": 4}, {"P2P/CUMEM": 4}
    assert codes(spec(link="on"), transports={0: shared, 1: shared}) == ["transport"]
    assert codes(spec(link="off"), transports={0: direct}) == ["transport"]
    assert codes(spec(link="off"), transports={0: shared}) == []
    assert codes(spec(link="on"), transports={0: {}}) == []  # NCCL did not say


def test_unlike_cards_name_the_slowest_and_the_smallest():
    big = {"rank": 0, "name": "Big", "memory_bytes": 80, "multiprocessors": 132}
    small = {"rank": 1, "name": "Small", "memory_bytes": 24, "multiprocessors": 82}
    (notice,) = warnings(spec(), Seen(facts={0: big, 1: small}))
    assert notice.code == "unlike_gpus"
    assert "rank 1 (Small" in notice.text
    assert codes(facts={0: big, 1: {**big, "rank": 1}}) == []


def test_one_rank_and_injected_faults_are_said():
    assert codes(spec(gpus=[0], link=None), fault="crash") == ["test_fault", "one_rank"]


def sweep(units, what=None):
    made = Sweep(what or spec(), {"boot_id": "b"}, datetime(2026, 11, 29, tzinfo=UTC))
    made.take(0, {"facts": {"rank": 0, "conditions": {}}})
    made.take(0, {"environment": {"torch": "2"}, "fault": ""})
    for one in units:
        made.take(0, {"unit": one})
    return made


def test_a_result_holds_statistics_samples_and_conditions():
    made = sweep(rounds(1, 1, 1))
    made.warn("gpu_in_use", "GPU 0 was in use.")
    result = made.result()
    jsonschema.validate(json.loads(json.dumps(dump(result))), json_schema())
    assert result.validity == "suspect"
    assert result.reasons == ["GPU 0 was in use."]
    (median,) = [m for m in result.find("allreduce_latency", "median", bytes=1024) if m.round == 1]
    assert median.value == 10.0
    assert median.n == 5
    assert median.definition == "linkworth:allreduce-graph:1"
    assert median.dims["link"] == "on"
    assert result.find("allreduce_latency", "p90", bytes=1024)[0].value == pytest.approx(10.16)
    assert len(result.samples) == 6
    assert result.environment["torch"] == "2"
    assert made.round_summary(0) == {"graph 1 KB (us)": 10.0, "graph 2 KB (us)": 10.0}


def test_wrong_values_make_a_run_invalid():
    result = sweep([*rounds(1, 1, 1), unit(2, n_bytes=4096, wrong=7)]).result()
    assert result.validity == "invalid"
    assert "7 elements" in result.reasons[0]
    assert "graph 4 KB" in result.reasons[0]
    assert [m.value for m in result.find("wrong_values", bytes=4096)] == [7]


def test_cpu_ranks_carry_their_own_definition():
    cpu = AllReduceSpec(device="cpu", ranks=2, sizes_bytes=[1024], rounds=3)
    result = sweep([unit(mode="eager")], cpu).result()
    assert {m.definition for m in result.find("allreduce_latency")} == {
        "linkworth:allreduce-eager-gloo:1"
    }
