"""Calls a step, messages, parameters and refusals, from real config values."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.architecture import (
    active_parameter_count,
    calls_per_step,
    check_tp,
    divisible_tps,
    message_bytes,
    parameter_count,
    read_config,
)
from models.errors import InvalidSpec

SHAPES = Path(__file__).parents[2] / "data" / "models"


def builtin(name: str) -> dict:
    return json.loads((SHAPES / f"{name}.json").read_text())


DENSE = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 100,
}


# Weights of the published checkpoints (the numbers that model hubs print from the safetensors).
PUBLISHED_COUNTS = {
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
}


@pytest.mark.parametrize(("name", "count"), PUBLISHED_COUNTS.items())
def test_parameters_agree_with_the_published_checkpoint(name, count):
    assert parameter_count(read_config(builtin(name))) == count


def test_every_builtin_shape_is_readable():
    for path in SHAPES.glob("*.json"):
        arch = read_config(json.loads(path.read_text()))
        assert calls_per_step(arch) == 2 * arch.layers


def test_published_1_5b_model_makes_56_calls_of_3_kb():
    arch = read_config(builtin("qwen2.5-1.5b"))
    assert calls_per_step(arch) == 56
    assert calls_per_step(arch, vocab_parallel_embedding=True) == 57
    assert message_bytes(arch, 1) == 3072


def test_missing_keys_are_all_named():
    with pytest.raises(InvalidSpec) as caught:
        read_config({"model_type": "llama", "hidden_size": 64})
    for key in ("num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"):
        assert key in caught.value.sentence


def test_unknown_family_says_so_and_takes_an_entered_count():
    config = {**DENSE, "model_type": "newformer"}
    with pytest.raises(InvalidSpec, match="newformer") as caught:
        read_config(config)
    assert "Enter" in caught.value.next_step
    arch = read_config(config, calls=7)
    assert calls_per_step(arch) == 7
    assert calls_per_step(arch, vocab_parallel_embedding=True) == 8
    assert parameter_count(arch) is None


@pytest.mark.parametrize("calls", [0, -3, 10_001])
def test_an_entered_count_must_make_sense(calls):
    with pytest.raises(InvalidSpec):
        read_config(DENSE, calls=calls)


def test_mixture_of_experts_still_reduces_twice_a_layer():
    # Mixtral 8x7B: 46.7 B weights, 12.9 B used by a token, as published
    arch = read_config(
        {
            "model_type": "mixtral",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "vocab_size": 32000,
            "tie_word_embeddings": False,
        }
    )
    assert calls_per_step(arch) == 64
    assert parameter_count(arch) == 46_702_792_704
    assert active_parameter_count(arch) == pytest.approx(12.9e9, rel=0.01)


def test_latent_attention_reduces_twice_a_layer():
    # DeepSeek-V3: 671 B weights, 37 B used by a token, as published
    arch = read_config(
        {
            "model_type": "deepseek_v3",
            "hidden_size": 7168,
            "intermediate_size": 18432,
            "moe_intermediate_size": 2048,
            "num_hidden_layers": 61,
            "first_k_dense_replace": 3,
            "moe_layer_freq": 1,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "n_routed_experts": 256,
            "n_shared_experts": 1,
            "num_experts_per_tok": 8,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "vocab_size": 129280,
            "quantization_config": {"quant_method": "fp8"},
        }
    )
    assert calls_per_step(arch) == 122
    assert arch.experts is not None
    assert arch.experts.layers == 58
    assert parameter_count(arch) == pytest.approx(671e9, rel=0.002)
    assert active_parameter_count(arch) == pytest.approx(37.5e9, rel=0.02)
    assert arch.weight_bits == 8


def test_hybrid_pattern_reduces_once_a_block():
    arch = read_config(
        {
            **DENSE,
            "model_type": "nemotron_h",
            "hybrid_override_pattern": "M-M*-E",
            "num_hidden_layers": 6,
        }
    )
    assert calls_per_step(arch) == 6
    assert arch.attention_layers == 1
    assert parameter_count(arch) is None


def test_no_op_blocks_do_not_reduce():
    blocks = [
        {"attention": {"no_op": False}, "ffn": {"no_op": False}},
        {"attention": {"no_op": True}, "ffn": {"no_op": False}},
        {"attention": {"no_op": True}, "ffn": {"no_op": True}},
    ]
    arch = read_config({**DENSE, "model_type": "nemotron-nas", "block_configs": blocks})
    assert calls_per_step(arch) == 3
    assert arch.layer_calls == (2, 1, 0)


@pytest.mark.parametrize(
    "extra",
    [
        {"model_type": "falcon", "parallel_attn": True, "multi_query": True},
        {"model_type": "gpt_neox", "use_parallel_residual": True},
        {"model_type": "cohere"},
    ],
)
def test_parallel_attention_and_mlp_reduce_once_a_layer(extra):
    assert calls_per_step(read_config({**DENSE, **extra})) == 3


def test_gpt_neox_with_the_parallel_form_off_reduces_twice():
    config = {**DENSE, "model_type": "gpt_neox", "use_parallel_residual": False}
    assert calls_per_step(read_config(config)) == 6


def test_linear_attention_layers_reduce_but_keep_no_growing_cache():
    kinds = ["linear_attention", "linear_attention", "full_attention"]
    arch = read_config({**DENSE, "model_type": "qwen3_5_text", "layer_types": kinds})
    assert calls_per_step(arch) == 6
    assert arch.attention_layers == 1


def test_multimodal_configs_are_read_from_their_text_part():
    nested = {"model_type": "qwen3_5", "text_config": {**DENSE, "model_type": "qwen3_5_text"}}
    arch = read_config(nested)
    assert arch.hidden == 64
    assert arch.model_type == "qwen3_5_text"


def test_weight_quantisation_does_not_shrink_the_message():
    plain = read_config(DENSE)
    awq = read_config({**DENSE, "quantization_config": {"quant_method": "awq", "bits": 4}})
    assert awq.weight_bits == 4
    assert plain.weight_bits is None
    assert message_bytes(awq, 4) == message_bytes(plain, 4) == 4 * 64 * 2


def test_compressed_tensors_bits_are_found():
    groups = {"group_0": {"weights": {"num_bits": 4}}}
    config = {**DENSE, "quantization_config": {"config_groups": groups}}
    assert read_config(config).weight_bits == 4


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": "64"},
        {"num_hidden_layers": -1},
        {"num_hidden_layers": 10**9},
        {"vocab_size": True},
        {"hidden_size": 66},
        {"num_key_value_heads": 0},
    ],
)
def test_senseless_values_are_refused(change):
    with pytest.raises(InvalidSpec):
        read_config({**DENSE, **change})


def test_something_else_than_an_object_is_refused():
    with pytest.raises(InvalidSpec):
        read_config(["a", "list"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "tp", "word"),
    [
        ("qwen2.5-1.5b", 5, "heads"),
        ("qwen2.5-1.5b", 3, "key-value"),
        ("qwen2.5-0.5b", 14, "MLP"),
        ("llama-3.1-8b", 0, "at least 1"),
    ],
)
def test_impossible_tp_sizes_are_refused(name, tp, word):
    with pytest.raises(InvalidSpec, match=word):
        check_tp(read_config(builtin(name)), tp)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("qwen2.5-0.5b", [1, 2]),
        ("qwen2.5-1.5b", [1, 2, 4]),
        ("qwen2.5-14b", [1, 2, 4, 8]),
        ("llama-3.1-70b", [1, 2, 4, 8]),
    ],
)
def test_sizes_that_a_model_divides_by_are_known_and_named(name, sizes):
    arch = read_config(builtin(name))
    assert divisible_tps(arch, 8) == sizes
    with pytest.raises(InvalidSpec) as refused:
        check_tp(arch, 3)
    assert str(sizes[-1]) in refused.value.next_step


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_key_value_heads_may_repeat(tp):
    check_tp(read_config(builtin("qwen2.5-1.5b")), tp)  # 2 key-value heads


@given(tokens=st.integers(1, 10_000), hidden=st.integers(1, 4096))
def test_the_message_grows_with_tokens(tokens, hidden):
    arch = read_config({**DENSE, "hidden_size": hidden * 4})
    assert message_bytes(arch, tokens) == 2 * tokens * hidden * 4
    assert message_bytes(arch, tokens + 1) > message_bytes(arch, tokens)


def test_a_message_needs_tokens():
    with pytest.raises(InvalidSpec):
        message_bytes(read_config(DENSE), 0)


@given(st.dictionaries(st.sampled_from(sorted(DENSE)), st.integers() | st.sampled_from("0a")))
def test_any_content_is_read_or_refused_but_never_misread(change):
    try:
        arch = read_config({**DENSE, **change})
    except InvalidSpec:
        return
    assert calls_per_step(arch) == 2 * arch.layers > 0
    assert (arch.hidden, arch.layers) == tuple(
        {**DENSE, **change}[key] for key in ("hidden_size", "num_hidden_layers")
    )
