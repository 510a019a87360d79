"""Cases as tables: what the charts of the Speedup page draw and its downloads hold."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from models.scaling import (
    cpu_ceiling,
    decompose,
    efficiency,
    link_ceiling,
    promised_band,
)
from models.step_clocks import WALLS, words
from pages.widgets.badges import plain
from pages.widgets.speedup_cases import SERVED, Case, Point
from pages.widgets.speedup_pairs import common, gain_of, paired

PARTS = {
    "compute": "compute per shard",
    "communication": "exposed communication",
    "cpu": "CPU exposed",
    "engine": "an engine's work around the graph",
    "residual": "residual (not explained)",
}
CLOCKS = {clock: words(clock) for clock in ("wall", SERVED, "replay")}


def clocks_of(cases: Sequence[Case]) -> dict[str, str]:
    """Code and words of the clocks that any of these cases was read in."""
    points = [point for case in cases for point in case.points.values()]
    return {
        clock: said
        for clock, said in CLOCKS.items()
        if any(point.reading(clock) is not None for point in points)
    }


def row_label(case: Case, tp: int) -> str:
    """One step among several cases."""
    return f"{case.label} · TP={tp}"


def short_names(cases: Sequence[Case]) -> dict[str, str]:
    """Label -> what tells a case from the others: for pictures, where a long name is cut.

    The study stands in all names where there are several, in none where all are of one. A name
    that is nothing but what all share stays whole.
    """
    several = len({case.study for case in cases}) > 1
    parts: dict[str, list[str]] = {}
    for case in cases:
        study = [case.study] if several and case.study else []
        parts[case.label] = [word for word in case.label.split(" · ") if word != case.study] + study
    shared = set.intersection(*(set(words) for words in parts.values()))
    return {
        label: " · ".join(word for word in own if word not in shared) or label
        for label, own in parts.items()
    }


def short_rows(cases: Sequence[Case]) -> dict[str, str]:
    """`row_label` -> the same with its case's short name."""
    short = short_names(cases)
    return {
        row_label(case, tp): f"{short[case.label]} · TP={tp}"
        for case in cases
        for tp in case.points
    }


def steps(cases: Sequence[Case], clock: str) -> pd.DataFrame:
    """Step time and tok/s of every case and TP size in one clock."""
    rows: list[dict[str, Any]] = []
    for case in cases:
        for tp, point in sorted(case.points.items()):
            reading = point.reading(clock)
            if reading is None:
                continue
            estimate = reading.estimate
            rows.append(
                {
                    "case": case.label,
                    "TP": tp,
                    "step (ms)": estimate.value,
                    "low (ms)": estimate.low,
                    "high (ms)": estimate.high,
                    "tok/s": case.batch / estimate.value * 1e3,
                    "tok/s low": _rate(case, estimate.high),
                    "tok/s high": _rate(case, estimate.low),
                    "rounds": estimate.n,
                    "roofline floor (ms)": point.floor_ms,
                    "clock": words(reading.clock),
                    "validity": point.validity,
                    "origin": plain(case.origin),
                    "definition": reading.definition,
                }
            )
    return pd.DataFrame(rows)


def _rate(case: Case, step_ms: float | None) -> float | None:
    """Tokens a second of all sequences at a step time."""
    return None if step_ms is None else case.batch / step_ms * 1e3


def speedups(cases: Sequence[Case], clock: str) -> pd.DataFrame:
    """Speedup over the smallest TP size of each case, its efficiency and the promised band."""
    rows: list[dict[str, Any]] = []
    for case in cases:
        points = [point for _, point in sorted(case.valid.items()) if point.reading(clock)]
        found = [(point, common(points[0], point, clock)) for point in points]
        compared = [(point, both) for point, both in found if both is not None]
        if len(compared) < 2:
            continue
        for point, (reference, reading) in compared:
            gain = gain_of(reference.rounds, reading.rounds)
            is_reference = point is points[0]
            low, high = promised_band(point.tp, points[0].tp)
            rows.append(
                {
                    "case": case.label,
                    "TP": point.tp,
                    "reference TP": points[0].tp,
                    "speedup": gain.value,
                    "low": None if is_reference else gain.low,
                    "high": None if is_reference else gain.high,
                    "efficiency (%)": 100 * efficiency(gain.value, point.tp, points[0].tp),
                    "ideal": point.tp / points[0].tp,
                    "promised low": low,
                    "promised high": high,
                    "clock": words(reading.clock),
                    "origin": plain(case.origin),
                }
            )
    return pd.DataFrame(rows)


def parts(cases: Sequence[Case]) -> pd.DataFrame:
    """Every step split into its parts, negative ones flagged."""
    rows: list[dict[str, Any]] = []
    for case in cases:
        single = case.valid.get(1)
        for tp, point in sorted(case.valid.items()):
            times = point.times
            for part in decompose(times, paired(single, point).alone if single else None):
                rows.append(
                    {
                        "step": row_label(case, tp),
                        "part": PARTS[part.name],
                        "ms": part.ms,
                        "basis": part.basis,
                        "flag": "negative" if part.flagged else "",
                        "whole step (ms)": times.whole_ms,
                        "roofline floor (ms)": point.floor_ms,
                    }
                )
    return pd.DataFrame(rows)


def ceilings(cases: Sequence[Case]) -> pd.DataFrame:
    """What a better link and a faster CPU could gain at most, each step."""
    rows: list[dict[str, Any]] = []
    for case in cases:
        for tp, point in sorted(case.valid.items()):
            times = point.times
            part = times.communication if tp > 1 else None
            rows.append(
                {
                    "step": row_label(case, tp),
                    "wall (ms)": times.wall_ms,
                    "replay (ms)": times.replay_ms,
                    "as an engine drives it (ms)": times.served_ms,
                    "CPU exposed (ms)": times.cpu_ms,
                    "an engine's work (ms)": times.engine_ms,
                    "communication (ms)": part.ms if part else None,
                    "basis of the communication": part.basis if part else None,
                    "faster CPU at most (x)": _cpu(times.wall_ms, times.replay_ms),
                    "the same, as an engine drives it (x)": _cpu(times.served_ms, times.replay_ms),
                    "better link at most (x)": link_ratio(point),
                }
            )
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def link_ratio(point: Point) -> float | None:
    """What a link without cost could gain at most in a step; None where that is not known."""
    times = point.times
    total = times.wall_ms if times.wall_ms is not None else times.replay_ms
    part = times.communication if times.tp > 1 else None
    if total is None or part is None or part.ms > total:
        return None
    return link_ceiling(total, part.ms)


def _cpu(wall_ms: float | None, replay_ms: float | None) -> float | None:
    """What a CPU without cost could gain at most; None where one of the clocks is not known."""
    return None if wall_ms is None or replay_ms is None else cpu_ceiling(wall_ms, replay_ms)


def longest_series(case: Case) -> tuple[str, dict[int, float]]:
    """Steps of as many TP sizes as one clock was read at in one way; a replay before a wall clock.

    Returns:
        The clock's code, and TP size -> milliseconds.
    """
    series: dict[tuple[str, str], dict[int, float]] = {}
    for clock in ("replay", *WALLS):
        for tp, point in case.valid.items():
            reading = point.readings.get(clock)
            if reading is not None:
                own = series.setdefault((clock, reading.definition), {})
                own[tp] = reading.estimate.value
    if not series:
        return "", {}
    clock, definition = max(series, key=lambda key: len(series[key]))
    return clock, series[clock, definition]


def comparable_pairs(cases: Sequence[Case]) -> list[tuple[Case, Case]]:
    """Two cases each of one model and load: those on two hosts first, then two links of one."""
    pairs = [
        (left, right)
        for left, right in combinations(cases, 2)
        if (left.model, left.batch, left.kv_len) == (right.model, right.batch, right.kv_len)
        and set(left.valid) & set(right.valid)
    ]
    return sorted(pairs, key=lambda pair: pair[0].host_id == pair[1].host_id)


def side_by_side(left: Case, right: Case) -> pd.DataFrame:
    """The same TP on two hosts in each clock, with the ceilings of CPU and link beside each other.

    Only numbers of one definition are compared.
    """
    rows: list[dict[str, Any]] = []
    for tp in sorted(set(left.valid) & set(right.valid)):
        points = left.valid[tp], right.valid[tp]
        if points[0].run_id == points[1].run_id:
            continue  # the single GPU that two link arms share
        pair = paired(*points)
        for clock in CLOCKS:
            both = common(*points, clock)
            if both is None:
                continue
            a, b = (reading.estimate.value for reading in both)
            rows.append(
                {
                    "TP": tp,
                    "clock": words(both[0].clock),
                    "left (ms)": a,
                    "right (ms)": b,
                    "apart (%)": 100 * (max(a, b) / min(a, b) - 1),
                    "faster CPU, left (x)": _cpu(pair.alone.wall_ms, pair.alone.replay_ms),
                    "faster CPU, right (x)": _cpu(pair.here.wall_ms, pair.here.replay_ms),
                    "better link, left (x)": link_ratio(points[0]),
                    "better link, right (x)": link_ratio(points[1]),
                }
            )
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def sweep(cases: Sequence[Case], chosen: Case, tp: int, by: str, clock: str) -> pd.DataFrame:
    """Speedup at one TP size over model sizes or batches measured on the chosen case's host.

    Args:
        cases: All cases.
        chosen: Fixes host, study, link and the quantity that does not vary.
        tp: The TP size.
        by: ``model`` (parameters) or ``batch``.
        clock: ``wall`` or ``replay``.
    """
    rows: list[dict[str, Any]] = []
    for case in cases:
        same = (case.host_id, case.study, case.link, case.kv_len) == (
            chosen.host_id,
            chosen.study,
            chosen.link,
            chosen.kv_len,
        )
        fixed = case.batch == chosen.batch if by == "model" else case.model == chosen.model
        size = case.parameters if by == "model" else case.batch
        if not same or not fixed or size is None or not {1, tp} <= set(case.valid):
            continue
        both = common(case.valid[1], case.valid[tp], clock)
        if both is None:
            continue
        gain = gain_of(both[0].rounds, both[1].rounds)
        rows.append(
            {
                "case": case.label,
                "TP": tp,
                "size": size / 1e9 if by == "model" else size,
                "speedup": gain.value,
                "low": gain.low,
                "high": gain.high,
            }
        )
    frame = pd.DataFrame(rows)
    return frame if frame.empty else frame.sort_values("size")
