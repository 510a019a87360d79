"""Every refusal with its reason and what would make it possible."""

from dataclasses import replace

import pytest
from prediction_cases import CARD, WORK, calibration, flat_link, setup

from models.prediction import Workload
from models.prediction_anchor import Anchor
from models.prediction_refusals import (
    MODES,
    answer,
    expert_doubt,
    needed_bytes,
    usable_bytes,
)

HUGE = replace(CARD, memory=1e13)
CONSUMER = replace(CARD, key="consumer", label="Consumer card", is_calibrated=False)


def codes(found) -> dict[str, bool]:
    return {refusal.code: refusal.is_final for refusal in found.refusals}


def test_a_calibrated_card_with_a_usual_load_is_not_refused():
    found = answer(setup(), WORK, None, calibration())
    assert found.has_verdict
    assert found.refusals == ()


def test_memory_by_hand():
    at = setup()
    weights = 2 * at.load.total
    cache = 4 * 1280 * 48 * 2048 * 2
    assert needed_bytes(at, WORK) == weights + cache
    assert usable_bytes(at) == pytest.approx(0.9 * 100e9 - 4e9)
    found = answer(setup(card=replace(CARD, memory=30e9)), WORK, None, calibration())
    assert found.prediction is None
    assert codes(found) == {"memory": True}
    assert "31 GB" in found.refusals[0].sentence
    assert found.refusals[0].next_step


@pytest.mark.parametrize("mode", list(MODES))
def test_ways_of_running_that_no_row_covers(mode):
    found = answer(setup(), WORK, None, calibration(), modes=[mode])
    assert found.prediction is None
    assert codes(found) == {mode: True}


def test_more_than_eight_gpus():
    assert codes(answer(setup(tp=16), WORK, flat_link(5.0), calibration()))["tp"]


def test_a_size_that_does_not_divide_the_heads():
    found = answer(setup("qwen2.5-7b", tp=8), WORK, flat_link(5.0), calibration())
    assert "28 attention heads" in found.refusals[0].sentence


@pytest.mark.parametrize("link", [None, flat_link(5.0, sizes=(2,))])
def test_no_latency_in_graph_mode(link):
    found = answer(setup(tp=4), WORK, link, calibration())
    assert codes(found) == {"link": True}
    assert "graph mode" in found.refusals[0].sentence


def test_an_uncalibrated_card_needs_a_point_on_itself():
    alone = answer(setup(card=CONSUMER), WORK, None, calibration())
    assert codes(alone) == {"card": True}
    near = Anchor(setup(), WORK, None, 8.0, "", "measured")
    assert answer(setup(card=CONSUMER), WORK, None, calibration(), near).prediction is None
    own = Anchor(setup(card=CONSUMER), WORK, None, 8.0, "", "measured")
    found = answer(setup(card=CONSUMER, tp=2), WORK, flat_link(20.0), calibration(), own)
    assert found.prediction is not None
    assert codes(found) == {"card": False}
    assert not found.has_verdict


def test_sglang_needs_a_point():
    at = setup(engine="sglang")
    assert codes(answer(at, WORK, None, calibration())) == {"engine": True}
    assert answer(at, WORK, None, calibration(), Anchor(at, WORK, None, 8.0, "", "")).has_verdict


def test_a_point_of_another_precision_says_nothing():
    point = Anchor(setup(precision="fp8"), WORK, None, 8.0, "", "measured")
    assert codes(answer(setup(), WORK, None, calibration(), point)) == {"anchor": True}


def test_experts_divided_otherwise():
    at = setup("gpt-oss-120b", precision="fp4", card=HUGE)
    point = Anchor(replace(at, expert_parallel=True), WORK, None, 8.0, "", "measured")
    found = answer(at, WORK, None, calibration(), point)
    assert "divided by expert" in found.refusals[0].sentence


def test_the_points_own_link_must_be_known():
    point = Anchor(setup(tp=2), WORK, flat_link(5.0, sizes=(4,)), 8.0, "", "measured")
    found = answer(setup(), WORK, None, calibration(), point)
    assert codes(found) == {"anchor_link": True}


def test_long_prefill_is_shown_without_a_verdict():
    found = answer(setup(card=HUGE), Workload(64, 30_000, 256), None, calibration())
    assert found.prediction is not None
    assert codes(found) == {"interference": False}


@pytest.mark.parametrize("work", [Workload(1, 1024, 256), Workload(128, 64, 256)])
def test_loads_outside_the_rows(work):
    assert codes(answer(setup(card=HUGE), work, None, calibration())) == {"load": False}


def test_short_outputs_are_outside_too():
    assert "load" in codes(answer(setup(), Workload(4, 128, 128), None, calibration()))


def test_a_model_smaller_than_any_held_out_needs_a_point():
    at = setup("qwen2.5-1.5b")
    assert codes(answer(at, WORK, None, calibration())) == {"size": False}
    point = Anchor(at, WORK, None, 2.0, "", "measured")
    assert answer(at, WORK, None, calibration(), point).has_verdict


def test_more_gpus_for_experts_only_where_the_interval_clears_one():
    assert expert_doubt("moe", 0.98) is not None
    assert expert_doubt("moe", 1.01) is None
    assert expert_doubt("dense", 0.5) is None


def test_every_refusal_says_what_to_do():
    found = [
        answer(setup(card=CONSUMER, tp=16), WORK, None, calibration(), modes=list(MODES)),
        answer(setup(engine="sglang", tp=4), WORK, None, calibration()),
        answer(setup(card=HUGE), Workload(100, 30_000, 100), None, calibration()),
    ]
    for refusal in (refusal for each in found for refusal in each.refusals):
        assert refusal.sentence.endswith(".")
        assert refusal.next_step.endswith(".")
