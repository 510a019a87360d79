"""Failures: how often, how well that is known, and what one costs.

A failure rate is a Gamma: a prior of a named source, updated by the incidents and hours that were
seen. Hours are hours of the whole arm under load.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from models.economics import FloatArray
from models.errors import InvalidSpec
from models.prices import FailurePrior
from models.spread import gamma_quantile

HOURS_A_YEAR = 8766.0  # of 365.25 days, as failure rates are counted
ZERO_FAILURE_FACTOR = -math.log(0.05)  # 2.996


@dataclass(frozen=True)
class Evidence:
    """What was seen of one arm: incidents (hangs, crashes, wrong outputs) in hours under load.

    Raises:
        InvalidSpec: A negative count or time.
    """

    incidents: float = 0.0
    hours: float = 0.0

    def __post_init__(self) -> None:
        if self.incidents < 0 or self.hours < 0:
            raise InvalidSpec("Incidents and hours are counted from 0 up.")


@dataclass(frozen=True)
class Rate:
    """Failures an hour of one arm: a Gamma of shape ``a`` and rate ``b`` hours.

    Attributes:
        a: Shape, in incidents.
        b: Rate, in hours.
    """

    a: float
    b: float

    @property
    def mean_a_year(self) -> float:
        """Expected incidents a year under load."""
        return self.a / self.b * HOURS_A_YEAR if self.a else 0.0

    def quantile_a_year(self, share: ArrayLike) -> FloatArray:
        """Incidents a year below which a share of the draws lies."""
        return gamma_quantile(share, self.a, self.b) * HOURS_A_YEAR


def posterior(prior: Rate, seen: Evidence) -> Rate:
    """What the rate is after incidents were counted.

    Source: Gamma(a, b) and k incidents in T hours give Gamma(a + k, b + T).
    """
    return Rate(prior.a + seen.incidents, prior.b + seen.hours)


def group_prior(prior: FailurePrior, parts: float) -> Rate:
    """Prior of a group that fails with any of its parts.

    Args:
        prior: Named rate of one part, worth ``prior.strength`` incidents of evidence.
        parts: Parts of the group; their rates add.

    Raises:
        InvalidSpec: No part, or a prior without a rate.
    """
    if parts <= 0 or prior.likely <= 0 or prior.strength <= 0:
        raise InvalidSpec("A prior needs a rate above 0, a strength above 0 and at least one part.")
    per_hour = prior.likely * parts / HOURS_A_YEAR
    return Rate(prior.strength, prior.strength / per_hour)


def mtbf_bound_hours(seen: Evidence, confidence: float = 0.95) -> float | None:
    """Mean time between failures that the evidence shows at least.

    Args:
        seen: Incidents and hours.
        confidence: Of the one-sided bound.

    Returns:
        Hours; None without an hour watched.

    Source: 2T / chi2(confidence; 2k + 2), which for no incident is T / 2.996 at 95 %.
    """
    if seen.hours <= 0:
        return None
    return float(2 * seen.hours / stats.chi2.ppf(confidence, 2 * seen.incidents + 2))


def clean_hours_to_show(mtbf_hours: float, confidence: float = 0.95) -> float:
    """Hours without an incident that show a mean time between failures: 720 h takes 2,157."""
    return mtbf_hours * -math.log1p(-confidence)


def bound_words(seen: Evidence) -> str:
    """What the hours show and what they do not, one sentence."""
    bound = mtbf_bound_hours(seen)
    if bound is None:
        return "No hour was watched: nothing is known of stability beyond the prior."
    if seen.incidents:
        plural = "s" if seen.incidents != 1 else ""
        return (
            f"{seen.incidents:g} incident{plural} in {seen.hours:,.0f} h: failures are at least "
            f"{bound:,.0f} h apart on average (95 %)."
        )
    more = clean_hours_to_show(720.0)
    return (
        f"{seen.hours:,.0f} h without an incident show only that failures are at least "
        f"{bound:,.0f} h apart on average (95 %); a month (720 h) takes {more:,.0f} clean hours."
    )


@dataclass(frozen=True)
class Stability:
    """Failure rates of both arms.

    Attributes:
        baseline: Posterior of the baseline.
        candidate: Posterior of the candidate.
        known_a_year: Incidents that the candidate adds a year, where they are known for sure.
    """

    baseline: Rate
    candidate: Rate
    known_a_year: float | None = None

    def difference_a_year(self, share: ArrayLike) -> FloatArray:
        """Incidents a year that the candidate adds, common random numbers for both arms."""
        if self.known_a_year is not None:
            return np.full(np.shape(share), self.known_a_year)
        return self.candidate.quantile_a_year(share) - self.baseline.quantile_a_year(share)


def stability(
    prior: FailurePrior,
    *,
    parts: tuple[float, float],
    seen: tuple[Evidence, Evidence],
) -> Stability:
    """Failure rates of baseline and candidate.

    Args:
        prior: Rate of one part.
        parts: Parts of the baseline and of the candidate: an added link is one more part.
        seen: Evidence on each arm.
    """
    first, second = (
        posterior(group_prior(prior, n), evidence) for n, evidence in zip(parts, seen, strict=True)
    )
    return Stability(first, second)


def interval_a_year(rate: Rate) -> tuple[float, float, float]:
    """P5, median and P95 of the incidents a year under load."""
    if rate.a == 0:
        return 0.0, 0.0, 0.0
    low, middle, high = (
        float(special.gammaincinv(rate.a, share) / rate.b * HOURS_A_YEAR)
        for share in (0.05, 0.5, 0.95)
    )
    return low, middle, high
