"""Figures of the shipped studies: computed from the runs, and found in the study's own words.

Those of the study of two H200 stand in a file of their own.
"""

import re
from collections import defaultdict

import pytest
from shipped import bundle, step, told, value

from models.architecture import calls_per_step, message_bytes, read_config
from models.curve import interpolate_us, make_curve


@pytest.fixture(scope="module")
def sweeps():
    found = bundle("allreduce-on-2-h200").results
    ours = {run.spec["link"]: run for run in found if run.tool.name == "linkworth"}
    theirs = {
        (run.said["link"], run.spec["mode"]): run for run in found if run.tool.name == "nccl-tests"
    }
    return ours, theirs


def ratios(sweeps, mode, link):
    ours, theirs = sweeps
    sizes = sorted({row.dims["bytes"] for row in ours[link].find("allreduce_latency", mode=mode)})
    assert sizes == [2**k for k in range(10, 27)]
    found = {}
    for size in sizes:
        mine = value(ours[link], "allreduce_latency", bytes=size, mode=mode)
        other = value(
            theirs[link, mode], "allreduce_latency", "mean", bytes=size, placement="in_place"
        )
        found[size] = mine / other
    return found


@pytest.mark.parametrize(("link", "low", "high"), [("on", 0.964, 1.013), ("off", 0.971, 1.030)])
def test_graph_mode_agrees_with_nccl_tests_at_every_size(sweeps, link, low, high):
    found = ratios(sweeps, "graph", link)
    assert all(abs(ratio - 1) <= 0.05 for ratio in found.values())
    assert round(min(found.values()), 3) == low
    assert round(max(found.values()), 3) == high
    assert f"{low:.3f} to {high:.3f}" in told("allreduce-on-2-h200")


def test_eager_mode_misses_the_bar_once_and_the_launch_explains_it(sweeps):
    apart = {
        (link, size): ratio
        for link in ("on", "off")
        for size, ratio in ratios(sweeps, "eager", link).items()
        if size >= 4 * 2**20 and abs(ratio - 1) > 0.05
    }
    assert list(apart) == [("on", 4 * 2**20)]
    ours, theirs = sweeps
    at = {"bytes": 4 * 2**20}
    assert round(value(ours["on"], "allreduce_latency", mode="eager", **at), 1) == 43.6
    assert round(value(ours["on"], "allreduce_latency", mode="graph", **at), 1) == 33.1
    in_place = {"statistic": "mean", "placement": "in_place", **at}
    assert round(value(theirs["on", "eager"], "allreduce_latency", **in_place), 1) == 35.1
    assert round(value(theirs["on", "graph"], "allreduce_latency", **in_place), 1) == 33.2
    launch = [
        value(ours["on"], "allreduce_latency", mode="eager", bytes=2**k) for k in range(10, 22)
    ]
    assert (round(min(launch), 1), round(max(launch), 1)) == (42.3, 46.8)
    words = told("allreduce-on-2-h200")
    assert "43.6 us against 35.1 us" in words
    assert "42.3 to 46.8 us" in words


def test_the_sweeps_have_three_rounds_and_one_of_exposed(sweeps):
    ours, theirs = sweeps
    for run in ours.values():
        rounds = defaultdict(set)
        for row in run.find("allreduce_latency", "median"):
            assert row.n == 30
            rounds[row.dims["mode"]].add(row.round)
        assert rounds == {"graph": {0, 1, 2}, "eager": {0, 1, 2}, "exposed": {0}}
        notes = {(note["round"], note["mode"]) for note in run.environment["gpu_clocks"]}
        assert notes == {(n, mode) for n in range(3) for mode in ("graph", "eager")} | {
            (0, "exposed")
        }
        assert "conditions_changed" not in {notice.code for notice in run.warnings}
    for run in theirs.values():
        assert {row.round for row in run.measurements} == {0, 1, 2}
        assert run.origin == "imported"
        assert run.environment["nccl"] == "2.28.9"


@pytest.mark.parametrize(
    ("size", "on_us", "off_us"),
    [(4096, 6.18, 10.10), (2**20, 15.3, 62.8), (2**26, 248.6, 2419)],
)
def test_what_the_link_gives_an_all_reduce(sweeps, size, on_us, off_us):
    ours, _ = sweeps
    for link, expected in (("on", on_us), ("off", off_us)):
        found = value(ours[link], "allreduce_latency", bytes=size, mode="graph")
        digits = 0 if expected > 1000 else 2 if expected < 12 else 1
        assert round(found, digits) == expected


def test_the_table_of_the_study_is_that_of_its_runs(sweeps):
    ours, _ = sweeps
    table = bundle("allreduce-on-2-h200").study.facts["comparison"]
    assert len(table) == 2 * 3 * 17
    for row in table:
        here = {"bytes": row["bytes"], "mode": row["mode"]}
        found = value(ours[row["link"]], "allreduce_latency", **here)
        assert row["linkworth_us"] == pytest.approx(found, rel=1e-4)
    assert sum(row["ok"] is True for row in table) == 34 + 9
    assert sum(row["ok"] is False for row in table) == 1


@pytest.fixture(scope="module")
def steps():
    """(model, TP, start) -> decode run."""
    found = {}
    for run in bundle("decode-on-h200").results:
        if run.kind == "decode":
            start = int(re.search(r"start (\d)", run.title)[1])
            found[run.spec["model_name"], run.spec["tp"], start] = run
    return found


def test_the_decode_runs_that_are_there(steps):
    small, large = "qwen2.5-1.5b", "qwen2.5-14b"
    assert set(steps) == {
        (small, 1, 1), (small, 2, 1), (small, 1, 2), (large, 1, 2), (small, 1, 3), (large, 1, 3),
        (large, 2, 3),
    }  # fmt: skip
    suspect = [key for key, run in steps.items() if run.validity != "valid"]
    assert suspect == [(small, 1, 3)]
    for run in steps.values():
        rounds = {row.round for row in run.find("decode_step", "median", clock="wall_graph")}
        assert rounds == {0, 1, 2}


def test_what_tp_2_does_to_a_step(steps):
    alone, pair = steps["qwen2.5-14b", 1, 3], steps["qwen2.5-14b", 2, 3]
    assert set(pair.spec["gpus"]) > set(alone.spec["gpus"])
    assert (round(step(alone), 3), round(step(pair), 3)) == (8.340, 6.089)
    assert round(step(alone) / step(pair), 2) == 1.37
    assert round(step(alone, batch=8) / step(pair, batch=8), 2) == 1.33
    small, both = steps["qwen2.5-1.5b", 1, 1], steps["qwen2.5-1.5b", 2, 1]
    assert (round(step(small), 3), round(step(both), 3)) == (1.771, 2.021)
    assert round(100 * (step(both) / step(small) - 1)) == 14
    saved = step(small, "replay") - step(both, "replay_no_allreduce")
    assert round(saved, 3) == 0.283
    words = told("decode-on-h200")
    for figure in ("8.340 to 6.089 ms", "1.771 to 2.021 ms", "0.283 ms", "1.37 times", "14 % slow"):
        assert figure in words


@pytest.mark.parametrize(
    ("model", "start", "batch", "difference", "product", "ratio"),
    [
        ("qwen2.5-1.5b", 1, 1, 0.473, 0.406, 0.86),
        ("qwen2.5-14b", 3, 1, 0.960, 0.744, 0.78),
        ("qwen2.5-14b", 3, 8, 1.013, 0.825, 0.81),
    ],
)
def test_exposed_communication_against_calls_times_latency(
    steps, sweeps, model, start, batch, difference, product, ratio
):
    run = steps[model, 2, start]
    exposed = step(run, "replay", batch) - step(run, "replay_no_allreduce", batch)
    arch = read_config(run.spec["model"])
    calls = calls_per_step(arch, vocab_parallel_embedding=True)
    assert calls == {"qwen2.5-1.5b": 57, "qwen2.5-14b": 97}[model]
    rows = sweeps[0]["on"].find("allreduce_latency", "median", mode="exposed")
    curve = make_curve([row.dims["bytes"] for row in rows], [row.value for row in rows])
    cost = calls * interpolate_us(curve, message_bytes(arch, batch)) / 1e3
    assert exposed == pytest.approx(difference, abs=6e-4)
    assert cost == pytest.approx(product, abs=6e-4)
    assert round(cost / exposed, 2) == ratio
    words = told("decode-on-h200")
    assert f"{difference:.3f} ms" in words
    assert f"{product:.3f} ms" in words
    # the sweep shares its GPUs with the small model's steps only, and the study says so
    boot = sweeps[0]["on"].host["boot_id"]
    assert (run.host["boot_id"] == boot) is (model == "qwen2.5-1.5b")


@pytest.mark.parametrize(
    ("model", "tp", "start", "served_ms", "apart_pct"),
    [
        ("qwen2.5-14b", 1, 3, 8.626, -3.3),
        ("qwen2.5-14b", 1, 2, 8.626, -0.3),
        ("qwen2.5-14b", 2, 3, 5.642, 7.9),
        ("qwen2.5-1.5b", 1, 1, 2.035, -13.0),
        ("qwen2.5-1.5b", 1, 2, 2.035, -12.7),
        ("qwen2.5-1.5b", 1, 3, 2.035, -14.2),
    ],
)
def test_the_step_beside_the_time_per_token_of_a_server(
    steps, model, tp, start, served_ms, apart_pct
):
    (served,) = [
        run
        for run in bundle("decode-on-h200").results
        if run.kind == "serving"
        and run.spec["model_name"] == model
        and (run.spec["arm"]["tp"], run.spec["arm"]["replicas"]) == (tp, 1)
    ]
    tpot = value(served, "tpot", concurrency=1)
    assert int(value(served, "completed", "value")) == 6
    assert round(tpot, 3) == served_ms
    assert round(100 * (step(steps[model, tp, start]) / tpot - 1), 1) == apart_pct
    assert f"{apart_pct:+.1f} %" in told("decode-on-h200")


def test_the_hardware_that_was_seen():
    topology, check, alone = bundle("hardware-2-h200").results
    assert topology.links == [["X", "NV18"], ["NV18", "X"]]
    assert [gpu.name for gpu in topology.gpus] == ["NVIDIA H200"] * 2
    (pair,) = check.environment["pairs"]
    assert [tier["state"] for tier in pair["tiers"]] == ["passed"] * 3
    assert len(check.find("wrong_values")) == 24
    one_way = [row.value for row in check.find("p2p_bandwidth", direction="one")]
    assert [round(rate) for rate in one_way] == [389, 389]
    assert round(value(check, "p2p_bandwidth", direction="both")) == 766
    assert round(pair["collective_us"]["on"]["3072"], 1) == 6.4
    assert round(pair["collective_us"]["off"]["3072"], 1) == 11.7
    assert len(alone.telemetry) == 97
    assert round(max(row["power_w"] for row in alone.telemetry)) == 659
    eager = [row.value for row in alone.find("allreduce_latency", "median", mode="eager")]
    assert (len(eager), round(min(eager), 1), round(max(eager), 1)) == (15, 14.2, 25.6)
    words = told("hardware-2-h200")
    for figure in ("389 GB/s one way and 766 GB/s", "6.4 and 11.7 us", "659 W", "14.2 and 25.6 us"):
        assert figure in words


@pytest.fixture(scope="module")
def alone():
    """What one start of one machine holds: arm or model -> run."""
    found = {}
    for run in bundle("one-h200").results:
        name = run.spec["model_name"] if run.kind == "decode" else run.evaluation.arm
        found[name] = run
    return found


def mean_of_rounds(run, metric, concurrency, statistic="median"):
    rows = run.find(metric, statistic, concurrency=concurrency)
    assert {row.round for row in rows} == {0, 1, 2}
    return sum(row.value for row in rows) / len(rows)


def test_one_start_of_one_machine(alone):
    assert set(alone) == {"cuda-graphs", "enforce-eager", "qwen2.5-1.5b", "qwen2.5-14b"}
    assert len({run.host["boot_id"] for run in alone.values()}) == 1
    assert {gpu["uuid"] for run in alone.values() for gpu in run.host["gpus"]}
    served = [alone["cuda-graphs"], alone["enforce-eager"]]
    for run in served:
        assert run.telemetry
        assert all("throttle_reasons" in row for row in run.telemetry)
        assert run.spec["load_format"] == "dummy"
    assert [run.validity for run in served] == ["valid", "suspect"]
    assert all("clock" in reason for reason in served[1].reasons)


@pytest.mark.parametrize(
    ("concurrency", "tpots", "energies"),
    [
        (1, (8.63, 25.3), (4.82, 7.15)),
        (4, (8.85, 29.0), (1.44, 2.06)),
        (16, (10.4, 31.2), (0.59, 0.75)),
    ],
)
def test_what_cuda_graphs_give_a_served_model(alone, concurrency, tpots, energies):
    words = told("one-h200")
    for arm, tpot, energy in zip(("cuda-graphs", "enforce-eager"), tpots, energies, strict=True):
        run = alone[arm]
        assert mean_of_rounds(run, "tpot", concurrency) == pytest.approx(tpot, rel=5e-3)
        joules = mean_of_rounds(run, "energy_per_token", concurrency, "value")
        assert round(joules, 2) == energy
        assert f"{tpot:g}" in words
        assert f"{energy:g}" in words


def test_a_step_as_an_engine_drives_it_beside_the_engine(alone):
    large, small = alone["qwen2.5-14b"], alone["qwen2.5-1.5b"]
    tpot = value(alone["cuda-graphs"], "tpot", concurrency=1)
    assert [round(step(large, clock), 3) for clock in ("wall_graph", "wall_served")] == [
        8.456,
        8.624,
    ]
    assert round(tpot, 3) == 8.633
    assert round(100 * (1 - step(large) / tpot), 1) == 2.1
    assert round(100 * (1 - step(large, "wall_served") / tpot), 1) == 0.1
    table = bundle("one-h200").study.facts["vllm_1_5b_with_graphs"]
    left = [row["median TPOT (ms)"] for row in table if row["concurrency"] == 1]
    served = sum(left) / len(left)
    assert (len(left), round(served, 3)) == (2, 2.043)
    apart = [100 * (1 - step(small, clock) / served) for clock in ("wall_graph", "wall_served")]
    assert [round(share) for share in apart] == [14, 11]
    words = told("one-h200")
    for figure in ("8.456 ms", "8.624 ms", "8.633 ms", "1.748 and 1.822 ms", "mean 2.043"):
        assert figure in words


def test_copies_beside_cudas_own():
    study = bundle("one-h200").study
    assert [round(row["ratio"], 3) for row in study.facts["copies"]] == [0.987, 0.99]
    assert all(row["ok"] for row in study.facts["copies"])
    assert "4,213 GB/s" in study.summary
    busy = [
        row["us a step"]
        for row in study.facts["step_kernels"]
        if row["what"].startswith("all kernels")
    ]
    assert busy == [1895.1, 1740.5]
