"""Hourly demand, spreads and the money of a purchase."""

import numpy as np
import pytest
from economics_cases import LIGHT, published, purchase
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from models.cashflow import annuities, discounted, money, net_value, rent_a_day
from models.demand import hourly_shape, served_a_day, served_share
from models.economics import capital_recovery, monthly_rate, npv
from models.errors import InvalidSpec
from models.gain import from_range
from models.purchase import INPUTS, Cloud, pinned
from models.ranges import Range, fixed
from models.spread import LogNormal, gamma_quantile
from models.typical import monthly_cash, typical


@settings(deadline=None)
@given(st.floats(1, 24))
def test_a_day_has_the_peak_that_was_asked_for(peak):
    load = np.array(hourly_shape(peak))
    assert load.mean() == pytest.approx(1)
    assert load.max() == pytest.approx(peak, rel=1e-6)
    assert load.min() >= 0


@pytest.mark.parametrize("peak", [0.5, 25, 0.0])
def test_an_impossible_peak_is_refused(peak):
    with pytest.raises(InvalidSpec):
        hourly_shape(peak)


@settings(deadline=None)
@given(st.floats(0, 50), st.floats(1, 20))
def test_the_served_share_is_the_sum_over_the_hours(ratio, peak):
    by_hand = np.minimum(ratio * np.array(hourly_shape(peak)), 1).mean()
    assert served_share(np.array([ratio]), peak)[0] == pytest.approx(by_hand, abs=1e-6)


def test_a_machine_without_speed_serves_nothing():
    served, used = served_a_day(np.array([100.0]), np.array([0.0]), 2.0)
    assert (served[0], used[0]) == (0, 0)


def test_triangular_quantiles_against_scipy():
    spread = Range(2, 3, 7)
    u = np.linspace(0.01, 0.99, 99)
    known = stats.triang(c=(3 - 2) / (7 - 2), loc=2, scale=5)
    assert spread.quantile(u) == pytest.approx(known.ppf(u))
    assert fixed(4).quantile(u) == pytest.approx(4)
    with pytest.raises(InvalidSpec):
        Range(3, 2, 7)
    with pytest.raises(InvalidSpec):
        Range(1, 2, float("nan"))


def test_repair_times_against_scipy():
    spread = LogNormal(4, 24)
    assert spread.quantile(np.array([0.5, 0.9])) == pytest.approx([4, 24])
    u = np.array([0.05, 0.25, 0.75, 0.99])
    sigma = np.log(6) / stats.norm.ppf(0.9)
    assert spread.quantile(u) == pytest.approx(stats.lognorm(sigma, scale=4).ppf(u))
    assert LogNormal(3, 3).quantile(u) == pytest.approx(3)
    with pytest.raises(InvalidSpec):
        LogNormal(4, 2)


@pytest.mark.parametrize("shape", [0.5, 1, 1.7, 30, 419])
def test_looked_up_gamma_quantiles_agree_with_scipy(shape):
    u = np.random.default_rng(3).uniform(0.0005, 0.9995, 5000)
    exact = stats.gamma.ppf(u, shape, scale=1 / 250)
    assert gamma_quantile(u, shape, 250) == pytest.approx(exact, rel=2e-3)


def test_money_by_hand():
    # flat demand of twice the capacity, sold at $1 a million; 25 % more speed
    case = purchase(
        gain=from_range(0.25, 0.25, 0.25),
        demand=fixed(2 * 100 * 86_400),
        peak_to_average=1.0,
        token_value=fixed(1.0),
        electricity=fixed(0.0),
        service_value=0.0,
        incident_labour=0.0,
    )
    flow = money(case, {name: np.array([v]) for name, v in case.medians().items()})
    a_year = 25 * 86_400 * 1e-6 * 365
    assert flow.served[0] == pytest.approx(a_year)
    assert flow.yearly[:, 0] == pytest.approx([a_year] * 3)
    assert flow.used[:, 0] == pytest.approx([1, 1])


def test_input_tokens_count_where_they_have_a_value():
    plain = purchase(token_value=fixed(1.0), input_value=fixed(0.0), electricity=fixed(0.0))
    both = purchase(
        token_value=fixed(1.0),
        input_value=fixed(0.25),
        input_per_output=4.0,
        electricity=fixed(0.0),
    )
    a, b = (
        money(c, {name: np.array([v]) for name, v in c.medians().items()}).served[0]
        for c in (plain, both)
    )
    assert b == pytest.approx(2 * a)


def test_cloud_hours_are_rounded_up_to_the_billing_step():
    case = purchase(benefit="cloud", cloud=Cloud(100, 2, step_hours=1.0, idle_hours=0.5))
    unserved = np.array([0.0, 1.0, 3600 * 100, 3600 * 100 + 1])
    rent = rent_a_day(case, unserved, np.full(4, 0.5))
    assert rent == pytest.approx([0, 1.5, 1.5, 2.5])
    with pytest.raises(InvalidSpec):
        purchase(benefit="cloud", cloud=None)


def test_waiting_time_is_worth_what_somebody_says():
    case = purchase(
        benefit="waiting",
        wait_hours=fixed(2.0),
        hour_value=fixed(10.0),
        gain=from_range(0.25, 0.25, 0.25),
        electricity=fixed(0.0),
    )
    flow = money(case, {name: np.array([v]) for name, v in case.medians().items()})
    assert flow.served[0] == pytest.approx(2 * (1 - 1 / 1.25) * 10 * 365)
    assert typical(case).minutes_a_day == pytest.approx(60 * 2 * 0.2)


def test_growth_comes_at_each_years_turn():
    case = purchase(
        demand=fixed(1e6), growth=1.0, peak_to_average=1.0, electricity=fixed(1.0), months=24
    )
    flow = money(case, {name: np.array([v]) for name, v in case.medians().items()})
    # demand does not bind: only energy is saved, and twice as much of it in the second year
    risk = flow.risk[0]
    assert flow.yearly[1, 0] + risk == pytest.approx(2 * (flow.yearly[0, 0] + risk))


def test_the_annuity_table_is_the_discounted_sum():
    case = purchase(months=29, discount=0.12)
    table, last = annuities(case)
    yearly = np.array([120.0, 60.0, -24.0])
    cash = monthly_cash(case, yearly, 100.0, 40.0)
    rate = monthly_rate(0.12)
    assert table[-1] @ yearly - 100 + last * 40 == pytest.approx(npv(rate, cash))
    assert table[12, 0] == pytest.approx(1 / capital_recovery(rate, 12) / 12)


def test_cost_of_tokens_before_and_after():
    case = purchase(electricity=fixed(0.1872), discount=0.08)
    found = typical(case, box_price=1300, box_resale=0.3)
    before, after = found.token_cost
    assert before is not None
    assert after is not None
    assert after < before  # the bridge is cheap and the machine is full
    assert typical(purchase(demand=fixed(0.0))).token_cost == (None, None)


@settings(deadline=None)
@given(st.floats(0, 5000), st.floats(0, 5000), st.integers(0, 2**32 - 1))
def test_a_higher_price_never_raises_the_value(first, second, seed):
    low, high = sorted((first, second))
    case = purchase(gain=published(), resale=Range(0.0, 0.5, 0.99))
    share = np.random.default_rng(seed).uniform(0.01, 0.99, 50)
    drawn = {name: case.quantile(name, share) for name in INPUTS}
    cheap = net_value(case, drawn | {"price": np.full(50, low)})
    dear = net_value(case, drawn | {"price": np.full(50, high)})
    assert (dear <= cheap + 1e-9).all()


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(-0.5, 3), st.floats(1, 20))
def test_demand_below_the_old_capacity_earns_nothing_from_throughput(part, gain, peak):
    capacity = 100.0 * 86_400
    faster = max(gain, 0.0)
    for benefit in ("tokens", "cloud"):
        case = purchase(
            benefit=benefit,
            gain=from_range(faster, faster, faster),
            demand=fixed(part * capacity / peak),  # the peak hour, too, stays below the capacity
            peak_to_average=peak,
        )
        flow = money(case, {name: np.array([v]) for name, v in case.medians().items()})
        assert flow.served[0] == pytest.approx(0, abs=1e-6)


def test_a_lightly_used_machine_is_said_to_be_one():
    assert not typical(purchase(**LIGHT)).demand_binds
    assert typical(purchase()).demand_binds


def test_known_values_replace_spreads():
    case = pinned(
        purchase(),
        {
            "gain": 0.5,
            "price": 60,
            "labour_hours": 1,
            "repair_hours": 2,
            "rate_added": 0.25,
            "demand": 5e6,
        },
    )
    found = {name: case.quantile(name, np.array([0.1, 0.9])) for name in INPUTS}
    for name, value in (("gain", 0.5), ("price", 60), ("labour_hours", 1), ("repair_hours", 2)):
        assert found[name] == pytest.approx([value, value]), name
    assert found["rate_added"] == pytest.approx([0.25, 0.25])
    assert found["demand"] == pytest.approx([5e6, 5e6])
    assert case.gain.rounds == 5
    assert case.gain.origin == "measured"


def test_amounts_a_year_in_todays_money():
    """Two months after one of two years; three draws, worked by hand."""
    factors = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.5]])
    yearly = np.array([[10.0, -4.0, 0.0], [2.0, 6.0, 8.0]])
    whole = discounted(factors, yearly)
    assert whole.tolist() == [[0.0, 0.0, 0.0], [10.0, -4.0, 0.0], [11.0, -1.0, 4.0]]
    assert discounted(factors[-1], yearly).tolist() == whole[-1].tolist()
