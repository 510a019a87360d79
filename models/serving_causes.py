"""Where the time of a served request goes, and which part made one arm slower than another."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from models.result import Measurement

Part = Literal["client", "queue", "prefill", "decode"]
Name = Literal["none", "queue", "compute", "link", "compute or link", "unknown"]
PARTS: tuple[Part, ...] = ("client", "queue", "prefill", "decode")

GROWTH_LIMIT = 0.05  # of the whole: less is no slowdown to explain
MAIN_SHARE = 0.5  # a part, or a cause, that explains half of the growth is the cause


@dataclass(frozen=True)
class Breakdown:
    """Mean milliseconds a request spends in each part; None is unknown.

    Attributes:
        client: Outside the server: the client itself and the way to it.
        queue: Waiting in the server.
        prefill: From its turn to the first token.
        decode: From the first token to the last.
    """

    client: float | None
    queue: float | None
    prefill: float | None
    decode: float | None

    @property
    def total(self) -> float:
        """Sum of the known parts, ms."""
        return sum(getattr(self, part) or 0.0 for part in PARTS)

    @property
    def working(self) -> float | None:
        """Prefill and decode together, ms: what GPUs and link decide."""
        if self.prefill is None or self.decode is None:
            return None
        return self.prefill + self.decode


@dataclass(frozen=True)
class Cause:
    """What made an arm slower.

    Attributes:
        name: queue, compute, link; "compute or link" where nothing tells the two apart.
        growth_ms: How much longer a request takes.
        share: Part of the growth that the named cause explains, 0 to 1.
        words: One sentence.
    """

    name: Name
    growth_ms: float
    share: float
    words: str


def breakdown(rows: Iterable[Measurement]) -> Breakdown:
    """Mean over the rounds of the phase times of one cell.

    Args:
        rows: Measurements of one arm and workload; only ``phase_time`` is read.
    """
    sums: dict[str, list[float]] = {}
    for row in rows:
        if row.metric == "phase_time" and row.value is not None:
            sums.setdefault(str(row.dims.get("phase")), []).append(row.value)
    means = {part: sum(values) / len(values) for part, values in sums.items()}
    return Breakdown(*(means.get(part) for part in PARTS))


def compute_ratio(
    *,
    clock_mhz: tuple[float | None, float | None] = (None, None),
    foreign_pct: tuple[float | None, float | None] = (None, None),
) -> float | None:
    """How fast the other arm could compute, relative to the reference; 1 is as fast.

    Args:
        clock_mhz: SM clock of the reference and of the other arm while they worked.
        foreign_pct: Share of the host's processors that other programs used, of both; for servers
            on the CPU, whose neighbours take their compute away.

    Returns:
        The ratio of clocks, else of the processor shares left over, else None.
    """
    first, second = clock_mhz
    if first and second:
        return second / first
    before, after = foreign_pct
    if before is not None and after is not None and before < 100:
        return (100 - after) / (100 - before)
    return None


def name_cause(
    reference: Breakdown, other: Breakdown, *, tp: int, compute: float | None = None
) -> Cause:
    """Name what made `other` slower than `reference`: queue, compute or link.

    Args:
        reference: The arm as it should be.
        other: The slower one, same workload.
        tp: Tensor-parallel size of the slower arm; 1 has no link to blame.
        compute: As `compute_ratio` gives it.

    Returns:
        The cause. Time outside the server and in its queue is "queue". Slower prefill and decode
        are "compute" where the fall of the compute rate explains at least half of it, "link"
        where the rate is known and does not, on two GPUs or more.
    """
    growth = other.total - reference.total
    if reference.total <= 0 or other.total <= 0:
        return Cause("unknown", 0.0, 0.0, "The server states no phase times.")
    if growth < GROWTH_LIMIT * reference.total:
        return Cause("none", growth, 0.0, "No slowdown to explain.")
    waiting = {
        part: (getattr(other, part) or 0.0) - (getattr(reference, part) or 0.0)
        for part in ("client", "queue")
    }
    waited = sum(waiting.values())
    if waited >= MAIN_SHARE * growth:
        place = max(waiting, key=lambda part: waiting[part])
        where = "outside the server (client or network)" if place == "client" else "in its queue"
        return Cause(
            "queue",
            growth,
            waited / growth,
            f"Queue: {waited:.0f} of {growth:.0f} ms more a request pass {where}.",
        )
    before, after = reference.working, other.working
    if before is None or after is None or after <= before:
        return Cause("unknown", growth, 0.0, "No single part explains the slowdown.")
    return _working_cause(growth, before, after, tp, compute)


def _working_cause(
    growth: float, before: float, after: float, tp: int, compute: float | None
) -> Cause:
    grown = after - before
    share = min(1.0, grown / growth)
    more = f"prefill and decode take {grown:.0f} ms more a request"
    if compute is not None and compute > 0:
        explained = (before / compute - before) / grown
        if explained >= MAIN_SHARE:
            words = f"Compute: {more}, and the compute rate was {1 - compute:.0%} lower."
            return Cause("compute", growth, share * min(1.0, explained), words)
        if tp > 1:
            words = f"Link: {more} at the same compute rate, over {tp} GPUs."
            return Cause("link", growth, share, words)
    if tp == 1:
        return Cause("compute", growth, share, f"Compute: {more}, and TP=1 has no link.")
    words = f"Compute or link: {more}, and no clock was read that would tell the two apart."
    return Cause("compute or link", growth, share, words)
