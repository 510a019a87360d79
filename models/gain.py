"""How much faster the candidate is, and how well that is known.

A gain is a share: 0.25 is a quarter more tokens a second. It is spread on the logarithm of the
ratio, as `models.comparison` compares arms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from models.comparison import paired, welch
from models.economics import FloatArray
from models.errors import InvalidSpec
from models.ranges import Range
from models.result import Origin
from models.rounds import Round, values

MIN_ROUNDS = 3
# No change of a link made a server ten times as fast or slow; the t distribution of three rounds
# would draw it now and then.
MAX_LOG_RATIO = math.log(10)
# Spread of one round where rounds cannot show it: public reports of the same upgrade differ more.
ASSUMED_ROUND_SPREAD = 0.10

Kind = Literal["rounds", "few_rounds", "range", "point"]


@dataclass(frozen=True)
class Gain:
    """Speed of the candidate over the baseline's, with its uncertainty.

    Attributes:
        kind: ``rounds`` (t posterior), ``few_rounds`` (normal with an assumed spread), ``range``
            (triangular between published or entered ends), ``point`` (one value, as a ceiling is).
        centre: Mean log ratio; for a range the log of the likely ratio.
        error: Standard error of the log ratio; 0 for a range or point.
        df: Degrees of freedom, None where no t distribution applies.
        log_range: Log ratios of a range's ends and middle.
        rounds: Rounds an arm behind it; 0 where nobody measured.
        origin: measured, imported, published, predicted or assumed.
        words: Where it comes from.
        is_paired: Whether rounds were paired.
        notes: What was assumed, a sentence each.
    """

    kind: Kind
    centre: float
    error: float = 0.0
    df: float | None = None
    log_range: Range | None = None
    rounds: int = 0
    origin: Origin = "assumed"
    words: str = ""
    is_paired: bool = False
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """The median gain, a share."""
        return float(self.quantile(0.5))

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one value."""
        return self.error == 0 and (self.log_range is None or self.log_range.is_fixed)

    def log_ratio(self, share: ArrayLike) -> FloatArray:
        """Log ratio below which a share of the draws lies, same shape.

        Source: t posterior of a mean under a flat prior; normal for an assumed spread; triangular
            on the log ratio for a range.
        """
        u = np.asarray(share, dtype=float)
        if self.kind in ("rounds", "few_rounds"):
            z = special.ndtri(u) if self.df is None else special.stdtrit(self.df, u)
            drawn = self.centre + self.error * np.asarray(z)
        elif self.log_range is not None:
            drawn = self.log_range.quantile(u)
        else:
            drawn = np.full(u.shape, self.centre)
        return np.clip(drawn, -MAX_LOG_RATIO, MAX_LOG_RATIO)

    def quantile(self, share: ArrayLike) -> FloatArray:
        """Gain below which a share of the draws lies, a share itself."""
        return np.expm1(self.log_ratio(share))


def from_rounds(
    reference: Sequence[Round],
    other: Sequence[Round],
    *,
    is_paired: bool,
    higher_is_better: bool = True,
    origin: Origin = "measured",
    words: str = "",
    assumed_spread: float = ASSUMED_ROUND_SPREAD,
) -> Gain:
    """The gain that the rounds of two arms show.

    Args:
        reference: Rounds of the baseline.
        other: Rounds of the candidate.
        is_paired: Whether the plan pairs them by number.
        higher_is_better: False for times: the ratio is then turned round.
        origin: Where the rounds come from.
        words: Source in words.
        assumed_spread: Relative spread of a round where fewer than three rounds show none.

    Returns:
        From three rounds on the t posterior of the mean log ratio (paired differences, else
        Welch's degrees of freedom); below, a normal spread that is assumed and says so.

    Raises:
        InvalidSpec: An arm has no valid round with a positive value.
    """
    if is_paired:
        left = {item.round: item.value for item in reference if item.valid}
        right = {item.round: item.value for item in other if item.valid}
        shared = sorted(left.keys() & right.keys())
        a = np.array([left[key] for key in shared], dtype=float)
        b = np.array([right[key] for key in shared], dtype=float)
    else:
        a, b = values(reference), values(other)
    if a.size == 0 or b.size == 0 or a.min() <= 0 or b.min() <= 0:
        raise InvalidSpec("An arm has no valid round, so there is no gain to take from it.")
    sign = 1.0 if higher_is_better else -1.0
    log_a, log_b = np.log(a), np.log(b)
    n = int(min(a.size, b.size))
    if n < MIN_ROUNDS:
        centre = sign * float(log_b.mean() - log_a.mean())
        return assumed_around(
            centre, rounds=n, origin=origin, words=words, assumed_spread=assumed_spread
        )
    difference, error, df = (paired if is_paired else welch)(log_a, log_b)
    return Gain(
        kind="rounds",
        centre=sign * float(difference),
        error=float(error),
        df=float(df),
        rounds=n,
        origin=origin,
        words=words,
        is_paired=is_paired,
    )


def assumed_around(
    centre: float,
    *,
    rounds: int,
    origin: Origin,
    words: str = "",
    assumed_spread: float = ASSUMED_ROUND_SPREAD,
) -> Gain:
    """A gain of one or two rounds: its centre is known, its spread is an assumption.

    Args:
        centre: Log ratio.
        rounds: Rounds an arm, at least 1.
        origin: Where it comes from.
        words: Source in words.
        assumed_spread: Relative spread of one round of one arm.
    """
    error = assumed_spread * math.sqrt(2 / max(rounds, 1))
    counted = "1 round" if rounds == 1 else f"{rounds} rounds"
    note = (
        f"With {counted} an arm no spread shows: a round is assumed to scatter by "
        f"{100 * assumed_spread:.0f} %."
    )
    return Gain(
        kind="few_rounds",
        centre=centre,
        error=error,
        rounds=rounds,
        origin=origin,
        words=words,
        notes=(note,),
    )


def from_range(
    low: float, likely: float, high: float, *, origin: Origin = "assumed", words: str = ""
) -> Gain:
    """A gain between two ends, shares above -1.

    Raises:
        InvalidSpec: The three are out of order, or a gain of -100 % or less.
    """
    if not -1 < low <= likely <= high < math.inf:
        raise InvalidSpec(
            "A gain goes from its low over its likely to its high value, each above -100 %."
        )
    return Gain(
        kind="range" if low < high else "point",
        centre=math.log1p(likely),
        log_range=Range(math.log1p(low), math.log1p(likely), math.log1p(high)),
        rounds=1 if origin == "published" else 0,
        origin=origin,
        words=words,
    )


def point(gain: float, *, origin: Origin = "predicted", words: str = "") -> Gain:
    """A gain without spread, such as a ceiling."""
    return from_range(gain, gain, gain, origin=origin, words=words)
