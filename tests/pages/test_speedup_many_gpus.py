"""Four and eight GPUs: imported as the runners would write them, and what Speedup says of them."""

import json

import pytest
from decode_runs import at_url, text_of
from eight_gpus import documents

from db import runs
from importers import own
from models.result import EvaluationRef
from pages.widgets import speedup_checks, speedup_frames
from pages.widgets.speedup_cases import build, with_costs

SMALL, LARGE = "qwen2.5-14b", "llama-3.1-70b"  # the large one fits on no single GPU of 80 GB
ON, OFF = (f"Example 80GB · {SMALL} · batch 1 · KV 1,024 · link {link}" for link in ("on", "off"))


@pytest.fixture
def cases(database):
    """Label -> case, of two models with the link on and off, as imported from their files."""
    both = [*documents(SMALL, (1, 2, 4, 8)), *documents(LARGE, (2, 4, 8))]
    for run in own.read(json.loads(json.dumps(both))).results:
        runs.store(database, run)
    measured = [case for case in build(database) if case.origin == "measured"]
    costed = with_costs(database, runs.version(database), measured)
    return {case.label: case for case in costed}


def lines_of(at):
    return [line.removeprefix("- ") for line in text_of(at).splitlines()]


def test_each_model_and_link_is_one_case_over_all_its_sizes(cases):
    assert {label: sorted(case.points) for label, case in cases.items()} == {
        ON: [1, 2, 4, 8],
        OFF: [1, 2, 4, 8],
        ON.replace(SMALL, LARGE): [2, 4, 8],
        OFF.replace(SMALL, LARGE): [2, 4, 8],
    }
    assert list(cases)[:2] == [ON, OFF]  # the smaller model first, the link before its absence


def test_whether_four_beat_two_is_one_sentence_with_its_conditions(cases):
    lines = lines_of(at_url())
    assert (
        "Of TP=1, 2, 4 and 8, TP=8 is the fastest here: "
        "TP=2 beats TP=1 (1.82×, 95 % interval 1.80 to 1.84, 91 % of the ideal 2×); "
        "TP=4 beats TP=2 (1.76×, 95 % interval 1.74 to 1.78, 88 % of the ideal 2×); "
        "TP=8 beats TP=4 (1.48×, 95 % interval 1.46 to 1.49, 74 % of the ideal 2×). "
        "In wall clock, one graph a step; batch 1, KV 1,024, link on; at least 3 rounds each."
    ) in lines
    assert (
        "Of TP=1, 2, 4 and 8, TP=4 is the fastest here: "
        "TP=2 beats TP=1 (1.54×, 95 % interval 1.52 to 1.56, 77 % of the ideal 2×); "
        "TP=4 beats TP=2 (1.26×, 95 % interval 1.24 to 1.27, 63 % of the ideal 2×); "
        "TP=8 loses to TP=4 (0.79×, 95 % interval 0.78 to 0.80, 39 % of the ideal 2×). "
        "In wall clock, one graph a step; batch 1, KV 1,024, link off; at least 3 rounds each."
    ) in lines


def test_a_model_without_a_single_gpu_step_has_verdicts_against_its_smallest_size(cases):
    at = at_url(cases=cases[ON.replace(SMALL, LARGE)].code)
    words = text_of(at)
    assert "No verdict yet" not in words
    assert (
        "On Example 80GB TP=4 makes this model's step 48 % shorter than TP=2 does (22.20 ms a step "
        "against 42.37 ms, 1.91×, 95 % interval 1.89 to 1.93): halving each GPU's weights saves "
        "20.49 ms, the all-reduces cost 0.32 ms more, the CPU adds nothing. That is 95 % of the "
        "ideal 2×."
    ) in words
    assert at.expander[0].label == "Each of them against TP=2, and why"
    frame = speedup_frames.speedups([cases[ON.replace(SMALL, LARGE)]], "wall")
    assert frame["reference TP"].tolist() == [2, 2, 2]
    assert frame["efficiency (%)"].tolist() == pytest.approx([100, 95.4, 84.1], abs=0.1)


def test_ones_own_newest_evaluation_comes_first(database):
    for name, model, sizes in (("first", SMALL, (1, 2)), ("second", LARGE, (2, 4))):
        for order, run in enumerate(own.read(documents(model, sizes)).results):
            arm = EvaluationRef(id=name, arm=f"arm {order}", order=order)
            runs.store(database, run.model_copy(update={"evaluation": arm}))
    cases = {case.code: case for case in build(database)}
    shown = [cases[code] for code in at_url().multiselect(key="speedup-cases").value]
    assert [(case.model, case.link) for case in shown] == [
        (LARGE, "on"), (LARGE, "off"), (SMALL, "on"), (SMALL, "off"),
    ]  # fmt: skip


def test_two_sizes_alone_are_told_by_their_verdict(database):
    for run in own.read(documents(LARGE, (2, 4))).results:
        runs.store(database, run)
    words = text_of(at_url())
    assert "TP=4 makes this model's step 48 % shorter than TP=2 does" in words
    assert "is the fastest here" not in words


def test_one_size_above_one_alone_asks_for_a_second(database):
    for run in own.read(documents(LARGE, (2,))).results:
        runs.store(database, run)
    assert "No verdict yet: a second TP size is not measured" in text_of(at_url())


def test_the_curve_over_all_sizes_is_drawn_and_says_whether_it_holds(cases):
    points, curves = speedup_checks.fitted([cases[ON], cases[OFF]])
    assert points["TP"].tolist() == [1, 2, 4, 8] * 2
    assert set(curves["case"]) == {ON, OFF}
    assert (curves["TP"].min(), curves["TP"].max()) == (1, pytest.approx(8))
    at_sizes = curves[curves["TP"].isin([1.0, 2.0, 4.0])]
    on = points[points["case"] == ON].set_index("TP")["fitted (ms)"]
    for row in at_sizes[at_sizes["case"] == ON].itertuples():
        assert row[3] == pytest.approx(on[int(row.TP)])
    at = at_url(cases=f"{cases[ON].code},{cases[OFF].code}")
    (alt,) = [
        chart.proto.alt
        for chart in at.get("vega_lite_chart")
        if chart.proto.alt.startswith("2 curves T = A/tp + C")
    ]
    assert "TP=8, by 17 %" in alt
    words = text_of(at)
    assert "A = 15.12 ms divides over the GPUs, C = 1.46 ms stays" in words
    assert "The curve does not hold: the step at TP=8 lies 17 % above it" in words


def test_two_sizes_have_no_curve(database):
    for run in own.read(documents(SMALL, (1, 2))).results:
        runs.store(database, run)
    alts = [chart.proto.alt for chart in at_url().get("vega_lite_chart")]
    assert not any("T = A/tp + C" in alt for alt in alts)
    assert any(alt.startswith("Speedups in wall clock from") for alt in alts)


def test_sweeps_of_as_many_gpus_explain_each_size(cases):
    for label, us in ((ON, [8.0, 10.0, 14.0]), (OFF, [25.0, 45.0, 90.0])):
        found = [cases[label].points[tp].allreduce for tp in (2, 4, 8)]
        assert [cost.latency_us for cost in found] == pytest.approx(us)
    words = text_of(at_url(cases=cases[OFF].code))
    assert "Additive model at TP=8: 16.58 / 8 + 8.73 = 10.80 ms; measured 10.80 ms" in words
    assert "97 calls × 90.0 us give 8.730 ms (ratio 1.00). They agree within 15%" in words


def test_what_one_point_lacks_is_said_once_for_all_sizes(cases):
    lines = lines_of(at_url(cases=cases[ON].code))
    lacking = [line for line in lines if "measure a second" in line]
    assert lacking == [
        "Example 80GB, link on: One model size is measured: measure a second to see where TP=2, "
        "TP=4 and TP=8 start to pay. At batch 1.",
        f"Example 80GB, link on, {SMALL}: One batch is measured: measure a second to see where "
        "TP=2, TP=4 and TP=8 start to pay.",
    ]


def test_where_it_pays_is_one_picture_for_all_sizes(database):
    for model, tps in (("qwen2.5-1.5b", (1, 2, 4)), (SMALL, (1, 2, 4, 8))):
        for run in own.read(documents(model, tps, batches=(1, 64))).results:
            runs.store(database, run)
    # ln 0.79 at 1.54 billion and ln 1.54 at 14.8 billion meet 0 at 3.4 billion
    off = next(case for case in build(database) if case.link == "off" and case.model == SMALL)
    at = at_url(cases=off.code)
    lines = lines_of(at)
    assert (
        "Example 80GB, link off: TP=2 against TP=1 pays above a model size of about 3.4 billion "
        "parameters (between the measured 1.54 and 14.8). At batch 1."
    ) in lines
    assert any("link off: TP=4 against TP=1 pays above a model size of" in line for line in lines)
    assert (
        "Example 80GB, link off: One model size is measured: measure a second to see where TP=8 "
        "starts to pay. At batch 1."
    ) in lines
    alts = [chart.proto.alt for chart in at.get("vega_lite_chart")]
    (by_model,) = [alt for alt in alts if "pays above a model size" in alt]
    assert by_model.startswith("TP=2 against TP=1 pays above a model size of about 3.4")
    assert "TP=4 against TP=1 pays above a model size" in by_model
    (by_batch,) = [alt for alt in alts if "at every measured batch" in alt]
    assert [f"TP={tp} against TP=1 pays" in by_batch for tp in (2, 4, 8)] == [True] * 3


def test_a_model_that_no_single_gpu_holds_takes_no_part_and_is_named(cases):
    codes = ",".join(cases[ON.replace(SMALL, name)].code for name in (SMALL, LARGE))
    said = (
        f"Example 80GB, link on: no step at TP=1 of {LARGE}: a break-even is sought against TP=1, "
        "so its sizes take no part in it."
    )
    assert lines_of(at_url(cases=codes)).count(said) == 1
    assert "take no part" not in text_of(at_url(cases=cases[ON].code))


def test_any_two_of_one_model_can_be_laid_beside_each_other(cases):
    chosen = ",".join(case.code for case in cases.values())
    pairs = [f"{cases[on].code}-{cases[on.replace('link on', 'link off')].code}"
             for on in (ON, ON.replace(SMALL, LARGE))]  # fmt: skip
    at = at_url(cases=chosen)
    assert at.selectbox(key="speedup-beside").value == pairs[0]
    assert at.selectbox(key="speedup-beside").options == [
        f"{model} · link on against {model} · link off" for model in (SMALL, LARGE)
    ]
    other = at_url(cases=chosen, beside=pairs[1])
    assert not other.exception
    (frame,) = [frame.value for frame in other.dataframe if "apart (%)" in frame.value]
    assert set(frame["TP"]) == {2, 4, 8}
    assert "At TP=8 the right one's step is longer by 97.1 % in wall clock" in text_of(other)
