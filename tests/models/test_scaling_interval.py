"""Intervals of step times and speedups over rounds."""

import math

import pytest

from models.errors import InvalidSpec
from models.step_interval import over_rounds, speedup_over_rounds


def test_below_three_rounds_there_is_no_interval():
    assert over_rounds([2.0]) == over_rounds([2.0])
    assert over_rounds([2.0, 4.0]).value == 3.0
    assert over_rounds([2.0, 4.0]).low is None
    assert speedup_over_rounds([2.0, 2.0], [1.0, 1.0, 1.0]).low is None


def test_three_rounds_give_students_interval_of_the_logs():
    found = over_rounds([1.00, 1.01, 1.02])
    # sd of the logs 0.0099, over root 3 times t(0.975, 2) = 4.303
    half = 4.303 * 0.00990 / math.sqrt(3)
    assert math.log(found.high / found.low) / 2 == pytest.approx(half, rel=0.01)
    assert found.low < found.value < found.high


def test_a_speedup_has_welchs_interval():
    found = speedup_over_rounds([2.00, 2.02, 2.01], [1.00, 1.02, 1.01])
    assert found.value == pytest.approx(2.01 / 1.01)
    assert found.low < found.value < found.high
    assert found.n == 3


def test_equal_rounds_have_an_interval_of_no_width():
    found = speedup_over_rounds([2.0] * 3, [1.0] * 3)
    assert (found.low, found.high) == (pytest.approx(2.0), pytest.approx(2.0))


def test_times_that_cannot_be_are_refused():
    with pytest.raises(InvalidSpec):
        over_rounds([])
    with pytest.raises(InvalidSpec):
        over_rounds([1.0, 0.0, 1.0])
