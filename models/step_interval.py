"""Intervals of a step time and of a speedup; the round is the unit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.comparison import MIN_UNITS, interval, welch
from models.errors import InvalidSpec


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; the ends are None below three rounds."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 1


def over_rounds(values: Sequence[float]) -> Estimate:
    """Median of the rounds with the t interval of their log values.

    Args:
        values: One value a round, each positive.

    Returns:
        The estimate. The interval is widened to hold the median, which it belongs to in the
        reader's eyes.

    Raises:
        InvalidSpec: No round, or a value that is not positive.
    """
    if not values or min(values) <= 0:
        raise InvalidSpec("A step time needs at least one round, and each is positive.")
    middle = float(np.median(values))
    if len(values) < MIN_UNITS:
        return Estimate(middle, n=len(values))
    logs = np.log(np.asarray(values, dtype=float))
    error = logs.std(ddof=1) / np.sqrt(logs.size)
    low, high = interval(*(np.asarray(each) for each in (logs.mean(), error, logs.size - 1)))
    return Estimate(
        middle, min(float(np.exp(low)), middle), max(float(np.exp(high)), middle), len(values)
    )


def speedup_over_rounds(reference: Sequence[float], step: Sequence[float]) -> Estimate:
    """Speedup of the medians with Welch's interval of the log ratio.

    Args:
        reference: Step times of the reference, one a round.
        step: Step times of the arm, one a round.

    Returns:
        The estimate; no interval where either side has fewer than three rounds.

    Raises:
        InvalidSpec: As `over_rounds`.
    """
    alone, here = over_rounds(reference), over_rounds(step)
    value = alone.value / here.value
    n = min(alone.n, here.n)
    if n < MIN_UNITS:
        return Estimate(value, n=n)
    logs = (np.log(np.asarray(rounds, dtype=float)) for rounds in (step, reference))
    low, high = interval(*welch(*logs))
    return Estimate(value, min(float(np.exp(low)), value), max(float(np.exp(high)), value), n)
