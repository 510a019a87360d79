"""The typical case, every input at its median: returns, payback, cost of tokens, minutes a day."""

from dataclasses import dataclass

import numpy as np

from models.cashflow import money, net_value
from models.demand import SECONDS_A_DAY
from models.economics import (
    FloatArray,
    benefit_cost_ratio,
    clock_hour_cost,
    cost_per_million,
    delivered_hour_cost,
    discounted_payback_month,
    irr,
    monthly_rate,
    simple_payback_months,
    yearly_from_monthly,
)
from models.purchase import Power, Purchase


@dataclass(frozen=True)
class Typical:
    """Figures at the medians; None where a figure does not exist.

    Attributes:
        upfront: Paid at the start.
        monthly: First year's net benefit a month.
        npv: Net present value.
        irr: Internal rate of return, share a year.
        ratio: Present value of what comes back over what is paid.
        simple_payback: Months, first year's benefit over the price.
        discounted_payback: First month that has paid back, discounted, resale at the horizon.
        used: Share of the time that baseline and candidate are busy.
        served: Output tokens a day that baseline and candidate serve.
        demand_binds: Whether the baseline leaves demand unserved.
        token_cost: Cost of a million output tokens, baseline and candidate.
        minutes_a_day: Waiting time that the gain takes away a day, minutes.
    """

    upfront: float
    monthly: float
    npv: float
    irr: float | None
    ratio: float | None
    simple_payback: float | None
    discounted_payback: int | None
    used: tuple[float, float]
    served: tuple[float, float]
    demand_binds: bool
    token_cost: tuple[float | None, float | None]
    minutes_a_day: float


def typical(case: Purchase, box_price: float = 0.0, box_resale: float = 0.0) -> Typical:
    """Work the typical case out.

    Args:
        case: The purchase.
        box_price: What the machine is worth that the upgrade goes into; 0 leaves it out of the
            cost of tokens.
        box_resale: Share of that which comes back at the horizon.

    Returns:
        The figures.
    """
    middle = case.medians()
    drawn = {name: np.array([value]) for name, value in middle.items()}
    flow = money(case, drawn)
    cash = monthly_cash(case, flow.yearly[:, 0], float(flow.upfront[0]), float(flow.resale[0]))
    rate = irr(cash)
    npv = float(net_value(case, drawn)[0])
    used = float(flow.used[0, 0]), float(flow.used[1, 0])
    speeds = case.base_tok_s, case.base_tok_s * (1 + middle["gain"])
    monthly = float(flow.yearly[0, 0]) / 12
    prices = box_price, box_price + float(flow.upfront[0])
    resales = box_price * box_resale, box_price * box_resale + float(flow.resale[0])
    costs = tuple(
        _token_cost(case, prices[arm], resales[arm], used[arm], speeds[arm], case.power[arm])
        for arm in (0, 1)
    )
    served = tuple(used[arm] * speeds[arm] * SECONDS_A_DAY for arm in (0, 1))
    return Typical(
        upfront=float(flow.upfront[0]),
        monthly=monthly,
        npv=npv,
        irr=None if rate is None else yearly_from_monthly(rate),
        ratio=benefit_cost_ratio(npv, float(flow.upfront[0])),
        simple_payback=simple_payback_months(float(flow.upfront[0]), monthly),
        discounted_payback=discounted_payback_month(cash, monthly_rate(case.discount)),
        used=used,
        served=(served[0], served[1]),
        demand_binds=middle["demand"] > served[0] * (1 + 1e-9) + 1e-9,
        token_cost=(costs[0], costs[1]),
        minutes_a_day=_minutes(case, middle["gain"], served[0], middle["wait_hours"]),
    )


def monthly_cash(case: Purchase, yearly: FloatArray, upfront: float, resale: float) -> FloatArray:
    """Cash now and at each month's end, shape (months + 1,), resale in the last.

    Args:
        case: The horizon.
        yearly: Net benefit of each year, shape (years,).
        upfront: Paid now.
        resale: Got back at the horizon.
    """
    cash = np.zeros(case.months + 1)
    cash[0] = -upfront
    for month in range(1, case.months + 1):
        cash[month] = yearly[(month - 1) // 12] / 12
    cash[-1] += resale
    return cash


def _minutes(case: Purchase, gain: float, served: float, waited_hours: float) -> float:
    """Minutes a day: of the hours somebody says to wait, else of the time the machine works."""
    hours = waited_hours
    if case.benefit != "waiting" and case.base_tok_s > 0:
        hours = served / case.base_tok_s / 3600
    return 60 * hours * (1 - 1 / (1 + gain))


def _token_cost(
    case: Purchase, price: float, residual: float, used: float, tok_s: float, power: Power
) -> float | None:
    if case.months <= 0:
        return None
    clock = clock_hour_cost(
        price,
        residual,
        case.discount,
        case.months / 12,
        kw_busy=power.busy,
        kw_idle=power.idle,
        utilisation=used,
        pue=case.pue,
        price_per_kwh=case.medians()["electricity"],
    )
    return cost_per_million(delivered_hour_cost(clock, used), tok_s)
