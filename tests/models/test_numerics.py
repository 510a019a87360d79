"""The arithmetic of a decoder: what is built, what is refused, and numbers that make no sense."""

import pytest

from models.architecture import read_config
from models.errors import InvalidSpec
from models.numerics import read_numerics

QWEN2 = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 101,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def read(**changes):
    config = QWEN2 | changes
    return read_numerics(config, read_config(config))


def test_a_plain_config_states_its_arithmetic():
    found = read(rope_theta=1_000_000, rope_scaling=None, partial_rotary_factor=None)
    assert (found.eps, found.activation, found.theta) == (1e-5, "silu", 1e6)
    assert found.scaling == {}
    assert found.remark == ""


def test_newer_configs_keep_the_base_among_the_rotary_parameters():
    assert read(rope_parameters={"rope_type": "default", "rope_theta": 5e5}).theta == 5e5


def test_a_text_part_states_its_own_arithmetic():
    inner = QWEN2 | {"rope_theta": 7e4, "hidden_act": "gelu"}
    config = {"model_type": "some_vl", "text_config": inner, "rope_theta": 1.0}
    found = read_numerics(config, read_config(config))
    assert (found.theta, found.activation) == (7e4, "gelu")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_act": "xielu"}, "the activation 'xielu'"),
        ({"mlp_bias": True}, "biases in its MLP"),
        ({"attention_bias": True, "model_type": "llama"}, "bias in its attention output"),
        ({"partial_rotary_factor": 0.5}, "rotated in part"),
        ({"rope_scaling": "yes"}, "no object"),
    ],
)
def test_arithmetic_that_is_not_built_is_refused(change, words):
    with pytest.raises(InvalidSpec, match=words):
        read(**change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rms_norm_eps": "tiny"}, "rms_norm_eps is 'tiny', not a number above 0"),
        ({"rope_theta": [1]}, r"rope_theta is \[1\]"),
        ({"rope_theta": -1}, "rope_theta is -1"),
        ({"rope_theta": float("inf")}, "rope_theta is inf"),
        ({"rope_theta": 10**400}, "rope_theta is 1000"),
        ({"rms_norm_eps": True}, "rms_norm_eps is True"),
        ({"rope_scaling": {"partial_rotary_factor": "x"}}, "partial_rotary_factor is 'x'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor is missing"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor is 0"),
        ({"rope_scaling": LLAMA3}, "original_max_position_embeddings is missing"),
    ],
)
def test_a_number_that_makes_no_sense_is_named(change, words):
    with pytest.raises(InvalidSpec, match=words):
        read(**change)


def test_an_unknown_rotary_scaling_is_left_out_and_said():
    numerics = read(rope_scaling={"rope_type": "yarn", "factor": 4.0})
    assert "yarn" in numerics.remark
    assert numerics.scaling == {}
