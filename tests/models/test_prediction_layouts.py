"""Replicas, model sizes, and predictions in sentences."""

from dataclasses import replace

import pytest
from prediction_cases import CARD, WORK, calibration, flat_link, load, setup

from models.prediction import Workload
from models.prediction_anchor import Anchor, LinkChange, Ratio, predict
from models.prediction_layouts import by_size, grid, replicas
from models.prediction_refusals import answer
from models.prediction_words import (
    dominant_sentence,
    link_sentence,
    replicas_sentence,
    sizes_sentence,
    speedup_sentence,
    step_sentence,
)

LINK = flat_link(5.0)


def test_replicas_share_the_requests():
    found = replicas(setup(tp=2), Workload(8, 1024, 256), LINK, calibration())
    half = answer(setup(), Workload(4, 1024, 256), None, calibration()).prediction
    assert (found.count, found.tp) == (2, 1)
    assert found.tokens_a_second == pytest.approx(2 * half.tokens_a_second)


def test_an_odd_load_is_dealt_out():
    found = replicas(setup(tp=2), Workload(5, 1024, 256), LINK, calibration())
    three, two = (
        answer(setup(), Workload(n, 1024, 256), None, calibration()).prediction for n in (3, 2)
    )
    assert found.tokens_a_second == pytest.approx(three.tokens_a_second + two.tokens_a_second)


def test_fewer_requests_than_replicas_leave_some_idle():
    found = replicas(setup(tp=4), Workload(1, 1024, 256), LINK, calibration())
    one = answer(setup(), Workload(1, 1024, 256), None, calibration()).prediction
    assert found.tokens_a_second == pytest.approx(one.tokens_a_second)


def test_replicas_that_do_not_fit_say_why():
    small = replace(CARD, memory=30e9)
    found = replicas(setup(tp=2, card=small), WORK, LINK, calibration())
    assert found.tokens_a_second is None
    assert "usable" in found.why


def test_replicas_of_two_gpus():
    found = replicas(setup(tp=4), WORK, LINK, calibration(), tp=2)
    assert (found.count, found.tp) == (2, 2)
    assert found.tokens_a_second > 0


def test_larger_models_gain_more():
    names = ("qwen2.5-0.5b", "qwen2.5-3b", "qwen2.5-14b", "qwen2.5-72b", "gpt-oss-120b")
    found = by_size([(n, load(n)) for n in names], setup(tp=2), WORK, LINK, calibration())
    assert [row.name for row in found] == list(names[:4])  # experts are left out
    gains = [row.speedup for row in found]
    assert gains == sorted(gains)
    assert [row.fits_one for row in found] == [True, True, True, False]


def test_models_that_do_not_divide_are_left_out():
    models = [("qwen2.5-7b", load("qwen2.5-7b")), ("qwen2.5-14b", load("qwen2.5-14b"))]
    found = by_size(models, setup(tp=8), WORK, LINK, calibration())
    assert [row.name for row in found] == ["qwen2.5-14b"]


def test_a_grid_holds_every_size_and_load():
    works = [Workload(batch, 1024, 256) for batch in (4, 8)]
    found = grid(setup(), works, (1, 2), LINK, calibration())
    assert [(tp, work.batch) for tp, work, _ in found] == [(1, 4), (1, 8), (2, 4), (2, 8)]
    assert all(one.prediction is not None for _, _, one in found)


def test_a_step_in_words():
    point = Anchor(setup(), WORK, None, 8.0, "", "measured")
    said = step_sentence(predict(setup(), WORK, None, calibration(), point))
    assert said == (
        "TP=1: 8.00 ms a token (80 % interval 7.24 to 8.84), 500 tok/s; same card and engine, "
        "other TP size or load."
    )


def test_an_uncalibrated_width_is_named():
    constants = calibration()
    row = constants.widths["dense"]
    few = replace(row["nothing_measured"], is_calibrated=False, models=2)
    widths = {**constants.widths, "dense": {**row, "nothing_measured": few}}
    said = step_sentence(predict(setup(), WORK, None, replace(constants, widths=widths)))
    assert said.endswith("nothing measured (the method study's width: not calibrated).")


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (Ratio(1.5, 1.3, 1.7), "1.50 times as fast as one GPU"),
        (Ratio(0.8, 0.7, 0.9), "slower than one GPU"),
        (Ratio(1.05, 0.95, 1.2), "a gain is not shown"),
    ],
)
def test_a_speedup_in_words(gain, words):
    assert words in speedup_sentence(2, gain)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1.4, "1.40 times that of 2"), (0.8, "80 % of theirs"), (1.02, "about the same")],
)
def test_replicas_in_words(ratio, words):
    assert words in replicas_sentence(2, ratio)


def test_what_dominates():
    said = dominant_sentence(predict(setup(), WORK, None, calibration()))
    assert said.startswith("At TP=1, of the step: reading the weights")


def test_a_link_in_words():
    said = link_sentence(LinkChange(7.0, 6.6, 7.4, -1.0, 14.0, 4.0, 1.3))
    assert "4.0 instead of 14.0 us" in said
    assert "1.00 ms shorter: 7.00 ms (6.60 to 7.40)" in said
    assert said.endswith("more than 1.30 times.")
    resting = link_sentence(LinkChange(7.0, 6.6, 7.4, -1.0, 14.0, 4.0, 1.3, 0.57))
    assert "57 % of this change is prefill of other requests" in resting


@pytest.mark.parametrize(
    ("speedups", "words"),
    [
        ([0.9, 1.1], "above about 2.1 billion"),
        ([1.1, 1.2], "faster than one GPU for every size from 1 to 4"),
        ([0.8, 0.9], "slower than one GPU for every size"),
    ],
)
def test_sizes_in_words(speedups, words):
    assert words in sizes_sentence(2, [1.0, 4.0], speedups)
