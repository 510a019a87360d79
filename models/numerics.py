"""The arithmetic that a decoder's config.json asks for, beside its shape: read before it runs.

Nothing here computes; `runners.decoder` does, and `models.architecture` reads the shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models import hf_config
from models.errors import InvalidSpec
from models.shape import Architecture

_MOST = 1e30  # nothing in a config is beyond it; infinity and not-a-number are not below it
# of a gated MLP, by the name that configs use
ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh", "relu")
# rotary scaling that is built -> the numbers that it needs
_SCALINGS: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
}


@dataclass(frozen=True)
class Numerics:
    """The arithmetic of a plain decoder.

    Attributes:
        eps: Added to the mean square in RMSNorm.
        activation: Of the gated MLP, one of `ACTIVATIONS`.
        theta: Base of the rotary frequencies.
        scaling: The config's scaling of rotary frequencies, empty for none.
        remark: What is done differently from the config, without effect on speed; else empty.
    """

    eps: float
    activation: str
    theta: float
    scaling: Mapping[str, Any]
    remark: str = ""


def read_numerics(config: Mapping[str, Any], arch: Architecture) -> Numerics:
    """Read the arithmetic of a plain decoder from its config.json.

    Raises:
        InvalidSpec: A part that is not built, or a number that is missing or makes no sense.
    """
    config = hf_config.text_part(config)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    activation = str(config.get("hidden_act") or "silu")
    what = None
    if activation not in ACTIVATIONS:
        what = f"the activation {activation[:40]!r}"
    elif config.get("mlp_bias"):
        what = "biases in its MLP"
    elif arch.qkv_bias and arch.model_type != "qwen2":
        what = "a bias in its attention output"
    elif not isinstance(rope, Mapping):
        what = "a rotary scaling that is no object"
    elif _number("partial_rotary_factor", rope, config, default=1.0) != 1:
        what = "heads that are rotated in part"
    if what is not None:
        raise InvalidSpec(
            f"This model has {what}, which the decode step does not build.",
            "Pick a built-in model of a similar size.",
        )
    kind = str(rope.get("rope_type", rope.get("type", "default")))
    for name in _SCALINGS.get(kind, ()):
        _number(name, rope)
    scaling = rope if kind in _SCALINGS and kind != "default" else {}
    return Numerics(
        eps=_number("rms_norm_eps", config, default=1e-6),
        activation=activation,
        theta=_number("rope_theta", rope, config, default=10_000.0),
        scaling=scaling,
        remark=""
        if kind in _SCALINGS
        else f"The rotary scaling {kind[:40]!r} is left out: it changes values, not speed.",
    )


def _number(name: str, *places: Mapping[str, Any], default: float | None = None) -> float:
    """A number above 0, from the first place that states it.

    Raises:
        InvalidSpec: It is something else, or stated nowhere and without a default.
    """
    value: Any = next((place[name] for place in places if place.get(name) is not None), default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 < value < _MOST:
        return float(value)
    said = "missing" if value is None else repr(value)[:40]
    raise InvalidSpec(
        f"In this config, {name} is {said}, not a number above 0.",
        "Check the config.json, or pick a built-in model.",
    )
