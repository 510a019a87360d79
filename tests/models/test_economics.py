"""Cash flow and cost: the guide's vectors, numpy-financial as the independent route, limits."""

import math

import numpy as np
import numpy_financial as npf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.economics import (
    benefit_cost_ratio,
    capital_recovery,
    clock_hour_cost,
    cost_per_million,
    delivered_hour_cost,
    discounted_payback_month,
    exposed_share,
    irr,
    is_above_ceiling,
    link_ceiling,
    monthly_rate,
    npv,
    request_share,
    simple_payback_months,
    yearly_from_monthly,
)
from models.errors import InvalidSpec

BRIDGE = [-200.0] + [15.0] * 36  # capex 200, benefit 15 a month, 36 months


def test_the_bridge_of_the_guide():
    rate = monthly_rate(0.10)
    assert round(npv(rate, BRIDGE), 2) == 267.80
    assert round(float(npf.npv(rate, BRIDGE)), 2) == 267.80
    assert round(simple_payback_months(200, 15), 2) == 13.33
    assert discounted_payback_month(BRIDGE, rate) == 15
    found = irr(BRIDGE)
    assert found is not None
    assert round(100 * yearly_from_monthly(found), 1) == 120.1
    assert round(100 * ((1 + float(npf.irr(BRIDGE))) ** 12 - 1), 1) == 120.1


def test_capital_recovery_factors():
    assert round(capital_recovery(0.08, 3), 5) == 0.38803
    assert round(capital_recovery(0.10, 3), 5) == 0.40211
    assert capital_recovery(0.08, 3) == pytest.approx(-float(npf.pmt(0.08, 3, 1)))
    assert capital_recovery(0.0, 4) == 0.25


def test_the_box_of_the_guide():
    clock = clock_hour_cost(
        2600,
        0.3 * 2600,
        0.08,
        3,
        kw_busy=0.8,
        kw_idle=0.0,
        utilisation=0.3,
        pue=1.0,
        price_per_kwh=0.1872,
    )
    delivered = delivered_hour_cost(clock, 0.3)
    assert round(delivered, 3) == 0.442
    assert round(cost_per_million(delivered, 60), 2) == 2.05


def test_idle_power_is_paid_in_the_hours_without_work():
    common = {"pue": 1.5, "price_per_kwh": 0.2, "kw_busy": 0.5}
    idle = clock_hour_cost(0, 0, 0.1, 1, kw_idle=0.1, utilisation=0.0, **common)
    assert idle == pytest.approx(0.1 * 1.5 * 0.2)
    half = clock_hour_cost(0, 0, 0.1, 1, kw_idle=0.1, utilisation=0.5, **common)
    assert half == pytest.approx(0.3 * 1.5 * 0.2)


@settings(deadline=None)
@given(
    st.floats(1, 1e5),
    st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=60),
    st.floats(-0.05, 0.2),
)
def test_present_value_agrees_with_numpy_financial(price, cash, rate):
    flow = [-price, *cash]
    assert npv(rate, flow) == pytest.approx(float(npf.npv(rate, flow)), rel=1e-9, abs=1e-6)


@settings(deadline=None)
@given(st.floats(10, 1e5), st.floats(0.1, 1e4), st.integers(1, 120))
def test_the_rate_of_return_makes_the_flow_worth_nothing(price, benefit, months):
    flow = [-price, *[benefit] * months]
    found = irr(flow)
    if found is not None:
        assert npv(found, flow) == pytest.approx(0, abs=1e-6 * price)
        assert found == pytest.approx(float(npf.irr(flow)), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    "flow",
    [
        [0.0, 10.0, 10.0],  # nothing paid
        [-10.0, -1.0, -1.0],  # nothing comes back
        [-10.0, 25.0, -15.1],  # two changes of sign: several rates, or none
        [0.0, 0.0],
    ],
)
def test_a_rate_of_return_may_not_exist(flow):
    assert irr(flow) is None


def test_payback_may_never_come():
    assert simple_payback_months(200, 0) is None
    assert simple_payback_months(200, -3) is None
    assert simple_payback_months(0, -3) == 0
    assert discounted_payback_month([-200.0, *[1.0] * 36], 0.0) is None
    assert discounted_payback_month([0.0, 1.0], 0.0) == 0


def test_nothing_delivered_has_no_cost_of_a_token():
    assert delivered_hour_cost(0.2, 0.0) is None
    assert cost_per_million(None, 60) is None
    assert cost_per_million(0.4, 0) is None
    assert benefit_cost_ratio(100, 0) is None
    assert benefit_cost_ratio(100, 50) == 3


def test_impossible_inputs_are_refused_with_a_sentence():
    for call in (
        lambda: capital_recovery(0.08, 0),
        lambda: capital_recovery(-1.0, 3),
        lambda: monthly_rate(-1.0),
        lambda: link_ceiling(1.0),
        lambda: link_ceiling(0.2, -0.1),
        lambda: clock_hour_cost(
            1, 0, 0.1, 1, kw_busy=1, kw_idle=0, utilisation=1.2, pue=1, price_per_kwh=1
        ),
    ):
        with pytest.raises(InvalidSpec) as caught:
            call()
        assert caught.value.sentence.endswith(".")


def test_monthly_rate_compounds_to_the_yearly_one():
    assert (1 + monthly_rate(0.10)) ** 12 == pytest.approx(1.10)
    assert yearly_from_monthly(monthly_rate(0.37)) == pytest.approx(0.37)


def test_ceilings():
    assert link_ceiling(0.0) == 1.0
    assert link_ceiling(0.2) == pytest.approx(1.25)
    # half of the communication time remains: 1 / (1 - 0.2 + 0.1)
    assert link_ceiling(0.2, 0.5) == pytest.approx(1 / 0.9)
    assert link_ceiling(0.2, 1.0) == pytest.approx(1.0)


@settings(deadline=None)
@given(st.floats(0, 0.95), st.floats(0, 1), st.floats(0.001, 3))
def test_a_gain_above_the_ceiling_is_flagged_and_one_below_is_not(share, remaining, more):
    ceiling = link_ceiling(share)
    assert link_ceiling(share, remaining) <= ceiling + 1e-12
    assert is_above_ceiling(ceiling * 1.03 * (1 + more) - 1, ceiling)
    assert not is_above_ceiling(link_ceiling(share, remaining) - 1, ceiling)
    assert not is_above_ceiling(more, None)


def test_exposed_share_of_step_and_request():
    # 56 calls of 28 us in a step of 15.68 ms: a tenth
    assert exposed_share(56, 28, 15.68) == pytest.approx(0.1)
    assert exposed_share(56, 28, 0) is None
    assert exposed_share(56, 28, 1.0) is None  # the calls take longer than the step
    # 500 ms of prefill with 0.4, 100 x 10 ms of decode with 0.1
    assert request_share(0.4, 0.1, 500, 10, 101) == pytest.approx((200 + 100) / 1500)
    assert request_share(None, 0.1, 500, 10, 101) is None


def test_figures_are_finite_over_a_long_horizon():
    flow = np.array([-1.0] + [1e6] * 120)
    assert math.isfinite(npv(monthly_rate(0.5), flow))
    found = irr(flow)
    assert found is None or math.isfinite(found)
