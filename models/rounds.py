"""The rounds of one arm: their spread, and what looks wrong about them.

The round is the unit of statistics: requests inside a round share a server, a cache and a clock,
so a thousand requests of one round are still one observation.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from models.errors import InvalidSpec
from models.result import Notice

SPREAD_LIMIT = 0.10
FIRST_ROUND_LIMIT = 0.05
DRIFT_LIMIT = 0.05
STARTS_SIGNIFICANCE = 0.05

# statistic -> requests below which it is simply the largest value
_LARGEST_BELOW = {"p90": 10, "p95": 20, "p99": 100, "p99.9": 1000}


@dataclass(frozen=True)
class Round:
    """One repetition's value of one metric.

    Attributes:
        value: The round's figure, in the metric's unit.
        round: Number of the round in the plan.
        start: Number of the server or process start it belongs to, None where not known.
        seed: Seed of its workload, None where not known.
        valid: False for a round that failed: it is shown and never compared.
    """

    value: float
    round: int
    start: int | None = None
    seed: int | None = None
    valid: bool = True


@dataclass(frozen=True)
class Summary:
    """Rounds in numbers.

    Attributes:
        n: Valid rounds.
        median: Their median, None without a round.
        mean: Their mean, None without a round.
        spread: Standard deviation over the mean, None with fewer than two rounds.
        low: Smallest value.
        high: Largest value.
    """

    n: int
    median: float | None
    mean: float | None
    spread: float | None
    low: float | None
    high: float | None


def values(rounds: Sequence[Round]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The valid rounds' values in order of round, shape (n,)."""
    used = sorted((item for item in rounds if item.valid), key=lambda item: item.round)
    return np.array([item.value for item in used], dtype=float)


def summary(rounds: Sequence[Round]) -> Summary:
    """Median, mean and spread of the valid rounds; what cannot be told is None, never 0."""
    data = values(rounds)
    if data.size == 0:
        return Summary(0, None, None, None, None, None)
    mean = float(data.mean())
    spread = float(data.std(ddof=1) / abs(mean)) if data.size > 1 and mean != 0 else None
    return Summary(
        n=int(data.size),
        median=float(np.median(data)),
        mean=mean,
        spread=spread,
        low=float(data.min()),
        high=float(data.max()),
    )


def by_start(rounds: Sequence[Round]) -> dict[int, list[float]]:
    """Valid values of each known start."""
    groups: dict[int, list[float]] = defaultdict(list)
    for item in rounds:
        if item.valid and item.start is not None:
            groups[item.start].append(item.value)
    return dict(groups)


def starts_differ(arms: Sequence[Sequence[Round]]) -> bool:
    """Whether starts of the same arm differ more than the rounds within them explain.

    Some servers come up fast or slow and stay so; then rounds of one start repeat its luck, and
    the start is the unit.

    Args:
        arms: The rounds of each arm.

    Returns:
        True or False; False where no start has two rounds, since nothing tells the two apart.

    Source: one-way analysis of variance of log values within arms, pooled, at the 5 % level.
    """
    between = within = 0.0
    between_df = within_df = 0
    for rounds in arms:
        groups = [np.log(group) for group in by_start(rounds).values() if min(group) > 0]
        if len(groups) < 2:
            continue
        everything = np.concatenate(groups)
        between += sum(g.size * float((g.mean() - everything.mean()) ** 2) for g in groups)
        within += sum(float(((g - g.mean()) ** 2).sum()) for g in groups)
        between_df += len(groups) - 1
        within_df += sum(g.size - 1 for g in groups)
    if between_df == 0 or within_df == 0:
        return False
    if within <= 1e-24:
        return between > 1e-24
    ratio = (between / between_df) / (within / within_df)
    return bool(stats.f.sf(ratio, between_df, within_df) < STARTS_SIGNIFICANCE)


def round_warnings(rounds: Sequence[Round], arm: str = "") -> list[Notice]:
    """What a careful reader would ask about these rounds.

    Args:
        rounds: The rounds of one arm and metric.
        arm: Name of the arm, put before each sentence.

    Returns:
        Warnings: fewer than three rounds, failed rounds, spread over 10 %, a first round apart
        from the others, drift over the rounds.
    """
    found: list[Notice] = []
    who = f"{arm}: " if arm else ""
    data = values(rounds)
    failed = sum(not item.valid for item in rounds)
    if failed:
        found.append(_notice("invalid_rounds", f"{who}{failed} of {len(rounds)} rounds failed."))
    if data.size < 3:
        counted = "1 valid round" if data.size == 1 else f"{data.size} valid rounds"
        text = f"{who}{counted}: too few for an interval; run at least 3."
        found.append(_notice("few_rounds", text))
        return found
    spread = summary(rounds).spread
    if spread is not None and spread > SPREAD_LIMIT:
        text = (
            f"{who}the rounds spread by {100 * spread:.0f} %; look for another load, then repeat."
        )
        found.append(_notice("spread", text))
    if data.min() <= 0:  # counts: a relative trend means nothing
        return found
    rest = data[1:]
    off = data[0] / np.median(rest) - 1
    if abs(off) > max(FIRST_ROUND_LIMIT, 3 * float(rest.std(ddof=1)) / float(rest.mean())):
        text = f"{who}the first round lies {100 * off:+.0f} % from the others: warm up longer."
        found.append(_notice("first_round", text))
    elif data.size >= 5:
        found += _drift(data, who)
    return found


def _drift(data: np.ndarray[tuple[int], np.dtype[np.float64]], who: str) -> list[Notice]:
    """A trend over the rounds by Kendall's tau, sized by Theil-Sen's slope."""
    index = np.arange(data.size)
    trend = stats.kendalltau(index, data)
    slope = stats.theilslopes(data, index)[0]
    change = float(slope) * (data.size - 1) / float(np.median(data))
    if not trend.pvalue < 0.05 or abs(change) < DRIFT_LIMIT:
        return []
    text = f"{who}the rounds drift by {100 * change:+.0f} % from first to last: clocks, heat, load?"
    return [_notice("drift", text)]


def quantile_label(statistic: str, n: int | None) -> str:
    """What a high percentile of so few values really is.

    Args:
        statistic: As in `models.metrics.STATISTICS`.
        n: Values behind it, None where not known.

    Returns:
        The statistic, or "largest of n" where no smaller value could be told from it.
    """
    least = _LARGEST_BELOW.get(statistic)
    if least is None or n is None or n >= least:
        return statistic
    return f"{statistic} (the largest of {n})"


def rounds_for_width(spread: float, full_width: float, *, arms: int = 1) -> int | None:
    """Rounds an arm until a 95 % interval is no wider than asked.

    Args:
        spread: Relative standard deviation of one round (of one difference, where paired).
        full_width: Full width of the interval as a share: 0.05 for 5 %.
        arms: 1 for one arm or paired differences, 2 for two independent arms of equal spread.

    Returns:
        The number, at least 2; None above 10,000.

    Raises:
        InvalidSpec: The spread is negative or the width not positive.

    Source: t interval, solved by going up in n, since t itself depends on n; with 1.96 for t the
        answer is too small (spread 1 %: width 5 % needs 3 rounds, 2 % needs 7).
    """
    if spread < 0 or full_width <= 0 or arms not in (1, 2):
        raise InvalidSpec("A spread is at least 0, a width more than 0, and arms are 1 or 2.")
    n = np.arange(2, 10_001)
    width = 2 * stats.t.ppf(0.975, arms * (n - 1)) * spread * np.sqrt(arms / n)
    enough = np.flatnonzero(width <= full_width)
    return int(n[enough[0]]) if enough.size else None


def _notice(code: str, text: str) -> Notice:
    return Notice(code=code, text=text)
