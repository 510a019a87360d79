"""Where the latency of an all-reduce comes from: a public table, a sweep, or a described link."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from models.curve import Curve, interpolate_us, make_curve
from models.errors import InvalidSpec, NotPredicted
from models.prediction import ENGINES
from models.reference import references

# Message sizes at which a described link is written down: 256 B to 1 GB in steps of 2.
_SIZES = tuple(256.0 * 2**step for step in range(23))
TP_SIZES = (2, 4, 8)


@dataclass(frozen=True)
class CurveLink:
    """All-reduce latencies in graph mode, a curve for each number of GPUs.

    Attributes:
        curves: Number of GPUs -> latency against size.
        label: Words for people.
        origin: published (the reference table), measured, imported, or assumed.
    """

    curves: Mapping[int, Curve]
    label: str
    origin: str

    def us(self, tp: int, message_bytes: float) -> float:
        """Latency over ``tp`` GPUs, microseconds.

        Below the smallest size the latency is that of the smallest (it hardly depends on size
        there); above the largest it grows with the size.

        Raises:
            NotPredicted: Nothing is known for this number of GPUs.
        """
        curve = self.curves.get(tp)
        if curve is None:
            raise NotPredicted(
                f"No all-reduce latency in graph mode is known for {tp} GPUs ({self.label}).",
                f"Run an AllReduce sweep over {tp} GPUs in graph mode, or describe the link.",
            )
        sizes, latencies = curve.message_bytes, curve.latency_us
        if message_bytes <= sizes[0]:
            return float(latencies[0])
        if message_bytes >= sizes[-1]:
            return float(latencies[-1] * message_bytes / sizes[-1])
        return interpolate_us(curve, message_bytes)


def reference_link(table: pd.DataFrame, gpu_name: str, engine: str) -> CurveLink:
    """The engine's own kernel on other people's hosts with this card.

    Args:
        table: The reference table (`models.reference.references` says which columns).
        gpu_name: Name as a driver gives it.
        engine: vllm, trtllm or sglang.

    Returns:
        The link; without curves where the table has no row in graph mode.

    Raises:
        InvalidSpec: The engine is not known.
    """
    if engine not in ENGINES:
        raise InvalidSpec(f"The engine {engine!r} is not known here.")
    curves: dict[int, Curve] = {}
    label = f"no reference for {gpu_name}"
    for tp in TP_SIZES:
        for found in references(table, gpu_name, tp):
            if found.family == engine and found.launch == "graph":
                curves[tp] = found.curve
                label = f"{found.device}: {found.label}"
    return CurveLink(curves, label, "published")


def described_link(alpha_us: float, per_direction_gbps: float) -> CurveLink:
    """A link by its small-message latency and its bandwidth.

    Args:
        alpha_us: Latency of a small all-reduce in graph mode, microseconds.
        per_direction_gbps: Bandwidth one way that an all-reduce reaches, GB/s.

    Returns:
        The same fixed cost for 2, 4 and 8 GPUs.

    Raises:
        InvalidSpec: A value is not positive.

    Source: alpha + x * 2 (p - 1) / (p * beta), the ring's traffic over one direction.
    """
    if alpha_us <= 0 or per_direction_gbps <= 0:
        raise InvalidSpec("A link's latency and bandwidth must be positive.")
    curves = {
        tp: make_curve(
            _SIZES,
            [alpha_us + x * 2 * (tp - 1) / (tp * per_direction_gbps * 1e3) for x in _SIZES],
        )
        for tp in TP_SIZES
    }
    words = f"{alpha_us:g} us and {per_direction_gbps:g} GB/s one way, as described"
    return CurveLink(curves, words, "assumed")
