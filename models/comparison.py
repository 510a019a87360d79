"""Two arms compared over rounds: how large is the change, and may it be called one.

Everything happens on log values, so that "20 % faster" and "17 % less time" are one statement and
a change has the same size in both directions. Which analysis is made follows from the plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from models.errors import InvalidSpec
from models.metrics import Direction, metric
from models.result import Notice
from models.rounds import Round, by_start, round_warnings, starts_differ, values

FloatArray = NDArray[np.float64]
Verdict = Literal["same", "better", "worse", "differs", "not_shown", "direction_only"]
Unit = Literal["round", "start"]

MARGIN = 0.02  # within 2 % is the same
MIN_UNITS = 3
MAX_ROUNDS = 10_000

VERDICT_WORDS: dict[Verdict, str] = {
    "same": "same within 2 %",
    "better": "better",
    "worse": "worse",
    "differs": "differs",
    "not_shown": "not shown",
    "direction_only": "direction only",
}


@dataclass(frozen=True)
class Comparison:
    """One metric of two arms.

    Attributes:
        metric: Its name.
        verdict: One of the six words.
        change_pct: Change of the other arm against the reference, percent; None without values.
        low_pct: Low end of the 95 % interval, None where there is no interval.
        high_pct: High end.
        n_reference: Units (rounds or starts) of the reference.
        n_other: Units of the other arm; for paired analysis both are the number of pairs.
        unit: Whether rounds or starts were counted.
        paired: Whether rounds were paired by number and seed.
        rounds_needed: About how many units an arm would settle it, None where settled or unknown.
        words: The verdict as a sentence.
        warnings: What to know before believing it.
    """

    metric: str
    verdict: Verdict
    change_pct: float | None
    low_pct: float | None
    high_pct: float | None
    n_reference: int
    n_other: int
    unit: Unit
    paired: bool
    rounds_needed: int | None
    words: str
    warnings: list[Notice] = field(default_factory=list)


def welch(reference: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean difference of log values and its standard error for independent arms.

    Args:
        reference: Log values, shape (..., n), n >= 2.
        other: Log values, shape (..., m), m >= 2.

    Returns:
        Difference other - reference, its standard error, and the degrees of freedom, shape (...).

    Source: Welch's t test with Satterthwaite's degrees of freedom.
    """
    n, m = reference.shape[-1], other.shape[-1]
    vr, vo = reference.var(axis=-1, ddof=1) / n, other.var(axis=-1, ddof=1) / m
    total = vr + vo
    with np.errstate(invalid="ignore", divide="ignore"):
        df = total**2 / (vr**2 / (n - 1) + vo**2 / (m - 1))
    df = np.where(total > 0, df, n + m - 2)
    return other.mean(axis=-1) - reference.mean(axis=-1), np.sqrt(total), df


def paired(reference: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The same for arms whose rounds are paired one to one.

    Args:
        reference: Log values, shape (..., n), n >= 2.
        other: Log values, shape (..., n).

    Returns:
        Mean difference, its standard error, n - 1, shape (...).

    Source: Student's t of the differences.
    """
    difference = other - reference
    n = difference.shape[-1]
    error = difference.std(axis=-1, ddof=1) / np.sqrt(n)
    return difference.mean(axis=-1), error, np.full(error.shape, float(n - 1))


def interval(
    difference: FloatArray, error: FloatArray, df: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """95 % t interval of a difference of log values."""
    half = stats.t.ppf(0.975, df) * error
    return difference - half, difference + half


def judge(
    low: FloatArray, high: FloatArray, direction: Direction, margin: float = MARGIN
) -> NDArray[np.str_]:
    """The word for each interval of log change, in the fixed order.

    Args:
        low: Low ends, shape (...).
        high: High ends, shape (...).
        direction: Which way is better.
        margin: Share within which two arms are the same.

    Returns:
        "same" where the interval lies inside the margin; else "better" or "worse" ("differs" for
        a metric without direction) where it excludes 0; else "not_shown".
    """
    inside = (low >= -np.log1p(margin)) & (high <= np.log1p(margin))
    up, down = low > 0, high < 0
    names = {"higher": ("better", "worse"), "lower": ("worse", "better")}
    rise, fall = names.get(direction, ("differs", "differs"))
    return np.select([inside, up, down], ["same", rise, fall], "not_shown")


def compare(
    name: str,
    reference: Sequence[Round],
    other: Sequence[Round],
    *,
    is_paired: bool,
    definitions: tuple[str, str] | None = None,
    arms: tuple[str, str] = ("reference", "other"),
) -> Comparison:
    """Compare one metric of two arms.

    Args:
        name: The metric; its direction decides what is better.
        reference: Rounds of the arm that the change is relative to.
        other: Rounds of the other arm.
        is_paired: Whether the plan pairs rounds by number and seed. Where the plan has several
            starts an arm and these differ more than their rounds, starts are the unit instead.
        definitions: How each arm's numbers are defined, where known.
        arms: Names for the warnings.

    Returns:
        The comparison; with fewer than three units an arm it has the change and no interval.

    Raises:
        InvalidSpec: The definitions differ, so the numbers do not mean the same.
    """
    if definitions is not None and definitions[0] != definitions[1]:
        raise InvalidSpec(
            f"These two numbers are defined differently ({definitions[0]}; {definitions[1]}).",
            "Compare numbers of the same tool and definition.",
        )
    warnings = round_warnings(reference, arms[0]) + round_warnings(other, arms[1])
    unit: Unit = "start" if starts_differ([reference, other]) else "round"
    if unit == "start":
        text = "Starts differ more than their rounds, so the interval is over starts."
        warnings.append(Notice(code="starts_differ", text=text))
    a, b, is_matched = _units(reference, other, unit, is_paired)
    result: dict[str, Any] = {
        "metric": name,
        "n_reference": a.size,
        "n_other": b.size,
        "unit": unit,
        "paired": is_matched,
        "warnings": warnings,
    }
    if a.size == 0 or b.size == 0 or a.min() <= 0 or b.min() <= 0:
        words = "No ratio: an arm has no valid round, or a value of 0."
        return Comparison(
            verdict="direction_only",
            change_pct=None,
            low_pct=None,
            high_pct=None,
            rounds_needed=None,
            words=words,
            **result,
        )
    log_a, log_b = np.log(a), np.log(b)
    if min(a.size, b.size) < MIN_UNITS:
        change = _percent(float(log_b.mean() - log_a.mean()))
        words = f"{change:+.1f} %, direction only: fewer than {MIN_UNITS} {unit}s an arm."
        return Comparison(
            verdict="direction_only",
            change_pct=change,
            low_pct=None,
            high_pct=None,
            rounds_needed=MIN_UNITS,
            words=words,
            **result,
        )
    difference, error, df = (paired if is_matched else welch)(log_a, log_b)
    low, high = interval(difference, error, df)
    verdict = cast(Verdict, str(judge(low, high, metric(name).direction)))
    needed = None
    if verdict == "not_shown":
        per_unit = float(error) * np.sqrt(min(a.size, b.size))
        needed = rounds_to_settle(
            abs(float(difference)), per_unit, df_a_round=1 if is_matched else 2
        )
        needed = None if needed is None else max(needed, min(a.size, b.size) + 1)
    ends = _percent(float(low)), _percent(float(high))
    change = _percent(float(difference))
    return Comparison(
        verdict=verdict,
        change_pct=change,
        low_pct=ends[0],
        high_pct=ends[1],
        rounds_needed=needed,
        words=_words(verdict, change, ends, needed, unit),
        **result,
    )


def _units(
    reference: Sequence[Round], other: Sequence[Round], unit: Unit, is_paired: bool
) -> tuple[FloatArray, FloatArray, bool]:
    """The values that are counted, and whether they are matched one to one."""
    if unit == "start":
        means = [
            np.array([float(np.mean(group)) for group in by_start(arm).values()])
            for arm in (reference, other)
        ]
        return means[0], means[1], False
    if not is_paired:
        return values(reference), values(other), False
    left = {(r.round, r.seed): r.value for r in reference if r.valid}
    right = {(r.round, r.seed): r.value for r in other if r.valid}
    shared = sorted(set(left) & set(right), key=str)
    return (
        np.array([left[key] for key in shared], dtype=float),
        np.array([right[key] for key in shared], dtype=float),
        True,
    )


def _percent(log_change: float) -> float:
    return 100.0 * float(np.expm1(log_change))


def _words(
    verdict: Verdict, change: float, ends: tuple[float, float], needed: int | None, unit: Unit
) -> str:
    numbers = f"{change:+.1f} % [{ends[0]:+.1f}, {ends[1]:+.1f}]"
    if verdict != "not_shown":
        return f"{numbers}: {VERDICT_WORDS[verdict]}."
    if needed is None:
        return f"{numbers}: not shown, and no practical number of {unit}s would settle it."
    return f"{numbers}: not shown; about {needed} {unit}s an arm would settle it."


def rounds_to_settle(
    effect: float, spread: float, *, df_a_round: int, margin: float = MARGIN
) -> int | None:
    """Units an arm at which an interval of this centre and spread leaves "not shown".

    Args:
        effect: Size of the log change seen so far, >= 0.
        spread: Standard error times the square root of the units an arm.
        df_a_round: Degrees of freedom that one more unit an arm adds: 1 paired, 2 for two arms.
        margin: Share within which two arms are the same.

    Returns:
        The number; None above 10,000.

    Source: the t interval, solved by going up in n, since t itself depends on n.
    """
    wanted = max(effect, float(np.log1p(margin)) - effect)
    n = np.arange(MIN_UNITS, MAX_ROUNDS + 1)
    half = stats.t.ppf(0.975, df_a_round * (n - 1)) * spread / np.sqrt(n)
    enough = np.flatnonzero(half < wanted)
    return int(n[enough[0]]) if enough.size else None


def smallest_shown_pct(result: Comparison) -> float | None:
    """Smallest change that this comparison's rounds could have told from none, percent.

    Args:
        result: A comparison; of an arm against itself it tells what a machine can show at all.

    Returns:
        Half the 95 % interval's width, or None where there is no interval.
    """
    if result.low_pct is None or result.high_pct is None:
        return None
    low, high = np.log1p(result.low_pct / 100), np.log1p(result.high_pct / 100)
    return _percent(float(high - low) / 2)


def smallest_change_pct(spread: float, n: int, *, is_paired: bool) -> float:
    """Smallest change that ``n`` units an arm can show: half the interval's width, percent.

    Args:
        spread: Relative standard deviation of one unit (of one difference, where paired).
        n: Units an arm, at least 2.
        is_paired: Whether rounds are paired.

    Raises:
        InvalidSpec: Fewer than two units.
    """
    if n < 2:
        raise InvalidSpec("With one round nothing can be shown: there is no spread to judge by.")
    arms = 1 if is_paired else 2
    return 100 * float(stats.t.ppf(0.975, arms * (n - 1)) * spread * np.sqrt(arms / n))
