"""Monte Carlo: same figures again, quantiles, sensitivity, value of knowing, alternatives."""

import math
from dataclasses import replace

import numpy as np
import pytest
from economics_cases import LIGHT, PRIOR, measured, published, purchase
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from models.alternatives import Change, nothing, side_by_side
from models.assessment import Question, assess, quick
from models.cashflow import money, net_value
from models.decision import decide, draw, payback_quantile, value_of_knowing
from models.economics import npv
from models.errors import InvalidSpec
from models.gain import Gain, assumed_around, from_range, from_rounds, point
from models.purchase import INPUTS
from models.ranges import Range, fixed
from models.risk import Evidence, stability
from models.rounds import Round
from models.sensitivity import (
    at_medians,
    break_even,
    rounds_to_decide,
    soak_hours_to_decide,
    tornado,
    utilisation_at,
)
from models.typical import monthly_cash, typical
from models.wording import chance

PINNED_NPV = [395, 489, 567, 652, 774]


def test_the_same_seed_gives_the_same_figures():
    first, again = (decide(purchase(), 2000, 7) for _ in range(2))
    assert first.npv == again.npv
    assert np.array_equal(first.fan, again.fan)
    assert decide(purchase(), 2000, 8).npv != first.npv


def test_printed_figures_are_pinned():
    """Rounded as a page prints them: a change here means another answer for everybody."""
    outcome = decide(purchase(), 20_000)
    assert [round(value) for value in outcome.npv] == PINNED_NPV
    assert chance(outcome.p_positive) == "over 99 %"


def test_one_input_moves_no_other():
    plain, dearer = (
        draw(purchase(**changed), 500) for changed in ({}, {"price": Range(400, 500, 900)})
    )
    for name in INPUTS:
        assert np.array_equal(plain[name], dearer[name]) == (name != "price")


def test_the_fan_ends_at_the_net_value_and_starts_at_the_price():
    case = purchase()
    outcome = decide(case, 3000)
    values = net_value(case, outcome.drawn)
    assert outcome.npv == pytest.approx(tuple(np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))))
    assert outcome.p_positive == pytest.approx(np.mean(values > 0))
    assert outcome.fan_months[0] == 0
    assert outcome.fan_months[-1] == case.months
    paid = np.quantile(-(outcome.drawn["price"] + 30 * outcome.drawn["labour_hours"]), 0.5)
    assert outcome.fan[2, 0] == pytest.approx(paid)
    assert (np.diff(outcome.fan, axis=0) >= 0).all()


def test_one_draw_followed_by_hand():
    case = purchase()
    outcome = decide(case, 300)
    one = {name: values[17:18] for name, values in outcome.drawn.items()}
    flow = money(case, one)
    cash = monthly_cash(case, flow.yearly[:, 0], float(flow.upfront[0]), float(flow.resale[0]))
    assert outcome.values[17] == pytest.approx(npv(1.08 ** (1 / 12) - 1, cash))


def test_payback_counts_every_draw_once():
    outcome = decide(purchase(), 2000)
    assert sum(outcome.payback) + round(outcome.p_never * 2000) == 2000
    assert payback_quantile(outcome, 0.5) is not None
    poor = decide(purchase(**LIGHT), 2000)
    assert poor.p_never == 1
    assert payback_quantile(poor, 0.5) is None


def test_long_horizons_keep_the_fan_small():
    outcome = decide(purchase(months=120), 500)
    assert len(outcome.fan_months) <= 37
    assert outcome.fan_months[-1] == 120
    assert len(outcome.payback) == 121


def test_gains_are_spread_as_their_evidence_says():
    u = np.array([0.05, 0.5, 0.95])
    one = assumed_around(math.log(1.25), rounds=1, origin="published", assumed_spread=0.1)
    assert one.quantile(u)[1] == pytest.approx(0.25)
    assert np.log1p(one.quantile(u)[2]) - math.log(1.25) == pytest.approx(1.645 * 0.1414, rel=1e-3)
    assert "assumed" in one.notes[0]
    low, _, high = from_range(0.08, 0.09, 0.10).quantile(np.array([0, 0.5, 1]))
    assert (low, high) == (pytest.approx(0.08), pytest.approx(0.10))
    assert point(0.3).is_fixed
    with pytest.raises(InvalidSpec):
        from_range(0.2, 0.1, 0.3)
    with pytest.raises(InvalidSpec):
        from_range(-1, 0, 1)


def test_the_gain_of_rounds_is_the_t_posterior():
    a = [Round(100 * f, i) for i, f in enumerate((1.0, 1.02, 0.99, 1.01))]
    b = [Round(120 * f, i) for i, f in enumerate((1.01, 1.01, 1.0, 0.99))]
    gain = from_rounds(a, b, is_paired=True)
    difference = np.log([y.value / x.value for x, y in zip(a, b, strict=True)])
    known = stats.t(3, loc=difference.mean(), scale=difference.std(ddof=1) / 2)
    u = np.array([0.05, 0.3, 0.95])
    assert np.log1p(gain.quantile(u)) == pytest.approx(known.ppf(u))
    apart = from_rounds(a, b, is_paired=False)
    logs = np.log([[x.value for x in a], [y.value for y in b]])
    welch = stats.ttest_ind(logs[1], logs[0], equal_var=False).confidence_interval(0.9)
    ends = np.log1p(apart.quantile(np.array([0.05, 0.95])))
    assert ends == pytest.approx([welch.low, welch.high])
    times = from_rounds(b, a, is_paired=True, higher_is_better=False)
    assert times.value == pytest.approx(gain.value)


def test_rounds_that_failed_or_are_missing_give_no_gain():
    bad = [Round(100, 0, valid=False)]
    good = [Round(120, 0)]
    with pytest.raises(InvalidSpec):
        from_rounds(bad, good, is_paired=False)
    assert from_rounds(good, good, is_paired=False).kind == "few_rounds"


@settings(deadline=None, max_examples=30)
@given(st.floats(-0.3, 1.0), st.floats(0.001, 0.3), st.integers(3, 10))
def test_draws_of_a_gain_stay_finite(gain, spread, n):
    wild = Gain("rounds", math.log1p(gain), error=spread, df=2.0, rounds=n, origin="measured")
    outcome = decide(purchase(gain=wild), 500)
    assert np.isfinite(outcome.values).all()


def test_the_tornado_is_sorted_and_at_the_medians():
    case = purchase()
    swings = tornado(case)
    assert [s.size for s in swings] == sorted((s.size for s in swings), reverse=True)
    names = {swing.name for swing in swings}
    assert {"gain", "token_value", "demand", "price", "labour_hours", "rate_added"} <= names
    assert "cloud_rent" not in names  # the benefit is sold tokens
    price = next(s for s in swings if s.name == "price")
    assert price.npv_low == pytest.approx(at_medians(case, {"price": np.array([price.low])})[0])
    assert price.npv_low > price.npv_high


@pytest.mark.parametrize("name", ["price", "demand", "gain", "rate_added"])
def test_at_its_break_even_the_case_is_worth_nothing(name):
    case = purchase()
    level = break_even(case, name)
    assert level is not None
    assert at_medians(case, {name: np.array([level])})[0] == pytest.approx(0, abs=0.5)


def test_where_no_value_of_an_input_helps_there_is_no_break_even():
    assert break_even(purchase(**LIGHT), "price") is None
    assert break_even(purchase(**LIGHT), "gain") is None
    assert break_even(purchase(**LIGHT), "rate_added") is None
    # a machine without demand: even full demand cannot be reached by price
    assert break_even(purchase(demand=fixed(0.0)), "price") is None


def test_utilisation_at_a_demand():
    case = purchase(peak_to_average=1.0)
    assert utilisation_at(case, 0.25 * 100 * 86_400) == pytest.approx(0.25)
    assert utilisation_at(replace(case, base_tok_s=0.0), 1e6) == 0


def test_knowing_is_worth_nothing_where_the_decision_is_clear():
    clear = value_of_knowing(decide(purchase(), 3000))
    assert clear[0] < 5
    open_case = purchase(gain=assumed_around(0.05, rounds=1, origin="published"))
    everything, parts = value_of_knowing(decide(open_case, 6000))
    assert everything > 20
    assert max(parts, key=parts.get) == "gain"
    assert all(0 <= part <= everything for part in parts.values())


def test_rounds_that_would_decide():
    shown = measured(1.25, n=3, spread=0.02)
    assert rounds_to_decide(shown, 0.05) == 3
    near = Gain("rounds", math.log(1.06), error=0.05, df=2.0, rounds=3, is_paired=True)
    needed = rounds_to_decide(near, 0.05)
    assert needed is not None
    assert needed > 20
    assert rounds_to_decide(near, None) is None
    assert rounds_to_decide(from_range(0, 0.1, 0.2), 0.05) is None
    assert rounds_to_decide(near, math.expm1(near.centre)) is None  # exactly on the edge


def test_soak_hours_that_would_decide():
    assert soak_hours_to_decide(365.25, 0) == pytest.approx(24 * 2.996, rel=1e-3)
    assert soak_hours_to_decide(365.25, 70) == pytest.approx(24 * 2.996 - 70, rel=1e-2)
    assert soak_hours_to_decide(None, 0) is None
    assert soak_hours_to_decide(-1, 0) is None


def test_alternatives_share_the_same_luck():
    case = purchase()
    outcome = decide(case, 4000, 1)
    twin = Change("twin", "The same gain for nothing", case.gain)
    rows = {row.code: row for row in side_by_side(case, outcome, [twin], 1)}
    assert rows["nothing"].npv == (0, 0, 0)
    assert rows["twin"].npv[1] > rows["link"].npv[1]  # same gain, no price, no part added
    assert rows["twin"].p_positive == 1
    assert rows["cloud"].upfront == 0
    assert nothing().p_positive is None


def test_the_cloud_is_dear_for_a_full_machine_and_absent_without_a_price():
    full = purchase(benefit="cloud")
    rows = {row.code: row for row in side_by_side(full, decide(full, 1000), [], 1)}
    assert rows["cloud"].npv[1] < 0
    none = purchase(cloud=None)
    assert "cloud" not in {row.code for row in side_by_side(none, decide(none, 500), [], 1)}


def test_a_slider_answers_as_the_pinned_purchase_does():
    question = Question(case=purchase(), draws=2000)
    outcome, verdict = quick(question, {"price": 150.0, "gain": 0.02})
    assert float(np.ptp(outcome.drawn["price"])) == 0
    assert outcome.drawn["gain"][0] == pytest.approx(0.02)
    assert verdict.word in ("Buy", "Not yet", "Don't", "Measure more")
    plain = assess(question)
    assert quick(question, {})[0].npv == plain.outcome.npv


def test_incidents_cost_money():
    clean = stability_of(Evidence(0, 100))
    dirty = stability_of(Evidence(5, 100))
    assert (
        decide(purchase(stability=dirty), 1000).npv[2]
        < decide(purchase(stability=clean), 1000).npv[2]
    )


def stability_of(seen: Evidence):
    return stability(PRIOR, parts=(2, 3), seen=(Evidence(), seen))


def test_typical_figures_agree_with_the_cash_flow():
    found = typical(purchase(gain=published()))
    assert found.irr is not None
    assert found.ratio is not None
    assert found.ratio > 1
    assert found.discounted_payback is not None
    assert found.simple_payback == pytest.approx(found.upfront / found.monthly)
