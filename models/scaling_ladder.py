"""One TP size after the other: does each beat the one before it, and by how much of the ideal?

The speedup over one GPU alone hides where the GPUs stop to pay: TP=8 may be twice as fast as one
GPU and slower than TP=4.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from models.scaling_words import SAME_WITHIN, ideal_words, times_words
from models.step_interval import Estimate

FEWEST_RUNGS = 2  # with one there is nothing between the ends


@dataclass(frozen=True)
class Rung:
    """One TP size against the next smaller one that was measured.

    Attributes:
        tp: The larger size.
        reference_tp: The smaller one.
        gain: How many times as fast the larger one is, with its interval.
    """

    tp: int
    reference_tp: int
    gain: Estimate

    @property
    def beats(self) -> bool | None:
        """Whether the larger size is faster; None where the difference is not shown."""
        low, high = self.gain.low, self.gain.high
        if low is not None and high is not None and low <= 1 <= high:
            return None
        return None if abs(1 / self.gain.value - 1) < SAME_WITHIN else self.gain.value > 1

    @property
    def clause(self) -> str:
        """What the larger size does to the smaller one, with the share of the ideal."""
        word = {True: "beats", False: "loses to", None: "makes no difference to"}[self.beats]
        spread = ""
        if self.gain.low is not None:
            spread = f", 95 % interval {self.gain.low:.2f} to {self.gain.high:.2f}"
        return (
            f"TP={self.tp} {word} TP={self.reference_tp} ({times_words(self.gain.value)}{spread}, "
            f"{ideal_words(self.gain.value, self.tp, self.reference_tp)})"
        )


def ladder_sentence(rungs: Sequence[Rung], conditions: str) -> str | None:
    """Which of several TP sizes is the fastest, and what each step up brought.

    Args:
        rungs: In rising order, each from where the one before it ended.
        conditions: Clock, load and link that hold for all of them.

    Returns:
        The sentences; None below `FEWEST_RUNGS`.
    """
    if len(rungs) < FEWEST_RUNGS:
        return None
    best, gain, at_best = rungs[0].reference_tp, 1.0, 1.0
    for rung in rungs:
        gain *= rung.gain.value
        if rung.beats and gain > at_best:  # a size that is only as fast costs GPUs for nothing
            best, at_best = rung.tp, gain
    *first, last = [rungs[0].reference_tp, *(rung.tp for rung in rungs)]
    sizes = f"TP={', '.join(map(str, first))} and {last}"
    clauses = "; ".join(rung.clause for rung in rungs)
    return f"Of {sizes}, TP={best} is the fastest here: {clauses}. {conditions}"
