"""What is not known exactly: ranges, times to repair, failure rates, gains.

Each spread is known by its quantile function, so the same uniform draws give the same scenario to
every alternative (common random numbers), and P10 and P90 are exact.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from models.economics import FloatArray
from models.errors import InvalidSpec

_P90_Z = float(special.ndtri(0.9))
# the grid on which a Gamma's cube root is looked up: nearly a straight line in z (Wilson-Hilferty)
_Z = np.linspace(-6.0, 6.0, 769)
_Z.setflags(write=False)


@dataclass(frozen=True)
class LogNormal:
    """A time or cost that is sometimes much longer than usual: median and P90, both > 0.

    Raises:
        InvalidSpec: The P90 lies below the median, or the median is negative.
    """

    median: float
    p90: float

    def __post_init__(self) -> None:
        if not 0 <= self.median <= self.p90 < math.inf:
            raise InvalidSpec(
                "The time that one in ten exceeds lies above the usual time, and both above 0."
            )

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one value."""
        return self.median == self.p90 or self.median == 0

    def quantile(self, share: ArrayLike) -> FloatArray:
        """Value below which a share of the draws lies, same shape."""
        u = np.asarray(share, dtype=float)
        if self.is_fixed:
            return np.full(u.shape, self.median)
        sigma = math.log(self.p90 / self.median) / _P90_Z
        return self.median * np.exp(sigma * special.ndtri(u))


def gamma_quantile(share: ArrayLike, shape: float, rate: float) -> FloatArray:
    """Quantiles of a Gamma distribution.

    Args:
        share: Shares, any shape.
        shape: a > 0.
        rate: b > 0, in the inverse unit of the result.

    Returns:
        Same shape; 0 where a is 0.

    Raises:
        InvalidSpec: Negative shape, or a rate that is not positive.

    Source: exact quantiles (scipy) at 769 points, between them its cube root, which is nearly
        linear in the normal quantile (Wilson and Hilferty); error under 0.2 % from a = 0.3 up.
    """
    if shape < 0 or not rate > 0:
        raise InvalidSpec("A failure rate needs hours that were watched, or a prior.")
    u = np.asarray(share, dtype=float)
    if shape == 0:
        return np.zeros(u.shape)
    if u.size < _Z.size:
        return np.asarray(special.gammaincinv(shape, u) / rate)
    return np.asarray(np.interp(special.ndtri(u), _Z, _cube_roots(shape)) ** 3 / rate)


@lru_cache(maxsize=64)
def _cube_roots(shape: float) -> FloatArray:
    return np.asarray(np.cbrt(special.gammaincinv(shape, special.ndtr(_Z))))
