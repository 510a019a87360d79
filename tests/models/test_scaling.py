"""Decomposition, ceilings and break-even against the published study and hand-worked numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import InvalidSpec
from models.scaling import (
    StepTimes,
    additive_check,
    cpu_ceiling,
    decompose,
    efficiency,
    link_ceiling,
    promised_band,
    speedup,
)
from models.scaling_fits import Agreement, break_even, fit_inverse
from models.scaling_words import (
    additive_sentence,
    agreement_sentence,
    break_even_sentence,
    ceiling_sentence,
    fit_sentence,
    ideal_words,
    one_point_sentence,
    verdict,
)

# printed in the published study of a 1.5B model (its wall, its replay, its all-reduce cost a step)
PCIE_1 = StepTimes(1, wall_ms=2.74, replay_ms=2.62)
PCIE_2 = StepTimes(
    2, wall_ms=2.13, replay_ms=2.12, calls=56, allreduce_us=28, allreduce_step_ms=1.59
)
NVLINK_1 = StepTimes(1, wall_ms=1.64, replay_ms=1.46)
NVLINK_2 = StepTimes(
    2, wall_ms=2.08, replay_ms=1.89, calls=56, allreduce_us=10, allreduce_step_ms=0.57
)

MEASURED_1 = StepTimes(1, wall_ms=1.80, replay_ms=1.70)
MEASURED_2 = StepTimes(2, wall_ms=1.87, replay_ms=1.77, no_allreduce_ms=1.39)

milliseconds = st.floats(0.01, 1000)


@pytest.mark.parametrize(
    ("reference", "step", "printed"),
    [
        (PCIE_1.wall_ms, PCIE_2.wall_ms, "1.29"),
        (NVLINK_1.wall_ms, NVLINK_2.wall_ms, "0.79"),
        (PCIE_1.replay_ms, PCIE_2.replay_ms, "1.24"),
        (NVLINK_1.replay_ms, NVLINK_2.replay_ms, "0.77"),
    ],
)
def test_published_speedups_to_the_printed_digit(reference, step, printed):
    assert f"{speedup(reference, step):.2f}" == printed


@pytest.mark.parametrize(
    ("times", "printed"),
    [(PCIE_1, "0.12"), (PCIE_2, "0.01"), (NVLINK_1, "0.18"), (NVLINK_2, "0.19")],
)
def test_published_cpu_share_to_the_printed_digit(times, printed):
    assert f"{times.cpu_ms:.2f}" == printed


def test_published_additive_model_misses_both_ways():
    pcie, nvlink = additive_check(PCIE_1, PCIE_2), additive_check(NVLINK_1, NVLINK_2)
    assert pcie is not None
    assert nvlink is not None
    assert f"{pcie.modelled_ms:.2f}" == "2.90"
    assert f"{pcie.residual_ms:.2f}" == "-0.78"
    assert f"{nvlink.modelled_ms:.2f}" == "1.30"
    assert f"{nvlink.residual_ms:.2f}" == "0.59"
    assert "residual −0.78 ms" in additive_sentence(pcie)
    assert "faster than the model" in additive_sentence(pcie)
    assert "residual +0.59 ms" in additive_sentence(nvlink)
    assert "slower than the model" in additive_sentence(nvlink)


def test_published_ceiling_of_a_faster_cpu():
    assert f"{cpu_ceiling(1.64, 1.46):.2f}" == "1.12"
    assert f"{cpu_ceiling(2.08, 1.89):.2f}" == "1.10"
    assert "1.10×" in str(ceiling_sentence(NVLINK_2))


def test_the_ceiling_of_a_better_link_says_what_it_rests_on():
    # 1 / (1 - 0.57 / 2.08), the printed cost of the all-reduces standing in for a measurement
    assert "at most 1.38× (if the all-reduces" in str(ceiling_sentence(NVLINK_2))
    measured = str(ceiling_sentence(MEASURED_2))
    assert "a link that costs nothing at most 1.26×." in measured
    assert ceiling_sentence(StepTimes(2, replay_ms=1.0)) is None


def test_the_parts_of_a_measured_step_are_differences_of_clocks():
    parts = {part.name: part for part in decompose(MEASURED_2, MEASURED_1)}
    assert parts["compute"].ms == pytest.approx(1.39)
    assert parts["communication"].ms == pytest.approx(0.38)
    assert parts["cpu"].ms == pytest.approx(0.10)
    assert "residual" not in parts
    assert {part.basis for part in parts.values()} == {"measured"}


def test_without_a_replay_without_allreduces_the_residual_is_shown():
    parts = {part.name: part for part in decompose(PCIE_2, PCIE_1)}
    assert parts["compute"].ms == pytest.approx(1.31)
    assert parts["communication"].ms == pytest.approx(1.59)
    assert parts["residual"].ms == pytest.approx(-0.78)
    assert parts["residual"].flagged
    assert parts["compute"].basis == "modelled"
    assert sum(part.ms for part in parts.values()) == pytest.approx(2.13)


def test_one_gpu_has_compute_and_cpu_only():
    assert [part.name for part in decompose(NVLINK_1)] == ["compute", "cpu"]


def test_a_step_that_cannot_be_split_has_no_parts():
    assert decompose(StepTimes(2, wall_ms=2.0)) == ()
    assert decompose(StepTimes(2)) == ()


def test_wall_clock_alone_is_split_by_the_additive_model():
    single = StepTimes(1, wall_ms=10.0)
    parts = decompose(StepTimes(2, wall_ms=8.0, calls=9, allreduce_us=100), single)
    assert [part.name for part in parts] == ["compute", "communication", "residual"]
    assert sum(part.ms for part in parts) == pytest.approx(8.0)


def test_the_verdict_names_what_is_saved_and_what_is_paid():
    found = verdict(MEASURED_1, MEASURED_2)
    assert found is not None
    assert found.pays is False
    assert found.sentence == (
        "On this host TP=2 makes this model's step 4 % longer (1.87 ms a step against 1.80 ms, "
        "0.96×): "
        "halving the weights saves 0.31 ms, the all-reduces cost 0.38 ms, the CPU adds nothing."
    )


def test_the_verdict_on_the_published_study_shows_what_stays_unexplained():
    found = verdict(NVLINK_1, NVLINK_2, "On b200-nvlink")
    assert found is not None
    assert found.sentence.startswith("On b200-nvlink TP=2 makes this model's step 27 % longer")
    assert "do not explain +0.59 ms" in found.sentence
    assert "the CPU adds 0.01 ms" in found.sentence
    better = verdict(PCIE_1, PCIE_2)
    assert better is not None
    assert better.pays is True
    assert "the CPU's share falls by 0.11 ms" in better.sentence


def test_a_difference_within_two_per_cent_is_no_verdict_for_either_side():
    found = verdict(StepTimes(1, replay_ms=10.0), StepTimes(2, replay_ms=9.9, no_allreduce_ms=9.0))
    assert found is not None
    assert found.pays is None
    assert "no difference" in found.sentence
    assert "in graph replay" in found.sentence


def test_an_interval_that_holds_one_shows_no_difference():
    found = verdict(MEASURED_1, MEASURED_2, interval=(0.90, 1.02))
    assert found is not None
    assert found.pays is None
    assert "no difference to this model that these rounds show" in found.sentence
    assert "0.96×, 95 % interval 0.90 to 1.02)" in found.sentence
    clear = verdict(MEASURED_1, MEASURED_2, interval=(0.95, 0.97))
    assert clear is not None
    assert clear.pays is False


def test_a_model_that_fits_on_no_single_gpu_is_judged_against_its_smallest_size():
    two = StepTimes(2, wall_ms=42.4, replay_ms=42.3, no_allreduce_ms=41.0)
    four = StepTimes(4, wall_ms=22.3, replay_ms=22.1, no_allreduce_ms=20.5)
    found = verdict(two, four, interval=(1.88, 1.92))
    assert found is not None
    assert found.pays is True
    assert found.sentence == (
        "On this host TP=4 makes this model's step 47 % shorter than TP=2 does (22.30 ms a step "
        "against 42.40 ms, 1.90×, 95 % interval 1.88 to 1.92): halving each GPU's weights saves "
        "20.50 ms, the all-reduces cost 0.30 ms more, the CPU adds 0.10 ms."
    )
    eight = StepTimes(8, wall_ms=22.2, replay_ms=22.1, no_allreduce_ms=21.0)
    level = verdict(two, StepTimes(8, wall_ms=42.0))
    assert level is not None
    assert "makes no difference to this model against TP=2 (within 2%)" in level.sentence
    less = verdict(two, eight)
    assert less is not None
    assert less.reasons[:2] == (
        "splitting the weights over 8 GPUs instead of 2 saves 20.00 ms",
        "the all-reduces cost 0.20 ms less",
    )
    assert verdict(four, two) is None


def test_without_the_measured_difference_a_larger_size_is_modelled_from_the_smaller():
    two = StepTimes(2, replay_ms=10.0, calls=100, allreduce_us=10)  # 9 ms divide, 1 ms does not
    four = StepTimes(4, replay_ms=6.5, calls=100, allreduce_us=15)
    found = verdict(two, four)
    assert found is not None
    assert found.reasons == (
        "halving each GPU's weights would ideally save 4.50 ms",
        "the all-reduces taken alone cost 0.50 ms more",
        "the two do not explain +0.50 ms of the step",  # 10.0 - 4.5 + 0.5 = 6.0
    )


def test_the_share_of_the_ideal_is_said():
    assert ideal_words(1.76, 4, 2) == "88 % of the ideal 2×"
    assert ideal_words(1.5, 3, 2) == "100 % of the ideal 1.5×"


def test_no_verdict_without_a_common_clock():
    assert verdict(StepTimes(1, wall_ms=1.0), StepTimes(2, replay_ms=1.0)) is None
    assert verdict(PCIE_1, PCIE_1) is None


def test_link_ceiling_is_amdahls():
    assert link_ceiling(2.0, 0.5) == pytest.approx(4 / 3)
    assert link_ceiling(2.0, 0.0) == 1
    assert link_ceiling(2.0, -0.1) == 1
    assert link_ceiling(2.0, 2.0) == math.inf
    with pytest.raises(InvalidSpec):
        link_ceiling(2.0, 2.1)


def test_inverse_fit_recovers_its_own_curve_and_needs_three_sizes():
    fit = fit_inverse([1, 2, 4], [8.5, 4.5, 2.5])
    assert fit is not None
    assert fit.shared_ms == pytest.approx(8.0)
    assert fit.constant_ms == pytest.approx(0.5)
    assert fit.at(8) == pytest.approx(1.5)
    assert max(map(abs, fit.residuals_ms)) < 1e-9
    assert fit_inverse([1, 2, 2], [8.5, 4.5, 4.6]) is None


def test_a_curve_says_whether_it_holds():
    held = fit_inverse([1, 2, 4], [8.5, 4.5, 2.5])
    assert held is not None
    assert fit_sentence(held, "graph replay") == (
        "T = A/tp + C in graph replay: A = 8.00 ms divides over the GPUs, C = 0.50 ms stays "
        "(residuals in ms: TP=1 +0.00, TP=2 +0.00, TP=4 +0.00). On this curve no number of GPUs "
        "brings a step below C."
    )
    turning = fit_inverse([1, 2, 4, 8], [16.6, 10.7, 8.5, 10.8])  # a slow link: TP=8 is slower
    assert turning is not None
    tp, share = turning.farthest
    assert tp == 8
    assert share == pytest.approx((10.8 - turning.at(8)) / 10.8)
    said = fit_sentence(turning, "graph replay")
    assert "does not hold: the step at TP=8 lies 18 % above it" in said
    steep = fit_inverse([1, 2, 4], [8.0, 3.9, 1.9])
    assert steep is not None
    assert steep.constant_ms < 0
    assert "do not show that anything stays" in fit_sentence(steep, "graph replay")


def test_agreement_prints_unexplained_beyond_fifteen_per_cent():
    close = Agreement(exposed_ms=0.40, product_ms=0.36)
    assert close.unexplained_ms is None
    assert close.ratio == pytest.approx(0.9)
    assert "agree within 15%" in agreement_sentence(close, 57, 6.3)
    apart = Agreement(exposed_ms=0.50, product_ms=0.36)
    assert apart.unexplained_ms == pytest.approx(0.14)
    assert "*Unexplained*: +0.14 ms" in agreement_sentence(apart, 57, 6.3)


def test_break_even_is_interpolated_between_measured_points():
    (crossing,) = break_even([1.5e9, 14e9], [0.8, 1.25])
    assert crossing.pays_above
    assert crossing.at == pytest.approx(math.sqrt(1.5e9 * 14e9))  # log 0.8 = -log 1.25
    assert "above a model size of about" in break_even_sentence(
        [crossing], [0.8, 1.25], 2, "model size"
    )


def test_one_measured_point_asks_for_a_second_for_all_sizes_at_once():
    assert one_point_sentence("batch", [2, 4, 8]) == (
        "One batch is measured: measure a second to see where TP=2, TP=4 and TP=8 start to pay."
    )


def test_a_break_even_names_what_it_is_against_where_asked():
    crossings = break_even([1.5e9, 14e9], [0.8, 1.25])
    for speedups, found in (([0.8, 1.25], crossings), ([0.7, 0.9], []), ([1.7, 1.9], [])):
        said = break_even_sentence(found, speedups, 4, "batch", reference_tp=1)
        assert said.startswith("TP=4 against TP=1 pays ")
        assert break_even_sentence(found, speedups, 4, "batch").startswith("TP=4 pays ")


def test_break_even_is_never_extrapolated():
    assert break_even([1, 8], [0.7, 0.9]) == []
    assert "at no measured batch" in break_even_sentence([], [0.7, 0.9], 2, "batch")
    assert "at every measured batch" in break_even_sentence([], [1.7, 1.9], 2, "batch")
    assert "measure a second" in break_even_sentence([], [1.7], 2, "batch")
    with pytest.raises(InvalidSpec):
        break_even([0, 1], [1, 1])


def test_a_point_on_the_line_counts_once():
    assert [crossing.at for crossing in break_even([1, 2, 4], [0.9, 1.0, 1.1])] == [2]


def test_the_promised_band_is_a_power_of_the_doublings():
    assert promised_band(4, reference_tp=2) == pytest.approx((1.5, 1.8))
    assert promised_band(4) == pytest.approx((2.25, 3.24))


@given(milliseconds, milliseconds, st.integers(1, 64))
def test_efficiency_is_speedup_over_tp(reference, step, tp):
    gain = speedup(reference, step)
    assert efficiency(gain, tp) == pytest.approx(gain / tp)


@given(
    st.integers(1, 16),
    milliseconds,
    milliseconds,
    milliseconds,
)
def test_shares_are_non_negative_or_flagged_and_add_up(tp, wall, replay, without):
    times = StepTimes(tp, wall_ms=wall, replay_ms=replay, no_allreduce_ms=without)
    parts = decompose(times)
    assert sum(part.ms for part in parts) == pytest.approx(wall)
    assert all(part.ms >= 0 or part.flagged for part in parts)


@given(
    st.integers(2, 64),
    milliseconds,
    milliseconds,
    st.integers(0, 500),
    st.floats(0, 1000),
    st.floats(0, 1000),
)
def test_a_slower_link_never_shortens_the_modelled_step(tp, single, step, calls, latency, more):
    alone = StepTimes(1, replay_ms=single)
    quick, slow = (
        additive_check(alone, StepTimes(tp, replay_ms=step, calls=calls, allreduce_us=us))
        for us in (latency, latency + more)
    )
    assert quick is not None
    assert slow is not None
    assert slow.modelled_ms >= quick.modelled_ms >= single / tp
    assert slow.residual_ms <= quick.residual_ms


@given(st.lists(st.tuples(st.floats(0.1, 1e12), st.floats(0.05, 20)), min_size=2, max_size=8))
def test_a_break_even_lies_between_its_measured_points(points):
    sizes, gains = zip(*points, strict=True)
    for crossing in break_even(sizes, gains):
        assert crossing.below * (1 - 1e-9) <= crossing.at <= crossing.above * (1 + 1e-9)
