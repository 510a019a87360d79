"""How much of what is asked for a machine can serve, hour by hour.

A day has 24 hourly loads with the same mean; the peak-to-average ratio shapes them. The served
share of a capacity is then a concave, piecewise linear function of demand over capacity, so it is
looked up exactly and costs nothing for twenty thousand draws.
"""

from functools import lru_cache

import numpy as np

from models.economics import FloatArray
from models.errors import InvalidSpec

HOURS = 24
SECONDS_A_DAY = 86_400.0


@lru_cache(maxsize=256)
def hourly_shape(peak_to_average: float) -> tuple[float, ...]:
    """Load of each hour of a day, mean 1, largest ``peak_to_average``.

    Args:
        peak_to_average: 1 (flat) to 24 (everything in one hour).

    Returns:
        24 values, largest first hour.

    Raises:
        InvalidSpec: The ratio lies outside 1 to 24.

    Source: a raised cosine to the power k, k by bisection so that the mean is 1 over the ratio.
    """
    if not 1 <= peak_to_average <= HOURS:
        raise InvalidSpec("Peak over average lies between 1 (flat) and 24 (one hour a day).")
    # never quite 0, or a flat day (k = 0) could not be had from it
    bump = 0.01 + 0.99 * (1 + np.cos(2 * np.pi * np.arange(HOURS) / HOURS)) / 2
    low, high = 0.0, 1.0
    while (bump**high).mean() * peak_to_average > 1 + 1e-12 and high < 1e6:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if (bump**middle).mean() * peak_to_average > 1 else (low, middle)
    load = bump**high
    return tuple(float(value) for value in load / load.mean())


def served_share(demand_over_capacity: FloatArray, peak_to_average: float) -> FloatArray:
    """Share of a capacity that is used: mean over the hours of min(load, 1).

    Args:
        demand_over_capacity: Mean demand over capacity, >= 0, any shape.
        peak_to_average: As in `hourly_shape`.

    Returns:
        0 to 1, same shape.
    """
    ratio, share = _corners(peak_to_average)
    # beyond the last corner every hour with any load is full
    return np.interp(demand_over_capacity, ratio, share)


def served_a_day(
    demand_a_day: FloatArray, tok_s: FloatArray, peak_to_average: float
) -> tuple[FloatArray, FloatArray]:
    """Tokens that a machine serves in a day, and the share of the day it is busy.

    Args:
        demand_a_day: Tokens asked for, >= 0, shape (n,).
        tok_s: Speed, tokens a second, >= 0, shape (n,).
        peak_to_average: As in `hourly_shape`.

    Returns:
        Served tokens a day and utilisation, shape (n,). What is not served in its hour is lost.

    Source: sum over 24 hours of min(demand, capacity).
    """
    capacity = tok_s * SECONDS_A_DAY
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(capacity > 0, demand_a_day / capacity, 0.0)
    used = served_share(ratio, peak_to_average)
    return used * capacity, used


@lru_cache(maxsize=256)
def _corners(peak_to_average: float) -> tuple[FloatArray, FloatArray]:
    load = np.array(hourly_shape(peak_to_average))
    busy = load[load > 1e-9]
    ratio = np.concatenate([[0.0], np.unique(1 / busy)])
    share = np.minimum(ratio[:, None] * load[None, :], 1.0).mean(axis=1)
    return ratio, share
