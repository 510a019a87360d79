"""Purchases for tests: invented, round numbers; every test names what it changes."""

from typing import Any

import numpy as np

from importers.catalogue import catalogue
from models.gain import Gain, assumed_around, from_rounds
from models.purchase import Cloud, Power, Purchase
from models.ranges import Range, fixed
from models.risk import Evidence, stability
from models.rounds import Round
from models.spread import LogNormal

PRIOR = catalogue().priors["data-centre-gpu"]


def rounds(values: list[float]) -> list[Round]:
    return [Round(value=value, round=number, start=number) for number, value in enumerate(values)]


def measured(ratio: float = 1.25, n: int = 5, spread: float = 0.01, seed: int = 1) -> Gain:
    """A gain of n paired rounds an arm, invented."""
    noise = np.exp(np.random.default_rng(seed).normal(0, spread, (2, n)))
    return from_rounds(
        rounds(list(100 * noise[0])), rounds(list(100 * ratio * noise[1])), is_paired=True
    )


def published(ratio: float = 181.9 / 119.2) -> Gain:
    """The 3090 study at four streams: one round."""
    return assumed_around(float(np.log(ratio)), rounds=1, origin="published")


def purchase(**changed: Any) -> Purchase:
    """Two cards and a bridge at $40 to 200, sold tokens, a machine that is always full."""
    fields: dict[str, Any] = {
        "base_tok_s": 100.0,
        "benefit": "tokens",
        "gain": measured(),
        "stability": stability(PRIOR, parts=(2, 3), seen=(Evidence(), Evidence(0, 100))),
        "repair": LogNormal(4, 24),
        "price": Range(40, 100, 200),
        "extras": 0.0,
        "labour": Range(2, 4, 8),
        "labour_rate": 30.0,
        "resale": Range(0.3, 0.5, 0.7),
        "operations_a_year": 0.0,
        "demand": Range(1.2e7, 1.5e7, 2e7),
        "peak_to_average": 1.5,
        "growth": 0.0,
        "input_per_output": 0.0,
        "token_value": Range(0.3, 0.4, 0.6),
        "input_value": fixed(0.0),
        "cloud_rent": Range(0.22, 0.3, 0.39),
        "cloud": Cloud(100.0, 2),
        "wait_hours": fixed(0.0),
        "hour_value": fixed(0.0),
        "electricity": Range(0.15, 0.1872, 0.25),
        "pue": 1.0,
        "power": (Power(0.8, 0.1), Power(0.8, 0.1)),
        "months": 36,
        "discount": 0.08,
        "service_value": 2.0,
        "incident_labour": 30.0,
        "restart_loss": 0.0,
    }
    return Purchase(**(fields | changed))


LIGHT: dict[str, Any] = {"demand": Range(1e5, 3e5, 6e5), "peak_to_average": 3.0}
