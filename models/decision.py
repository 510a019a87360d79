"""Monte Carlo over a purchase: how likely does it pay, when, and how far can it go either way?

Every input has its own stream of uniform draws, derived from the seed and the input's place, so
changing one input moves no other, and alternatives meet the same luck.
"""

from dataclasses import dataclass, field

import numpy as np

from models.cashflow import annuities, discounted, money
from models.economics import FloatArray
from models.purchase import INPUTS, Purchase

DRAWS = 20_000
SEED = 20_260_401
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_FAN_POINTS = 37


@dataclass(frozen=True)
class Outcome:
    """What the draws say.

    Attributes:
        draws: How many.
        p_positive: Share with a net present value above 0.
        p_never: Share that has not paid back at the horizon, resale included.
        npv: P5, P25, P50, P75, P95 of the net present value.
        mean: Its mean.
        fan_months: Months of the fan, first 0, last the horizon.
        fan: The same five shares of the value by each month, shape (5, len(fan_months)).
        payback: Draws that pay back in each month, 0 to the horizon.
        monthly: P10, P50, P90 of the first year's net benefit a month.
        upfront: P10, P50, P90 of what is paid at the start.
        parts: Median of the first year's money a month: served, energy, risk, operations.
        used: Median utilisation of baseline and candidate in the first year.
        values: Net present value of each draw.
        drawn: The draws of each input.
    """

    draws: int
    p_positive: float
    p_never: float
    npv: tuple[float, ...]
    mean: float
    fan_months: tuple[int, ...]
    fan: FloatArray
    payback: tuple[int, ...]
    monthly: tuple[float, float, float]
    upfront: tuple[float, float, float]
    parts: dict[str, float]
    used: tuple[float, float]
    values: FloatArray = field(repr=False)
    drawn: dict[str, FloatArray] = field(repr=False)


def uniforms(n: int, seed: int) -> dict[str, FloatArray]:
    """Uniform draws of every input, shape (n,), open at both ends."""
    return {
        name: np.random.default_rng([seed, place]).uniform(1e-12, 1 - 1e-12, n)
        for place, name in enumerate(INPUTS)
    }


def draw(case: Purchase, n: int, seed: int = SEED) -> dict[str, FloatArray]:
    """A value of every input for each draw.

    Args:
        case: The purchase.
        n: Number of draws.
        seed: Of the generator.

    Returns:
        Name -> values, shape (n,).
    """
    return {name: case.quantile(name, shares) for name, shares in uniforms(n, seed).items()}


def decide(case: Purchase, n: int = DRAWS, seed: int = SEED) -> Outcome:
    """Draw, follow the money, count.

    Args:
        case: The purchase.
        n: Number of draws, at least 100.
        seed: Of the generator: the same seed gives the same figures.

    Returns:
        The outcome.
    """
    drawn = draw(case, n, seed)
    flow = money(case, drawn)
    table, last = annuities(case)
    by_month = discounted(table, flow.yearly) - flow.upfront
    by_month[-1] += last * flow.resale
    values = by_month[-1]
    is_back = by_month >= 0
    has_paid = is_back.any(axis=0)
    counts = np.bincount(is_back.argmax(axis=0)[has_paid], minlength=case.months + 1)
    step = max(1, -(-case.months // (MAX_FAN_POINTS - 1)))
    months = sorted({*range(0, case.months, step), case.months})
    fan = np.quantile(by_month[months], SHARES, axis=1)
    first_year = flow.yearly[0] / 12
    return Outcome(
        draws=n,
        p_positive=float(np.mean(values > 0)),
        p_never=float(1 - has_paid.mean()),
        npv=tuple(float(value) for value in fan[:, -1]),
        mean=float(values.mean()),
        fan_months=tuple(months),
        fan=fan,
        payback=tuple(int(count) for count in counts),
        monthly=_three(first_year),
        upfront=_three(flow.upfront),
        parts={
            "served": float(np.median(flow.served)) / 12,
            "energy": float(np.median(flow.energy)) / 12,
            "risk": -float(np.median(flow.risk)) / 12,
            "operations": -case.operations_a_year / 12,
        },
        used=(float(np.median(flow.used[0])), float(np.median(flow.used[1]))),
        values=values,
        drawn=drawn,
    )


def _three(values: FloatArray) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
    return float(low), float(middle), float(high)


def payback_quantile(outcome: Outcome, share: float) -> int | None:
    """Month by which a share of all draws has paid back; None where so many never do."""
    total = np.cumsum(outcome.payback) / outcome.draws
    reached = np.flatnonzero(total >= share)
    return int(reached[0]) if reached.size else None


def value_of_knowing(
    outcome: Outcome, bins: int = 40, most: int = 6000
) -> tuple[float, dict[str, float]]:
    """What it would be worth to know before buying: everything, and each input alone.

    Args:
        outcome: Draws and their values.
        bins: Bins of equal count over which an input's conditional mean is taken.
        most: Draws that are used: the first ones, enough for a ranking.

    Returns:
        Expected value of perfect information, and the part of each input that has a spread; money
        of today. 0 means that knowing would change no decision.

    Source: E[max(0, V)] - max(0, E[V]); of one input E[max(0, E[V | input])] - max(0, E[V]).
    """
    value = outcome.values[:most]
    now = max(0.0, float(value.mean()))
    everything = float(np.maximum(value, 0).mean()) - now
    usable = value.size // bins * bins
    parts = {}
    for name, drawn in outcome.drawn.items():
        known = drawn[:most]
        if known[0] == known[-1] and np.ptp(known) == 0:
            continue
        order = np.argsort(known, kind="stable")[:usable]
        means = value[order].reshape(bins, -1).mean(axis=1)
        knowing = float(np.maximum(means, 0).mean()) - max(0.0, float(means.mean()))
        parts[name] = max(0.0, min(knowing, everything))
    return everything, parts
