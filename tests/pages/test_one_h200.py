"""The shipped study of one H200, served and step by step, as the explorers tell it."""

from collections.abc import Callable

from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import runs
from pages.widgets.speedup_cases import Case, build

STUDY = "one-h200"
Page = Callable[..., AppTest]


def said(at: AppTest) -> str:
    kinds = (at.markdown, at.caption, at.info, at.warning, at.error)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def cases_of(engine: Engine) -> dict[tuple[str, int], Case]:
    found = [case for case in build(engine) if case.study == STUDY]
    return {(case.model, case.batch): case for case in found}


def test_its_steps_have_every_clock_of_one_rank(first_start: Engine) -> None:
    cases = cases_of(first_start)
    assert set(cases) == {(f"qwen2.5-{size}b", batch) for size in ("1.5", "14") for batch in (1, 8)}
    for case in cases.values():
        (point,) = case.points.values()
        clocks = {"wall_eager", "wall_served", "wall_graph", "replay"}
        assert set(point.readings) == clocks
        assert len({reading.definition for reading in point.readings.values()}) == 4
        assert point.wall is not None
        assert point.wall.clock == "wall_graph"
        assert (point.times.engine_ms or 0) > (point.times.cpu_ms or 0) > 0
        assert all(len(reading.rounds) == 3 for reading in point.readings.values())


def test_two_shipped_studies_of_the_same_model_are_two_lines(first_start: Engine) -> None:
    labels = [case.label for case in build(first_start)]
    assert len(set(labels)) == len(labels)
    assert "NVIDIA H200 · qwen2.5-1.5b · batch 8 · KV 1,024 · one-h200" in labels
    assert "NVIDIA H200 · qwen2.5-1.5b · batch 8 · KV 1,024 · decode-on-h200" in labels


def test_speedup_says_whose_time_a_step_of_it_is(page: Page, first_start: Engine) -> None:
    cases = cases_of(first_start)
    small, large = cases["qwen2.5-1.5b", 1], cases["qwen2.5-14b", 1]
    at = page("speedup", cases=f"{small.code},{large.code}")
    words = said(at)
    assert (
        "One GPU takes 8.46 ms a step launched as one graph and 8.62 ms as an engine drives it. "
        "The GPU's own work (graph replay) is 8.41 ms, 1.26 times the roofline floor of 6.68 ms, "
        "the CPU adds 0.04 ms, and an engine's work around the graph adds 0.17 ms. A CPU that "
        "costs nothing would give at most 1.00×, 1.02× as an engine drives it."
    ) in words
    assert "One GPU takes 1.75 ms a step launched as one graph and 1.82 ms as an engine" in words
    assert "No verdict yet: a TP size above 1 is not measured" in words
    assert "The study: One H200" in "\n".join(panel.label for panel in at.expander)
    alts = [chart.proto.alt for chart in at.get("vega_lite_chart")]
    assert any(
        alt.startswith("Step, wall clock as an engine drives it: 1.82 to 8.62") for alt in alts
    )


def test_a_link_from_its_runs_opens_its_cases(page: Page, first_start: Engine) -> None:
    listed = runs.list_runs(first_start, study=STUDY, kinds=["decode"])
    at = page("speedup", runs=",".join(listed["id"]))
    chosen = set(at.multiselect(key="speedup-cases").value)
    assert chosen == {case.code for case in cases_of(first_start).values()}


def test_the_list_of_runs_names_the_clock_of_its_figure(first_start: Engine) -> None:
    listed = runs.list_runs(first_start, study=STUDY, kinds=["decode"])
    assert sorted(listed["headline"]) == [
        "1.75 ms a step (batch 1, KV 1024, graph)",
        "8.46 ms a step (batch 1, KV 1024, graph)",
    ]


def test_link_ab_finds_what_cuda_graphs_give(page: Page, first_start: Engine) -> None:
    served = runs.list_runs(first_start, study=STUDY, kinds=["serving"])
    (evaluation,) = set(served["evaluation"])
    at = page("link_ab", evaluation=evaluation)
    words = said(at)
    assert "cuda-graphs instead of enforce-eager: output throughput 140 to 209 % higher" in words
    assert "time per output token 66 to 69 % shorter" in words
    assert "Each change has a 95 % interval below." in words
    for load, change in (("1", "+208.8 %"), ("4", "+196.4 %"), ("16", "+139.8 %")):
        assert f"**concurrency {load}, 1024 in, 128 out**: output throughput {change}" in words
    # what would mislead stands before the figures
    assert "The clock of GPU 0 fell" in words
    assert "outputs are not checkable" in words
    assert "It holds for: qwen2.5-14b with random weights" in words
    assert not at.error
