"""A low, a likely and a high value. Needs numpy alone: importers read catalogues with it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.errors import InvalidSpec

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """Low, likely and high value: a triangular spread, or one value where all are the same.

    Raises:
        InvalidSpec: The three are out of order or not finite.
    """

    low: float
    likely: float
    high: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(v) for v in (self.low, self.likely, self.high)):
            raise InvalidSpec("A range needs three numbers.")
        if not self.low <= self.likely <= self.high:
            raise InvalidSpec(
                f"A range goes up: {self.low:g}, {self.likely:g}, {self.high:g} does not.",
                "Enter the low, the likely and the high value in this order.",
            )

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one value."""
        return self.low == self.high

    def quantile(self, share: ArrayLike) -> FloatArray:
        """Value below which a share of the draws lies, same shape.

        Source: inverse of the triangular distribution function.
        """
        u = np.asarray(share, dtype=float)
        width = self.high - self.low
        if width == 0:
            return np.full(u.shape, self.likely)
        left = self.likely - self.low
        rising = self.low + np.sqrt(np.maximum(u * width * left, 0.0))
        falling = self.high - np.sqrt(np.maximum((1 - u) * width * (width - left), 0.0))
        return np.where(u * width < left, rising, falling)

    def scaled(self, factor: float) -> "Range":
        """The same spread in another unit."""
        ends = sorted((self.low * factor, self.high * factor))
        return Range(ends[0], self.likely * factor, ends[1])


def fixed(value: float) -> Range:
    """A value without spread."""
    return Range(value, value, value)
