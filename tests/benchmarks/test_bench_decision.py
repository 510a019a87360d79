"""20,000 draws, both arms, with fan and tornado inputs: under 150 ms on one core.

Run with ``pytest tests/benchmarks --benchmark-only -o addopts=``; plain test runs skip these.
"""

import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))

from economics_cases import purchase

from models.assessment import Question, assess, quick
from models.decision import DRAWS, decide
from models.sensitivity import break_even, tornado

# "on one core": processor time, so that another load on the machine does not count
pytestmark = pytest.mark.benchmark(timer=time.process_time)
LIMIT_S = 0.150
SLIDER_LIMIT_S = 0.300


def test_decision_with_fan_and_tornado(benchmark: Any) -> None:
    case = purchase()

    def whole() -> Any:
        outcome = decide(case, DRAWS)
        return outcome, tornado(case), [break_even(case, name) for name in ("price", "gain")]

    outcome, swings, _ = benchmark.pedantic(whole, rounds=15, warmup_rounds=2)
    assert outcome.draws == 20_000
    assert outcome.fan.shape == (5, 37)
    assert swings
    assert benchmark.stats.stats.median < LIMIT_S


def test_a_whole_assessment_is_quick_enough_for_a_rerun(benchmark: Any) -> None:
    question = Question(case=purchase())
    benchmark.pedantic(assess, args=(question,), rounds=10, warmup_rounds=2)
    assert benchmark.stats.stats.median < SLIDER_LIMIT_S


def test_a_slider(benchmark: Any) -> None:
    question = Question(case=purchase())
    benchmark.pedantic(quick, args=(question, {"price": 80.0}), rounds=10, warmup_rounds=2)
    assert benchmark.stats.stats.median < LIMIT_S
