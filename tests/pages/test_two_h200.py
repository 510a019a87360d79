"""The shipped study of two H200 with and without the link, as the explorers tell it."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import runs
from models.conditions import differences
from pages.widgets import speedup_frames
from pages.widgets.serving_arms import groups
from pages.widgets.speedup_cases import Case, build, with_costs
from pages.widgets.speedup_pairs import common

STUDY = "two-h200"
SMALL, LARGE = "qwen2.5-1.5b", "qwen2.5-14b"
Page = Callable[..., AppTest]
Key = tuple[str, int, str | None]


def said(at: AppTest) -> str:
    kinds = (at.markdown, at.caption, at.info, at.warning, at.error)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def cases_of(engine: Engine, study: str = STUDY) -> dict[Key, Case]:
    found = [case for case in build(engine) if case.study == study]
    return {(case.model, case.batch, case.link): case for case in found}


def test_speedup_opens_on_its_smallest_batch(page: Page, first_start: Engine) -> None:
    at = page("speedup")
    cases = cases_of(first_start)
    assert set(cases) == {
        (model, batch, link)
        for model in (SMALL, LARGE)
        for batch in (1, 8)
        for link in ("on", "off")
    }
    chosen = at.multiselect(key="speedup-cases").value
    assert set(chosen) == {case.code for (_, batch, _), case in cases.items() if batch == 1}
    words = said(at)
    assert (
        "TP=2 makes this model's step 28 % shorter (5.97 ms a step against 8.25 ms, 1.38×, 95 % "
        "interval 1.36 to 1.42): halving the weights saves 3.20 ms, the all-reduces cost 0.90 ms"
    ) in words
    assert "step 21 % shorter (6.55 ms a step against 8.25 ms, 1.26×" in words
    assert "step 13 % longer (2.03 ms a step against 1.80 ms, 0.89×" in words
    assert "step 30 % longer (2.33 ms a step against 1.80 ms, 0.77×" in words
    assert "As an engine drives it, 6.37 ms a step against 8.75 ms (1.37×)" in words
    assert "link on: TP=2 pays above a model size of about 2.8 billion parameters" in words
    assert "link off: TP=2 pays above a model size of about 5.1 billion parameters" in words
    assert (
        "At TP=2 the right one's step is longer by 15.0 % in wall clock, one graph a step and by "
        "12.3 % in wall clock as an engine drives it"
    ) in words
    assert "NCCL_P2P_DISABLE differs (not stated against 1)" in words
    assert "⚠ TP=1. Wall clock, launched piece by piece, batch 1, KV 1024: the rounds lie" in words
    assert [panel.label for panel in at.expander if panel.label.startswith("The study")] == [
        "The study: Two H200: what the link gives a decode step, and copies beside CUDA's own"
    ]


AGREE = "They agree within 15%."
CHECKS = {
    (LARGE, 1, "on"): f"97 calls × 8.8 us give 0.853 ms (ratio 0.95). {AGREE}",
    (LARGE, 8, "on"): "97 calls × 8.6 us give 0.834 ms (ratio 0.84). *Unexplained*: +0.16 ms.",
    (LARGE, 1, "off"): f"97 calls × 14.1 us give 1.371 ms (ratio 0.96). {AGREE}",
    (LARGE, 8, "off"): f"97 calls × 18.9 us give 1.836 ms (ratio 0.93). {AGREE}",
    (SMALL, 1, "on"): f"57 calls × 8.1 us give 0.462 ms (ratio 0.96). {AGREE}",
    (SMALL, 8, "on"): f"57 calls × 8.1 us give 0.462 ms (ratio 0.90). {AGREE}",
    (SMALL, 1, "off"): f"57 calls × 13.5 us give 0.771 ms (ratio 0.96). {AGREE}",
    (SMALL, 8, "off"): f"57 calls × 12.2 us give 0.694 ms (ratio 0.91). {AGREE}",
}


@pytest.mark.parametrize("batch", [1, 8])
def test_calls_times_latency_are_of_the_same_sitting(
    page: Page, first_start: Engine, batch: int
) -> None:
    cases = {key: case for key, case in cases_of(first_start).items() if key[1] == batch}
    words = said(page("speedup", cases=",".join(case.code for case in cases.values())))
    costed = with_costs(first_start, runs.version(first_start), cases.values())
    for (key, case), with_cost in zip(cases.items(), costed, strict=True):
        _, _, own = words.partition(f"**{case.label}**\n- Additive model at TP=2:")
        assert f"{CHECKS[key]} (Latency in exposed mode.)" in own.partition("\n")[0]
        cost = with_cost.points[2].allreduce
        assert cost is not None
        sweep, step = (runs.load(first_start, run) for run in (cost.run_id, case.points[2].run_id))
        assert sweep.study == STUDY
        assert sweep.host["boot_id"] == step.host["boot_id"]
        assert not cost.is_interpolated


def test_a_served_step_of_another_definition_is_never_held_against_it(
    page: Page, first_start: Engine
) -> None:
    here = cases_of(first_start)[LARGE, 1, "on"]
    other = cases_of(first_start, "one-h200")[LARGE, 1, None]
    assert common(here.points[1], other.points[1], "wall_served") is None
    assert common(here.points[1], other.points[1], "wall") is not None
    frame = speedup_frames.side_by_side(other, here)
    assert list(frame["clock"]) == ["wall clock, one graph a step", "graph replay"]
    at = page("speedup", cases=f"{here.code},{other.code}")
    alts = [chart.proto.alt for chart in at.get("vega_lite_chart")]
    served = [alt for alt in alts if alt.startswith("Step, wall clock as an engine drives it")]
    assert len(served) == 2
    words = said(at)
    for revision in (1, 2):
        assert f"`linkworth:decode-wall-served:{revision}`" in words
    assert "through the page table by a kernel of its own" in words


def test_nothing_that_is_recorded_tells_its_runs_from_those_of_another_pair(
    first_start: Engine,
) -> None:
    """What differs is the cards, and which clocks, batches and steps were asked for."""
    others = cases_of(first_start, "decode-on-h200")
    for (model, batch, link), case in cases_of(first_start).items():
        if (model, batch, link) in others:
            for tp, point in case.points.items():
                theirs = others[model, batch, link].points[tp]
                found = differences(*(runs.load(first_start, p.run_id) for p in (point, theirs)))
                assert {row.name for row in found} <= {"clocks", "batches", "steps_per_round"}
                assert point.cards.isdisjoint(theirs.cards)


def test_link_ab_is_about_served_models_and_does_not_offer_it(first_start: Engine) -> None:
    offered = [
        run_id for group in groups(first_start) for arm in group.arms for run_id in arm.run_ids
    ]
    assert not set(offered) & set(runs.list_runs(first_start, study=STUDY)["id"])


def test_its_two_sizes_are_a_latency_and_no_fit(page: Page, first_start: Engine) -> None:
    listed = runs.list_runs(first_start, study=STUDY, kinds=["allreduce"])
    small = listed[listed["title"].str.contains("1.5b")]
    words = said(page("allreduce", runs=",".join(small["id"])))
    assert "Without the link one all-reduce of 3 KB takes 12.2 us instead of 6.4 us" in words
    assert "A fit needs at least 4 message sizes; this run has 2." in words
