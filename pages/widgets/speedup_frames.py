"""Cases as tables: what the charts of the Speedup page draw and its downloads hold."""

from collections.abc import Sequence
from functools import lru_cache
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
from models.step_interval import Estimate, speedup_over_rounds
from pages.widgets.badges import plain
from pages.widgets.speedup_cases import Case, Point

PARTS = {
    "compute": "compute per shard",
    "communication": "exposed communication",
    "cpu": "CPU exposed",
    "residual": "residual (not explained)",
}
CLOCKS = {
    "wall": "wall clock",
    "wall_served": "wall clock as an engine drives it",
    "replay": "graph replay",
}


@lru_cache(maxsize=4096)
def gain_of(reference: tuple[float, ...], step: tuple[float, ...]) -> Estimate:
    """`speedup_over_rounds`, worked out once: every redraw compares the same rounds."""
    return speedup_over_rounds(reference, step)


def row_label(case: Case, tp: int) -> str:
    """One step among several cases."""
    return f"{case.label} · TP={tp}"


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
                    "rounds": estimate.n,
                    "roofline floor (ms)": point.floor_ms,
                    "clock": reading.clock,
                    "validity": point.validity,
                    "origin": plain(case.origin),
                    "definition": reading.definition,
                }
            )
    return pd.DataFrame(rows)


def speedups(cases: Sequence[Case], clock: str) -> pd.DataFrame:
    """Speedup over the smallest TP size of each case, its efficiency and the promised band."""
    rows: list[dict[str, Any]] = []
    for case in cases:
        points = [point for _, point in sorted(case.valid.items()) if point.reading(clock)]
        if len(points) < 2:
            continue
        reference = points[0].reading(clock)
        for point in points:
            reading = point.reading(clock)
            if reading is None or reference is None or reading.definition != reference.definition:
                continue
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
                    "clock": CLOCKS[clock],
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
            for part in decompose(times, single.times if single else None):
                rows.append(
                    {
                        "step": row_label(case, tp),
                        "part": PARTS[part.name],
                        "ms": part.ms,
                        "basis": part.basis,
                        "flag": "negative" if part.flagged else "",
                        "whole step (ms)": times.wall_ms or times.replay_ms,
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
            total = times.wall_ms or times.replay_ms
            part = times.communication if tp > 1 else None
            ratio = None
            if total and part is not None and part.ms <= total:
                ratio = link_ceiling(total, part.ms)
            rows.append(
                {
                    "step": row_label(case, tp),
                    "wall (ms)": times.wall_ms,
                    "replay (ms)": times.replay_ms,
                    "CPU exposed (ms)": times.cpu_ms,
                    "communication (ms)": part.ms if part else None,
                    "basis of the communication": part.basis if part else None,
                    "faster CPU at most (x)": cpu_ceiling(times.wall_ms, times.replay_ms)
                    if times.wall_ms and times.replay_ms
                    else None,
                    "better link at most (x)": ratio,
                }
            )
    return pd.DataFrame(rows)


def comparable_pair(cases: Sequence[Case]) -> tuple[Case, Case] | None:
    """The first two cases of one model and load: on two hosts if there are such, else two links."""
    pairs = [
        (left, right)
        for left, right in combinations(cases, 2)
        if (left.model, left.batch, left.kv_len) == (right.model, right.batch, right.kv_len)
        and set(left.valid) & set(right.valid)
    ]
    return min(pairs, key=lambda pair: pair[0].host_id == pair[1].host_id, default=None)


def side_by_side(left: Case, right: Case) -> pd.DataFrame:
    """The same TP on two hosts in both clocks; only numbers of one definition are compared."""
    rows: list[dict[str, Any]] = []
    for tp in sorted(set(left.valid) & set(right.valid)):
        for clock, words in CLOCKS.items():
            mine, other = left.valid[tp].reading(clock), right.valid[tp].reading(clock)
            if mine is None or other is None or mine.definition != other.definition:
                continue
            a, b = mine.estimate.value, other.estimate.value
            rows.append(
                {
                    "TP": tp,
                    "clock": words,
                    "left (ms)": a,
                    "right (ms)": b,
                    "apart (%)": 100 * (max(a, b) / min(a, b) - 1),
                    "faster CPU, left (x)": _cpu(left.valid[tp]),
                    "faster CPU, right (x)": _cpu(right.valid[tp]),
                }
            )
    return pd.DataFrame(rows)


def _cpu(point: Point) -> float | None:
    times = point.times
    if times.wall_ms is None or times.replay_ms is None:
        return None
    return cpu_ceiling(times.wall_ms, times.replay_ms)


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
        alone, here = case.valid[1].reading(clock), case.valid[tp].reading(clock)
        if alone is None or here is None or alone.definition != here.definition:
            continue
        gain = gain_of(alone.rounds, here.rounds)
        rows.append(
            {
                "case": case.label,
                "size": size / 1e9 if by == "model" else size,
                "speedup": gain.value,
                "low": gain.low,
                "high": gain.high,
            }
        )
    frame = pd.DataFrame(rows)
    return frame if frame.empty else frame.sort_values("size")
