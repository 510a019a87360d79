"""Clocks of a decode step: words, order, what two steps share, and what one step says alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.definitions import DEFINITIONS, comparable, describe
from models.scaling import StepTimes, decompose
from models.scaling_alone import alone_sentence, served_sentence
from models.scaling_words import verdict
from models.step_clocks import (
    CLOCKS,
    MEASURED,
    WALLS,
    common_wall,
    is_common,
    told,
    wall_of,
    words,
)

GRAPH, SERVED, EAGER = "d:graph:1", "d:served:1", "d:eager:1"
milliseconds = st.floats(0.01, 1000)


def test_each_clock_has_words_and_they_differ() -> None:
    assert MEASURED == (
        "wall_eager", "wall_served", "wall_graph", "replay", "replay_no_allreduce",
    )  # fmt: skip
    for name in ("label", "short", "explained"):
        said = [getattr(clock, name) for clock in CLOCKS.values()]
        assert all(said)
        assert len(set(said)) == len(said)
    assert words("wall_served") == "wall clock as an engine drives it"
    assert words("sundial") == "sundial"
    assert set(WALLS) == {code for code in CLOCKS if code.startswith("wall")}


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (
            "wall_eager, batch 1, KV 1024: the rounds lie 39% apart.",
            "Wall clock, launched piece by piece, batch 1, KV 1024: the rounds lie 39% apart.",
        ),
        (
            "replay, batch 8, KV 1024: the rounds lie 12% apart.",
            "Graph replay, batch 8, KV 1024: the rounds lie 12% apart.",
        ),
        (
            "Round 2: replay_no_allreduce, batch 1, KV 1024: apart.",
            "Round 2: graph replay without all-reduces, batch 1, KV 1024: apart.",
        ),
        (
            "Too slow. wall_graph, batch 1, KV 16: off.",
            "Too slow. Wall clock, one graph a step, batch 1, KV 16: off.",
        ),
        (
            "The run hung at replay (batch 1, KV 16): not done after 30 s.",
            "The run hung at graph replay (batch 1, KV 16): not done after 30 s.",
        ),
        ("wall_served (ms)", "Wall clock as an engine drives it (ms)"),
        ("replay (ms)", "Graph replay (ms)"),
    ],
)
def test_a_remark_names_its_clock_in_words(stored: str, said: str) -> None:
    assert told(stored) == said
    assert told(said) == said


def test_words_that_only_look_like_a_clock_stay() -> None:
    for sentence in ("There is no graph to replay.", "A wall of text, my_wall_eager_file", ""):
        assert told(sentence) == sentence
    assert told(None) == ""


def test_what_the_runner_writes_is_a_definition_of_its_own() -> None:
    names = [f"linkworth:decode-{code.replace('_', '-')}:1" for code in MEASURED]
    plain = [name.replace("decode-", "decode-plain-") for name in names[1:]]
    for name in (*names, *plain):
        assert DEFINITIONS[name].metric == "decode_step"
    assert len({DEFINITIONS[name].group for name in (*names, *plain)}) == 9
    assert comparable(names[1], names[2]) is not None
    assert comparable(names[2], plain[1]) is not None
    assert "not fused" in describe(plain[0])
    assert "pages of the cache" in describe(names[1])


@pytest.mark.parametrize("name", ["wall-served", "plain-wall-served"])
def test_a_served_step_that_writes_its_pages_is_another_quantity(name: str) -> None:
    first, second = (f"linkworth:decode-{name}:{revision}" for revision in (1, 2))
    assert "through the page table by a kernel of its own" in describe(second)
    assert "through the page table" not in describe(first)
    assert "Not the same quantity" in (comparable(first, second) or "")
    assert not is_common("wall_served", [{"wall_served": first}, {"wall_served": second}])


def test_one_graph_a_step_is_the_wall_clock_where_there_is_one() -> None:
    assert wall_of({"replay": "r", "wall_eager": EAGER, "wall_graph": GRAPH}) == "wall_graph"
    assert wall_of({"wall_eager": EAGER, "wall_served": SERVED}) == "wall_served"
    assert wall_of({"replay": "r"}) is None


def test_two_steps_share_a_clock_only_under_one_definition() -> None:
    full = {"wall_graph": GRAPH, "wall_served": SERVED, "wall_eager": EAGER}
    assert common_wall(full, full) == "wall_graph"
    assert common_wall(full, {"wall_graph": "d:plain-graph:1", "wall_eager": EAGER}) == "wall_eager"
    assert common_wall(full, {"wall_graph": "d:plain-graph:1"}) is None
    assert common_wall(full, {}) is None
    assert is_common("wall_served", [full, full])
    assert not is_common("replay", [full, full])


@given(st.integers(1, 16), milliseconds, milliseconds, milliseconds, milliseconds)
def test_parts_with_an_engines_work_add_up_to_the_served_step(
    tp: int, wall: float, replay: float, without: float, served: float
) -> None:
    times = StepTimes(tp, wall_ms=wall, replay_ms=replay, no_allreduce_ms=without, served_ms=served)
    parts = decompose(times)
    assert parts[-1].name == "engine"
    assert sum(part.ms for part in parts) == pytest.approx(served)
    assert all(part.ms >= 0 or part.flagged for part in parts)
    assert times.whole_ms == served


def test_an_engines_work_needs_both_clocks() -> None:
    assert StepTimes(1, served_ms=2.0).engine_ms is None
    assert StepTimes(1, wall_ms=2.0).engine_ms is None
    assert StepTimes(1, wall_ms=2.0, replay_ms=1.9).whole_ms == 2.0
    assert StepTimes(1).whole_ms is None
    assert StepTimes(1, served_ms=2.0).clock_ms("served") == 2.0


def test_what_an_engine_adds_is_a_reason_of_the_verdict() -> None:
    single = StepTimes(1, wall_ms=1.8, replay_ms=1.7, served_ms=2.0)
    pair = StepTimes(2, wall_ms=1.87, replay_ms=1.77, no_allreduce_ms=1.39, served_ms=2.0)
    found = verdict(single, pair)
    assert found is not None
    assert found.reasons[-1] == "an engine's work around the graph saves 0.07 ms beside it"
    assert served_sentence(single, pair) == (
        "As an engine drives it, 2.00 ms a step against 2.00 ms (1.00×)."
    )
    assert served_sentence(StepTimes(1, wall_ms=1.8), pair) is None


def test_a_step_alone_says_whose_time_it_is() -> None:
    whole = StepTimes(1, wall_ms=8.456, replay_ms=8.415, served_ms=8.624)
    assert alone_sentence(whole, "launched as one graph", 6.680) == (
        "One GPU takes 8.46 ms a step launched as one graph and 8.62 ms as an engine drives it. "
        "The GPU's own work (graph replay) is 8.41 ms, 1.26 times the roofline floor of 6.68 ms, "
        "the CPU adds 0.04 ms, and an engine's work around the graph adds 0.17 ms. A CPU that "
        "costs nothing would give at most 1.00×, 1.02× as an engine drives it."
    )
    assert alone_sentence(StepTimes(1)) is None
    assert alone_sentence(StepTimes(1, wall_ms=20.0), who="One CPU rank") == (
        "One CPU rank takes 20.00 ms a step in wall clock. No graph replay says how much of it is "
        "the CPU's."
    )
    assert alone_sentence(StepTimes(1, replay_ms=2.0), floor_ms=1.0) == (
        "One GPU takes 2.00 ms a step in graph replay, 2.00 times the roofline floor of 1.00 ms. "
        "No wall clock says what the CPU adds to it."
    )
    noise = alone_sentence(StepTimes(1, wall_ms=1.9, replay_ms=2.0))
    assert noise is not None
    assert "the CPU reads −0.10 ms, which is noise" in noise
