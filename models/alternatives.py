"""Other uses of the same money, on the same axes and the same luck.

Doing nothing is the zero of every figure. What is entered by hand (another layout, quantisation,
batching) differs in gain, price and hours; the cloud takes everything off the own machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.cashflow import annuities, discounted, rent_a_day
from models.decision import Outcome, decide, draw, payback_quantile
from models.demand import served_a_day
from models.economics import DAYS_A_MONTH
from models.gain import Gain
from models.purchase import Purchase
from models.ranges import Range, fixed
from models.risk import Stability

DRAWS = 4000
FREE = fixed(0.0)


@dataclass(frozen=True)
class Alternative:
    """One way to go, as it is compared.

    Attributes:
        code: Identifier.
        label: Words for people.
        badge: Origin of its gain: measured, published, assumed … or "" for doing nothing.
        gain: Middle gain, a share; None where there is no gain to speak of.
        upfront: Median paid at the start.
        monthly: Median net benefit a month of the first year.
        npv: P5, P50, P95.
        p_positive: Share of draws that gain money; None for doing nothing.
        payback: Month by which half of the draws have paid back; None where they do not.
        note: What to know.
    """

    code: str
    label: str
    badge: str
    gain: float | None
    upfront: float
    monthly: float
    npv: tuple[float, float, float]
    p_positive: float | None
    payback: int | None
    note: str = ""


@dataclass(frozen=True)
class Change:
    """Something else than the link, entered by hand or measured.

    Attributes:
        code: Identifier.
        label: Words for people.
        gain: Its gain over the same baseline.
        price: What it costs; nothing for a change of layout or software.
        labour: Hours it takes.
        note: What to know.
    """

    code: str
    label: str
    gain: Gain
    price: Range = FREE
    labour: Range = FREE
    note: str = ""


def nothing() -> Alternative:
    """The zero of all comparisons."""
    return Alternative(
        "nothing",
        "Do nothing",
        "",
        0.0,
        0.0,
        0.0,
        (0.0, 0.0, 0.0),
        None,
        None,
        "The baseline as it is; all other rows are differences to it.",
    )


def of_outcome(code: str, label: str, gain: Gain, outcome: Outcome, note: str = "") -> Alternative:
    """A row for something that was decided already."""
    return Alternative(
        code,
        label,
        gain.origin,
        gain.value,
        outcome.upfront[1],
        outcome.monthly[1],
        (outcome.npv[0], outcome.npv[2], outcome.npv[-1]),
        outcome.p_positive,
        payback_quantile(outcome, 0.5),
        note,
    )


def change(case: Purchase, other: Change, seed: int) -> Alternative:
    """The same demand and prices with another change than the link.

    No part is added, so failures cost no difference; power stays the baseline's.
    """
    changed = replace(
        case,
        gain=other.gain,
        price=other.price,
        labour=other.labour,
        extras=0.0,
        operations_a_year=0.0,
        resale=FREE,
        stability=Stability(case.stability.baseline, case.stability.baseline),
        power=(case.power[0], case.power[0]),
    )
    return of_outcome(other.code, other.label, other.gain, decide(changed, DRAWS, seed), other.note)


def cloud(case: Purchase, seed: int) -> Alternative | None:
    """Everything in the cloud: rent for all demand, no electricity; the own machine stands still.

    Returns:
        The row; None where no cloud machine or no rent is known.
    """
    if case.cloud is None or case.cloud.tok_s <= 0:
        return None
    drawn = draw(case, DRAWS, seed)
    if not drawn["cloud_rent"].any():
        return None
    table, _ = annuities(case)
    yearly = []
    for year in range(table.shape[1]):
        demand = drawn["demand"] * (1 + case.growth) ** year
        speed = np.full(demand.shape, case.base_tok_s)
        served, used = served_a_day(demand, speed, case.peak_to_average)
        kw = case.power[0].idle + (case.power[0].busy - case.power[0].idle) * used
        energy = 24 * case.pue * kw * drawn["electricity"]
        rent = rent_a_day(case, demand, drawn["cloud_rent"])
        if case.benefit == "cloud":  # what does not fit is rented anyway
            rent = rent - rent_a_day(case, demand - served, drawn["cloud_rent"])
            gained = np.zeros(demand.shape)
        elif case.benefit == "tokens":
            per_token = drawn["token_value"] + case.input_per_output * drawn["input_value"]
            gained = (demand - served) * per_token * 1e-6
        else:
            gained = np.zeros(demand.shape)
        yearly.append((gained + energy - rent) * 12 * DAYS_A_MONTH)
    flow = np.stack(yearly)
    values = discounted(table[-1], flow)
    low, middle, high = (float(value) for value in np.quantile(values, (0.05, 0.5, 0.95)))
    return Alternative(
        "cloud",
        "Everything in the cloud",
        "assumed",
        None,
        0.0,
        float(np.median(flow[0])) / 12,
        (low, middle, high),
        float(np.mean(values > 0)),
        None,
        "Rent for all tokens instead of the machine's electricity; what the machine itself would "
        "sell for is not counted.",
    )


def side_by_side(
    case: Purchase,
    link: Outcome,
    others: Sequence[Change],
    seed: int,
    label: str = "The link",
) -> list[Alternative]:
    """All alternatives, doing nothing first.

    Args:
        case: The purchase of the link.
        link: Its outcome.
        others: What else could be done.
        seed: Of the generator: all share the same luck.
        label: Of the purchase.
    """
    rows = [nothing(), of_outcome("link", label, case.gain, link)]
    rows += [change(case, other, seed) for other in others]
    rented = cloud(case, seed)
    return rows if rented is None else [*rows, rented]
