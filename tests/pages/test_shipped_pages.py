"""After the first start: each explorer opens on the measured studies and tells what they found."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import runs
from models.result import EvaluationRef, Measurement, Result, Tool
from pages.widgets.serving_arms import groups
from pages.widgets.speedup_cases import build

Page = Callable[..., AppTest]


def words(at: AppTest) -> str:
    kinds = (at.markdown, at.caption, at.info, at.warning, at.error)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def studies_of(at: AppTest) -> list[str]:
    return [panel.label for panel in at.expander if panel.label.startswith("The study")]


def measured_here(first_start: Engine, kind: str, metric: str, unit: str, **dims: object) -> str:
    """Something that the reader measured, newer than what came with the code."""
    row = Measurement(
        metric=metric,
        statistic="median",
        unit=unit,
        value=20.0,
        n=30,
        round=0,
        dims=dims,
        definition="linkworth:decode-wall-eager:1"
        if kind == "decode"
        else f"linkworth:{kind}-eager-gloo:1",
    )
    result = Result(
        kind=kind,
        origin="measured",
        title="Mine",
        spec={"kind": kind, "device": "cpu", "model_name": "mine", "tp": 1},
        host={"hostname": "mine", "cpu_model": "A CPU"},
        evaluation=EvaluationRef(id="mine", arm="a"),
        tool=Tool(name="linkworth"),
        measurements=[row],
    )
    return runs.store(first_start, result)


def test_allreduce_opens_on_the_two_link_arms(page: Page, first_start: Engine) -> None:
    at = page("allreduce")
    listed = runs.list_runs(first_start, study="allreduce-on-2-h200").set_index("id")
    chosen = at.multiselect(key="allreduce-runs").value
    assert sorted(listed.loc[chosen, "title"]) == [
        "AllReduce on 2 x H200, link off",
        "AllReduce on 2 x H200, link on",
    ]
    said = words(at)
    assert "Without the link one all-reduce of 3 KB takes 10.0 us instead of 6.1 us" in said
    assert "36.5 us are launch cost" in said
    assert "**0.96 times** the reference" in said
    assert studies_of(at) == [
        "The study: AllReduce on two H200 against nccl-tests, link on and off"
    ]
    assert any(
        "Graph mode agrees with nccl-tests within 5 %" in str(t.value.to_dict()) for t in at.table
    )
    assert "NCCL_NVLS_ENABLE=0" in said


def test_nccl_tests_can_be_laid_over_ours(page: Page, first_start: Engine) -> None:
    listed = runs.list_runs(first_start, study="allreduce-on-2-h200").set_index("title")["id"]
    ids = [
        listed["AllReduce on 2 x H200, link on"],
        listed["nccl-tests on 2 x H200, graph, link on"],
    ]
    at = page("allreduce", runs=",".join(ids), modes="graph")
    curves = {name for d in at.dataframe if "curve" in d.value for name in d.value["curve"]}
    assert {
        "AllReduce on 2 x H200, link on · graph · in place",
        "nccl-tests on 2 x H200, graph, link on · graph · in place",
    } <= curves
    assert "measured" in words(at)


def test_what_was_measured_here_comes_before_what_was_shipped(
    page: Page, first_start: Engine
) -> None:
    mine = measured_here(
        first_start, "allreduce", "allreduce_latency", "us", bytes=3072, mode="eager", ranks=2
    )
    step = measured_here(
        first_start, "decode", "decode_step", "ms", tp=1, batch=1, kv_len=64, clock="wall_eager"
    )
    assert page("allreduce").multiselect(key="allreduce-runs").value == [mine]
    (code,) = page("speedup").multiselect(key="speedup-cases").value
    (case,) = [case for case in build(first_start) if case.code == code]
    assert case.run_ids == [step]


def test_speedup_says_for_which_model_tp_pays(page: Page, first_start: Engine) -> None:
    cases = [case for case in build(first_start) if case.study == "decode-on-h200"]
    at = page("speedup", cases=",".join(case.code for case in cases if len(case.points) > 1))
    said = words(at)
    assert "TP=2 makes this model's step 14 % longer (2.02 ms a step against 1.77" in said
    assert "TP=2 makes this model's step 27 % shorter (6.09 ms a step against 8.34" in said
    assert "57 calls × 7.1 us give 0.406 ms (ratio 0.86). They agree within 15%" in said
    # its 14B steps were taken on cards of which there is no sweep: the study holds one of another
    # pair against them and says so, the page does not
    for exposed in ("0.960", "1.013"):
        assert f"Exposed communication is {exposed} ms; no AllReduce sweep on the same GPUs" in said
    assert "TP=2 pays above a model size of about 3 billion parameters" in said
    assert studies_of(at) == ["The study: Decode steps on H200 at TP=1 and 2, beside vLLM"]


def test_a_step_and_its_single_gpu_are_of_the_same_gpus(first_start: Engine) -> None:
    compared = [
        case
        for case in build(first_start)
        if case.origin == "measured" and {1, 2} <= set(case.points)
    ]
    assert {(case.model, case.batch) for case in compared} == {
        ("qwen2.5-1.5b", 1), ("qwen2.5-1.5b", 8), ("qwen2.5-14b", 1), ("qwen2.5-14b", 8),
    }  # fmt: skip
    for case in compared:
        boots = {
            runs.load(first_start, point.run_id).host["boot_id"] for point in case.points.values()
        }
        assert len(boots) == 1


def test_hardware_shows_a_machine_with_gpus_on_one_without(page: Page) -> None:
    at = page("hardware")
    said = words(at)
    assert "2 GPUs, 1 pair: 1x NV18 (18 NVLinks)." in said
    assert "**1 pair: 1 works as far as tested.**" in said
    assert "24 copies verified at their destination" in said
    assert "This machine is not the one that Linkworth runs on" in said
    assert "This is the machine that Linkworth runs on." not in said
    assert list(at.dataframe[0].value["card"]) == ["NVIDIA H200"] * 2
    assert studies_of(at)


def test_telemetry_of_the_one_rank_sweep_is_there(first_start: Engine) -> None:
    listed = runs.list_runs(first_start, study="hardware-2-h200", kinds=["allreduce"])
    (run_id,) = listed["id"]
    frame = runs.telemetry(first_start, run_id)
    assert len(frame) == 97
    assert frame["power_w"].max() == pytest.approx(658.664)


def test_link_ab_opens_on_a_link_that_changes(page: Page, first_start: Engine) -> None:
    at = page("link_ab")
    assert at.selectbox(key="ab-evaluation").value == "served-14b-on-2-h200:served:qwen2.5-14b"
    order = [group.code for group in groups(first_start)]
    assert order.index("two-gpu-interconnect-evaluation") < order.index(
        "decode-on-h200:served:qwen2.5-14b"
    )


def test_link_ab_tells_a_single_round_from_a_finding(page: Page) -> None:
    at = page("link_ab", evaluation="decode-on-h200:served:qwen2.5-14b")
    said = words(at)
    assert "direction only: fewer than 3 rounds an arm" in said
    assert "time per output token -34.6 %" in said
    # rounded values must still give the tool's own statistics, small spreads included
    assert any("agree with the tool's own" in note.value for note in at.success)


def test_overview_says_that_nothing_was_measured_here(page: Page) -> None:
    at = page("overview")
    said = words(at)
    assert "Nothing was measured on this machine yet" in said
    assert "Not read yet: the worker reads it when it starts." in said
    assert "Decode steps on H200 at TP=1 and 2, beside vLLM" in said


def test_what_if_offers_the_served_steps_as_a_start(first_start: Engine) -> None:
    from pages.widgets.what_if_sources import points

    offered = points(first_start)
    assert all("eager" not in point.label for point in offered)  # another step than the predicted
    found = {
        (point.load.arch.layers, point.tp): point.tpot_ms
        for point in offered
        if point.work.batch == 1 and runs.load(first_start, point.run_id).study == "decode-on-h200"
    }
    several = {point.work.batch for point in offered if point.load.arch.layers == 48}
    assert several == {1, 4, 16}
    assert found[48, 1] == pytest.approx(8.626, abs=5e-4)
    assert found[48, 2] == pytest.approx(5.642, abs=5e-4)
    assert found[28, 1] == pytest.approx(2.035, abs=6e-4)


def test_arms_that_came_with_the_code_queue_nothing_on_this_machine(page: Page) -> None:
    at = page("link_ab", evaluation="3b9b3427-1e28-597a-aac0-733fb183ebc6")
    said = words(at)
    assert "cuda-graphs instead of enforce-eager" in said
    assert "cannot be queued from here" in said
    assert not [button for button in at.button if button.key == "ab-queue"]
