"""Speedup with a step as an engine drives it beside one graph a step, and clocks that differ."""

import pytest
from decode_runs import at_url, decode_run, pair, single, text_of

from db import runs
from models.result import Notice
from pages.charts import speedup as pictures
from pages.widgets import environment_compare, speedup_frames
from pages.widgets.speedup_cases import build, with_costs
from pages.widgets.speedup_pairs import common, paired

GRAPH_1 = {"wall_graph": [1.80, 1.81, 1.79], "replay": [1.70] * 3, "wall_served": [2.00] * 3}
GRAPH_2 = {
    "wall_graph": [1.87, 1.88, 1.86],
    "wall_served": [2.12, 2.13, 2.11],
    "replay": [1.77] * 3,
    "replay_no_allreduce": [1.39] * 3,
}


def alone_and_pair(database, first=GRAPH_1, second=GRAPH_2):
    runs.store(database, decode_run(1, first))
    runs.store(database, decode_run(2, second, link="on"))
    (case,) = [case for case in build(database) if case.origin == "measured"]
    return case


def tables(at):
    return [frame.value for frame in at.dataframe]


def with_columns(at, *names):
    """The last table that has these columns: a picture's numbers stand above it."""
    return [frame for frame in tables(at) if set(names) <= set(frame.columns)][-1]


def test_what_an_engine_adds_is_a_part_of_the_step(database):
    case = alone_and_pair(database)
    frame = speedup_frames.parts([case]).set_index(["step", "part"])
    for tp, engine, whole in ((1, 0.20, 2.00), (2, 0.25, 2.12)):
        own = frame.loc[f"{case.label} · TP={tp}"]
        assert own["ms"]["an engine's work around the graph"] == pytest.approx(engine)
        assert own["ms"].sum() == pytest.approx(whole)
        assert set(own["whole step (ms)"]) == {whole}
        assert own["ms"]["CPU exposed"] == pytest.approx(0.10)


def test_the_verdict_stands_on_one_graph_a_step_and_tells_the_served_step_too(database):
    alone_and_pair(database)
    words = text_of(at_url())
    assert "TP=2 makes this model's step 4 % longer (1.87 ms a step against 1.80 ms, 0.96×" in words
    assert "an engine's work around the graph adds 0.05 ms beside it." in words
    assert "As an engine drives it, 2.12 ms a step against 2.00 ms (0.94×)." in words


def test_ceilings_hold_for_one_graph_and_for_an_engine(database):
    case = alone_and_pair(database)
    frame = speedup_frames.ceilings([case])
    first, second = frame.to_dict("records")
    assert first["faster CPU at most (x)"] == pytest.approx(1.80 / 1.70)
    assert first["the same, as an engine drives it (x)"] == pytest.approx(2.00 / 1.70)
    assert second["an engine's work (ms)"] == pytest.approx(0.25)
    assert second["better link at most (x)"] == pytest.approx(1 / (1 - 0.38 / 1.87))


def test_the_clock_of_an_engine_can_be_chosen_and_each_panel_says_what_it_is(database):
    alone_and_pair(database)
    at = at_url(clock="wall_served")
    assert not at.exception
    clocks = at.segmented_control(key="clock")
    assert clocks.value == "wall_served"
    assert clocks.options == ["wall clock", "wall clock as an engine drives it", "graph replay"]
    alts = [chart.proto.alt for chart in at.get("vega_lite_chart")]
    assert any("as an engine drives it from 0.94" in alt for alt in alts)
    assert "Step, wall clock as an engine drives it: 2.00 to 2.12 ms over 2 steps" in alts
    words = text_of(at)
    for meaning in (
        "One step in wall clock as an engine drives it: a graph of the layers, and around it pages",
        "One step of the loop in wall clock, the whole step one launch of a CUDA graph",
        "The step's CUDA graph replayed back to back",
    ):
        assert meaning in words


def test_every_clock_stands_in_the_table_of_speedups(database):
    alone_and_pair(database)
    frame = with_columns(at_url(), "efficiency (%)", "clock")
    found = dict(zip(frame["clock"], frame["speedup"], strict=True))
    assert found == {
        "wall clock, one graph a step": pytest.approx(1.80 / 1.87, abs=6e-4),
        "wall clock as an engine drives it": pytest.approx(2.00 / 2.12, abs=6e-4),
        "graph replay": pytest.approx(1.70 / 1.77, abs=6e-4),
    }
    assert (frame["low"] <= frame["speedup"]).all()
    assert (frame["high"] >= frame["speedup"]).all()


def test_a_run_that_has_the_engines_clock_only_is_judged_in_it(database):
    served = {"wall_served": [2.0] * 3}
    alone_and_pair(database, served, {"wall_served": [1.5] * 3})
    at = at_url()
    assert not at.exception
    assert at.segmented_control(key="clock").value == "wall_served"
    words = text_of(at)
    assert "TP=2 makes this model's step 25 % shorter (1.50 ms a step against 2.00 ms" in words


def test_unlike_clocks_give_no_verdict_and_say_why(database):
    alone_and_pair(database, {"wall_graph": [1.8] * 3}, {"wall_eager": [9.0] * 3})
    words = text_of(at_url())
    assert "no verdict, since no clock was read in the same way there and at TP=1" in words
    assert "longer" not in words


def test_two_sizes_are_held_against_each_other_in_a_clock_that_both_have(database):
    both = {"wall_graph": [1.8] * 3, "wall_eager": [8.0] * 3}
    case = alone_and_pair(database, both, {"wall_eager": [9.0] * 3})
    first, second = case.points[1], case.points[2]
    assert [reading.clock for reading in common(first, second, "wall")] == ["wall_eager"] * 2
    assert paired(first, second).alone.wall_ms == 8.0
    frame = speedup_frames.speedups([case], "wall")
    assert frame["speedup"].tolist() == [1.0, pytest.approx(8 / 9)]


def test_fused_and_plain_steps_are_never_compared(database):
    run = decode_run(2, {"wall_graph": [1.0] * 3, "replay": [0.9] * 3}, link="on")
    for row in run.measurements:
        row.definition = row.definition.replace("decode-", "decode-plain-")
    runs.store(database, single())
    runs.store(database, run)
    (case,) = [case for case in build(database) if case.origin == "measured"]
    assert paired(case.points[1], case.points[2]).readings is None
    assert speedup_frames.speedups([case], "wall").empty
    words = text_of(at_url(cases=case.code))
    assert "no verdict" in words
    assert "No case has two TP sizes in wall clock" in words


def test_one_gpu_alone_says_whose_time_a_step_is(database):
    runs.store(database, decode_run(1, GRAPH_1))
    words = text_of(at_url())
    assert (
        "One GPU takes 1.80 ms a step launched as one graph and 2.00 ms as an engine drives it. "
        "The GPU's own work (graph replay) is 1.70 ms, 2.35 times the roofline floor of 0.72 ms, "
        "the CPU adds 0.10 ms, and an engine's work around the graph adds 0.20 ms. A CPU that "
        "costs nothing would give at most 1.06×, 1.18× as an engine drives it."
    ) in words
    assert "No verdict yet: a TP size above 1 is not measured" in words


def test_one_cpu_rank_alone_is_not_called_a_gpu(database):
    spec = {"kind": "decode", "device": "cpu", "tp": 1, "model_name": "small"}
    runs.store(database, decode_run(1, {"wall_eager": [20.0] * 3}, spec=spec))
    words = text_of(at_url())
    assert "One CPU rank takes 20.00 ms a step in wall clock. No graph replay says" in words


def test_cases_of_one_name_are_told_apart(database):
    """Two machines with the same card, or two studies of one machine, are never one line."""
    other = {"hostname": "fedcba9876543210", "gpus": [{"index": 0, "name": "Example GPU"}]}
    runs.store(database, single())
    runs.store(database, single(1.1, host=other))
    runs.store(database, single(1.2, study="a-study"))
    labels = sorted(case.label for case in build(database) if case.origin == "measured")
    plain = "Example GPU · small · batch 1 · KV 1,024"
    assert labels == [
        f"{plain} · a-study",
        f"{plain} · host 012345",
        f"{plain} · host fedcba",
    ]


def test_two_hosts_of_one_card_stand_side_by_side_with_both_ceilings(database):
    other = {"hostname": "fedcba9876543210", "gpus": [{"index": 0, "name": "Example GPU"}]}
    for run in (single(), pair(), single(1.1, host=other), pair(1.1, host=other)):
        runs.store(database, run)
    at = at_url()
    frame = with_columns(at, "apart (%)")
    assert frame["TP"].tolist() == [1, 1, 2, 2]
    assert frame["apart (%)"].tolist() == pytest.approx([10.0] * 4, abs=0.1)
    last = frame.iloc[-1]
    assert last["faster CPU, left (x)"] == pytest.approx(1.87 / 1.77, abs=1e-3)
    assert last["better link, left (x)"] == pytest.approx(1 / (1 - 0.38 / 1.87), abs=1e-3)
    assert "host 012345" in text_of(at)
    assert "host fedcba" in text_of(at)


def test_tokens_a_second_have_intervals_and_a_picture(database):
    runs.store(database, single())
    frame = speedup_frames.steps(
        [case for case in build(database) if case.origin == "measured"], "wall"
    )
    row = frame.iloc[0]
    assert row["tok/s"] == pytest.approx(1000 / 1.80)
    assert row["tok/s low"] == pytest.approx(1000 / row["high (ms)"])
    assert row["tok/s high"] == pytest.approx(1000 / row["low (ms)"])
    at = at_url(show="rate")
    alts = [chart.proto.alt for chart in at.get("vega_lite_chart")]
    assert "Step, wall clock: 556 to 556 tok/s over 1 steps" in alts


def test_the_fit_stays_in_one_clock(database):
    for tp, clocks in (
        (1, {"wall_graph": [8.5] * 3, "replay": [8.0] * 3}),
        (2, {"wall_graph": [4.5] * 3}),
        (4, {"wall_graph": [2.5] * 3}),
    ):
        runs.store(database, decode_run(tp, clocks, link="on" if tp > 1 else None))
    words = text_of(at_url())
    assert "T = A/tp + C in wall clock, one graph a step: A = 8.00 ms divides" in words
    assert "C = 0.50 ms stays (residuals in ms: TP=1 +0.00, TP=2 " in words


@pytest.mark.parametrize(
    ("clock", "published"),
    [("wall", {"1.29", "0.79"}), ("replay", {"1.24", "0.77"})],
)
def test_published_speedups_stand_in_the_table_to_the_printed_digit(database, clock, published):
    frame = speedup_frames.speedups(build(database), clock)
    found = {f"{value:.2f}" for value in frame.loc[frame["TP"] == 2, "speedup"]}
    assert found == published


def test_published_shares_and_ceilings_stand_on_the_page_to_the_printed_digit(database):
    frame = speedup_frames.parts(with_costs(database, runs.version(database), build(database)))
    shares = frame.loc[frame["part"] == "CPU exposed", "ms"]
    assert sorted(f"{value:.2f}" for value in shares) == ["0.01", "0.12", "0.18", "0.19"]
    residuals = frame.loc[frame["part"] == "residual (not explained)", "ms"]
    assert sorted(f"{value:+.2f}" for value in residuals) == ["+0.59", "-0.78"]
    beside = with_columns(at_url(), "apart (%)")
    name = next(column for column in beside if column.startswith("faster CPU") and
                f"{beside[column].iloc[0]:.2f}" == "1.12")  # fmt: skip
    assert [f"{value:.2f}" for value in beside[name]] == ["1.12", "1.12", "1.10", "1.10"]
    link = name.replace("faster CPU", "better link")
    assert f"{beside[link].iloc[-1]:.2f}" == "1.38"


def test_the_promised_band_is_drawn_behind_the_speedups(database):
    cases = build(database)
    frame = speedup_frames.speedups(cases, "wall")
    drawn = pictures.speedup(frame, [case.label for case in cases]).to_dict()
    bands = [layer for layer in drawn["layer"] if layer["mark"]["type"] == "area"]
    assert [
        (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) for band in bands
    ] == [("promised low", "promised high")]
    at_two = frame[frame["TP"] == 2]
    assert set(zip(at_two["promised low"], at_two["promised high"], strict=True)) == {(1.5, 1.8)}
    assert set(at_two["ideal"]) == {2.0}


def test_a_narrower_slot_under_load_is_a_condition_that_explains(database):
    def telemetry(width):
        row = {"t": 1.0, "uuid": "GPU-aaaa", "pcie_gen": 5, "pcie_width": width}
        return [row | {"utilization_pct": 90}, row | {"utilization_pct": 0, "pcie_width": 1}]

    left = runs.store(database, single(), telemetry=telemetry(16))
    right = runs.store(database, single(1.5), telemetry=telemetry(8))
    (said,) = environment_compare.offer(database, left, right)
    assert said.startswith("pcie_width differs (16 against 8). Half the lanes")


def test_a_remark_about_another_load_of_the_run_is_left_out(database):
    texts = (
        "wall_eager, batch 1, KV 1024: the rounds lie 63% apart.",
        "wall_eager, batch 8, KV 1024: the rounds lie 25% apart.",
        "A remark about the run.",
    )
    notices = [Notice(code="spread", text=text) for text in texts]
    runs.store(database, single(warnings=notices))
    words = text_of(at_url())
    assert (
        "Wall clock, launched piece by piece, batch 1, KV 1024: the rounds lie 63% apart" in words
    )
    assert "A remark about the run." in words
    assert "25% apart" not in words
