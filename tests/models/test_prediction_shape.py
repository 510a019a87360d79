"""What a config.json means for a prediction: weights, cache, windows, states."""

import pytest
from prediction_cases import SMALL, load

from models.errors import InvalidSpec
from models.prediction_shape import load_of


@pytest.mark.parametrize(
    ("name", "billions"),
    [  # the sizes that the models' publishers state
        ("deepseek-v3", 671.0),
        ("gpt-oss-120b", 116.8),
        ("minimax-m2.5", 228.7),
        ("qwen3.5-397b-a17b", 396.3),
        ("kimi-k2.5", 1026.4),
        ("glm-5", 743.2),
        ("qwen3-32b", 32.8),
        ("llama-3.1-70b", 70.6),
        ("qwen2.5-14b", 14.8),
    ],
)
def test_weights_agree_with_the_published_sizes(name, billions):
    assert load(name).total / 1e9 == pytest.approx(billions, abs=0.06)


@pytest.mark.parametrize(
    ("name", "kind", "packed", "calls"),
    [
        ("qwen2.5-14b", "dense", "", 97),
        ("gpt-oss-120b", "moe", "mxfp4", 73),
        ("kimi-k2.5", "moe", "int4", 123),
        ("minimax-m2.5", "moe", "fp8", 125),
    ],
)
def test_kind_format_and_calls(name, kind, packed, calls):
    found = load(name)
    assert (found.kind, found.packed, found.calls) == (kind, packed, calls)


def test_one_token_touches_the_experts_it_picks_and_many_touch_all():
    found = load("minimax-m2.5")
    experts = found.arch.experts
    assert found.touched(1) == pytest.approx(experts.layers * experts.per_token * found.expert)
    assert found.touched(10_000) == pytest.approx(experts.layers * experts.count * found.expert)
    assert found.touched(4) < 4 * found.touched(1)


def test_a_dense_model_touches_no_expert():
    assert load("qwen2.5-14b").touched(8) == 0.0


def test_windows_are_counted_by_layer():
    found = load("gpt-oss-120b")
    assert (found.full_layers, found.window_layers) == (18, 18)


def test_a_window_without_named_layers_holds_for_all():
    found = load_of(SMALL | {"model_type": "mistral", "sliding_window": 512})
    assert (found.full_layers, found.window_layers) == (0, 2)


def test_latent_cache_is_one_vector_a_token():
    assert load("deepseek-v3").cache_width == 512 + 64


def test_sparse_attention_picks_and_keeps_an_index():
    found = load("glm-5")
    assert (found.sparse_tokens, found.index_width) == (2048, 128)


def test_linear_attention_has_a_state_instead_of_a_cache():
    found = load("qwen3.5-397b-a17b")
    assert found.full_layers == 15
    # 45 layers x 64 value heads x 128 x 128 in float32
    assert found.state_bytes == 45 * 64 * 128 * 128 * 4


def test_layers_that_are_not_counted_are_refused():
    config = SMALL | {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*"}
    with pytest.raises(InvalidSpec, match="not counted"):
        load_of(config)


def test_tied_embeddings_are_held_once():
    tied = load_of(SMALL | {"tie_word_embeddings": True})
    assert load_of(SMALL).total - tied.total == 10_000_000
