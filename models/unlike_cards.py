"""GPUs of one group that are not alike: the slowest sets the pace, the smallest sets what fits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

SLOWER_SHARE = 0.05  # rates of like cards differ by less


def unlike(gpus: Sequence[Mapping[str, Any]], rates: Mapping[str, float]) -> str | None:
    """Whether cards differ in kind, memory or measured speed, in words that name the odd ones.

    Args:
        gpus: Facts of each card of the group: ``index``, ``uuid``, ``name``, ``memory_bytes``.
        rates: Memory copy bandwidth by UUID, GB/s, the best that was measured; cards that are
            missing were never measured.

    Returns:
        One or more sentences, or None for cards that are alike.

    Source: the method's rule for unlike cards.
    """
    kinds = Counter(str(gpu.get("name")) for gpu in gpus)
    slowest = _slowest(gpus, rates)
    smallest = _smallest(gpus)
    if len(kinds) < 2 and slowest is None and smallest is None:
        return None
    parts = []
    if len(kinds) > 1:
        said = " and ".join(f"{count}x {name}" for name, count in sorted(kinds.items()))
        parts.append(f"The GPUs differ: {said}.")
    if slowest is not None:
        parts.append(slowest)
    elif len(kinds) > 1:
        parts.append("The slowest sets the pace; which one it is shows after a run on each.")
    if smallest is not None:
        parts.append(smallest)
    return " ".join(parts)


def _slowest(gpus: Sequence[Mapping[str, Any]], rates: Mapping[str, float]) -> str | None:
    """The card that sets the pace; None where the measured ones are alike."""
    known = [(rates[str(gpu.get("uuid"))], gpu) for gpu in gpus if rates.get(str(gpu.get("uuid")))]
    if len(known) < 2:
        return None
    low, gpu = min(known, key=lambda pair: pair[0])
    high = max(rate for rate, _ in known)
    if low >= high * (1 - SLOWER_SHARE):
        return None
    return (
        f"GPU {gpu.get('index')} ({gpu.get('name')}) is the slowest and sets the pace: its memory "
        f"copies at {low:.3g} GB/s, the fastest at {high:.3g} GB/s."
    )


def _smallest(gpus: Sequence[Mapping[str, Any]]) -> str | None:
    """The card that sets what fits; None where all have the same or nothing is known."""
    known = [(int(gpu["memory_bytes"]), gpu) for gpu in gpus if gpu.get("memory_bytes")]
    if len(known) < 2:
        return None
    low, gpu = min(known, key=lambda pair: pair[0])
    high = max(size for size, _ in known)
    # the driver keeps a few megabytes of some cards for itself
    if low >= high * (1 - SLOWER_SHARE):
        return None
    return (
        f"GPU {gpu.get('index')} ({gpu.get('name')}) has the least memory ({low / 1e9:.0f} GB) "
        "and sets what fits."
    )
