"""Failure rates: posterior against SciPy, the guide's bounds, groups, differences."""

import numpy as np
import pytest
from economics_cases import PRIOR
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from importers.catalogue import catalogue
from models.errors import InvalidSpec
from models.risk import (
    HOURS_A_YEAR,
    Evidence,
    Rate,
    bound_words,
    clean_hours_to_show,
    group_prior,
    interval_a_year,
    mtbf_bound_hours,
    posterior,
    stability,
)


@pytest.mark.parametrize(("hours", "shown"), [(24, 8), (168, 56)])
def test_clean_hours_show_little(hours, shown):
    assert round(mtbf_bound_hours(Evidence(0, hours))) == shown
    assert mtbf_bound_hours(Evidence(0, hours)) == pytest.approx(hours / 2.996, rel=1e-3)


def test_a_month_between_failures_takes_2157_clean_hours():
    assert round(clean_hours_to_show(720)) == 2157


def test_the_bound_with_incidents_is_garwoods():
    # 95 % upper limit of a Poisson mean with 2 seen is 6.296 (standard table)
    assert mtbf_bound_hours(Evidence(2, 1000)) == pytest.approx(1000 / 6.296, rel=1e-3)
    assert mtbf_bound_hours(Evidence(0, 0)) is None


@settings(deadline=None)
@given(st.floats(0.1, 50), st.floats(10, 1e6), st.integers(0, 20), st.floats(0, 1e5))
def test_the_posterior_agrees_with_scipy(a, b, incidents, hours):
    after = posterior(Rate(a, b), Evidence(incidents, hours))
    assert (after.a, after.b) == (a + incidents, b + hours)
    known = stats.gamma(a + incidents, scale=1 / (b + hours))
    assert after.mean_a_year == pytest.approx(known.mean() * HOURS_A_YEAR)
    u = np.array([0.05, 0.5, 0.95])
    assert after.quantile_a_year(u) == pytest.approx(known.ppf(u) * HOURS_A_YEAR)
    assert interval_a_year(after) == pytest.approx(tuple(known.ppf(u) * HOURS_A_YEAR))


def test_rates_of_a_groups_parts_add():
    assert group_prior(PRIOR, 4).mean_a_year == pytest.approx(4 * 0.111)
    with pytest.raises(InvalidSpec):
        group_prior(PRIOR, 0)


def test_only_the_difference_counts_and_it_grows_with_parts():
    same = stability(PRIOR, parts=(2, 2), seen=(Evidence(), Evidence()))
    u = np.linspace(0.01, 0.99, 99)
    assert same.difference_a_year(u) == pytest.approx(np.zeros(99))
    more = stability(PRIOR, parts=(2, 3), seen=(Evidence(), Evidence()))
    assert (more.difference_a_year(u) > 0).all()
    # common random numbers: the difference of two quantiles at the same share
    assert more.difference_a_year(u) == pytest.approx(
        more.candidate.quantile_a_year(u) - more.baseline.quantile_a_year(u)
    )


@settings(deadline=None)
@given(st.integers(0, 5), st.floats(0, 5000), st.floats(0, 5000))
def test_clean_hours_never_raise_the_rate_and_incidents_never_lower_it(incidents, hours, more):
    before = posterior(group_prior(PRIOR, 3), Evidence(incidents, hours)).mean_a_year
    assert posterior(group_prior(PRIOR, 3), Evidence(incidents, hours + more)).mean_a_year <= before
    assert posterior(group_prior(PRIOR, 3), Evidence(incidents + 1, hours)).mean_a_year > before


def test_the_sentence_where_evidence_is_entered():
    assert "at least 8 h apart" in bound_words(Evidence(0, 24))
    assert "2,157 clean hours" in bound_words(Evidence(0, 24))
    assert "No hour was watched" in bound_words(Evidence())
    assert "2 incidents in 1,000 h" in bound_words(Evidence(2, 1000))
    with pytest.raises(InvalidSpec):
        Evidence(-1, 3)


def test_the_priors_count_different_events():
    priors = catalogue().priors
    assert priors["data-centre-interruption"].likely == 0.173
    assert priors["data-centre-gpu"].likely == 0.111
    # 419 and 268 of 16,384 cards over 54 days
    for key, count in (("data-centre-interruption", 419), ("data-centre-gpu", 268)):
        rate = count / (16_384 * 54 / 365.25)
        assert round(rate, 3) == priors[key].likely
    assert priors["consumer-replaced"].event != priors["data-centre-gpu"].event
