"""What measured steps say between and beyond their points: T = A/tp + C, agreement, break-even."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from models.errors import InvalidSpec

# The curve T = A/tp + C describes steps that lie within this share of it.
FITS_WITHIN = 0.05
# Calls x latency and the measured difference agree when they differ by no more than this share.
AGREEMENT = 0.15


@dataclass(frozen=True)
class InverseFit:
    """T(tp) = A / tp + C.

    Attributes:
        shared_ms: A, the time that divides over the GPUs.
        constant_ms: C, what every TP size pays.
        tps: TP sizes of the points.
        measured_ms: Steps of the points.
    """

    shared_ms: float
    constant_ms: float
    tps: tuple[int, ...]
    measured_ms: tuple[float, ...]

    @property
    def residuals_ms(self) -> tuple[float, ...]:
        """Measured minus fitted, in the order of the points, milliseconds."""
        points = zip(self.tps, self.measured_ms, strict=True)
        return tuple(step - self.at(tp) for tp, step in points)

    @property
    def farthest(self) -> tuple[int, float]:
        """The TP size whose step lies farthest off the curve, and its share of the step."""
        shares = zip(self.residuals_ms, self.measured_ms, self.tps, strict=True)
        return max(((tp, gap / step) for gap, step, tp in shares), key=lambda point: abs(point[1]))

    def at(self, tp: float) -> float:
        """The fitted step at a TP size, milliseconds."""
        return self.shared_ms / tp + self.constant_ms


def fit_inverse(tp: Sequence[int], step_ms: Sequence[float]) -> InverseFit | None:
    """Fit T = A/tp + C by least squares.

    Args:
        tp: TP sizes, each at least 1.
        step_ms: Steps, milliseconds, same length.

    Returns:
        The fit, or None below three different sizes: two points always fit and prove nothing.
    """
    if len(set(tp)) < 3:
        return None
    inverse = 1 / np.asarray(tp, dtype=float)
    design = np.stack([inverse, np.ones_like(inverse)], axis=1)
    measured = np.asarray(step_ms, dtype=float)
    (shared, constant), *_ = np.linalg.lstsq(design, measured, rcond=None)
    return InverseFit(float(shared), float(constant), tuple(tp), tuple(step_ms))


@dataclass(frozen=True)
class Agreement:
    """Exposed communication by difference beside calls x latency from an AllReduce sweep."""

    exposed_ms: float
    product_ms: float

    @property
    def ratio(self) -> float:
        """Calls x latency over the difference of the replays: 1 where both agree."""
        return self.product_ms / self.exposed_ms if self.exposed_ms else math.inf

    @property
    def unexplained_ms(self) -> float | None:
        """What calls x latency leaves unexplained; None where both agree within `AGREEMENT`."""
        gap = self.exposed_ms - self.product_ms
        return None if abs(gap) <= AGREEMENT * abs(self.exposed_ms) else gap


@dataclass(frozen=True)
class BreakEven:
    """Where a speedup crosses 1 as the model or the batch grows.

    Attributes:
        at: The crossing, interpolated between two measured points on a log axis.
        below: Measured point on one side.
        above: Measured point on the other side.
        pays_above: Whether TP pays on the larger side.
    """

    at: float
    below: float
    above: float
    pays_above: bool


def break_even(sizes: Sequence[float], speedups: Sequence[float]) -> list[BreakEven]:
    """Every place between two measured points where the speedup crosses 1.

    Args:
        sizes: Parameters or batch sizes, each positive.
        speedups: Speedup at each, same length, each positive.

    Returns:
        Crossings in rising order; empty where all points lie on one side. Never extrapolated.

    Raises:
        InvalidSpec: A size or speedup is not positive, or the lengths differ.
    """
    if len(sizes) != len(speedups) or any(value <= 0 for value in (*sizes, *speedups)):
        raise InvalidSpec("Break-even needs one positive speedup for each positive size.")
    points = sorted(zip(sizes, speedups, strict=True))
    crossings = []
    for (x0, y0), (x1, y1) in pairwise(points):
        low, high = math.log(y0), math.log(y1)
        if x0 == x1 or low == 0 or low * high > 0:  # a point on the line counts once, as an end
            continue
        share = low / (low - high)
        at = math.exp(math.log(x0) + share * (math.log(x1) - math.log(x0)))
        crossings.append(BreakEven(at, x0, x1, pays_above=y1 > y0))
    return crossings
