"""Reading a Hugging Face config.json: one name for keys that families spell differently.

Nothing here knows what a number means; `models.architecture` does.
"""

from collections.abc import Mapping
from typing import Any

from models.errors import InvalidSpec

Config = Mapping[str, Any]

# our name -> the spellings seen in public configs, the common one first
ALIASES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv"),
    "intermediate": ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "max_positions": ("max_position_embeddings", "n_positions", "n_ctx", "seq_length"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    "experts_per_token": ("num_experts_per_tok", "experts_per_token", "moe_top_k", "moe_k"),
}

# A number beyond these is a typing error or an attack, not a model.
MAX_DIMENSION = 10_000_000
MAX_LAYERS = 2_000

_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}


def text_part(config: Config) -> dict[str, Any]:
    """The language model's part of a config; multimodal configs nest it one level down."""
    for name in ("text_config", "llm_config", "language_config"):
        inner = config.get(name)
        if isinstance(inner, Mapping) and find(config, "hidden") is None:
            outer = {key: value for key, value in config.items() if not isinstance(value, Mapping)}
            quantised = config.get("quantization_config")
            merged = {**outer, **inner}
            if quantised is not None:
                merged.setdefault("quantization_config", quantised)
            return merged
    return dict(config)


def find(config: Config, name: str) -> Any:
    """The value under any spelling of our ``name``, or None where none is present."""
    for key in ALIASES.get(name, (name,)):
        if config.get(key) is not None:
            return config[key]
    return None


def whole(config: Config, name: str, *, least: int = 1, most: int = MAX_DIMENSION) -> int | None:
    """A whole number within bounds, or None where the key is absent.

    Raises:
        InvalidSpec: The value is there but is no whole number within the bounds.
    """
    value = find(config, name)
    spelled = next((k for k in ALIASES.get(name, (name,)) if config.get(k) is not None), name)
    if isinstance(value, list) and value and all(item == value[0] for item in value):
        value = value[0]  # the same width written once a layer
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidSpec(
            f"In this config, {spelled} is {str(value)[:40]!r}, not a whole number from {least} "
            f"to {most}.",
            "Check the config.json, or pick a built-in model.",
        )
    return value


def required(config: Config, names: tuple[str, ...]) -> dict[str, int]:
    """Several whole numbers, all of which must be present.

    Raises:
        InvalidSpec: Names every missing key in one sentence, in its common spelling.
    """
    limits = {"layers": MAX_LAYERS}
    values = {name: whole(config, name, most=limits.get(name, MAX_DIMENSION)) for name in names}
    missing = [ALIASES.get(name, (name,))[0] for name, value in values.items() if value is None]
    if missing:
        raise InvalidSpec(
            f"This config.json does not say {', '.join(missing)}.",
            "Upload the config.json that lies beside the model's weights.",
        )
    return {name: value for name, value in values.items() if value is not None}


def dtype_bytes(config: Config) -> int:
    """Bytes of one activation or unquantised weight; 2 where the config does not say."""
    name = config.get("torch_dtype") or config.get("dtype") or "bfloat16"
    return _DTYPE_BYTES.get(str(name).removeprefix("torch."), 2)


def weight_bits(config: Config) -> float | None:
    """Bits of one quantised weight, scales left out; None where weights are not quantised.

    Known spellings: AWQ and GPTQ ``bits``, ``quant_method`` fp8 and mxfp4, compressed-tensors
    ``config_groups.*.weights.num_bits``. A method that is not known gives None.
    """
    quantised = config.get("quantization_config")
    if not isinstance(quantised, Mapping):
        return None
    groups = quantised.get("config_groups")
    if isinstance(groups, Mapping):
        for group in groups.values():
            weights = group.get("weights") if isinstance(group, Mapping) else None
            bits = weights.get("num_bits") if isinstance(weights, Mapping) else None
            if isinstance(bits, int) and 0 < bits <= 16:
                return float(bits)
    bits = quantised.get("bits", quantised.get("w_bit"))
    if isinstance(bits, int) and 0 < bits <= 16:
        return float(bits)
    return {"fp8": 8.0, "fbgemm_fp8": 8.0, "mxfp4": 4.0}.get(str(quantised.get("quant_method")))
