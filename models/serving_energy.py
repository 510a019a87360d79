"""Energy, clocks and foreign load of one round, from the telemetry taken beside it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Energy:
    """What the GPUs used in a window.

    Attributes:
        joules: Sum over the GPUs.
        method: ``counter`` (the cards' own energy counters) or ``power`` (trapezoid).
    """

    joules: float
    method: str


def by_gpu(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Telemetry rows of each GPU, by UUID, in the order taken."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.get("uuid"):
            found[str(row["uuid"])].append(row)
    return dict(found)


def energy(rows: Sequence[Row], begin: float, end: float) -> Energy | None:
    """Energy of all GPUs between two moments.

    Args:
        rows: Samples with ``t`` (epoch seconds), ``uuid``, and ``energy_mj`` (millijoules since
            the driver's start) or ``power_w``.
        begin: Start of the window, epoch seconds.
        end: Its end.

    Returns:
        Joules, from the counters where every GPU has one, else from the power; None where a GPU
        has neither, or its samples do not reach over the window.
    """
    gpus = by_gpu(rows)
    if not gpus or end <= begin:
        return None
    counted = [_counter_joules(samples, begin, end) for samples in gpus.values()]
    known = [value for value in counted if value is not None]
    if len(known) == len(counted):
        return Energy(sum(known), "counter")
    integrated = [_power_joules(samples, begin, end) for samples in gpus.values()]
    known = [value for value in integrated if value is not None]
    if len(known) == len(integrated):
        return Energy(sum(known), "power")
    return None


def _series(samples: Sequence[Row], name: str) -> tuple[list[float], list[float]]:
    pairs = [(float(row["t"]), float(row[name])) for row in samples if row.get(name) is not None]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _counter_joules(samples: Sequence[Row], begin: float, end: float) -> float | None:
    times, values = _series(samples, "energy_mj")
    if len(times) < 2 or times[0] > begin or times[-1] < end:
        return None
    first, last = np.interp([begin, end], times, values)
    # a counter that stands still on a working card does not count
    return float(last - first) / 1000 if last > first else None


def _power_joules(samples: Sequence[Row], begin: float, end: float) -> float | None:
    times, values = _series(samples, "power_w")
    if len(times) < 2 or times[0] > begin or times[-1] < end:
        return None
    inside = [t for t in times if begin < t < end]
    grid = np.array([begin, *inside, end])
    watts = np.interp(grid, times, values)
    return float(((watts[1:] + watts[:-1]) / 2 * np.diff(grid)).sum())


def median_in(rows: Sequence[Row], name: str, begin: float, end: float) -> dict[str, float]:
    """Median of one telemetry value of each GPU within a window; silent GPUs are absent."""
    out: dict[str, float] = {}
    for uuid, samples in by_gpu(rows).items():
        times, values = _series(samples, name)
        inside = [value for t, value in zip(times, values, strict=True) if begin <= t <= end]
        if inside:
            out[uuid] = float(np.median(inside))
    return out


def foreign_load_pct(rows: Sequence[Row], begin: float, end: float) -> float | None:
    """Share of the host's processor time that other programs used within a window.

    Args:
        rows: Samples with ``t``, ``cpu_busy_s``, ``cpu_total_s`` (of the host, running sums) and
            ``cpu_own_s`` (of the processes under test).
        begin: Start of the window, epoch seconds.
        end: Its end.

    Returns:
        Percent, or None where the samples do not reach over the window.
    """
    samples = [row for row in rows if row.get("cpu_total_s") is not None]
    times = [float(row["t"]) for row in samples]
    if len(times) < 2 or times[0] > begin or times[-1] < end:
        return None
    grown = {}
    for name in ("cpu_busy_s", "cpu_total_s", "cpu_own_s"):
        values = [float(row[name]) for row in samples]
        first, last = np.interp([begin, end], times, values)
        grown[name] = float(last - first)
    if grown["cpu_total_s"] <= 0:
        return None
    foreign = grown["cpu_busy_s"] - grown["cpu_own_s"]
    return max(0.0, min(100.0, foreign / grown["cpu_total_s"] * 100))
