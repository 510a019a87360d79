"""The terms of a predicted step: hand-worked numbers, limits, and what can never happen."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prediction_cases import CARD, SMALL, WORK, calibration, flat_link, load, setup

from models.curve import make_curve
from models.errors import InvalidSpec, NotPredicted
from models.prediction import Setup, Workload, peak_flops, shares, terms, weight_bytes
from models.prediction_anchor import predict
from models.prediction_calibration import DISTANCES
from models.prediction_link import CurveLink
from models.prediction_shape import load_of


def test_weights_are_read_once_at_eighty_percent_of_the_bandwidth():
    # 2 layers x (4 x 1000 x 1000 attention + 3 x 1000 x 4000 MLP + 2 x 1000 norms) + 1000
    small = Setup(load_of(SMALL), "bf16", 2.0, "vllm", CARD, 1)
    assert small.load.body == 2 * (4_000_000 + 12_000_000 + 2_000) + 1_000
    assert weight_bytes(small, 1) == 2 * small.load.body + 2 * 10_000_000
    found = terms(small, Workload(1, 100, 100), None, 0.0)
    reading = 1e3 * (2 * small.load.body + 2e7) / (5e12 * 0.8)
    assert found.weights == pytest.approx(reading, rel=1e-6)  # computing vanishes in the power mean


def test_cache_of_four_requests_at_the_mean_context():
    # Qwen2.5-14B: 48 layers, 8 heads of 128 for keys and values, 2 bytes; 1024 + 256/2 tokens
    found = terms(setup(), WORK, None, 0.0)
    assert found.cache == pytest.approx(1e3 * 4 * 1152 * 48 * 2 * 8 * 128 * 2 / (5e12 * 0.8))


def test_all_reduces_of_a_step():
    # 97 calls of 10 us with the skew of 1.3
    found = terms(setup(tp=2), WORK, flat_link(10.0), 0.0)
    assert found.allreduce == pytest.approx(1.3 * 97 * 10 / 1e3)


def test_fixed_cost_is_layers_times_the_constant():
    assert terms(setup(), WORK, None, 50.0).fixed == pytest.approx(48 * 50 / 1e3)


def test_one_request_is_not_interrupted_by_prefill():
    assert terms(setup(), Workload(1, 8192, 256), None, 0.0).prefill == 0.0
    assert terms(setup(), Workload(2, 8192, 256), None, 0.0).prefill > 0.0


def test_prefill_of_the_others_by_hand():
    model = load("qwen2.5-14b")
    found = terms(setup(), WORK, None, 0.0)
    products = 2 * model.active * 1024 / (1e15 * 0.6)
    attention = 2 * 48 * 40 * 128 * 1024**2 / (1e15 * 0.6)
    assert found.prefill == pytest.approx(1e3 * (products + attention) * 3 / 256)


def test_throughput_is_the_batch_over_the_step():
    found = terms(setup(), WORK, None, 50.0)
    assert found.tokens_a_second(4) == pytest.approx(4000 / found.tpot_ms)


def test_heads_divide_the_cache_until_one_is_left():
    one, four, eight = (
        terms(setup("qwen2.5-1.5b", tp=tp), WORK, flat_link(1.0), 0.0).cache for tp in (1, 2, 4)
    )
    assert four == pytest.approx(one / 2)  # two heads
    assert eight == pytest.approx(four)  # they are repeated, not divided further


def test_latent_cache_is_not_divided():
    caches = {
        terms(setup("deepseek-v3", tp=tp, precision="fp8"), WORK, flat_link(1.0), 0.0).cache
        for tp in (1, 8)
    }
    assert len(caches) == 1


def test_windowed_layers_read_their_window_only():
    short = terms(setup("gpt-oss-120b", precision="fp4"), Workload(1, 100, 28), None, 0.0)
    long = terms(setup("gpt-oss-120b", precision="fp4"), Workload(1, 10_000, 28), None, 0.0)
    # 18 of 36 layers grow with the context, the others stay at 128 tokens
    assert long.cache / short.cache == pytest.approx((10_014 + 128) / (114 + 114))


def test_four_bit_experts_leave_the_rest_in_two_bytes():
    oss = setup("gpt-oss-120b", precision="fp4")
    touched = oss.load.touched(1)
    assert weight_bytes(oss, 1) == pytest.approx(
        2 * oss.load.body + 0.53 * touched + 2 * oss.load.embedding
    )


def test_four_bit_dense_packs_everything_but_the_head():
    model = setup(precision="int4")
    assert weight_bytes(model, 8) == pytest.approx(
        0.53 * model.load.body + 2 * model.load.embedding
    )


def test_a_format_that_the_card_cannot_compute_runs_in_bf16():
    assert peak_flops(CARD, "int4") == 1e15
    assert peak_flops(CARD, "fp8") == 2e15


def test_a_card_without_flops_is_refused():
    with pytest.raises(InvalidSpec, match="No dense FLOP/s"):
        peak_flops(replace(CARD, flops={}), "bf16")


def test_several_gpus_need_a_link():
    with pytest.raises(InvalidSpec, match="link"):
        terms(setup(tp=2), WORK, None, 0.0)
    with pytest.raises(NotPredicted, match="2 GPUs"):
        terms(setup(tp=2), WORK, flat_link(5.0, sizes=(4,)), 0.0)


@pytest.mark.parametrize("work", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_an_empty_load_is_refused(work):
    with pytest.raises(InvalidSpec):
        Workload(*work)


def test_shares_add_up_largest_first():
    found = list(shares(terms(setup(), WORK, None, 50.0)).values())
    assert sum(found) == pytest.approx(1.0)
    assert found == sorted(found, reverse=True)


MODELS = st.sampled_from(["qwen2.5-1.5b", "qwen2.5-14b", "gpt-oss-120b", "deepseek-v3", "glm-5"])
WORKS = st.builds(Workload, st.integers(1, 256), st.integers(1, 16_384), st.integers(1, 8_192))
SIZES = st.sampled_from([1, 2, 4, 8])
LATENCIES = st.lists(st.floats(1.0, 500.0), min_size=4, max_size=4)
POINTS = [256.0, 65_536.0, 2.0**24, 2.0**30]


def _link(latencies) -> CurveLink:
    curve = make_curve(POINTS, sorted(latencies))
    return CurveLink(dict.fromkeys((2, 4, 8), curve), "drawn", "measured")


@settings(deadline=None, max_examples=80)
@given(MODELS, WORKS, SIZES, LATENCIES, st.floats(0.0, 0.99))
def test_a_faster_link_never_makes_a_step_longer(name, work, tp, latencies, faster):
    at = setup(name, tp=tp)
    slow = terms(at, work, _link(latencies), 50.0)
    quick = terms(at, work, _link([value * (1 - faster) for value in latencies]), 50.0)
    assert quick.tpot_ms <= slow.tpot_ms * (1 + 1e-12)


@settings(deadline=None, max_examples=80)
@given(MODELS, WORKS, SIZES, LATENCIES, st.floats(1.0, 50.0))
def test_more_bandwidth_never_makes_a_step_longer(name, work, tp, latencies, more):
    at = setup(name, tp=tp)
    wider = replace(at, card=replace(CARD, bandwidth=CARD.bandwidth * more))
    link = _link(latencies)
    assert terms(wider, work, link, 50.0).tpot_ms <= terms(at, work, link, 50.0).tpot_ms


@settings(deadline=None, max_examples=60)
@given(MODELS, WORKS)
def test_one_gpu_pays_no_all_reduce(name, work):
    found = terms(setup(name), work, flat_link(100.0), 50.0)
    assert found.allreduce == 0.0
    assert found == terms(setup(name), work, None, 50.0)


@settings(deadline=None, max_examples=60)
@given(MODELS, WORKS, SIZES)
def test_every_term_is_finite_and_none_is_negative(name, work, tp):
    found = predict(setup(name, tp=tp), work, flat_link(5.0), calibration())
    values = [getattr(found.terms, name) for name in vars(found.terms)]
    assert all(value >= 0 and math.isfinite(value) for value in values)
    assert 0 < found.low_ms < found.tpot_ms < found.high_ms


def test_widths_grow_with_distance():
    row = calibration().widths["dense"]
    assert [row[name].half for name in DISTANCES] == sorted(row[name].half for name in DISTANCES)
