"""What a careful reader of an AllReduce sweep must be told, found in the sweep itself."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from models.result import Notice
from runners.allreduce_plan import size_words
from runners.nccl_log import family
from runners.spec import AllReduceSpec

SPREAD = 0.10
FIRST_ROUND = 0.10
CLOCK = 0.05
FEW_ROUNDS = 3
_SHOWN = 6
# a power cap is usual under load; these are not
HELD_BACK = frozenset(
    {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
)
# these make a run suspect; the other warnings only stand beside it
SUSPECT = frozenset(
    {"few_rounds", "first_round_differs", "clock_fell", "throttled", "gpu_in_use", "transport"}
)


@dataclass
class Seen:
    """What the ranks of one sweep told, in the order it came.

    Attributes:
        units: One dict a unit: round, mode, bytes, values_us, wrong, layout.
        clocks: One dict a unit and rank: round, mode, bytes, rank, before_mhz, during_mhz,
            after_mhz, throttle_reasons.
        facts: By rank: the GPU and the effective CPU conditions.
        transports: By rank: what NCCL said it chose.
        fault: A fault injected for a test.
    """

    units: list[dict[str, Any]] = field(default_factory=list)
    clocks: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[int, dict[str, Any]] = field(default_factory=dict)
    transports: dict[int, dict[str, int]] = field(default_factory=dict)
    fault: str = ""


def warnings(spec: AllReduceSpec, seen: Seen) -> list[Notice]:
    """All warnings that a sweep deserves."""
    return [
        *_general(spec, seen),
        *_spread(seen),
        *_first_round(seen),
        *_clock_fell(seen),
        *_throttled(seen),
        *_transport(spec, seen),
        *_unlike(seen),
    ]


def _general(spec: AllReduceSpec, seen: Seen) -> Iterable[Notice]:
    if seen.fault:
        yield _notice("test_fault", f"A fault was injected for a test: {seen.fault}.")
    if spec.n_ranks == 1:
        yield _notice(
            "one_rank", "One rank alone: nothing crosses a link, this is the cost of a launch."
        )
    if spec.buffers == "nccl":
        yield _notice(
            "nccl_buffers",
            "The messages lie in memory that NCCL allocated and may map into its peers: large "
            "messages can be faster than in an engine.",
        )
    rounds = max(spec.planned_rounds or 0, spec.rounds)
    if rounds < FEW_ROUNDS:
        yield _notice("few_rounds", f"Only {rounds} of at least {FEW_ROUNDS} rounds: no interval.")


def _spread(seen: Seen) -> Iterable[Notice]:
    wide = set()
    for unit in seen.units:
        low, mid, high = np.percentile(unit["values_us"], (10, 50, 90))
        if mid > 0 and (high - low) / mid > SPREAD:
            wide.add((unit["mode"], unit["bytes"]))
    if wide:
        yield _notice(
            "spread",
            f"The samples of a round spread over more than {SPREAD:.0%} at {places(wide)}.",
        )


def _first_round(seen: Seen) -> Iterable[Notice]:
    """Whether the first round stands apart.

    One size may jump: only when most sizes of a mode moved together, and by more than the other
    rounds differ among themselves, was the first round taken on another machine, so to say.
    """
    for mode in dict.fromkeys(unit["mode"] for unit in seen.units):
        sizes: dict[int, dict[int, float]] = defaultdict(dict)
        for unit in seen.units:
            if unit["mode"] == mode:
                sizes[unit["bytes"]][unit["round"]] = median(unit["values_us"])
        n_rounds = min(len(rounds) for rounds in sizes.values())
        if n_rounds < FEW_ROUNDS:
            continue
        middles = {size: median(rounds.values()) for size, rounds in sizes.items()}
        if min(middles.values()) <= 0:
            continue
        levels = [
            median([rounds[index] / middles[size] for size, rounds in sizes.items()])
            for index in range(n_rounds)
        ]
        rest = levels[1:]
        apart = levels[0] - median(rest)
        if abs(apart) > FIRST_ROUND * median(rest) + max(rest) - min(rest):
            yield _notice(
                "first_round_differs",
                f"The first round of the {mode} mode differs from the others by "
                f"{apart / median(rest) * 100:+.0f} % (median over the sizes).",
            )


def _clock_fell(seen: Seen) -> Iterable[Notice]:
    rows = [row for row in seen.clocks if row["during_mhz"]]
    top: dict[int, float] = {}
    for row in rows:
        top[row["rank"]] = max(row["during_mhz"], top.get(row["rank"], 0))
    slow = [row for row in rows if row["during_mhz"] < top[row["rank"]] * (1 - CLOCK)]
    if slow:
        worst = min(slow, key=lambda row: float(row["during_mhz"]))
        yield _notice(
            "clock_fell",
            f"The SM clock fell to {worst['during_mhz']:.0f} MHz while measuring "
            f"(rank {worst['rank']}, {worst['mode']} mode, {size_words(worst['bytes'])}); "
            f"it had been {top[worst['rank']]:.0f} MHz.",
        )


def _throttled(seen: Seen) -> Iterable[Notice]:
    held = {name for row in seen.clocks for name in row["throttle_reasons"] or ()} & HELD_BACK
    if held:
        yield _notice("throttled", f"A GPU was held back: {', '.join(sorted(held))}.")


def _transport(spec: AllReduceSpec, seen: Seen) -> Iterable[Notice]:
    """Does the label of the arm agree with what NCCL did?"""
    families = {family(counts) for counts in seen.transports.values()} - {None}
    if not families or spec.n_ranks < 2:
        return
    chosen = ", ".join(sorted(str(name) for name in families))
    if spec.link == "on" and families != {"P2P"}:
        yield _notice(
            "transport",
            f"The link is on, and NCCL chose {chosen} between the GPUs: no peer-to-peer there.",
        )
    if spec.link == "off" and families & {"P2P", "mixed"}:
        yield _notice("transport", f"The link is off, and yet NCCL chose {chosen}.")


def _unlike(seen: Seen) -> Iterable[Notice]:
    cards = [seen.facts[rank] for rank in sorted(seen.facts) if "name" in seen.facts[rank]]
    names = sorted({card["name"] for card in cards})
    if len(names) > 1 or len({card["memory_bytes"] for card in cards}) > 1:
        smallest = min(cards, key=lambda card: int(card["memory_bytes"]))
        slowest = min(cards, key=lambda card: int(card["multiprocessors"]))
        yield _notice(
            "unlike_gpus",
            f"Unlike GPUs take part ({', '.join(names)}): the slowest sets the pace, which is "
            f"rank {slowest['rank']} ({slowest['name']}, {slowest['multiprocessors']} "
            f"multiprocessors); the smallest memory is rank {smallest['rank']}'s.",
        )


def _notice(code: str, text: str) -> Notice:
    return Notice(code=code, text=text)


def places(found: Iterable[tuple[str, int]]) -> str:
    """``graph 3 KB, 64 KB; eager 1 KB``, shortened where there are many."""
    by_mode: dict[str, set[int]] = defaultdict(set)
    for mode, n_bytes in found:
        by_mode[mode].add(n_bytes)
    parts = []
    for mode, sizes in sorted(by_mode.items()):
        shown = ", ".join(size_words(size) for size in sorted(sizes)[:_SHOWN])
        more = f" and {len(sizes) - _SHOWN} more" if len(sizes) > _SHOWN else ""
        parts.append(f"{mode} {shown}{more}")
    return "; ".join(parts)
