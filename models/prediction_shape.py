"""What a prediction needs to know of a model: weights by how they are stored, cache, state.

`models.architecture` reads the common part of a config.json; linear attention, windows of single
layers and sparse attention are read here, since only a prediction uses them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from models import hf_config
from models.architecture import calls_per_step, parameter_count, read_config
from models.errors import InvalidSpec
from models.shape import Architecture

BYTES_OF_STATE = 4  # recurrent states are kept in float32


@dataclass(frozen=True)
class Load:
    """A model as a decode step sees it.

    Attributes:
        arch: The shape.
        body: Weights outside routed experts and embeddings: attention, dense MLP, shared experts.
        expert: Weights of one routed expert, 0 for a dense model.
        embedding: Vocabulary times hidden size.
        full_layers: Layers whose cache is read whole.
        window_layers: Layers that look back `Architecture.sliding_window` tokens at most.
        cache_width: Cached elements a token and layer.
        sparse_tokens: Tokens that sparse attention picks, None where it reads all.
        index_width: Elements a token and layer that sparse attention reads to pick, 0 for none.
        state_bytes: Recurrent state of one sequence, all linear-attention layers, bytes.
        calls: All-reduces a step above one GPU, the embedding's included.
        packed: Format in which the model itself is published: "mxfp4", "int4", "fp8", or "".
    """

    arch: Architecture
    body: int
    expert: int
    embedding: int
    full_layers: int
    window_layers: int
    cache_width: int
    sparse_tokens: int | None
    index_width: int
    state_bytes: int
    calls: int
    packed: str

    @property
    def kind(self) -> str:
        """``dense`` or ``moe``: the two are calibrated apart."""
        return "dense" if self.arch.experts is None else "moe"

    @property
    def active(self) -> int:
        """Weights that one token passes through, embeddings left out."""
        experts = self.arch.experts
        if experts is None:
            return self.body
        return self.body + experts.layers * experts.per_token * self.expert

    @property
    def total(self) -> int:
        """All weights, embeddings counted once where tied."""
        experts = self.arch.experts
        routed = 0 if experts is None else experts.layers * experts.count * self.expert
        copies = 1 if self.arch.tied_embeddings else 2
        return self.body + routed + copies * self.embedding

    def touched(self, tokens: int) -> float:
        """Weights of routed experts that a step of ``tokens`` tokens reads, on average.

        Source: each token picks ``per_token`` of ``count`` experts evenly, so one expert stays
            unread with probability (1 - k/E)^tokens.
        """
        experts = self.arch.experts
        if experts is None:
            return 0.0
        unread = (1.0 - experts.per_token / experts.count) ** tokens
        return experts.layers * experts.count * (1.0 - unread) * self.expert


def load_of(config: Mapping[str, Any]) -> Load:
    """Read a config.json for prediction.

    Args:
        config: Decoded content of a Hugging Face config.json.

    Returns:
        The load.

    Raises:
        InvalidSpec: The family is not known, keys are missing, or the family has layers whose
            weights are not counted (Mamba, no-op blocks).
    """
    arch = read_config(config)
    text = hf_config.text_part(config)
    embedding = arch.vocab * arch.hidden
    linear = _linear_layers(text, arch)
    counted = parameter_count(replace(arch, attention_layers=arch.layers) if linear else arch)
    if counted is None:
        raise InvalidSpec(
            "This model has layers whose weights are not counted here, so its step cannot be "
            "predicted.",
            "Pick a built-in shape of a similar size, or measure this model.",
        )
    expert = routed = 0
    if arch.experts is not None:
        expert = 3 * arch.hidden * arch.experts.intermediate
        routed = arch.experts.layers * arch.experts.count * expert
    body = counted - routed - embedding * (1 if arch.tied_embeddings else 2)
    state = 0
    if linear:
        weights, state = _linear(text, arch)
        body += linear * (weights - _grouped(arch))
        state *= linear
    if text.get("attn_output_gate"):
        gate = arch.hidden * arch.heads * arch.head_dim
        body += arch.attention_layers * gate
    windowed = _window_layers(text, arch)
    latent = arch.latent
    sparse = hf_config.whole(text, "index_topk")
    index = hf_config.whole(text, "index_head_dim") or 0
    return Load(
        arch=arch,
        body=body,
        expert=expert,
        embedding=embedding,
        full_layers=arch.attention_layers - windowed,
        window_layers=windowed,
        cache_width=(
            2 * arch.kv_heads * arch.head_dim
            if latent is None
            else latent.kv_rank + latent.rope_dim
        ),
        sparse_tokens=sparse,
        index_width=index if sparse is not None else 0,
        state_bytes=state,
        calls=calls_per_step(arch, vocab_parallel_embedding=True),
        packed=_packed(config, arch),
    )


def _grouped(arch: Architecture) -> int:
    """Weights of one layer of grouped-query attention."""
    q_width = arch.heads * arch.head_dim
    return 2 * arch.hidden * q_width + 2 * arch.hidden * arch.kv_heads * arch.head_dim


def _linear_layers(text: hf_config.Config, arch: Architecture) -> int:
    """Gated linear-attention layers; other hybrids are left to `parameter_count`'s refusal."""
    if hf_config.whole(text, "linear_num_value_heads") is None:
        return 0
    return arch.layers - arch.attention_layers


def _linear(text: hf_config.Config, arch: Architecture) -> tuple[int, int]:
    """Weights and state bytes of one gated linear-attention layer.

    Source: the projections of the public Qwen3-Next model code: query, key, value and gate in,
        two scalars a value head, a short convolution, and the output projection.
    """
    keys = hf_config.required(text, ("linear_num_key_heads", "linear_key_head_dim"))
    values = hf_config.required(text, ("linear_num_value_heads", "linear_value_head_dim"))
    heads = values["linear_num_value_heads"]
    key_width = keys["linear_num_key_heads"] * keys["linear_key_head_dim"]
    value_width = heads * values["linear_value_head_dim"]
    kernel = hf_config.whole(text, "linear_conv_kernel_dim") or 1
    weights = arch.hidden * (2 * key_width + 2 * value_width + 2 * heads)
    weights += kernel * (2 * key_width + value_width) + value_width * arch.hidden
    return weights, value_width * keys["linear_key_head_dim"] * BYTES_OF_STATE


def _window_layers(text: hf_config.Config, arch: Architecture) -> int:
    """Layers that look back only a window; where single layers are not named, all of them."""
    if arch.sliding_window is None:
        return 0
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        return min(sum("sliding" in str(kind) for kind in kinds), arch.attention_layers)
    return arch.attention_layers


def _packed(config: Mapping[str, Any], arch: Architecture) -> str:
    quantised = hf_config.text_part(config).get("quantization_config")
    method = str(quantised.get("quant_method")) if isinstance(quantised, Mapping) else ""
    if method == "mxfp4":
        return method
    return {4.0: "int4", 8.0: "fp8"}.get(arch.weight_bits or 0.0, "")
