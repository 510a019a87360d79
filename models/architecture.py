"""What a model's config.json means for tensor parallelism: calls a step, message, parameters.

A decode step of a dense decoder reduces twice a layer: after the attention's output projection
and after the MLP's down projection, both row-parallel. The message is one hidden vector a token.
Source of the counts: the row-parallel layers of public engines' model code (see the Method page).
"""

from collections.abc import Mapping
from typing import Any

from models import hf_config
from models.errors import InvalidSpec
from models.parameters import active_parameter_count, parameter_count
from models.shape import Architecture, Experts, LatentAttention

__all__ = [
    "Architecture",
    "Experts",
    "LatentAttention",
    "active_parameter_count",
    "calls_per_step",
    "check_tp",
    "divisible_tps",
    "message_bytes",
    "parameter_count",
    "read_config",
]

# Families whose decoder layer is attention then MLP (or experts), each reduced once.
TWO_A_LAYER = frozenset(
    """llama qwen2 qwen3 mistral mixtral gemma gemma2 gemma3 gemma3_text phi phi3 phimoe olmo
    olmo2 olmo3 starcoder2 stablelm internlm2 internlm3 baichuan minicpm minicpm3 granite
    granitemoe exaone exaone4 glm glm4 glm4_moe chatglm smollm3 seed_oss ministral mistral3
    qwen2_moe qwen3_moe qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text deepseek
    deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 gpt_oss minimax minimax_m2 llama4 llama4_text
    ernie4_5 ernie4_5_moe hunyuan_v1_dense hunyuan_v1_moe glm_moe_dsa gpt2 opt bloom mpt
    qwen2_vl qwen2_5_vl qwen2_vl_text qwen2_5_vl_text qwen3_vl_text qwen3_vl_moe_text""".split()
)
# Attention and MLP side by side on the same input: one reduction serves both.
ONE_A_LAYER = frozenset(("falcon", "gpt_neox", "gptj", "cohere", "cohere2", "phi_parallel"))
# Families whose layers follow from the config itself.
BY_BLOCKS = frozenset(("nemotron_h", "nemotron-nas", "deci"))

_UNGATED = frozenset(("gpt2", "opt", "bloom", "mpt", "falcon", "gpt_neox", "gptj", "phi"))
_QKV_BIAS = frozenset(("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl"))
_NAMED_SIZES = 16  # TP sizes up to this one are named where another is refused
_QK_NORM = frozenset(("qwen3", "qwen3_moe", "qwen3_next"))


def read_config(config: Mapping[str, Any], *, calls: int | None = None) -> Architecture:
    """Read the decoded content of a Hugging Face config.json.

    Args:
        config: The JSON object; multimodal configs are read from their text part.
        calls: All-reduces a step that a person entered, for a family that is not known here.

    Returns:
        The architecture.

    Raises:
        InvalidSpec: Names the missing keys, the value that makes no sense, or the family that is
            not known.
    """
    if not isinstance(config, Mapping):
        raise InvalidSpec(
            "A model's config.json holds an object with named values; this file does not.",
            "Upload the config.json that lies beside the model's weights.",
        )
    if calls is not None and not 0 < calls <= 10_000:
        raise InvalidSpec("The number of calls a step must lie between 1 and 10,000.")
    text = hf_config.text_part(config)
    # families are told apart by the text part's own type; hybrids bring their blocks along
    family = str(text.get("model_type") or "")[:60]
    blocks = text.get("block_configs")
    pattern = text.get("hybrid_override_pattern")
    wanted: tuple[str, ...] = ("hidden", "layers", "heads", "vocab")
    if not blocks and not pattern and hf_config.find(text, "experts") is None:
        wanted += () if family in _UNGATED else ("intermediate",)
    sizes = hf_config.required(text, wanted)
    hidden, heads = sizes["hidden"], sizes["heads"]
    layers = len(pattern) if isinstance(pattern, str) and pattern else sizes["layers"]
    intermediate = hf_config.whole(text, "intermediate") or 4 * hidden
    head_dim = hf_config.whole(text, "head_dim")
    if head_dim is None:
        if hidden % heads:
            raise InvalidSpec(
                f"The hidden size {hidden} does not divide into {heads} heads, and the config "
                "states no head_dim.",
                "Check hidden_size and num_attention_heads in the config.json.",
            )
        head_dim = hidden // heads
    per_layer = _layer_calls(text, family, layers) if calls is None else None
    kinds = text.get("layer_types")
    linear = sum("linear" in str(kind) for kind in kinds) if isinstance(kinds, list) else 0
    with_cache = pattern.count("*") if isinstance(pattern, str) and pattern else layers - linear
    window = text.get("sliding_window") if text.get("use_sliding_window", True) else None
    return Architecture(
        model_type=family,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=_kv_heads(text, heads),
        head_dim=head_dim,
        intermediate=intermediate,
        vocab=sizes["vocab"],
        tied_embeddings=bool(text.get("tie_word_embeddings", family in _TIED_BY_DEFAULT)),
        max_positions=hf_config.whole(text, "max_positions"),
        dtype_bytes=hf_config.dtype_bytes(text),
        weight_bits=hf_config.weight_bits(text),
        gated_mlp=family not in _UNGATED,
        qkv_bias=bool(text.get("attention_bias", family in _QKV_BIAS)),
        qk_norm=family in _QK_NORM,
        layer_calls=per_layer,
        entered_calls=calls,
        experts=_experts(text, layers, intermediate),
        latent=_latent(text),
        attention_layers=with_cache,
        sliding_window=window if isinstance(window, int) and window > 0 else None,
    )


# transformers leaves the key out of a config.json where it equals the family's default
_TIED_BY_DEFAULT = {
    "gemma": True,
    "gemma2": True,
    "gemma3": True,
    "gemma3_text": True,
    "gpt2": True,
}


def _kv_heads(text: hf_config.Config, heads: int) -> int:
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        return 1
    found = hf_config.whole(text, "kv_heads")
    return heads if found is None else found


def _layer_calls(text: hf_config.Config, family: str, layers: int) -> tuple[int, ...]:
    """All-reduces of each layer; block-wise configs say it themselves, else the family does."""
    blocks = text.get("block_configs")
    if isinstance(blocks, list) and blocks:
        return tuple(_block_calls(block) for block in blocks)
    if isinstance(text.get("hybrid_override_pattern"), str) and text["hybrid_override_pattern"]:
        return (1,) * layers  # each character is one block: Mamba, MLP, experts or attention
    if text.get("parallel_attn") or text.get("use_parallel_residual") or family in ONE_A_LAYER:
        # gpt_neox may switch the parallel form off
        return (2 if text.get("use_parallel_residual") is False else 1,) * layers
    if family in TWO_A_LAYER:
        return (2,) * layers
    named = family or "none"
    raise InvalidSpec(
        f"How often a model of the family {named!r} reduces in a step is not known here.",
        "Enter the number of all-reduce calls a step yourself; an engine's trace shows it.",
    )


def _block_calls(block: Any) -> int:
    """0 to 2 for one entry of ``block_configs``: a part that is a no-op is not reduced."""
    if not isinstance(block, Mapping):
        raise InvalidSpec("An entry of block_configs is not an object.")
    count = 0
    for part in ("attention", "ffn"):
        inner = block.get(part)
        count += not (isinstance(inner, Mapping) and inner.get("no_op"))
    return count


def _experts(text: hf_config.Config, layers: int, intermediate: int) -> Experts | None:
    count = hf_config.whole(text, "experts", least=0)
    if not count or count == 1:
        return None
    width = hf_config.whole(text, "moe_intermediate_size") or intermediate
    shared = hf_config.whole(text, "shared_expert_intermediate_size", least=0)
    if shared is None:
        shared = width * (hf_config.whole(text, "n_shared_experts", least=0) or 0)
    step = (
        hf_config.whole(text, "decoder_sparse_step")
        or hf_config.whole(text, "interleave_moe_layer_step")
        or 1
    )
    first_dense = hf_config.whole(text, "first_k_dense_replace", least=0) or 0
    only_dense = text.get("mlp_only_layers")
    excluded = set(only_dense) if isinstance(only_dense, list) else set()
    frequency = text.get("moe_layer_freq")  # a list holds one 0 or 1 a layer
    marked = frequency if isinstance(frequency, list) else [1] * layers
    sparse = [
        layer
        for layer in range(first_dense, min(layers, len(marked)))
        if (layer + 1) % step == 0 and layer not in excluded and marked[layer]
    ]
    return Experts(
        count=count,
        per_token=hf_config.whole(text, "experts_per_token") or 1,
        intermediate=width,
        shared_intermediate=shared,
        layers=len(sparse),
    )


def _latent(text: hf_config.Config) -> LatentAttention | None:
    rank = hf_config.whole(text, "kv_lora_rank")
    if rank is None:
        return None
    sizes = hf_config.required(text, ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"))
    return LatentAttention(
        q_rank=hf_config.whole(text, "q_lora_rank"),
        kv_rank=rank,
        rope_dim=sizes["qk_rope_head_dim"],
        nope_dim=sizes["qk_nope_head_dim"],
        v_dim=sizes["v_head_dim"],
    )


def calls_per_step(arch: Architecture, *, vocab_parallel_embedding: bool = False) -> int:
    """All-reduces of one decode step under tensor parallelism.

    Args:
        arch: The model.
        vocab_parallel_embedding: Whether the embedding is split over the vocabulary, which costs
            one more call (vLLM does so).

    Returns:
        Calls a step: 2 a layer for dense, mixture-of-experts and latent attention; 1 a layer
        where attention and MLP run side by side; 1 a block in ``hybrid_override_pattern``; 0 for
        each no-op in ``block_configs``. Quantised weights change nothing.
    """
    counted = arch.entered_calls or 0 if arch.layer_calls is None else sum(arch.layer_calls)
    return counted + int(vocab_parallel_embedding)


def message_bytes(arch: Architecture, tokens: int, dtype_bytes: int = 2) -> int:
    """Bytes that one all-reduce of a step carries: tokens x hidden x bytes an activation.

    Args:
        arch: The model.
        tokens: Tokens in the step: the batch in decode (times k + 1 with k drafted tokens), the
            chunk in prefill.
        dtype_bytes: Bytes of one activation; bf16 even where weights are quantised.

    Raises:
        InvalidSpec: A count is not positive.
    """
    if tokens <= 0 or dtype_bytes <= 0:
        raise InvalidSpec("A message needs at least one token and one byte a value.")
    return tokens * arch.hidden * dtype_bytes


def check_tp(arch: Architecture, tp: int) -> None:
    """Refuse a tensor-parallel size that an engine would refuse.

    Raises:
        InvalidSpec: Heads or the MLP do not divide by ``tp``; key-value heads neither divide nor
            repeat evenly. The next step names sizes that do.
    """
    problem = _undivided(arch, tp)
    if problem is None:
        return
    sizes = [str(size) for size in divisible_tps(arch, _NAMED_SIZES)]
    listed = f"{', '.join(sizes[:-1])} or {sizes[-1]}" if len(sizes) > 1 else "1"
    raise InvalidSpec(problem, f"Pick a size that divides them: {listed} for this model.")


def divisible_tps(arch: Architecture, most: int) -> list[int]:
    """The tensor-parallel sizes up to ``most`` that `check_tp` lets pass, in rising order."""
    return [tp for tp in range(1, most + 1) if _undivided(arch, tp) is None]


def _undivided(arch: Architecture, tp: int) -> str | None:
    """What of a model does not divide over so many GPUs, in a sentence."""
    if tp < 1:
        return "The tensor-parallel size is at least 1."
    if arch.heads % tp:
        return f"{arch.heads} attention heads do not divide over {tp} GPUs."
    if arch.latent is None and arch.kv_heads % tp and tp % arch.kv_heads:
        return f"{arch.kv_heads} key-value heads neither divide over {tp} GPUs nor repeat evenly."
    # with experts an engine may split by expert instead of by width
    if arch.experts is None and arch.intermediate % tp:
        return f"The MLP's width of {arch.intermediate} does not divide over {tp} GPUs."
    return None
