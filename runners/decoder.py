"""One decode step of a plain decoder: the same functions run eagerly, fused, and in a graph.

Each function is one stretch between two all-reduces, takes tensors and plain numbers only, and so
is compiled once for all layers. Shapes: batch B, rank's heads H, its key-value heads G, head D,
hidden E, KV length S, rank's vocabulary rows V.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (the name that every torch reader knows)

from models.numerics import Numerics

# each of models.numerics.ACTIVATIONS
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": functools.partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}


def rotary_tables(
    numerics: Numerics, head_dim: int, positions: int, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of every position, each (positions, D/2)."""
    steps = torch.arange(0, head_dim, 2, device=device, dtype=torch.float32)
    frequency = numerics.theta ** (-steps / head_dim)
    scaling = numerics.scaling
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        frequency = frequency / float(scaling["factor"])
    elif kind == "llama3":
        # long waves are slowed by the factor, short ones kept, those between blended
        low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
        waves = float(scaling["original_max_position_embeddings"]) * frequency / (2 * torch.pi)
        keep = ((waves - low) / (high - low)).clamp(0, 1)
        frequency = frequency * (keep + (1 - keep) / float(scaling["factor"]))
    angle = torch.arange(positions, device=device, dtype=torch.float32)[:, None] * frequency
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype) * weight


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def embed(
    tokens: torch.Tensor,
    positions: torch.Tensor,
    table: torch.Tensor,
    cos_table: torch.Tensor,
    sin_table: torch.Tensor,
    first_row: int,
    kv_len: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Token (B,) and position (B,) -> its row (B, E) or zeros, cos and sin (B, 1, D/2), slot (B,).

    Slots go round: the cache always holds S positions, the newest in the place of the oldest.
    """
    local = tokens - first_row
    inside = (local >= 0) & (local < table.shape[0])
    rows = table[local.clamp(0, table.shape[0] - 1)] * inside[:, None]
    return rows, cos_table[positions][:, None], sin_table[positions][:, None], positions % kv_len


def attention(
    x: torch.Tensor,
    residual: torch.Tensor,
    norm: torch.Tensor,
    qkv: torch.Tensor,
    qkv_bias: torch.Tensor | None,
    q_norm: torch.Tensor | None,
    k_norm: torch.Tensor | None,
    output: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    sequences: torch.Tensor,
    slots: torch.Tensor,
    heads: int,
    kv_heads: int,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add, norm, attend over the cache (B, S, G, D) with the new position in it, project.

    Returns:
        The rank's partial sum (B, E), to be all-reduced, and the residual stream (B, E).
    """
    residual = x + residual
    projected = F.linear(_norm(residual, norm, eps), qkv, qkv_bias)
    batch, head_dim = x.shape[0], keys.shape[-1]
    widths = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
    q, k, v = torch.split(projected, widths, dim=-1)
    q, k = q.view(batch, heads, head_dim), k.view(batch, kv_heads, head_dim)
    if q_norm is not None and k_norm is not None:
        q, k = _norm(q, q_norm, eps), _norm(k, k_norm, eps)
    q = _rotate(q, cos, sin)
    keys[sequences, slots] = _rotate(k, cos, sin)
    values[sequences, slots] = v.view(batch, kv_heads, head_dim)
    attended = F.scaled_dot_product_attention(
        q[:, :, None],
        keys.transpose(1, 2),
        values.transpose(1, 2),
        enable_gqa=heads != kv_heads,
    )
    return F.linear(attended.reshape(batch, heads * head_dim), output), residual


def write_pages(
    keys: torch.Tensor,
    values: torch.Tensor,
    sequences: torch.Tensor,
    slots: torch.Tensor,
    key_pages: torch.Tensor,
    value_pages: torch.Tensor,
    places: torch.Tensor,
) -> None:
    """Copy the newest keys and values (B, S, G, D) to their places (B,) in pages (P, G, D).

    A kernel of its own, as in an engine: there attention is a library's, and writes nothing.
    """
    key_pages[places] = keys[sequences, slots]
    value_pages[places] = values[sequences, slots]


def mlp(
    x: torch.Tensor,
    residual: torch.Tensor,
    norm: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    eps: float,
    activation: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add, norm, gated MLP: the rank's partial sum (B, E) and the residual stream (B, E)."""
    residual = x + residual
    gate, up = F.linear(_norm(residual, norm, eps), gate_up).chunk(2, dim=-1)
    return F.linear(_ACTIVATIONS[activation](gate) * up, down), residual


def vocabulary(
    x: torch.Tensor,
    residual: torch.Tensor,
    norm: torch.Tensor,
    head: torch.Tensor,
    valid_rows: int,
    eps: float,
) -> torch.Tensor:
    """Logits of the rank's rows (B, V); padding can never win."""
    return logits_of(final_norm(x, residual, norm, eps), head, valid_rows)


def final_norm(
    x: torch.Tensor, residual: torch.Tensor, norm: torch.Tensor, eps: float
) -> torch.Tensor:
    """What the layers hand to the vocabulary head (B, E)."""
    return _norm(x + residual, norm, eps)


def logits_of(hidden: torch.Tensor, head: torch.Tensor, valid_rows: int) -> torch.Tensor:
    """Final hidden states (B, E) -> logits of the rank's rows (B, V)."""
    logits = F.linear(hidden, head)
    if valid_rows < head.shape[0]:
        logits[:, valid_rows:] = float("-inf")
    return logits


def best_here(logits: torch.Tensor, first_row: int) -> torch.Tensor:
    """The rank's best logit and its token, (B, 2) float32: exact for tokens up to 2**24."""
    value, row = logits.max(dim=-1)
    return torch.stack([value.float(), (row + first_row).float()], dim=-1)


def best_of_all(everyone: torch.Tensor) -> torch.Tensor:
    """Every rank's best (ranks, B, 2) -> the winning token (B,)."""
    winner = everyone[:, :, 0].argmax(dim=0, keepdim=True)
    return everyone[:, :, 1].gather(0, winner)[0].long()


@dataclass(frozen=True)
class Blocks:
    """The functions that a step is made of, plain or compiled."""

    embed: Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]
    attention: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    write_pages: Callable[..., None]
    mlp: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    vocabulary: Callable[..., torch.Tensor]
    final_norm: Callable[..., torch.Tensor]
    best_here: Callable[..., torch.Tensor]
    best_of_all: Callable[..., torch.Tensor]


_FUSIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "combo": {"options": {"combo_kernels": True}},
    "matvec": {"options": {"coordinate_descent_tuning": True}},
    "max-autotune": {"mode": "max-autotune-no-cudagraphs"},
}

PLAIN = Blocks(embed, attention, write_pages, mlp, vocabulary, final_norm, best_here, best_of_all)


def fused(mode: str) -> Blocks:
    """The blocks compiled for the shapes of their first call.

    Args:
        mode: ``default`` (library matrix products, everything between them fused), ``combo``
            (small kernels beside each other launched as one as well), ``matvec``
            (products of one token become generated kernels too), or ``max-autotune`` (kernels
            chosen by trial).
    """
    compiled = functools.partial(torch.compile, dynamic=False, fullgraph=True, **_FUSIONS[mode])
    return Blocks(
        compiled(embed),
        compiled(attention),
        compiled(write_pages),
        compiled(mlp),
        compiled(vocabulary),
        compiled(final_norm),
        compiled(best_here),
        compiled(best_of_all),
    )
