"""A curve of all-reduce latency against message size, and the formulas around one latency.

1 GB is 1e9 bytes; sizes are labelled in KB and MB of 1024.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.errors import InvalidSpec
from models.fit import FloatArray


@dataclass(frozen=True)
class Curve:
    """Latency against size, one value a size, sizes ascending.

    Attributes:
        message_bytes: Payload a rank, shape (k,), bytes.
        latency_us: Slowest rank's latency, shape (k,), microseconds.
    """

    message_bytes: FloatArray
    latency_us: FloatArray


def make_curve(message_bytes: Sequence[float], latency_us: Sequence[float]) -> Curve:
    """Sort a sweep by size and merge repeated sizes by their median.

    Raises:
        InvalidSpec: Unequal lengths, no size, or a value that is not positive and finite.
    """
    x = np.asarray(message_bytes, dtype=float)
    y = np.asarray(latency_us, dtype=float)
    if x.ndim != 1 or x.shape != y.shape or x.size == 0:
        raise InvalidSpec("A curve needs as many latencies as sizes, and at least one.")
    if not (np.all(np.isfinite(x) & (x > 0)) and np.all(np.isfinite(y) & (y > 0))):
        raise InvalidSpec("Sizes and latencies must be positive numbers.")
    sizes = np.unique(x)
    return Curve(sizes, np.array([float(np.median(y[x == size])) for size in sizes]))


def allreduce_us(message_bytes: FloatArray, alpha_us: float, bandwidth_gbps: float) -> FloatArray:
    """Latency of one AllReduce on the alpha-beta line.

    Args:
        message_bytes: Payload a rank, shape (k,), bytes, each >= 0.
        alpha_us: Fixed cost, microseconds, >= 0.
        bandwidth_gbps: Algorithm bandwidth, 1e9 bytes a second, > 0.

    Returns:
        Latency, shape (k,), microseconds.

    Raises:
        InvalidSpec: A negative size or fixed cost, or a bandwidth that is not positive.

    Source: Hockney's line; fitted only where the library keeps one algorithm.
    """
    x = np.asarray(message_bytes, dtype=float)
    if np.any(x < 0) or alpha_us < 0 or bandwidth_gbps <= 0:
        raise InvalidSpec("Sizes and fixed cost must not be negative, and bandwidth is positive.")
    line: FloatArray = alpha_us + x / (bandwidth_gbps * 1e3)
    return line


def interpolate_us(curve: Curve, message_bytes: float) -> float:
    """Latency at a size between measured ones, on a straight line in log-log.

    Args:
        curve: The measured sizes.
        message_bytes: Size asked for, bytes.

    Returns:
        Latency, microseconds.

    Raises:
        InvalidSpec: The size lies outside the measured ones: nothing is extrapolated.
    """
    x = curve.message_bytes
    if not x[0] <= message_bytes <= x[-1]:
        raise InvalidSpec(
            f"No latency is known at {size_words(message_bytes)}: the sweep goes from "
            f"{size_words(x[0])} to {size_words(x[-1])}.",
            "Run a sweep that covers this message.",
        )
    return float(np.exp(np.interp(np.log(message_bytes), np.log(x), np.log(curve.latency_us))))


def crossover_bytes(alpha_us: float, beta_gbps: float) -> float:
    """Size below which latency counts more than bandwidth: alpha x beta, bytes."""
    return alpha_us * beta_gbps * 1e3


def latency_share(message_bytes: float, alpha_us: float, beta_gbps: float) -> float:
    """Share of one all-reduce's time that the fixed cost takes, 0 to 1."""
    return alpha_us / float(allreduce_us(np.array([message_bytes]), alpha_us, beta_gbps)[0])


def step_cost_ms(latency_us: float, calls: int) -> float:
    """What a decode step pays for its all-reduces: calls x latency, milliseconds.

    Only for latencies of the graph or exposed mode: an eager latency is launch cost of the CPU,
    which an engine with CUDA graphs does not pay once a call.
    """
    return latency_us * calls / 1e3


def algbw_gbps(message_bytes: float, latency_us: float) -> float:
    """Algorithm bandwidth: message over time, GB/s."""
    return message_bytes / latency_us / 1e3


def busbw_gbps(message_bytes: float, latency_us: float, ranks: int) -> float:
    """Bus bandwidth of an all-reduce: algorithm bandwidth x 2 (n - 1) / n, GB/s.

    Source: the convention of nccl-tests, comparable with a link's speed whatever the rank count.
    """
    return algbw_gbps(message_bytes, latency_us) * 2 * (ranks - 1) / ranks


def size_words(message_bytes: float) -> str:
    """A size as people say it: 3 KB, 1.5 MB; KB and MB are powers of 1024."""
    for unit, scale in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if message_bytes >= scale:
            return f"{message_bytes / scale:.3g} {unit}"
    return f"{message_bytes:.0f} B"
