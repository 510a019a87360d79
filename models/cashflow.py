"""The money that follows from a purchase, for each draw of what is uncertain."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.demand import served_a_day
from models.economics import DAYS_A_MONTH, FloatArray, monthly_rate
from models.purchase import Power, Purchase


@dataclass(frozen=True)
class Money:
    """What follows, one entry a draw, shape (n,) unless said otherwise.

    Attributes:
        upfront: Paid at the start.
        yearly: Net benefit of each year, shape (years, n).
        resale: Got back at the horizon, in money of that time.
        served: First year's value of tokens, rent or time, before other costs.
        energy: First year's energy saved, negative where more is used.
        risk: First year's cost of added incidents.
        used: Share of the first year that baseline and candidate are busy, shape (2, n).
    """

    upfront: FloatArray
    yearly: FloatArray
    resale: FloatArray
    served: FloatArray
    energy: FloatArray
    risk: FloatArray
    used: FloatArray


def money(case: Purchase, drawn: Mapping[str, FloatArray]) -> Money:
    """Cash that follows from each draw.

    Args:
        case: The purchase.
        drawn: A value of every input of `INPUTS`, shape (n,) each.

    Returns:
        The money, by draw.
    """
    ratio = 1 + drawn["gain"]
    upfront = drawn["price"] + case.extras + drawn["labour_hours"] * case.labour_rate
    an_incident = drawn["repair_hours"] * case.service_value + (
        case.incident_labour + case.restart_loss
    )
    risk = drawn["rate_added"] * an_incident
    years = max(1, -(-case.months // 12))
    yearly, first = [], None
    for year in range(years):
        demand = drawn["demand"] * (1 + case.growth) ** year
        served, energy, used = _operation(case, drawn, demand, ratio)
        if first is None:
            first = served, energy, used
        yearly.append(served + energy - risk - case.operations_a_year)
    assert first is not None  # there is at least one year
    return Money(
        upfront=upfront,
        yearly=np.stack(yearly),
        resale=drawn["resale"] * drawn["price"],
        served=first[0],
        energy=first[1],
        risk=risk,
        used=np.stack(first[2]),
    )


def _operation(
    case: Purchase, drawn: Mapping[str, FloatArray], demand: FloatArray, ratio: FloatArray
) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
    """A year's value served and energy saved, and both arms' utilisation."""
    speed = np.full(ratio.shape, case.base_tok_s)
    old, used_old = served_a_day(demand, speed, case.peak_to_average)
    new, used_new = served_a_day(demand, speed * ratio, case.peak_to_average)
    if case.benefit == "tokens":
        per_token = (drawn["token_value"] + case.input_per_output * drawn["input_value"]) * 1e-6
        value = (new - old) * per_token
    elif case.benefit == "cloud":
        value = rent_a_day(case, demand - old, drawn["cloud_rent"]) - rent_a_day(
            case, demand - new, drawn["cloud_rent"]
        )
    else:
        value = drawn["wait_hours"] * (1 - 1 / ratio) * drawn["hour_value"]
    kwh = 24 * case.pue * (_kw(case.power[0], used_old) - _kw(case.power[1], used_new))
    days = 12 * DAYS_A_MONTH
    return value * days, kwh * drawn["electricity"] * days, (used_old, used_new)


def rent_a_day(case: Purchase, unserved: FloatArray, rent: FloatArray) -> FloatArray:
    """Cloud rent of a day for tokens that the own machine does not serve.

    Args:
        case: The purchase; without a cloud machine nothing is rented.
        unserved: Output tokens a day, shape (n,).
        rent: Per GPU and hour, shape (n,).

    Returns:
        Amount a day, shape (n,): hours rounded up to the billing step, plus the idle hours.
    """
    cloud = case.cloud
    if cloud is None or cloud.tok_s <= 0:
        return np.zeros(unserved.shape)
    hours = np.maximum(unserved, 0.0) / (cloud.tok_s * 3600)
    is_rented = hours > 1e-9
    if cloud.step_hours > 0:
        hours = np.ceil(hours / cloud.step_hours - 1e-9) * cloud.step_hours
    return np.where(is_rented, hours + cloud.idle_hours, 0.0) * rent * cloud.gpus


def _kw(power: Power, used: FloatArray) -> FloatArray:
    return power.idle + (power.busy - power.idle) * used


def annuities(case: Purchase) -> tuple[FloatArray, float]:
    """Present value at each month of 1 a year in each year, and of 1 at the horizon.

    Args:
        case: Horizon and discount rate.

    Returns:
        Factors of shape (months + 1, years), for amounts a year paid in twelfths at each month's
        end; and the factor of the horizon.
    """
    monthly = monthly_rate(case.discount)
    years = max(1, -(-case.months // 12))
    month = np.arange(1, case.months + 1)
    factor = np.exp(-np.log1p(monthly) * month) / 12
    table = np.zeros((case.months + 1, years))
    for year in range(years):
        table[1:, year] = np.cumsum(np.where((month - 1) // 12 == year, factor, 0.0))
    return table, float(np.exp(-np.log1p(monthly) * case.months))


def discounted(factors: FloatArray, yearly: FloatArray) -> FloatArray:
    """Amounts a year in today's money, added up: ``factors @ yearly``.

    Not by the linear-algebra library: for so few years its threads wait for each other longer than
    they work, and their number decides the last digit.

    Args:
        factors: Of `annuities`, shape (..., years).
        yearly: Shape (years, n).

    Returns:
        Shape (..., n).
    """
    value: FloatArray = np.einsum("...y,yn->...n", factors, yearly)
    return value


def net_value(case: Purchase, drawn: Mapping[str, FloatArray]) -> FloatArray:
    """Net present value of each draw, resale included, shape (n,)."""
    flow = money(case, drawn)
    table, last = annuities(case)
    return discounted(table[-1], flow.yearly) - flow.upfront + last * flow.resale
