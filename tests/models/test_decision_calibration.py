"""Calibration: simulated purchases with a known truth; do the shares mean what they say?

Each purchase has a true gain, and true values of everything else from the spreads that the model
is told. Rounds scatter around the true gain, by 0.5 to 3 % as rounds of a quiet machine do and each
arm on its own (so they are not paired); the model sees the rounds only.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from economics_cases import purchase

from models.cashflow import net_value
from models.decision import decide
from models.gain import from_rounds, point
from models.purchase import INPUTS
from models.ranges import Range
from models.rounds import Round


@dataclass
class Report:
    inside: float
    bins: list[tuple[float, float]]  # (mean probability, share that paid)


def simulate(n_rounds: int, n_purchases: int, n_draws: int, seed: int) -> Report:
    rng = np.random.default_rng(seed)
    inside, chances, paid = [], [], []
    for number in range(n_purchases):
        true_log = rng.uniform(math.log(0.9), math.log(1.4))
        scatter = math.exp(rng.uniform(math.log(0.005), math.log(0.03)))
        noise = np.exp(rng.normal(0, scatter, (2, n_rounds)))
        arms = [
            [Round(factor * noise[arm, i], i) for i in range(n_rounds)]
            for arm, factor in ((0, 100.0), (1, 100.0 * math.exp(true_log)))
        ]
        # dear enough that many purchases do not pay
        facts = {"price": Range(200, 500, 1500), "token_value": Range(0.2, 0.4, 0.9)}
        case = purchase(gain=from_rounds(*arms, is_paired=False), **facts)
        truth = {name: case.quantile(name, rng.uniform(0, 1, 1)) for name in INPUTS}
        truth["gain"] = point(math.expm1(true_log)).quantile(np.array([0.5]))
        value = float(net_value(case, truth)[0])
        outcome = decide(case, n_draws, seed + number)
        inside.append(outcome.npv[0] <= value <= outcome.npv[-1])
        chances.append(outcome.p_positive)
        paid.append(value > 0)
    order = np.argsort(chances, kind="stable")
    groups = np.array_split(order, 5)
    bins = [(float(np.mean(np.take(chances, g))), float(np.mean(np.take(paid, g)))) for g in groups]
    return Report(float(np.mean(inside)), bins)


def test_a_small_simulation_is_not_far_off():
    report = simulate(3, 300, 400, seed=11)
    assert 0.84 <= report.inside <= 0.96
    assert all(abs(said - was) < 0.14 for said, was in report.bins)
    assert report.bins[0][0] < 0.2 < 0.8 < report.bins[-1][0]


@pytest.mark.slow
@pytest.mark.parametrize("n_rounds", [3, 5, 10])
def test_two_thousand_purchases(n_rounds: int):
    report = simulate(n_rounds, 2000, 4000, seed=20_260_400 + n_rounds)
    assert 0.88 <= report.inside <= 0.92, report
    for said, was in report.bins:
        assert abs(said - was) <= 0.05, report
