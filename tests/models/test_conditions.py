"""What differs between two runs, and whether that is known to matter."""

import re
from pathlib import Path

import pytest

from importers.published import read
from models.conditions import KNOWN, conditions, counted, differences, explanations, said
from models.result import Result, Tool


def run(host=None, environment=None, spec=None):
    return Result(
        kind="decode",
        origin="measured",
        tool=Tool(name="linkworth"),
        host=host or {},
        environment=environment or {},
        spec=spec or {},
    )


def gpu(index, **facts):
    return {"index": index, "uuid": f"GPU-{index}", "name": "H200", "power_limit_w": 700.0} | facts


def test_the_variable_that_turned_a_published_result_round_comes_first():
    left = run(
        {"kernel": "6.1", "cpu_model": "A"},
        {"variables": {"OMP_NUM_THREADS": "50"}, "torch": "2.9"},
    )
    right = run({"kernel": "6.8", "cpu_model": "B"}, {"variables": {}, "torch": "2.11"})
    rows = differences(left, right)
    assert [row.name for row in rows] == ["OMP_NUM_THREADS", "cpu_model", "torch", "kernel"]
    assert [row.weight for row in rows] == ["high", "high", "some", "unknown"]
    assert (rows[0].left, rows[0].right) == ("50", None)
    first, second = explanations(rows)
    assert first.startswith("OMP_NUM_THREADS differs (50 against not stated).")
    assert "the slower one" in first
    assert second.startswith("cpu_model")


def test_the_published_hosts_differ_in_what_its_author_names():
    folder = Path(__file__).parents[2] / "data" / "published"
    bundle = read((folder / "tp-on-5090-and-b200.json").read_bytes())
    by_title = {result.title: result for result in bundle.results if result.kind == "decode"}
    pcie = next(r for t, r in by_title.items() if "5090" in t and "TP=2" in t)
    nvlink = next(r for t, r in by_title.items() if "B200" in t and "TP=2" in t)
    names = [row.name for row in differences(pcie, nvlink) if row.group == "found"]
    assert names[:2] == ["OMP_NUM_THREADS", "python"]
    assert {"cpu_model", "cpu_turbo_ghz", "gpu_name", "interconnect"} <= set(names)


def test_names_and_places_of_a_machine_are_no_difference():
    left = run({"hostname": "a", "boot_id": "1", "gpus": [gpu(0)]})
    right = run({"hostname": "b", "boot_id": "2", "gpus": [gpu(3, uuid="GPU-x")]})
    assert differences(left, right) == []


def test_gpus_are_counted_and_unlike_ones_are_listed():
    left = run({"gpus": [gpu(0), gpu(1)]})
    right = run({"gpus": [gpu(0, power_limit_w=450.0), gpu(1)]})
    assert conditions(left)["gpu_count"] == 2
    assert conditions(left)["power_limit_w"] == 700.0
    (row,) = differences(left, right)
    assert row.name == "power_limit_w"
    assert row.right == "450.0, 700.0"
    assert row.weight == "high"


def test_effective_conditions_of_the_ranks_are_compared():
    left = run(environment={"ranks": [{"threads": 1}, {"threads": 1}]})
    right = run(environment={"ranks": [{"threads": 8}, {"threads": 8}]})
    (row,) = differences(left, right)
    assert (row.name, row.left, row.right) == ("process.threads", 1, 8)


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        (3100.0, 3150.0, True),  # a reading within 5 %
        (3100.0, 2600.0, False),
        (1, 2, False),  # a count
        (True, 1.0, True),
        ("3.12", "3.12.3", True),  # one source says more
        ("3.12", "3.1.2", False),
        ("580.1", "580.2", False),
        (None, 0, False),  # not stated is not zero
    ],
)
def test_readings_have_a_tolerance_and_counts_have_none(left, right, is_same):
    rows = differences(run({"thing": left}), run({"thing": right}))
    assert (rows == []) is is_same


def test_what_was_asked_for_stands_last_and_explains_nothing():
    left = run({"kernel": "6.1"}, spec={"kind": "decode", "link": "on", "model": {"layers": 2}})
    right = run({"kernel": "6.8"}, spec={"kind": "decode", "link": "off", "model": {"layers": 4}})
    rows = differences(left, right)
    assert [(row.group, row.name) for row in rows] == [("found", "kernel"), ("asked", "link")]
    assert explanations(rows) == []


def test_another_model_is_a_difference_that_matters():
    left, right = (
        run(spec={"kind": "decode", "model": {"layers": n}, "model_name": f"{n} layers"})
        for n in (2, 4)
    )
    (row,) = differences(left, right)
    assert (row.name, row.left, row.right) == ("model", "2 layers", "4 layers")
    assert (row.group, row.weight) == ("asked", "high")


@pytest.mark.parametrize(
    "name", ["link", "tp", "ranks", "batches", "kv_lens", "workloads", "dtype", "model"]
)
def test_what_was_asked_differently_says_why_it_matters(name):
    (row,) = differences(run(spec={name: "a"}), run(spec={name: "b"}))
    assert row.weight == "high"
    assert len(row.why) > 20


@pytest.mark.parametrize(
    ("n", "words"),
    [(1, "1 condition differs, 1 of them known"), (3, "3 conditions differ, 1 of them known")],
)
def test_differences_are_counted_in_words(n, words):
    assert counted(n, 1) == f"{words} to matter"


def test_conditions_that_are_no_table_are_left_alone():
    odd = run({"gpus": "two"}, {"ranks": "none", "variables": "none"})
    assert differences(odd, odd) == []
    assert said(None) == "not stated"


def test_each_known_condition_has_a_reason_and_a_pattern_that_compiles():
    for entry in KNOWN:
        assert re.compile(entry.pattern)
        assert entry.why.endswith(".")


def test_lists_are_words_and_what_was_read_in_each_round_is_no_condition():
    said_by = {
        "transports": [{"P2P/CUMEM": 24}, {"SHM": 4}],
        "gpu_clocks": [{"round": 0, "rank": 1, "before_mhz": 1980}],
    }
    assert conditions(run(environment=said_by)) == {"transports": "P2P/CUMEM 24, SHM 4"}


@pytest.mark.parametrize(
    "name",
    [
        "OMP_NUM_THREADS", "python", "cpu_model", "cpu_turbo_ghz", "clock_mhz", "NCCL_P2P_DISABLE",
        "NCCL_ALGO", "driver", "power_limit_w", "pcie_width", "pcie_width_max",
    ],
)  # fmt: skip
def test_what_has_been_seen_to_matter_comes_before_the_rest_and_explains(name):
    left = run({name: "one", "kernel": "6.1", "a_first_name": 1})
    right = run({name: "other", "kernel": "6.8", "a_first_name": 2})
    rows = differences(left, right)
    assert rows[0].name == name
    assert rows[0].weight == "high"
    assert len(rows[0].why) > 20
    (said_first,) = explanations(rows)
    assert said_first.startswith(f"{name} differs (one against other). ")


def test_the_order_of_what_matters_is_that_of_the_table():
    names = ["pcie_width", "power_limit_w", "driver", "NCCL_ALGO", "cpu_model", "python",
             "OMP_NUM_THREADS"]  # fmt: skip
    rows = differences(run(dict.fromkeys(names, "one")), run(dict.fromkeys(names, "other")))
    assert [row.name for row in rows] == names[::-1]
