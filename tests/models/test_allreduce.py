"""Fit, kinks, interpolation and formulas of an all-reduce sweep."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from models import allreduce
from models.errors import InvalidSpec
from models.fit import SOFT_SCALE, fit_lines, noise

SIZES = 2.0 ** np.arange(9, 27)  # 512 B to 64 MB
REFERENCE = Path(__file__).parents[2] / "data" / "reference" / "allreduce_reference.csv"


def line(alpha, beta, sizes=SIZES):
    return alpha + sizes / (beta * 1e3)


def test_300_synthetic_curves_are_read_within_5_percent():
    rng = np.random.default_rng(20261129)
    within = 0
    for _ in range(300):
        alpha = rng.uniform(4, 60)
        beta = rng.uniform(5, 500)
        noisy = line(alpha, beta) * np.exp(rng.normal(0, 0.03, SIZES.size))
        fit = allreduce.fit_curve(allreduce.make_curve(SIZES, noisy))
        ok = abs(fit.alpha_us / alpha - 1) < 0.05
        within += ok and fit.beta_gbps is not None and abs(fit.beta_gbps / beta - 1) < 0.05
    assert within >= 0.95 * 300


def test_leave_one_out_interpolation_on_the_reference_table():
    table = pd.read_csv(REFERENCE, keep_default_na=False)
    errors = []
    keys = ["system", "aic_path", "device", "library_version", "mode", "num_gpus", "dtype"]
    for _, rows in table.groupby(keys):
        curve = allreduce.make_curve(rows["bytes"].to_numpy(), rows["latency_us"].to_numpy())
        x, y = curve.message_bytes, curve.latency_us
        for i in range(1, x.size - 1):
            if x[i] > 256 * 1024:
                break
            rest = allreduce.Curve(np.delete(x, i), np.delete(y, i))
            errors.append(abs(allreduce.interpolate_us(rest, x[i]) / y[i] - 1))
    assert len(errors) > 3000
    assert np.median(errors) <= 0.02


def test_the_minimiser_agrees_with_scipy():
    rng = np.random.default_rng(1)
    latency = line(9.0, 40.0) * np.exp(rng.normal(0, 0.08, SIZES.size))
    ours = fit_lines(SIZES, latency[None, :])
    scipys = least_squares(
        lambda p: np.log(np.exp(p[0]) + SIZES * np.exp(p[1])) - np.log(latency),
        [np.log(5.0), np.log(1e-4)],
        loss="soft_l1",
        f_scale=SOFT_SCALE,
    )
    assert [ours.alpha_us[0], ours.us_per_byte[0]] == pytest.approx(np.exp(scipys.x), rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(alpha=st.floats(1, 200), beta=st.floats(2, 800))
def test_an_exact_line_is_found_exactly(alpha, beta):
    fit = allreduce.fit_curve(allreduce.make_curve(SIZES, line(alpha, beta)))
    assert fit.alpha_us == pytest.approx(alpha, rel=1e-3)
    assert fit.kinks == ()
    assert np.abs(fit.residual_pct).max() < 0.2
    if fit.beta_gbps is None:  # the transfer is lost in the largest message's time
        assert line(0, beta)[-1] < 0.06 * alpha
    else:
        assert fit.beta_gbps == pytest.approx(beta, rel=2e-3)
        assert fit.crossover_bytes == pytest.approx(alpha * beta * 1e3, rel=4e-3)


@settings(max_examples=25, deadline=None)
@given(factor=st.floats(0.01, 100))
def test_scaling_all_latencies_scales_the_fit(factor):
    rng = np.random.default_rng(3)
    latency = line(12, 60) * np.exp(rng.normal(0, 0.02, SIZES.size))
    one = allreduce.fit_curve(allreduce.make_curve(SIZES, latency))
    other = allreduce.fit_curve(allreduce.make_curve(SIZES, latency * factor))
    assert other.alpha_us == pytest.approx(one.alpha_us * factor, rel=1e-4)
    assert other.beta_gbps == pytest.approx(one.beta_gbps / factor, rel=1e-4)


def test_a_protocol_switch_is_a_kink_and_no_line_goes_through_it():
    low, high = line(6, 20), line(15, 150)
    latency = np.where(SIZES <= 2**18, low, high)
    fit = allreduce.fit_curve(allreduce.make_curve(SIZES, latency))
    assert [(k.below_bytes, k.above_bytes) for k in fit.kinks] == [(2**18, 2**19)]
    assert fit.alpha_us == pytest.approx(6, rel=1e-3)
    assert fit.beta_gbps == pytest.approx(20, rel=1e-2)  # from below the kink only
    assert fit.pieces[1].beta_gbps == pytest.approx(150, rel=1e-2)
    assert fit.kinks[0].jump_pct < 0
    assert np.abs(fit.residual_pct).max() < 1


def test_one_wild_size_is_no_kink_and_does_not_bend_the_line():
    latency = line(6, 150)
    latency[3] *= 2.4  # as in one public table: 14.8 us between 5.7 and 6.3
    fit = allreduce.fit_curve(allreduce.make_curve(SIZES, latency))
    assert fit.kinks == ()
    assert fit.alpha_us == pytest.approx(6, rel=0.05)
    assert fit.residual_pct[3] > 100


def test_noise_alone_makes_no_kink():
    rng = np.random.default_rng(7)
    for spread in (0.02, 0.05, 0.15):  # gloo on shared cores scatters that much
        kinks = 0
        for _ in range(20):
            latency = line(40, 3) * np.exp(rng.normal(0, spread, SIZES.size))
            kinks += len(allreduce.fit_curve(allreduce.make_curve(SIZES, latency)).kinks)
        assert kinks <= 1


def test_floor_and_large_bandwidth_stand_beside_the_fit():
    latency = np.where(SIZES <= 2**20, line(6, 20), line(15, 150))
    fit = allreduce.fit_curve(allreduce.make_curve(SIZES, latency))
    assert fit.floor_us == pytest.approx(np.median(latency[SIZES <= 8192]))
    assert fit.large_gbps == pytest.approx(150, rel=0.01)
    small = allreduce.fit_curve(allreduce.make_curve(SIZES[:8], latency[:8]))
    assert small.large_gbps is None
    big = allreduce.fit_curve(allreduce.make_curve(SIZES[8:], latency[8:]))
    assert big.floor_us is None


def test_beta_is_unknown_where_transfer_never_shows():
    fit = allreduce.fit_curve(allreduce.make_curve(SIZES[:6], [10.0, 10.1, 9.9, 10.0, 10.0, 10.05]))
    assert fit.beta_gbps is None
    assert fit.crossover_bytes is None


def test_too_few_sizes_are_refused():
    with pytest.raises(InvalidSpec, match="3"):
        allreduce.fit_curve(allreduce.make_curve([1024, 2048, 4096], [5.0, 5.1, 5.2]))


def test_repeated_sizes_are_merged_and_sorted():
    curve = allreduce.make_curve([2048, 1024, 2048], [7.0, 5.0, 9.0])
    assert curve.message_bytes.tolist() == [1024, 2048]
    assert curve.latency_us.tolist() == [5, 8]


@pytest.mark.parametrize(
    ("sizes", "latencies"),
    [([], []), ([1], [1, 2]), ([0], [1]), ([1], [0]), ([1], [float("nan")]), ([-4], [3])],
)
def test_impossible_curves_are_refused(sizes, latencies):
    with pytest.raises(InvalidSpec):
        allreduce.make_curve(sizes, latencies)


def test_bootstrap_intervals_hold_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(11)
    hits = []
    for _ in range(40):
        truth = line(12, 60)
        samples = [[t * np.exp(rng.normal(0, 0.1, 30))] for t in truth]
        curve = allreduce.make_curve(SIZES, [float(np.median(s[0])) for s in samples])
        fit = allreduce.bootstrap(curve, allreduce.fit_curve(curve), samples, rng, draws=150)
        hits.append(fit.alpha_interval[0] <= 12 <= fit.alpha_interval[1])
        assert fit.alpha_interval[0] <= fit.alpha_us * 1.02
        assert fit.beta_interval[0] < fit.beta_interval[1]
        assert fit.crossover_interval[0] < fit.crossover_bytes < fit.crossover_interval[1]
    assert np.mean(hits) >= 0.8


def test_rounds_that_differ_widen_the_interval():
    rng = np.random.default_rng(12)
    same = [[t * np.exp(rng.normal(0, 0.01, 30)) for _ in range(4)] for t in line(12, 60)]
    shifts = (0.9, 1.0, 1.1, 1.2)
    apart = [[part * s for part, s in zip(rounds, shifts, strict=True)] for rounds in same]
    widths = []
    for samples in (same, apart):
        curve = allreduce.make_curve(SIZES, [float(np.median(np.concatenate(r))) for r in samples])
        fit = allreduce.bootstrap(curve, allreduce.fit_curve(curve), samples, rng, draws=150)
        widths.append(fit.alpha_interval[1] - fit.alpha_interval[0])
    assert widths[1] > 3 * widths[0]


def test_no_interval_without_samples():
    curve = allreduce.make_curve(SIZES, line(12, 60))
    fit = allreduce.fit_curve(curve)
    rng = np.random.default_rng(0)
    assert allreduce.bootstrap(curve, fit, [[np.array([1.0])]] * SIZES.size, rng) == fit
    with pytest.raises(InvalidSpec):
        allreduce.bootstrap(curve, fit, [], rng)


def test_interpolation_hits_the_measured_points_and_refuses_to_leave_them():
    curve = allreduce.make_curve([1024, 4096], [5.0, 20.0])
    assert allreduce.interpolate_us(curve, 1024) == pytest.approx(5)
    assert allreduce.interpolate_us(curve, 2048) == pytest.approx(10)  # geometric mean
    for outside in (1023, 4097):
        with pytest.raises(InvalidSpec, match="1 KB to 4 KB"):
            allreduce.interpolate_us(curve, outside)


@given(st.floats(512, 2**26), st.floats(512, 2**26))
def test_interpolation_is_monotone_on_a_rising_curve(one, other):
    curve = allreduce.make_curve(SIZES, line(10, 50))
    small, large = sorted((one, other))
    low = allreduce.interpolate_us(curve, small)
    assert low <= allreduce.interpolate_us(curve, large) * (1 + 1e-12)


def test_hand_worked_formulas():
    assert allreduce.allreduce_us(np.array([0.0, 1e6]), 10, 100).tolist() == [10, 20]
    assert allreduce.crossover_bytes(10, 100) == 1e6
    assert allreduce.latency_share(1e6, 10, 100) == 0.5
    assert allreduce.algbw_gbps(1e9, 1e6) == 1
    assert allreduce.busbw_gbps(1e9, 1e6, 2) == 1
    assert allreduce.busbw_gbps(1e9, 1e6, 4) == 1.5
    assert allreduce.busbw_gbps(1e9, 1e6, 1) == 0
    assert round(allreduce.step_cost_ms(28, 56), 2) == 1.57
    with pytest.raises(InvalidSpec):
        allreduce.allreduce_us(np.array([1.0]), 1, 0)
    with pytest.raises(InvalidSpec):
        allreduce.allreduce_us(np.array([-1.0]), 1, 1)


@pytest.mark.parametrize(
    ("size", "words"),
    [(200, "200 B"), (3072, "3 KB"), (1536, "1.5 KB"), (2**26, "64 MB"), (2**31, "2 GB")],
)
def test_sizes_in_words(size, words):
    assert allreduce.size_words(size) == words


def test_noise_is_that_of_the_scatter_not_of_the_bend():
    rng = np.random.default_rng(2)
    assert noise(line(10, 20)) < 0.02
    assert noise(line(10, 20) * np.exp(rng.normal(0, 0.2, SIZES.size))) > 0.08
    assert noise(np.array([1.0, 2.0, 3.0])) == 0
