"""What the Speedup page says first of a case: does TP pay, why, what could still be gained."""

import re
from collections.abc import Sequence

import streamlit as st

from models.scaling_alone import alone_sentence, served_sentence
from models.scaling_ladder import ladder_sentence
from models.scaling_words import ceiling_sentence, ideal_words, verdict
from models.step_clocks import told, wall_of
from models.step_clocks import words as clock_words
from pages.widgets import finding
from pages.widgets.badges import badge
from pages.widgets.plain import plain
from pages.widgets.speedup_cases import Case, Point
from pages.widgets.speedup_pairs import gain_of, ladder, paired

# the load that a runner's remark is about
_LOAD = re.compile(r"[Bb]atch (\d+), KV (\d+)")
# how a wall clock was driven, to be read after a time
_DRIVEN = {
    "wall_graph": "launched as one graph",
    "wall_served": "as an engine drives it",
    "wall_eager": "launched piece by piece",
}


def verdicts(cases: Sequence[Case]) -> None:
    """One sentence a case and TP size, with its reasons and ceilings."""
    for case in cases:
        finding.say(f"**{plain(case.label)}**  {badge(case.origin)}")
        points = [point for _, point in sorted(case.valid.items())]
        if len(points) < 2:
            _one_size(case, points)
        judged = [_judged(case, points[0], point) for point in points[1:]]
        if said := _sizes(case, points):
            finding.say(f"- {plain(said, 2000)}")
            with st.expander(f"Each of them against TP={points[0].tp}, and why"):
                _say(judged)
        else:
            _say(judged)
        for notice, tps in _notes(case).items():
            where = "" if len(tps) == len(case.points) else f"TP={', '.join(map(str, tps))}. "
            finding.caption(f"⚠ {where}{plain(told(notice), 1000)}")


def _say(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        finding.say(f"- {plain(sentence, 2000)}")


def _one_size(case: Case, points: Sequence[Point]) -> None:
    """What a case without a second TP size says, and what it lacks."""
    if points and points[0].tp == 1 and (said := _alone(case, points[0])):
        finding.say(f"- {plain(said, 2000)}")
    missing = "a TP size above 1" if points and points[0].tp == 1 else "a second TP size"
    finding.caption(f"No verdict yet: {missing} is not measured for this case.")


def _sizes(case: Case, points: Sequence[Point]) -> str | None:
    """Which of three or more TP sizes is the fastest, and under which conditions."""
    clock, rungs = ladder(points)
    n_rounds = min((rung.gain.n for rung in rungs), default=0)
    rounds = (
        "one round each, direction only" if n_rounds == 1 else f"at least {n_rounds} rounds each"
    )
    load = [f"batch {case.batch}", *([f"KV {case.kv_len:,}"] if case.kv_len else [])]
    load += [f"link {case.link}"] if case.link else []
    return ladder_sentence(rungs, f"In {clock_words(clock)}; {', '.join(load)}; {rounds}.")


def _alone(case: Case, point: Point) -> str | None:
    """What a step at TP=1 says by itself."""
    if case.is_cpu:
        return alone_sentence(point.times, "in wall clock", who="One CPU rank")
    wall = wall_of(point.definitions) or ""
    return alone_sentence(point.times, _DRIVEN.get(wall, "in wall clock"), point.floor_ms)


def _judged(case: Case, reference: Point, point: Point) -> str:
    """Whether a TP size pays, why, and what a better CPU or link could still give."""
    pair = paired(reference, point)
    if pair.readings is None:
        return (
            f"TP={point.tp}: no verdict, since no clock was read in the same way there and at "
            f"TP={reference.tp}."
        )
    gain = gain_of(*(reading.rounds for reading in pair.readings))
    interval = None if gain.low is None or gain.high is None else (gain.low, gain.high)
    found = verdict(pair.alone, pair.here, f"On {case.host}", interval)
    said = [found.sentence] if found else []
    said.append(f"That is {ideal_words(gain.value, point.tp, reference.tp)}.")
    if interval is None:
        said.append("Fewer than three rounds: direction only, no interval.")
    said += [served_sentence(pair.alone, pair.here), ceiling_sentence(point.times)]
    return " ".join(part for part in said if part)


def _notes(case: Case) -> dict[str, list[int]]:
    """What its runs say that is to be known -> the TP sizes that say so."""
    found: dict[str, list[int]] = {}
    for tp, point in sorted(case.points.items()):
        for text in dict.fromkeys(point.notes):
            if _concerns(text, case):
                found.setdefault(text, []).append(tp)
    return found


def _concerns(notice: str, case: Case) -> bool:
    """Whether a run's remark is about this case: one that names another load is not."""
    load = _LOAD.search(notice)
    return load is None or (int(load[1]), int(load[2])) == (case.batch, case.kv_len)
