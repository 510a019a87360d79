"""The Speedup page on the published study, on measured runs, and on nothing."""

import uuid

import pytest
from decode_runs import LARGE, MODEL, allreduce_run, at_url, decode_run, pair, single, text_of
from streamlit.testing.v1 import AppTest

from db import runs
from models.result import EvaluationRef
from pages import PAGES, Entry
from pages.widgets import environment_compare, speedup_promise
from pages.widgets.speedup_cases import build, with_costs, with_runs


@pytest.fixture(autouse=True)
def _in_the_navigation(monkeypatch):
    entry = Entry("Speedup", "Explain", "Does TP help this model here?")
    monkeypatch.setitem(PAGES, "speedup", entry)


def test_nothing_measured_says_what_to_do(empty_database, open_page):
    at = open_page("speedup")
    assert not at.exception
    assert "two CPU ranks are enough" in at.info[0].value


def test_the_published_study_alone_fills_the_page(database, open_page):
    at = open_page("speedup")
    assert not at.exception
    words = text_of(at)
    assert "TP=2 makes this model's step 27 % longer" in words
    assert "TP=2 makes this model's step 22 % shorter" in words
    assert "residual −0.78 ms" in words
    assert "residual +0.59 ms" in words
    assert "a CPU that costs nothing would give at most 1.10×" in words
    assert "direction only" in words
    assert (
        "At TP=2 the right one's step is longer by 2.4 % in wall clock and by 12.2 % in graph "
        "replay. At most possible: with a CPU that costs nothing 1.10× left and 1.00× right, with "
        "a link that costs nothing 1.38× left and 3.94× right."
    ) in words
    assert "with a CPU that costs nothing 1.12× left and 1.05× right." in words
    assert "OMP_NUM_THREADS differs" in words
    alts = [chart.proto.alt for chart in at.get("vega_lite_chart")]
    assert any("from 0.79" in alt and "to 1.29" in alt for alt in alts)
    assert any("fall short of the promised band" in alt for alt in alts)


def test_the_clock_in_the_url_is_followed(database):
    at = at_url(clock="replay")
    alts = [chart.proto.alt for chart in at.get("vega_lite_chart")]
    assert any("graph replay from 0.77" in alt and "to 1.24" in alt for alt in alts)
    assert at.segmented_control(key="clock").value == "replay"


def test_a_case_in_the_url_is_shown_alone(database):
    case = next(case for case in build(database) if "B200" in case.label)
    at = at_url(cases=case.code)
    assert not at.exception
    assert at.multiselect(key="speedup-cases").value == [case.code]
    assert "Side by side" not in [header.value for header in at.subheader]


def test_a_run_in_the_url_chooses_its_case(database):
    runs.store(database, single())
    cases = build(database)
    published = next(case for case in cases if "B200" in case.label)
    at = at_url(runs=published.run_ids[1])
    (code,) = with_runs(cases, [published.run_ids[1]])
    assert at.multiselect(key="speedup-cases").value == [code]


def test_a_measured_pair_says_why_it_is_slower(database, open_page):
    runs.store(database, single())
    runs.store(database, pair())
    runs.store(database, allreduce_run(3072, latency_us=6.5))
    at = open_page("speedup")
    assert not at.exception
    words = text_of(at)
    assert (
        "On Example GPU TP=2 makes this model's step 4 % longer (1.87 ms a step against 1.80 ms, "
        "0.96×, 95 % interval 0.95 to 0.97): halving the weights saves 0.31 ms, "
        "the all-reduces cost 0.38 ms, the CPU adds nothing."
    ) in words
    assert "57 calls × 6.5 us give 0.370 ms (ratio 0.97). They agree within 15%" in words
    assert "a link that costs nothing at most 1.26×" in words


def test_the_floor_stands_beside_each_measured_step(database):
    runs.store(database, single())
    (case,) = [case for case in build(database) if case.origin == "measured"]
    assert case.points[1].floor_ms == pytest.approx(0.725, abs=0.005)
    assert case.parameters == 1_543_714_304


def test_a_sweep_without_the_very_size_is_interpolated_and_the_better_mode_wins(
    database, open_page
):
    runs.store(database, single())
    runs.store(database, pair())
    runs.store(database, allreduce_run(3072, latency_us=6.0, mode="graph"))
    runs.store(database, allreduce_run(2048, 4096, latency_us=6.5))
    words = text_of(open_page("speedup"))
    assert "(Latency in exposed mode, interpolated between two measured sizes.)" in words
    assert "57 calls × 6.5 us" in words


def test_a_sweep_that_does_not_reach_the_message_says_nothing(database):
    runs.store(database, single())
    runs.store(database, pair())
    runs.store(database, allreduce_run(4096, 8192, latency_us=6.5))
    runs.store(database, allreduce_run(2048, 4096, latency_us=12.0, link="off"))
    measured = [case for case in build(database) if case.origin == "measured"]
    (case,) = with_costs(database, runs.version(database), measured)
    assert case.points[2].allreduce is None


def on_gpus(run, *uuids, named=None):
    """The run on these GPUs of its host; ``named``: as its spec names them."""
    gpus = [{"index": i, "uuid": uuid, "name": "Example GPU"} for i, uuid in enumerate(uuids)]
    spec = {**run.spec, "gpus": list(uuids if named is None else named)}
    return run.model_copy(update={"spec": spec, "host": {**run.host, "gpus": gpus}})


def test_a_sweep_of_other_gpus_says_nothing_of_a_step(database):
    """A machine of one name may have other cards today, and a machine of four has two pairs."""
    runs.store(database, on_gpus(pair(), "GPU-aaaa", "GPU-bbbb"))
    near = allreduce_run(2048, 4096, latency_us=6.5)
    own = runs.store(database, on_gpus(near, "GPU-aaaa", "GPU-bbbb", named=[0, 1]))
    # newer, and of the very size: still of another card
    runs.store(database, on_gpus(allreduce_run(3072, latency_us=9.0), "GPU-aaaa", "GPU-cccc"))
    runs.store(database, on_gpus(pair(), "GPU-cccc", "GPU-dddd").model_copy(update={"study": "b"}))
    measured = [case for case in build(database) if case.origin == "measured"]
    found = {
        case.study: case.points[2].allreduce
        for case in with_costs(database, runs.version(database), measured)
    }
    assert found["b"] is None
    assert found[None].run_id == own
    assert found[None].latency_us == pytest.approx(6.5)


def test_unexplained_communication_is_printed_with_its_amount(database, open_page):
    runs.store(database, single())
    runs.store(database, pair())
    runs.store(database, allreduce_run(3072, latency_us=4.0))
    words = text_of(open_page("speedup"))
    assert "*Unexplained*: +0.15 ms" in words


def test_an_eager_all_reduce_is_never_multiplied(database, open_page):
    runs.store(database, single())
    runs.store(database, pair())
    runs.store(database, allreduce_run(3072, latency_us=30.0, mode="eager"))
    words = text_of(open_page("speedup"))
    assert "no AllReduce sweep on the same GPUs, link and message" in words


def test_link_arms_share_the_single_gpu(database):
    runs.store(database, single())
    runs.store(database, pair())
    runs.store(database, pair(1.1, link="off"))
    measured = [case for case in build(database) if case.origin == "measured"]
    assert {case.link: sorted(case.points) for case in measured} == {"on": [1, 2], "off": [1, 2]}


def test_an_invalid_run_is_shown_and_never_compared(database, open_page):
    runs.store(database, single())
    runs.store(database, pair(validity="invalid", reasons=["wrong values"]))
    at = open_page("speedup")
    assert not at.exception
    assert "No verdict yet: a TP size above 1 is not measured" in text_of(at)
    (case,) = [case for case in build(database) if case.origin == "measured"]
    assert sorted(case.points) == [1, 2]
    assert sorted(case.valid) == [1]


def test_break_even_lies_between_two_measured_models(database, open_page):
    for run in (single(), pair()):
        runs.store(database, run)
    for tp, wall in ((1, 8.0), (2, 5.0)):
        large = decode_run(
            tp,
            {"wall_graph": [wall] * 3, "replay": [wall - 0.1] * 3},
            model=LARGE,
            name="large",
            link="on" if tp > 1 else None,
        )
        runs.store(database, large)
    at = open_page("speedup")
    words = text_of(at)
    assert "TP=2 pays above a model size of about" in words
    assert "(between the measured 1.54 and 14.8). At batch 1." in words
    assert "One batch is measured" in words
    # a break-even in batches is one model's
    assert "link on, small: One batch is measured" in words
    # what tells the rows apart comes first, without what all cases share
    shown = [one.value for one in at.dataframe if "efficiency (%)" in one.value.columns]
    assert {"small", "large"} in [set(frame["case"]) for frame in shown]


def test_a_newer_run_of_the_same_case_replaces_the_older_unless_asked(database):
    first = runs.store(database, single())
    second = runs.store(database, single(1.5))
    (newest,) = [case for case in build(database) if case.origin == "measured"]
    assert newest.points[1].run_id == second
    (asked,) = [case for case in build(database, [first]) if case.origin == "measured"]
    assert asked.points[1].run_id == first


def test_three_sizes_are_fitted(database, open_page):
    runs.store(database, single())
    runs.store(database, pair())
    runs.store(database, decode_run(4, {"replay": [1.9] * 3, "wall_graph": [2.0] * 3}, link="on"))
    words = text_of(open_page("speedup"))
    assert "T = A/tp + C" in words


def test_cpu_ranks_have_wall_clock_only_and_are_explained(database, open_page):
    spec = {"kind": "decode", "device": "cpu", "model": MODEL, "model_name": "small"}
    for tp, step in ((1, 20.0), (2, 30.0)):
        run = decode_run(tp, {"wall_eager": [step] * 3}, spec={**spec, "tp": tp})
        runs.store(database, run)
    at = open_page("speedup")
    assert not at.exception
    words = text_of(at)
    assert "On CPU ranks, Example CPU TP=2 makes this model's step 50 % longer" in words


def test_the_promise_is_held_against_the_best_arm_of_the_smaller_size(database):
    frame = speedup_promise.gains(database)
    row = frame[frame["change"].str.contains("concurrency 1")].iloc[0]
    assert row["gain"] == pytest.approx(57.4 / 66.0)
    assert (row["promised low"], row["promised high"]) == (1.5, 1.8)


COMPARE = """
from pages.widgets import environment_compare, store
environment_compare.render(store.engine(), {left!r}, {right!r})
"""


def test_conditions_of_any_two_runs_stand_side_by_side(database):
    left = runs.store(database, single())
    threads = {"variables": {"OMP_NUM_THREADS": "8"}, "python": "3.10.1"}
    right = runs.store(database, pair(environment=threads))
    at = AppTest.from_string(COMPARE.format(left=left, right=right), default_timeout=20).run()
    assert not at.exception
    frame = at.table[0].value
    assert frame["condition"].tolist()[:2] == ["OMP_NUM_THREADS", "python"]
    assert list(frame) == ["condition", "left", "right"]  # no more fit a phone
    said = [line.value for line in at.markdown if line.value.startswith("- **")]
    assert said[0].startswith("- **OMP_NUM_THREADS** (found on the machine, known to matter): ")
    assert "made the faster host the slower one" in said[0]
    named = " ".join(line.partition("** (")[0] for line in said)
    assert all(name in named for name in frame["condition"])
    assert len(environment_compare.offer(database, left, right)) == 2
    same = AppTest.from_string(COMPARE.format(left=left, right=left), default_timeout=20).run()
    assert "No recorded condition differs" in same.success[0].value


def test_compare_in_the_url_chooses_the_two_runs(database):
    ids = [run_id for case in build(database) for run_id in case.run_ids]
    at = at_url(compare=f"{ids[0]},{ids[2]}")
    assert [at.selectbox(key=f"compare-{side}").value for side in ("left", "right")] == [
        ids[0],
        ids[2],
    ]


def test_merged_rounds_of_an_evaluation_are_one_reading(database):
    for number in range(3):
        run = single(1 + number / 100, evaluation=EvaluationRef(id="e", arm="TP=1", order=number))
        run = run.model_copy(update={"id": str(uuid.uuid4())})
        runs.store(database, run)
    (case,) = [case for case in build(database) if case.origin == "measured"]
    assert len(case.points[1].wall.rounds) == 9
