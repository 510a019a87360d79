"""Cash flow: annuities, present value, rate of return, payback, cost of an hour and of a token.

Amounts are in one currency, whichever; rates are shares a year (0.08 is 8 %). A figure that does
not exist (no rate of return, never pays back, nothing delivered) is None, never 0 and never
infinite: `models.remarks` has the sentence for it.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from models.errors import InvalidSpec

FloatArray = NDArray[np.float64]

HOURS_A_YEAR = 8760.0
DAYS_A_MONTH = 365.0 / 12
_LEAST_RETURN, _MOST_RETURN = -0.99, 1e6  # a period; beyond them no rate says anything


def monthly_rate(yearly: float) -> float:
    """Rate a month that compounds to a rate a year.

    Args:
        yearly: Share a year, above -1.

    Returns:
        Share a month.

    Raises:
        InvalidSpec: The rate is -100 % or less.

    Source: (1 + r)^(1/12) - 1.
    """
    if not yearly > -1:
        raise InvalidSpec(
            "A discount rate lies above -100 % a year.", "Usual values are 0 to 20 %."
        )
    return math.expm1(math.log1p(yearly) / 12)


def capital_recovery(rate: float, periods: float) -> float:
    """Constant payment per period that repays 1 (CRF).

    Args:
        rate: Share per period, above -1; 0 gives 1/n.
        periods: Number of periods, > 0.

    Returns:
        Payment per period for a price of 1.

    Raises:
        InvalidSpec: No period to spread a price over, or an impossible rate.

    Source: r(1+r)^n / ((1+r)^n - 1); CRF(8 %, 3) = 0.38803, CRF(10 %, 3) = 0.40211.
    """
    if periods <= 0:
        raise InvalidSpec("A price cannot be spread over 0 years.", "Choose a longer horizon.")
    if not rate > -1:
        raise InvalidSpec("A discount rate lies above -100 % a year.")
    if rate == 0:
        return 1.0 / periods
    return rate / -math.expm1(-periods * math.log1p(rate))


def npv(rate: float, cash: Sequence[float] | FloatArray) -> float:
    """Present value of a cash flow whose first entry is now.

    Args:
        rate: Share per period, above -1.
        cash: Amounts, shape (n + 1,): now, then at the end of each period.

    Returns:
        Sum of the discounted amounts.
    """
    flow = np.asarray(cash, dtype=float)
    return float(flow @ np.exp(-np.log1p(rate) * np.arange(flow.size)))


def irr(cash: Sequence[float] | FloatArray) -> float | None:
    """Rate per period at which the present value is 0.

    Args:
        cash: Amounts as in `npv`.

    Returns:
        Share per period; None where the flow never changes its sign (no rate makes it 0), does so
        more than once (several rates may), or where the rate is absurd.
    """
    flow = np.asarray(cash, dtype=float)
    signs = np.sign(flow[flow != 0])
    if signs.size == 0 or np.count_nonzero(np.diff(signs)) != 1:
        return None
    # one change of sign: the value goes one way, from the last amounts' sign at very low rates to
    # the first ones' at very high rates
    low, high = 0.0, 1.0
    while npv(low, flow) * signs[-1] < 0:
        low = low - (1 + low) / 2
        if low < _LEAST_RETURN:
            return None
    while npv(high, flow) * signs[-1] > 0:
        high *= 2
        if high > _MOST_RETURN:
            return None
    return float(brentq(lambda rate: npv(rate, flow), low, high, xtol=1e-12, rtol=1e-12))


def yearly_from_monthly(rate: float) -> float:
    """Rate a year to which a rate a month compounds."""
    return math.expm1(12 * math.log1p(rate))


def simple_payback_months(price: float, benefit_a_month: float) -> float | None:
    """Months after which constant benefits add up to the price; None where they never do."""
    if price <= 0:
        return 0.0
    return price / benefit_a_month if benefit_a_month > 0 else None


def discounted_payback_month(cash: Sequence[float] | FloatArray, rate: float) -> int | None:
    """First month at whose end the discounted cash flow has come back to 0.

    Args:
        cash: Amounts as in `npv`, by month.
        rate: Share a month.

    Returns:
        The month, 0 where nothing is to be paid back, None where it never does.
    """
    flow = np.asarray(cash, dtype=float)
    total = np.cumsum(flow * np.exp(-np.log1p(rate) * np.arange(flow.size)))
    back = np.flatnonzero(total >= 0)
    return int(back[0]) if back.size else None


def clock_hour_cost(
    price: float,
    residual: float,
    rate: float,
    years: float,
    *,
    kw_busy: float,
    kw_idle: float,
    utilisation: float,
    pue: float,
    price_per_kwh: float,
) -> float:
    """What one hour of owning and powering a machine costs, used or not.

    Args:
        price: Paid at the start.
        residual: Got back at the end, in money of that time.
        rate: Discount rate, share a year.
        years: Horizon, > 0.
        kw_busy: Power under load, kW.
        kw_idle: Power when idle, kW.
        utilisation: Share of the time under load, 0 to 1.
        pue: Energy of the building over energy of the machine, >= 1.
        price_per_kwh: Electricity.

    Returns:
        Cost per hour of the clock.

    Raises:
        InvalidSpec: The horizon is 0, or the utilisation lies outside 0 to 1.

    Source: (price - residual/(1+r)^n) CRF(r, n)/8760 + (u kW_busy + (1-u) kW_idle) PUE price/kWh.
    """
    if not 0 <= utilisation <= 1:
        raise InvalidSpec("Utilisation lies between 0 and 100 %.")
    back = residual * math.exp(-years * math.log1p(rate))
    owned = (price - back) * capital_recovery(rate, years) / HOURS_A_YEAR
    kw = utilisation * kw_busy + (1 - utilisation) * kw_idle
    return owned + kw * pue * price_per_kwh


def delivered_hour_cost(clock_hour: float, utilisation: float) -> float | None:
    """Cost of an hour of work done: clock hour over utilisation; None where none is done."""
    return clock_hour / utilisation if utilisation > 0 else None


def cost_per_million(delivered_hour: float | None, tok_s: float) -> float | None:
    """Cost of a million tokens at a speed.

    Args:
        delivered_hour: Cost of an hour of work; None where none is done.
        tok_s: Tokens a second while working.

    Returns:
        Amount a million tokens; None where nothing is delivered.
    """
    if delivered_hour is None or tok_s <= 0:
        return None
    return delivered_hour / (tok_s * 3600) * 1e6


def benefit_cost_ratio(net_value: float, paid: float) -> float | None:
    """Present value of what comes back over what is paid; None where nothing is paid."""
    return (net_value + paid) / paid if paid > 0 else None


def link_ceiling(exposed_share: float, remaining: float = 0.0) -> float:
    """The most that a faster link can multiply speed by.

    Args:
        exposed_share: Share f of the step spent in communication that nothing hides, 0 <= f < 1.
        remaining: Share c of the old communication time that the new link still takes.

    Returns:
        1 / (1 - f + f c); with c = 0 the ceiling of any link.

    Raises:
        InvalidSpec: The share lies outside 0 to below 1, or the remaining time is negative.

    Source: Amdahl's law over the communication of a step.
    """
    if not 0 <= exposed_share < 1:
        raise InvalidSpec(
            "The share of a step that is communication lies between 0 and below 100 %.",
            "Check calls a step, latency and the time of the step.",
        )
    if remaining < 0:
        raise InvalidSpec("A link cannot take less than no time.")
    return 1.0 / (1.0 - exposed_share + exposed_share * remaining)


def exposed_share(calls: float, latency_us: float, step_ms: float) -> float | None:
    """Share of a step that its all-reduces take: calls x exposed latency / step time.

    Args:
        calls: All-reduces a step.
        latency_us: Exposed latency of one, microseconds.
        step_ms: Time of the step (TPOT, or TTFT for prefill), milliseconds.

    Returns:
        The share; None where the step time is not known (0) or the calls take longer than the step,
        which shows that the figures do not belong together.
    """
    if step_ms <= 0:
        return None
    share = calls * latency_us * 1e-3 / step_ms
    return share if 0 <= share < 1 else None


def request_share(
    prefill: float | None, decode: float | None, ttft_ms: float, tpot_ms: float, tokens: float
) -> float | None:
    """Exposed share of a whole request, from its two phases.

    Args:
        prefill: Exposed share of the prefill, None where not known.
        decode: Exposed share of a decode step, None where not known.
        ttft_ms: Time to first token, ms.
        tpot_ms: Time per output token, ms.
        tokens: Output tokens of a request.

    Returns:
        The share of the request's time; None where a phase is not known.
    """
    phases = (max(ttft_ms, 0.0), max(tpot_ms, 0.0) * max(tokens - 1, 0.0))
    if prefill is None or decode is None or sum(phases) <= 0:
        return None
    return (prefill * phases[0] + decode * phases[1]) / sum(phases)


def is_above_ceiling(gain: float, ceiling: float | None, tolerance: float = 0.02) -> bool:
    """Whether a gain is more than any link can give, which shows a broken measurement.

    Args:
        gain: Share (0.25 for +25 %).
        ceiling: Factor from `link_ceiling`; None where not known.
        tolerance: Share of measuring error that is forgiven.
    """
    return ceiling is not None and 1 + gain > ceiling * (1 + tolerance)
