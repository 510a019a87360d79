"""What changed on a host between two readings: counters that rise, links that went, slots."""

from collections.abc import Iterator, Mapping
from typing import Any

from models.host_findings import Finding
from models.result import Gpu, Result

# counter -> (words, what its rise means, what to do)
_COUNTERS = {
    "nvlink_errors": (
        "NVLink {name} errors",
        "Resent data cost time: a link that makes errors under load is slower than its count says.",
        "Reseat the bridge, look for Xid 74 in the kernel log, and read the machine again.",
    ),
    "pcie_replays": (
        "PCIe replays",
        "Packets are sent again: riser, slot or cable is at its limit, and copies lose time.",
        "Reseat the card or its riser, or set the slot one generation lower.",
    ),
    "ecc.corrected": (
        "corrected memory errors",
        "Values are right, and the memory is wearing.",
        "Watch whether it goes on.",
    ),
    "ecc.uncorrected": (
        "uncorrected memory errors",
        "Values may be wrong, and the driver retires memory.",
        "Restart the machine; if the count rises again, have the card replaced.",
    ),
}


def rising(now: Result, before: Result) -> list[Finding]:
    """What is worse on a host than at an earlier reading.

    Args:
        now: A topology result.
        before: An earlier one of the same host.

    Returns:
        A finding for each counter of a GPU that rose (counters that a restart of the machine set
        back are left alone), and for each GPU that lost active NVLinks or is gone.
    """
    earlier = {gpu.uuid: gpu for gpu in before.gpus or [] if gpu.uuid}
    since = _since(before)
    is_same_boot = now.host.get("boot_id") == before.host.get("boot_id")
    found: list[Finding] = []
    for gpu in now.gpus or []:
        old = earlier.pop(gpu.uuid or "", None)
        if old is None:
            continue
        if is_same_boot:
            found += _rose(gpu, old, since)
        found += _fewer_links(gpu, old, since)
    found += [
        Finding(
            "gpu_gone",
            "problem",
            f"{old.name} (GPU {old.index} {since}) is not there any more.",
            "It was taken out, hidden from this system, or has fallen off the bus.",
            "Look for Xid 79 in the kernel log; check power and riser.",
        )
        for old in (earlier.values() if now.gpus else ())
    ]
    return found


def _since(before: Result) -> str:
    when = before.finished_at or before.started_at
    return f"at {when:%Y-%m-%d %H:%M} UTC" if when is not None else "at the reading before"


def _rose(gpu: Gpu, old: Gpu, since: str) -> Iterator[Finding]:
    counts, first = _counters(gpu.facts), _counters(old.facts)
    for name, count in counts.items():
        start = first.get(name)
        if start is None or count <= start:
            continue
        key, _, part = name.partition("/")
        words, meaning, step = _COUNTERS[key]
        yield Finding(
            "counter_rose",
            "note" if key == "ecc.corrected" else "problem",
            f"GPU {gpu.index}: {words.format(name=part)} rose from {start:,} {since} to {count:,}.",
            meaning,
            step,
            (gpu.index,),
        )


def _counters(facts: Mapping[str, Any]) -> dict[str, int]:
    """Counter -> count; those of NVLink carry their own name behind a stroke."""
    links = facts.get("nvlink_errors") or {}
    flat: dict[str, Any] = {f"nvlink_errors/{name}": value for name, value in links.items()}
    flat["pcie_replays"] = facts.get("pcie_replays")
    ecc = facts.get("ecc") or {}
    flat |= {f"ecc.{name}": ecc.get(name) for name in ("corrected", "uncorrected")}
    return {name: int(value) for name, value in flat.items() if value is not None}


def _fewer_links(gpu: Gpu, old: Gpu, since: str) -> Iterator[Finding]:
    active, was = gpu.facts.get("links_active"), old.facts.get("links_active")
    if active is not None and was is not None and active < was:
        yield Finding(
            "links_went",
            "problem",
            f"GPU {gpu.index}: {active} NVLinks are active, {was} were {since}.",
            "Data to this GPU take fewer links, or go over PCIe.",
            "Check the bridge and the kernel log (Xid 74), then read the machine again.",
            (gpu.index,),
        )
