"""One TP size after the other, against hand-worked speedups."""

import pytest

from models.scaling_ladder import Rung, ladder_sentence
from models.step_interval import Estimate


def rung(tp, gain, low=None, high=None):
    return Rung(tp, tp // 2, Estimate(gain, low, high, 3))


@pytest.mark.parametrize(
    ("gain", "low", "high", "beats"),
    [
        (1.76, 1.74, 1.78, True),
        (0.79, 0.78, 0.80, False),
        (1.05, 0.98, 1.12, None),  # the interval holds 1
        (1.015, 1.01, 1.02, None),  # within what is called no difference
        (1.76, None, None, True),
        (0.985, None, None, None),
    ],
)
def test_a_size_beats_the_smaller_one_where_that_is_shown(gain, low, high, beats):
    assert rung(4, gain, low, high).beats is beats


def test_each_step_up_is_told_with_its_share_of_the_ideal():
    rungs = [rung(2, 1.82, 1.80, 1.84), rung(4, 1.76, 1.74, 1.78), rung(8, 1.48, 1.46, 1.50)]
    assert ladder_sentence(rungs, "Batch 1.") == (
        "Of TP=1, 2, 4 and 8, TP=8 is the fastest here: "
        "TP=2 beats TP=1 (1.82×, 95 % interval 1.80 to 1.84, 91 % of the ideal 2×); "
        "TP=4 beats TP=2 (1.76×, 95 % interval 1.74 to 1.78, 88 % of the ideal 2×); "
        "TP=8 beats TP=4 (1.48×, 95 % interval 1.46 to 1.50, 74 % of the ideal 2×). Batch 1."
    )


@pytest.mark.parametrize(
    ("gains", "fastest"),
    [
        ((1.54, 1.26, 0.79), 4),  # a slow link: eight are slower than four
        ((0.9, 0.9, 0.9), 1),
        ((1.5, 1.01, 1.01), 2),  # no faster: the smaller size is enough
        ((0.8, 1.5, 1.5), 8),
        ((0.5, 1.5, 0.9), 1),
    ],
)
def test_the_fastest_size_is_the_smallest_that_no_larger_one_beats(gains, fastest):
    rungs = [rung(tp, gain) for tp, gain in zip((2, 4, 8), gains, strict=True)]
    said = ladder_sentence(rungs, "")
    assert said is not None
    assert f"TP={fastest} is the fastest here" in said


def test_two_sizes_are_no_ladder():
    assert ladder_sentence([rung(2, 1.8)], "") is None
