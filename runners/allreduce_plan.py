"""What an AllReduce sweep does, and when enough is enough: pure decisions, no device, no torch.

How the work is laid out follows nccl-tests' graph mode, so that the two can be compared: calls go
round the buffers of a 64 MB arena, in place, captured back to back.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runners.spec import AllReduceSpec

# calls rotate through an arena of this size, as nccl-tests does up to 64 MB: small messages stay in
# the cache, as activations do in an engine; one message of 64 MB or more is alone
ARENA_BYTES = 64 * 2**20
# buffers start on this boundary: a misaligned start costs NCCL its wide loads
ALIGN_BYTES = 512

# one timed batch lasts at least this long: a launch gap of some microseconds is then below 0.1 %
BATCH_US = 5_000.0
# a graph lasts no longer than this, so that slow links and large messages end in bounded time
GRAPH_US = 20_000.0
_MAX_REPLAYS = 10_000
# a clock this far under the highest seen in the pass is not up yet
STEADY_CLOCK = 0.97


@dataclass(frozen=True)
class Unit:
    """One size in one mode in one round: what is measured in one go."""

    round: int
    mode: str
    n_bytes: int
    is_first: bool  # of its pass: what came before was set-up or another mode

    def name(self, n_rounds: int) -> str:
        """For people: ``round 1 of 3, graph, 64 KB``."""
        return f"round {self.round + 1} of {n_rounds}, {self.mode}, {size_words(self.n_bytes)}"


@dataclass(frozen=True)
class WarmUp:
    """When a warm-up has done its work.

    An idle GPU runs at a fifth of its clock and takes about a second of work to speed up: five
    replays on a cold card have read nearly twice the truth.
    """

    min_s: float
    min_replays: int
    max_s: float

    def is_done(self, elapsed_s: float, replays: int, clock_ratio: float | None) -> bool:
        """Whether the clock is up.

        Args:
            elapsed_s: Time since the warm-up began.
            replays: Replays done in it.
            clock_ratio: SM clock now over the highest of the pass, the slowest GPU's; None where
                no clock can be read.
        """
        if elapsed_s >= self.max_s:
            return True
        if elapsed_s < self.min_s or replays < self.min_replays:
            return False
        return clock_ratio is None or clock_ratio >= STEADY_CLOCK


FIRST_WARM_UP = WarmUp(min_s=1.0, min_replays=200, max_s=5.0)
# the card worked a moment ago; its clock is looked at all the same
NEXT_WARM_UP = WarmUp(min_s=0.3, min_replays=200, max_s=5.0)
# without a readable clock only time tells
BLIND_WARM_UP = FIRST_WARM_UP
CPU_WARM_UP = WarmUp(min_s=0.05, min_replays=3, max_s=1.0)


def warm_up_for(device: str, *, is_first: bool, has_clock: bool) -> WarmUp:
    """The rule for one unit."""
    if device == "cpu":
        return CPU_WARM_UP
    if not has_clock:
        return BLIND_WARM_UP
    return FIRST_WARM_UP if is_first else NEXT_WARM_UP


def units(spec: AllReduceSpec) -> list[Unit]:
    """Everything a sweep measures, in order: rounds, in them modes, in them sizes."""
    return [
        Unit(index, mode, n_bytes, is_first=n_bytes == spec.sizes_bytes[0])
        for index in range(spec.rounds)
        for mode in spec.modes
        for n_bytes in spec.sizes_bytes
    ]


def stride_bytes(n_bytes: int) -> int:
    """Distance between the starts of two buffers."""
    return -(-n_bytes // ALIGN_BYTES) * ALIGN_BYTES


def buffer_count(n_bytes: int, calls: int) -> int:
    """How many buffers the calls of one graph or batch go round."""
    return max(1, min(calls, ARENA_BYTES // stride_bytes(n_bytes)))


def arena_bytes(sizes_bytes: Sequence[int], calls: int) -> int:
    """Memory that the most demanding size takes, one arena for all sizes."""
    return max(stride_bytes(size) * buffer_count(size, calls) for size in sizes_bytes)


def calls_in_graph(wanted: int, call_us: float) -> int:
    """Calls that one graph captures: as many as asked for, fewer where they are slow."""
    return max(1, min(wanted, int(GRAPH_US / max(call_us, 1e-3))))


def repeats_in_batch(one_us: float) -> int:
    """Replays (or eager calls) of one timed batch."""
    return max(1, min(_MAX_REPLAYS, -int(-BATCH_US // max(one_us, 1e-3))))


def call_us_guess(device: str, n_bytes: int) -> float:
    """A rough time of one call, for durations only: a slow link, so that plans rather end early."""
    if device == "cpu":
        return 500.0 + n_bytes / 500.0  # 0.5 GB/s
    return 25.0 + n_bytes / 15_000.0  # 15 GB/s


def unit_seconds(spec: AllReduceSpec, unit: Unit) -> float:
    """Expected time of one unit, checks and warm-up included."""
    call_us = call_us_guess(spec.device, unit.n_bytes)
    passes = 2 if unit.mode == "exposed" else 1
    warm_s = warm_up_for(spec.device, is_first=unit.is_first, has_clock=True).min_s
    block_s = (spec.samples_per_round + 2) * max(BATCH_US, call_us) / 1e6
    check_s = 0.02 + unit.n_bytes / (2e8 if spec.device == "cpu" else 2e10)
    return passes * (warm_s + block_s) + check_s


class Progress:
    """How much of a weighted list of units is done, and how long the rest takes.

    Args:
        weights: Expected seconds of each unit; what counts is how they compare.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, weights: Sequence[float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._weights = list(weights)
        self._clock = clock
        self._done = 0
        self._began: float | None = None

    def begin(self) -> None:
        """The first unit starts now: setting up is no measure of the units."""
        if self._began is None:
            self._began = self._clock()

    def advance(self) -> None:
        """One more unit is done."""
        self._done += 1

    @property
    def n_done(self) -> int:
        """Units done."""
        return self._done

    @property
    def fraction(self) -> float:
        """Share of the expected work that is done, 0 to 1."""
        total = sum(self._weights)
        return sum(self._weights[: self._done]) / total if total else 0.0

    @property
    def eta_s(self) -> float:
        """Seconds left: as measured so far, as expected before the first unit is done."""
        done = sum(self._weights[: self._done])
        left = sum(self._weights[self._done :])
        if self._began is None or done <= 0:
            return left
        return (self._clock() - self._began) / done * left


def size_words(n_bytes: int) -> str:
    """A message size for people: 512 B, 3 KB, 64 MB (powers of 1024)."""
    for unit, width in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if n_bytes >= width:
            return f"{n_bytes / width:.4g} {unit}"
    return f"{n_bytes} B"
