"""From a measured point: ratio, distance, speedups, another link."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prediction_cases import CARD, WIDTHS, WORK, calibration, flat_link, setup

from models.curve import make_curve
from models.errors import NotPredicted
from models.prediction import Workload
from models.prediction_anchor import Anchor, distance, other_link, predict, speedup
from models.prediction_link import CurveLink

OTHER = replace(CARD, key="other", bandwidth=4e12)
NEXT = replace(CARD, key="next", generation="blackwell")


def anchor(at=None, ms=8.0, link=None) -> Anchor:
    return Anchor(at or setup(), WORK, link, ms, "a point", "measured")


def test_a_prediction_of_the_point_itself_is_the_point():
    found = predict(setup(), WORK, None, calibration(), anchor())
    assert found.tpot_ms == pytest.approx(8.0)
    assert found.terms.tpot_ms == pytest.approx(8.0)
    assert found.distance == "same_system"


@pytest.mark.parametrize(
    ("at", "far", "weight"),
    [
        (setup(tp=2), "same_system", 1.0),
        (setup(card=OTHER), "same_generation", 1.0),
        (setup(card=NEXT), "other_generation", 0.75),
        (setup(engine="trtllm"), "other_engine", 0.5),
        (setup(engine="trtllm", card=OTHER), "nothing_measured", 0.0),
        (setup(precision="fp8"), "nothing_measured", 0.0),
        (setup("qwen2.5-32b"), "nothing_measured", 0.0),
        (setup(expert_parallel=True), "nothing_measured", 0.0),
    ],
)
def test_weight_by_distance(at, far, weight):
    link = flat_link(5.0)
    point = anchor(at, 12.0, link)
    alone = predict(setup(), WORK, None, calibration()).tpot_ms
    there = predict(at, WORK, link, calibration()).tpot_ms
    found = predict(setup(), WORK, None, calibration(), point)
    assert distance(point, setup()) == far
    assert found.tpot_ms == pytest.approx(alone * (12.0 / there) ** weight)
    assert math.log(found.high_ms / found.tpot_ms) == pytest.approx(WIDTHS[far])


def test_nothing_measured_without_a_point():
    assert distance(None, setup()) == "nothing_measured"


def test_a_speedup_does_not_depend_on_what_was_measured():
    # both steps scale with the point, and their common error cancels
    one = predict(setup(), WORK, None, calibration(), anchor())
    two = predict(setup(tp=2), WORK, flat_link(5.0), calibration(), anchor())
    gain = speedup(one, two, calibration())
    free = speedup(
        predict(setup(), WORK, None, calibration()),
        predict(setup(tp=2), WORK, flat_link(5.0), calibration()),
        calibration(),
    )
    assert gain.value == pytest.approx(free.value)
    assert math.log(gain.high / gain.value) == pytest.approx(WIDTHS["same_system"])


def test_a_speedup_between_cards_is_as_unsure_as_the_surer_one_is_not():
    one = predict(setup(), WORK, None, calibration(), anchor())
    two = predict(setup(card=NEXT), WORK, None, calibration(), anchor())
    gain = speedup(one, two, calibration())
    assert math.log(gain.value / gain.low) == pytest.approx(WIDTHS["other_generation"])


def test_another_link_by_hand():
    # one request: 97 calls x 1.3 x (4 - 14) us
    point = Anchor(setup(tp=2), Workload(1, 1024, 256), flat_link(14.0), 8.0, "", "measured")
    found = other_link(point, flat_link(4.0))
    change = 1.3 * 97 * -10 / 1e3
    assert found.delta_ms == pytest.approx(change)
    assert found.low_ms == pytest.approx(8.0 + 1.4 * change)
    assert found.high_ms == pytest.approx(8.0 + 0.6 * change)
    share = 1.3 * 97 * 14 / 1e3 / 8.0
    assert found.ceiling == pytest.approx(1 / (1 - share))
    assert found.gain.low < found.gain.value < found.gain.high <= found.ceiling


def test_no_end_of_the_interval_is_above_the_ceiling():
    point = anchor(setup(tp=2), 8.0, flat_link(14.0))
    found = other_link(point, flat_link(0.001))
    assert found.gain.high == pytest.approx(found.ceiling)


def test_prefill_messages_change_too():
    point = anchor(setup(tp=2), 8.0, flat_link(14.0))
    alone = Anchor(point.setup, replace(WORK, batch=1), point.link, 8.0, "", "measured")
    assert other_link(point, flat_link(4.0)).delta_ms < other_link(alone, flat_link(4.0)).delta_ms


def test_how_much_of_a_change_is_prefill_by_hand():
    point = anchor(setup(tp=2), 8.0, flat_link(14.0))
    found = other_link(point, flat_link(4.0))
    others = (WORK.batch - 1) / WORK.output_tokens  # the same latency at every size
    assert found.prefill_share == pytest.approx(others / (1.3 + others))
    alone = Anchor(point.setup, replace(WORK, batch=1), point.link, 8.0, "", "measured")
    assert other_link(alone, flat_link(4.0)).prefill_share == 0


def test_parts_of_a_change_that_work_against_each_other_have_no_share():
    # quicker for small messages, slower for large ones
    sizes = [256.0, 2.0**16, 2.0**30]
    old = CurveLink({2: make_curve(sizes, [14.0, 14.0, 5_000.0])}, "old", "measured")
    new = CurveLink({2: make_curve(sizes, [4.0, 4.0, 50_000.0])}, "new", "measured")
    assert other_link(anchor(setup(tp=2), 30.0, old), new).prefill_share == 0


def test_the_same_link_changes_nothing():
    found = other_link(anchor(setup(tp=2), 8.0, flat_link(9.0)), flat_link(9.0))
    assert found.prefill_share == 0
    assert found.delta_ms == pytest.approx(0.0, abs=1e-12)
    assert (found.low_ms, found.high_ms) == pytest.approx((8.0, 8.0))


def test_one_gpu_has_no_link():
    with pytest.raises(NotPredicted, match="One GPU"):
        other_link(anchor(), flat_link(1.0))


def test_a_latency_longer_than_the_step_is_not_of_this_run():
    with pytest.raises(NotPredicted, match="not that of this run"):
        other_link(anchor(setup(tp=2), 8.0, flat_link(90.0)), flat_link(5.0))


@settings(deadline=None, max_examples=60)
@given(st.floats(1.0, 40.0), st.floats(1.0, 400.0), st.floats(8.0, 100.0))
def test_a_changed_step_is_never_negative_and_its_ends_are_in_order(old, new, ms):
    found = other_link(anchor(setup(tp=2), ms, flat_link(old)), flat_link(new))
    assert 0 < found.low_ms <= found.high_ms
    assert found.low_ms <= found.tpot_ms * (1 + 1e-12)
    assert found.tpot_ms <= found.high_ms * (1 + 1e-12)
    assert (found.delta_ms > 0) == (new > old) or found.delta_ms == pytest.approx(0, abs=1e-9)
