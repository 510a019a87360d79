"""Weights of a plain decoder: drawn at random by name, cut to one rank's share.

Names and shapes are those of public checkpoints, so that a real state dict can take the place of
the random source, which is how the decoder is checked against another implementation.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from models.decode import kv_heads_a_rank, vocab_rows_a_rank
from models.errors import InvalidSpec
from models.shape import Architecture

# (name, shape) -> the whole tensor, before it is cut
Source = Callable[[str, tuple[int, ...]], torch.Tensor]


@dataclass(frozen=True)
class LayerWeights:
    """One layer's share of one rank; a bias or head norm is None where the model has none."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    output: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True)
class Shard:
    """One rank's share of a model.

    Attributes:
        embedding: Its rows of the embedding, padded with zeros to the common number.
        head: Its rows of the vocabulary head; the embedding itself where tied.
        final_norm: The last norm, whole on every rank.
        layers: Its layers.
        first_row: Vocabulary id of its first row.
        valid_rows: How many of its rows stand for a token; the rest is padding.
    """

    embedding: torch.Tensor
    head: torch.Tensor
    final_norm: torch.Tensor
    layers: list[LayerWeights]
    first_row: int
    valid_rows: int


def random_source(device: torch.device, dtype: torch.dtype, seed: int = 0) -> Source:
    """Weights that keep a signal's size from layer to layer, the same on every rank.

    A tensor's values depend on its name and shape only, so ranks need not talk to agree on them.
    """

    def draw(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if name.endswith("norm.weight"):
            return torch.ones(shape, device=device, dtype=dtype)
        generator = torch.Generator(device).manual_seed(zlib.crc32(name.encode()) + seed)
        # a sum of n products of unit variance has variance n: divide it out
        deviation = 1.0 if "embed" in name else shape[-1] ** -0.5
        return torch.empty(shape, device=device, dtype=dtype).normal_(
            0.0, deviation, generator=generator
        )

    return draw


def state_source(state: dict[str, torch.Tensor]) -> Source:
    """Weights from a checkpoint's state dict."""

    def look_up(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        tensor = state[name]
        if tuple(tensor.shape) != shape:
            raise InvalidSpec(f"{name} is {tuple(tensor.shape)} here, and the config says {shape}.")
        return tensor

    return look_up


def build_shard(arch: Architecture, source: Source, tp: int, rank: int) -> Shard:
    """Cut every tensor to what rank ``rank`` of ``tp`` holds.

    Query, key, value, gate and up projections are cut by rows (column-parallel), the output and
    down projections by columns (row-parallel), embedding and head by vocabulary rows.
    """
    rows = vocab_rows_a_rank(arch, tp)
    first = rank * rows
    embedding = _vocabulary(source("model.embed_tokens.weight", _vocab(arch)), first, rows)
    if arch.tied_embeddings:
        head = embedding
    else:
        head = _vocabulary(source("lm_head.weight", _vocab(arch)), first, rows)
    return Shard(
        embedding=embedding,
        head=head,
        final_norm=source("model.norm.weight", (arch.hidden,)),
        layers=[_layer(arch, source, tp, rank, layer) for layer in range(arch.layers)],
        first_row=first,
        valid_rows=min(max(arch.vocab - first, 0), rows),
    )


def _vocab(arch: Architecture) -> tuple[int, int]:
    return arch.vocab, arch.hidden


def _vocabulary(whole: torch.Tensor, first: int, rows: int) -> torch.Tensor:
    share = whole.new_zeros(rows, whole.shape[1])
    own = whole[first : first + rows]
    share[: len(own)] = own
    return share


def _part(tensor: torch.Tensor, part: int, parts: int, dim: int = 0) -> torch.Tensor:
    """One of ``parts`` equal pieces, in memory of its own so that the whole can be let go."""
    return tensor.chunk(parts, dim)[part].contiguous().clone() if parts > 1 else tensor


def _layer(arch: Architecture, source: Source, tp: int, rank: int, layer: int) -> LayerWeights:
    prefix = f"model.layers.{layer}"
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    q_width, kv_width = arch.heads * arch.head_dim, arch.kv_heads * arch.head_dim
    # with fewer key-value heads than ranks, neighbouring ranks hold a copy of the same one
    kv_parts = arch.kv_heads // kv_heads_a_rank(arch, tp)
    kv_part = rank * kv_parts // tp

    def rows(name: str, width: int, part: int, parts: int) -> torch.Tensor:
        return _part(source(name, (width, arch.hidden)), part, parts)

    def bias(name: str, width: int, part: int, parts: int) -> torch.Tensor:
        return _part(source(name, (width,)), part, parts)

    shares = [("q", q_width, rank, tp)]
    shares += [(name, kv_width, kv_part, kv_parts) for name in ("k", "v")]
    qkv = torch.cat([rows(f"{attention}.{n}_proj.weight", w, p, of) for n, w, p, of in shares])
    qkv_bias = None
    if arch.qkv_bias:
        pieces = [bias(f"{attention}.{n}_proj.bias", w, p, of) for n, w, p, of in shares]
        qkv_bias = torch.cat(pieces)
    gate, up = (
        rows(f"{mlp}.{name}_proj.weight", arch.intermediate, rank, tp) for name in ("gate", "up")
    )
    head_norm = (arch.head_dim,)
    return LayerWeights(
        input_norm=source(f"{prefix}.input_layernorm.weight", (arch.hidden,)),
        qkv=qkv,
        qkv_bias=qkv_bias,
        q_norm=source(f"{attention}.q_norm.weight", head_norm) if arch.qk_norm else None,
        k_norm=source(f"{attention}.k_norm.weight", head_norm) if arch.qk_norm else None,
        output=_part(source(f"{attention}.o_proj.weight", (arch.hidden, q_width)), rank, tp, dim=1),
        post_norm=source(f"{prefix}.post_attention_layernorm.weight", (arch.hidden,)),
        gate_up=torch.cat([gate, up]),
        down=_part(
            source(f"{mlp}.down_proj.weight", (arch.hidden, arch.intermediate)), rank, tp, dim=1
        ),
    )
