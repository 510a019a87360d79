"""One purchase: everything that decides what an upgrade is worth.

Only differences count: the candidate minus the baseline, on the same demand, prices and hours.
Amounts are in one currency, powers in kW, demand in output tokens a day.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from models.economics import FloatArray
from models.errors import InvalidSpec
from models.gain import Gain
from models.ranges import Range, fixed
from models.risk import Stability
from models.spread import LogNormal

Benefit = Literal["tokens", "cloud", "waiting"]
MAX_MONTHS = 120

# name -> (words, unit); the order is that of the random streams: append, never reorder
INPUTS: dict[str, tuple[str, str]] = {
    "gain": ("Gain", "share"),
    "rate_added": ("Failures added a year", "1/year"),
    "repair_hours": ("Hours to repair", "h"),
    "price": ("Price of the upgrade", "$"),
    "labour_hours": ("Labour", "h"),
    "resale": ("Resale share", "share"),
    "demand": ("Demand", "tok/day"),
    "electricity": ("Electricity price", "$/kWh"),
    "token_value": ("Value of a million output tokens", "$/Mtok"),
    "input_value": ("Value of a million input tokens", "$/Mtok"),
    "cloud_rent": ("Cloud rent", "$/GPU-hour"),
    "wait_hours": ("Hours waited a day", "h/day"),
    "hour_value": ("Value of an hour", "$/h"),
}


@dataclass(frozen=True)
class Power:
    """What an arm draws, kW.

    Attributes:
        busy: Under load.
        idle: Without load.
    """

    busy: float
    idle: float


@dataclass(frozen=True)
class Cloud:
    """A rented machine that takes what the own one cannot.

    Attributes:
        tok_s: Its speed, output tokens a second.
        gpus: GPUs that are rented.
        step_hours: Billing step: hours are rounded up to it.
        idle_hours: Hours a day it is paid for and does nothing, on days it is rented.
    """

    tok_s: float
    gpus: float
    step_hours: float = 1 / 60
    idle_hours: float = 0.0


@dataclass(frozen=True)
class Purchase:
    """Everything that decides what an upgrade is worth.

    Attributes:
        base_tok_s: What the baseline serves at the service level, output tokens a second.
        benefit: What a gain brings: sold tokens, avoided cloud hours, or time not waited.
        gain: Speed of the candidate over the baseline's.
        stability: Failure rates of both.
        repair: Time to repair, h.
        price: Of the upgrade.
        extras: Cooling, power supply and the like, paid with it.
        labour: Hours for fitting, validation and a rollback drill.
        labour_rate: Cost of one of these hours.
        resale: Share of the price that comes back at the end.
        operations_a_year: Running costs that the upgrade adds.
        demand: Output tokens asked for a day.
        peak_to_average: Of the hours of a day, 1 to 24.
        growth: Of the demand, share a year, at each year's turn.
        input_per_output: Input tokens that come with an output token.
        token_value: Of a million output tokens.
        input_value: Of a million input tokens.
        cloud_rent: Per GPU and hour.
        cloud: The rented machine; None unless the benefit is avoided rent.
        wait_hours: Hours a day that somebody waits for answers.
        hour_value: Of one of these hours; 0 where nobody says.
        electricity: Per kWh.
        pue: Energy of the building over the machine's.
        power: Of baseline and candidate.
        months: Horizon.
        discount: Rate, share a year.
        service_value: Of an hour of service that an incident takes.
        incident_labour: Cost of the work on an incident.
        restart_loss: Cost of what an incident loses besides.
    """

    base_tok_s: float
    benefit: Benefit
    gain: Gain
    stability: Stability
    repair: LogNormal
    price: Range
    extras: float
    labour: Range
    labour_rate: float
    resale: Range
    operations_a_year: float
    demand: Range
    peak_to_average: float
    growth: float
    input_per_output: float
    token_value: Range
    input_value: Range
    cloud_rent: Range
    cloud: Cloud | None
    wait_hours: Range
    hour_value: Range
    electricity: Range
    pue: float
    power: tuple[Power, Power]
    months: int
    discount: float
    service_value: float = 0.0
    incident_labour: float = 0.0
    restart_loss: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.months <= MAX_MONTHS:
            raise InvalidSpec(f"The horizon lies between 0 and {MAX_MONTHS} months.")
        if self.base_tok_s < 0 or self.demand.low < 0:
            raise InvalidSpec("Speed and demand are counted from 0 up.")
        if self.benefit == "cloud" and self.cloud is None:
            raise InvalidSpec("Avoided rent needs the cloud machine that would be rented.")

    def quantile(self, name: str, share: FloatArray) -> FloatArray:
        """Value of one uncertain input below which a share of the draws lies."""
        if name == "gain":
            return self.gain.quantile(share)
        if name == "rate_added":
            return self.stability.difference_a_year(share)
        spreads: dict[str, Range | LogNormal] = {
            "repair_hours": self.repair,
            "price": self.price,
            "labour_hours": self.labour,
            "resale": self.resale,
            "demand": self.demand,
            "electricity": self.electricity,
            "token_value": self.token_value,
            "input_value": self.input_value,
            "cloud_rent": self.cloud_rent,
            "wait_hours": self.wait_hours,
            "hour_value": self.hour_value,
        }
        return spreads[name].quantile(share)

    def medians(self) -> dict[str, float]:
        """The median of every input: the typical case."""
        half = np.array([0.5])
        return {name: float(self.quantile(name, half)[0]) for name in INPUTS}


def pinned(case: Purchase, certain: Mapping[str, float]) -> Purchase:
    """The purchase with some inputs known for sure.

    Args:
        case: The purchase.
        certain: Input -> value; a known gain keeps its origin and its rounds.
    """
    changed: dict[str, Any] = {}
    for name, value in certain.items():
        if name == "gain":
            changed["gain"] = replace(
                case.gain,
                kind="point",
                centre=math.log1p(value),
                error=0.0,
                df=None,
                log_range=None,
            )
        elif name == "repair_hours":
            changed["repair"] = LogNormal(value, value)
        elif name == "rate_added":
            changed["stability"] = replace(case.stability, known_a_year=value)
        else:
            changed["labour" if name == "labour_hours" else name] = fixed(value)
    return replace(case, **changed)
