"""What an all-reduce sweep says: fixed cost, bandwidth, kinks, cost of a step, in numbers.

A decode step sends small messages whose latency hardly depends on their size, so the fixed cost
(alpha) decides; prefill sends large ones, where the bandwidth (beta) does. Both are read from one
curve of latency against size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from models.curve import (
    Curve,
    algbw_gbps,
    allreduce_us,
    busbw_gbps,
    crossover_bytes,
    interpolate_us,
    latency_share,
    make_curve,
    size_words,
    step_cost_ms,
)
from models.errors import InvalidSpec
from models.fit import FloatArray, fit_lines, pieces

__all__ = [
    "Curve",
    "Fit",
    "Interval",
    "Kink",
    "Piece",
    "algbw_gbps",
    "allreduce_us",
    "bootstrap",
    "busbw_gbps",
    "crossover_bytes",
    "fit_curve",
    "interpolate_us",
    "latency_share",
    "make_curve",
    "size_words",
    "step_cost_ms",
]

ALPHA_MAX_BYTES = 256 * 1024  # alpha is read from sizes up to here
BETA_MAX_BYTES = 64 * 1024**2  # beta from sizes up to here, where no kink lies between
FLOOR_MAX_BYTES = 8 * 1024  # the median up to here is alpha without a model
LARGE_MIN_BYTES = 8 * 1024**2  # the bandwidth of prefill's messages is read from here up
MIN_SIZES = 4
# Below this share of the largest message's time the slope is noise, and beta is not reported.
LEAST_TRANSFER_SHARE = 0.05

Interval = tuple[float, float]


@dataclass(frozen=True)
class Piece:
    """One straight stretch of a curve: latency = alpha + bytes / beta between two sizes."""

    first_bytes: int
    last_bytes: int
    alpha_us: float
    beta_gbps: float | None


@dataclass(frozen=True)
class Kink:
    """A place between two sizes where the library changes protocol: no line goes through it.

    Attributes:
        below_bytes: Last size before.
        above_bytes: First size after.
        jump_pct: How far the line after lies above the line before, halfway between, percent.
    """

    below_bytes: int
    above_bytes: int
    jump_pct: float


@dataclass(frozen=True)
class Fit:
    """What a curve says.

    Attributes:
        alpha_us: Fixed cost from the fit of small sizes, microseconds.
        beta_gbps: Bandwidth from the first stretch, GB/s; None where transfer never shows in it.
        floor_us: Median latency up to 8 KB, microseconds: alpha without a model.
        large_gbps: Bandwidth from 8 MB up, GB/s; None with fewer than three such sizes.
        pieces: The straight stretches, in order of size.
        kinks: Where one stretch ends and the next begins.
        residual_pct: Measured over fitted minus 1 for each size, percent, shape (k,).
        alpha_interval: 95 % bootstrap interval of alpha, None without samples.
        beta_interval: The same for beta.
        crossover_interval: The same for the crossover, bytes.
    """

    alpha_us: float
    beta_gbps: float | None
    floor_us: float | None
    large_gbps: float | None
    pieces: tuple[Piece, ...]
    kinks: tuple[Kink, ...]
    residual_pct: FloatArray
    alpha_interval: Interval | None = None
    beta_interval: Interval | None = None
    crossover_interval: Interval | None = None

    @property
    def crossover_bytes(self) -> float | None:
        """Size at which transfer takes as long as the fixed cost; None where beta is unknown."""
        return None if self.beta_gbps is None else crossover_bytes(self.alpha_us, self.beta_gbps)


def fit_curve(curve: Curve) -> Fit:
    """Read fixed cost, bandwidths, kinks and residuals from a curve.

    Args:
        curve: At least four sizes.

    Returns:
        The fit, without intervals (see `bootstrap`).

    Raises:
        InvalidSpec: Fewer than four sizes.

    Source: soft-L1 fit of log latency; alpha from sizes up to 256 KB, beta from sizes up to 64 MB,
        both only as far as no kink lies between; bandwidth for prefill from 8 MB up.
    """
    x, y = curve.message_bytes, curve.latency_us
    if x.size < MIN_SIZES:
        raise InvalidSpec(
            f"A fit needs at least {MIN_SIZES} message sizes; this run has {x.size}.",
            "Run a sweep over the default sizes.",
        )
    spans = pieces(x, y)
    alpha, beta = _first_piece(x, y[None, :], spans[0])
    parts = [Piece(int(x[0]), int(x[spans[0][1] - 1]), float(alpha[0]), _known(beta[0]))]
    for start, end in spans[1:]:
        line = fit_lines(x[start:end], y[None, start:end])
        slope = _beta(line.us_per_byte, line.alpha_us, x[end - 1])
        parts.append(
            Piece(int(x[start]), int(x[end - 1]), float(line.alpha_us[0]), _known(slope[0]))
        )
    fitted = np.concatenate(
        [_line(part, x[start:end]) for part, (start, end) in zip(parts, spans, strict=True)]
    )
    kinks = [_kink(before, after) for before, after in pairwise(parts)]
    small = y[x <= FLOOR_MAX_BYTES]
    large = x >= LARGE_MIN_BYTES
    large_gbps = None
    if large.sum() >= 3:
        line = fit_lines(x[large], y[None, large])
        large_gbps = _known(_beta(line.us_per_byte, line.alpha_us, x[-1])[0])
    return Fit(
        alpha_us=parts[0].alpha_us,
        beta_gbps=parts[0].beta_gbps,
        floor_us=float(np.median(small)) if small.size else None,
        large_gbps=large_gbps,
        pieces=tuple(parts),
        kinks=tuple(kinks),
        residual_pct=100.0 * (y / fitted - 1.0),
    )


def _first_piece(
    x: FloatArray, lanes: FloatArray, span: tuple[int, int]
) -> tuple[FloatArray, FloatArray]:
    """Alpha and beta (NaN where unknown) of the stretch with the smallest sizes, a lane each."""
    index = np.arange(x.size)
    inside = (index >= span[0]) & (index < span[1])
    small, wide = inside & (x <= ALPHA_MAX_BYTES), inside & (x <= BETA_MAX_BYTES)
    if wide.sum() < 3:
        wide = inside
    if small.sum() < 3:
        small = wide
    alpha = fit_lines(x[small], lanes[:, small]).alpha_us
    line = fit_lines(x[wide], lanes[:, wide])
    return alpha, _beta(line.us_per_byte, line.alpha_us, float(x[wide][-1]))


def _beta(us_per_byte: FloatArray, alpha_us: FloatArray, largest_bytes: float) -> FloatArray:
    """GB/s of each lane; NaN where transfer is lost in the largest message's time."""
    transfer = us_per_byte * largest_bytes
    share = transfer / (transfer + alpha_us)
    return np.where(share >= LEAST_TRANSFER_SHARE, 1e-3 / us_per_byte, np.nan)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _line(part: Piece, x: FloatArray) -> FloatArray:
    if part.beta_gbps is None:
        return np.full(x.shape, part.alpha_us)
    return allreduce_us(x, part.alpha_us, part.beta_gbps)


def _kink(before: Piece, after: Piece) -> Kink:
    middle = np.array([np.sqrt(float(before.last_bytes) * after.first_bytes)])
    ratio = float(_line(after, middle)[0] / _line(before, middle)[0])
    return Kink(before.last_bytes, after.first_bytes, 100.0 * (ratio - 1.0))


def bootstrap(
    curve: Curve,
    fit: Fit,
    samples: Sequence[Sequence[FloatArray]],
    rng: np.random.Generator,
    *,
    draws: int = 400,
) -> Fit:
    """Add 95 % intervals to a fit by resampling rounds, and samples within each round.

    Args:
        curve: The curve that was fitted.
        fit: Its fit; the kinks are kept where they are.
        samples: For each size of the curve, one array of latencies a round, microseconds.
        rng: Random generator.
        draws: Resampled curves.

    Returns:
        The fit with intervals; unchanged where a size has fewer than three samples.

    Raises:
        InvalidSpec: Not one list of rounds a size.

    Source: percentile bootstrap of the median over rounds of each round's median.
    """
    x = curve.message_bytes
    if len(samples) != x.size:
        raise InvalidSpec("The bootstrap needs the samples of every size.")
    if any(sum(len(part) for part in rounds) < 3 for rounds in samples):
        return fit
    lanes = np.empty((draws, x.size))
    for column, rounds in enumerate(samples):
        medians = np.stack(
            [
                np.median(part[rng.integers(0, len(part), (draws, len(part)))], axis=1)
                for part in map(np.asarray, rounds)
                if len(part)
            ],
            axis=1,
        )
        chosen = rng.integers(0, medians.shape[1], medians.shape)
        lanes[:, column] = np.median(np.take_along_axis(medians, chosen, axis=1), axis=1)
    last = fit.pieces[0].last_bytes
    span = (0, int(np.searchsorted(x, last, side="right")))
    alpha, beta = _first_piece(x, lanes, span)
    return replace(
        fit,
        alpha_interval=_interval(alpha),
        beta_interval=_interval(beta) if fit.beta_gbps is not None else None,
        crossover_interval=_interval(alpha * beta * 1e3) if fit.beta_gbps is not None else None,
    )


def _interval(values: FloatArray) -> Interval | None:
    """Middle 95 %; None where a part of the draws does not determine the value."""
    if np.isnan(values).mean() > 0.025:
        return None
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return float(low), float(high)
