"""Which input decides: swings, break-evens, and how much more evidence would settle it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from models.cashflow import net_value
from models.demand import SECONDS_A_DAY, served_share
from models.economics import FloatArray
from models.gain import MAX_LOG_RATIO, MIN_ROUNDS, Gain
from models.purchase import INPUTS, Purchase
from models.risk import HOURS_A_YEAR, ZERO_FAILURE_FACTOR

_GRID = 801
MAX_ROUNDS = 1000


@dataclass(frozen=True)
class Swing:
    """What one input alone does to the net present value.

    Attributes:
        name: The input.
        low: Its P10.
        high: Its P90.
        npv_low: Value with the input at its P10 and all others at their medians.
        npv_high: Value at its P90.
    """

    name: str
    low: float
    high: float
    npv_low: float
    npv_high: float

    @property
    def size(self) -> float:
        """Distance between the two values."""
        return abs(self.npv_high - self.npv_low)

    @property
    def best(self) -> float:
        """The better of the two values."""
        return max(self.npv_low, self.npv_high)


def at_medians(case: Purchase, changed: Mapping[str, FloatArray]) -> FloatArray:
    """Net present value of the typical case with some inputs changed.

    Args:
        case: The purchase.
        changed: Name -> values, shape (k,) each.

    Returns:
        Values, shape (k,).
    """
    size = next((values.size for values in changed.values()), 1)
    drawn = {name: np.full(size, value) for name, value in case.medians().items()}
    return net_value(case, drawn | dict(changed))


def tornado(case: Purchase) -> list[Swing]:
    """Each uncertain input from its P10 to its P90, the others at their medians, largest first.

    Inputs that change nothing are left out.
    """
    middle = case.medians()
    ends = {name: case.quantile(name, np.array([0.1, 0.9])) for name in INPUTS}
    moving = [name for name in INPUTS if ends[name][0] != ends[name][1]]
    size = 2 * len(moving)
    if not size:
        return []
    drawn = {name: np.full(size, middle[name]) for name in INPUTS}
    for place, name in enumerate(moving):
        drawn[name][2 * place : 2 * place + 2] = ends[name]
    values = net_value(case, drawn).reshape(-1, 2)
    swings = [
        Swing(name, float(ends[name][0]), float(ends[name][1]), float(low), float(high))
        for name, (low, high) in zip(moving, values, strict=True)
    ]
    shown = [swing for swing in swings if swing.size > 1e-9]
    return sorted(shown, key=lambda swing: swing.size, reverse=True)


def break_even(case: Purchase, name: str) -> float | None:
    """Value of one input at which the typical case is worth exactly 0.

    Args:
        case: The purchase; all other inputs at their medians.
        name: The input.

    Returns:
        The value nearest to the input's median where there are several; None where no value of the
        input does it.
    """
    middle = case.medians()[name]
    grid = _domain(case, name, middle)
    values = at_medians(case, {name: grid})
    turns = np.flatnonzero(np.diff(np.signbit(values)))
    if not turns.size:
        return None
    nearest = turns[np.argmin(np.abs(grid[turns] - middle))]
    fine = np.linspace(grid[nearest], grid[nearest + 1], _GRID)
    exact = at_medians(case, {name: fine})
    turn = int(np.flatnonzero(np.diff(np.signbit(exact)))[0])
    step = exact[turn + 1] - exact[turn]
    share = -exact[turn] / step if step else 0.0
    return float(fine[turn] + share * (fine[turn + 1] - fine[turn]))


def _domain(case: Purchase, name: str, middle: float) -> FloatArray:
    """Where a break-even is looked for: from nothing to far beyond anything usual."""
    if name == "gain":
        return np.expm1(np.linspace(-MAX_LOG_RATIO, MAX_LOG_RATIO, _GRID))
    if name == "resale":
        return np.linspace(0.0, 1.0, _GRID)
    if name == "rate_added":
        least = min(0.0, float(case.quantile(name, np.array([0.05]))[0]))
        below = np.linspace(least, 0.0, _GRID)[:-1] if least < 0 else np.zeros(0)
        return np.concatenate([below, [0.0], np.geomspace(1e-6, 1e3, 2 * _GRID)])
    if name == "demand":
        most = 30 * max(case.base_tok_s * SECONDS_A_DAY, case.demand.high, 1.0)
        return np.concatenate([[0.0], np.geomspace(most * 1e-7, most, 2 * _GRID)])
    most = 1e4 * max(middle, float(case.quantile(name, np.array([0.9]))[0]), 1.0)
    return np.concatenate([[0.0], np.geomspace(most * 1e-9, most, 2 * _GRID)])


def utilisation_at(case: Purchase, demand: float) -> float:
    """Share of the day that the baseline is busy at a demand."""
    capacity = case.base_tok_s * SECONDS_A_DAY
    if capacity <= 0:
        return 0.0
    return float(served_share(np.array([demand / capacity]), case.peak_to_average)[0])


def rounds_to_decide(
    gain: Gain, needed_gain: float | None, *, low: float = 0.2, high: float = 0.8
) -> int | None:
    """Rounds an arm after which the gain lies on one side of what is needed.

    Args:
        gain: As far as it is known.
        needed_gain: Break-even gain, a share; None where no gain pays.
        low: Probability under which it counts as not reached.
        high: Probability over which it counts as reached.

    Returns:
        Rounds an arm in all, at least 3; None where no practical number would do, or where nobody
        measured so that the spread of a round is not known.

    Source: the t posterior at the same centre and spread, solved by going up in n.
    """
    if needed_gain is None or gain.kind not in ("rounds", "few_rounds"):
        return None
    distance = gain.centre - math.log1p(max(needed_gain, -0.999))
    spread = gain.error * math.sqrt(max(gain.rounds, 1))
    n = np.arange(MIN_ROUNDS, MAX_ROUNDS + 1)
    if spread <= 0:
        return MIN_ROUNDS
    chance = special.stdtr((1 if gain.is_paired else 2) * (n - 1), distance * np.sqrt(n) / spread)
    enough = np.flatnonzero((chance >= high) | (chance <= low))
    return int(n[enough[0]]) if enough.size else None


def soak_hours_to_decide(needed_rate_a_year: float | None, seen_hours: float) -> float | None:
    """Further clean hours that would show that failures stay under what the purchase bears.

    Args:
        needed_rate_a_year: Break-even of the added failures a year; None where none exists.
        seen_hours: Hours watched so far.

    Returns:
        Hours; None where the break-even is not above 0.

    Source: T = 2.996 / rate at 95 %.
    """
    if needed_rate_a_year is None or needed_rate_a_year <= 0:
        return None
    return max(0.0, ZERO_FAILURE_FACTOR * HOURS_A_YEAR / needed_rate_a_year - seen_hours)
