"""A whole decode step on one rank: buffers, cache, the loop over layers, the next token."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist

from models.decode import POSITION_SPAN, kv_heads_a_rank
from models.numerics import Numerics
from models.shape import Architecture
from runners.decoder import Blocks, rotary_tables
from runners.decoder_weights import Shard


class Collectives(Protocol):
    """What the ranks of a step exchange."""

    def reduce(self, partial: torch.Tensor) -> torch.Tensor:
        """Sum over the ranks."""

    def gather(self, best: torch.Tensor) -> torch.Tensor:
        """(B, 2) of every rank -> (ranks, B, 2)."""


class NoCollectives:
    """One rank alone, or a step with the collectives left out."""

    def reduce(self, partial: torch.Tensor) -> torch.Tensor:
        """The rank's own part."""
        return partial

    def gather(self, best: torch.Tensor) -> torch.Tensor:
        """The rank's own choice."""
        return best[None]


class RankCollectives:
    """The default process group: NCCL on GPUs, gloo on CPUs."""

    def __init__(self, n_ranks: int) -> None:
        self._n_ranks = n_ranks

    def reduce(self, partial: torch.Tensor) -> torch.Tensor:
        """All-reduce in place."""
        dist.all_reduce(partial)
        return partial

    def gather(self, best: torch.Tensor) -> torch.Tensor:
        """All-gather of each rank's best token: far smaller than the logits."""
        everyone = best.new_empty(self._n_ranks * best.shape[0], best.shape[1])
        dist.all_gather_into_tensor(everyone, best)
        return everyone.view(self._n_ranks, *best.shape)


@dataclass(frozen=True)
class Model:
    """What all steps of one rank share."""

    arch: Architecture
    numerics: Numerics
    shard: Shard
    tp: int


class Pages:
    """A paged cache beside the step's own: keys and values of every layer, a place a position.

    The step attends to its own cache; what is written here is what an engine, which has nothing but
    pages, has to write at each step.

    Args:
        step: Whose shapes it has.
        n_places: Positions that all pages hold together.
    """

    def __init__(self, step: "Step", n_places: int) -> None:
        like = step.keys[0]
        shape = (n_places, *like.shape[2:])
        self.keys = [like.new_zeros(shape) for _ in step.keys]
        self.values = [like.new_zeros(shape) for _ in step.values]
        # where each sequence's newest position goes; filled before each step, (B,)
        self.places = torch.zeros(step.batch, dtype=torch.long, device=like.device)


class Step:
    """Decode steps of one batch and KV length; buffers stay in place, so a graph can hold them.

    Args:
        model: The rank's share.
        batch: Sequences.
        kv_len: Positions that the new token attends to, itself included.
        seed: Of the random cache.
    """

    def __init__(self, model: Model, batch: int, kv_len: int, seed: int = 0) -> None:
        arch, shard = model.arch, model.shard
        device, dtype = shard.embedding.device, shard.embedding.dtype
        self.model = model
        self.batch, self.kv_len = batch, kv_len
        self.tokens = torch.zeros(batch, dtype=torch.long, device=device)
        self.positions = torch.full((batch,), kv_len - 1, dtype=torch.long, device=device)
        self._sequences = torch.arange(batch, device=device)
        self._nothing = torch.zeros(batch, arch.hidden, dtype=dtype, device=device)
        self._kv_heads = kv_heads_a_rank(arch, model.tp)
        last = kv_len + POSITION_SPAN
        n_positions = last if arch.max_positions is None else min(last, arch.max_positions)
        self._span = n_positions - kv_len + 1
        self._cos, self._sin = rotary_tables(
            model.numerics, arch.head_dim, n_positions, device, dtype
        )
        generator = torch.Generator(device).manual_seed(seed)
        shape = (batch, kv_len, self._kv_heads, arch.head_dim)

        def cache() -> list[torch.Tensor]:
            return [
                torch.empty(shape, device=device, dtype=dtype).normal_(generator=generator)
                for _ in range(arch.layers)
            ]

        self.keys, self.values = cache(), cache()

    @property
    def span(self) -> int:
        """Steps after which the positions start again."""
        return self._span

    def position(self, step: int) -> int:
        """Position of the token that step number ``step`` of a loop adds."""
        return self.kv_len - 1 + step % self._span

    def logits(self, blocks: Blocks, collectives: Collectives) -> torch.Tensor:
        """The rank's logits (B, V) of the token after ``tokens`` at ``positions``."""
        shard, eps = self.model.shard, self.model.numerics.eps
        x, residual = self._layers(blocks, collectives)
        return blocks.vocabulary(x, residual, shard.final_norm, shard.head, shard.valid_rows, eps)

    def hidden(
        self, blocks: Blocks, collectives: Collectives, pages: Pages | None = None
    ) -> torch.Tensor:
        """What the layers hand to the vocabulary head (B, E); ``pages`` are written if given."""
        x, residual = self._layers(blocks, collectives, pages)
        return blocks.final_norm(x, residual, self.model.shard.final_norm, self.model.numerics.eps)

    def _layers(
        self, blocks: Blocks, collectives: Collectives, pages: Pages | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        shard, numerics = self.model.shard, self.model.numerics
        heads = self.model.arch.heads // self.model.tp
        eps = numerics.eps
        x, cos, sin, slots = blocks.embed(
            self.tokens,
            self.positions,
            shard.embedding,
            self._cos,
            self._sin,
            shard.first_row,
            self.kv_len,
        )
        if self.model.tp > 1:
            x = collectives.reduce(x)
        residual = self._nothing
        caches = zip(shard.layers, self.keys, self.values, strict=True)
        for number, (weights, keys, values) in enumerate(caches):
            x, residual = blocks.attention(
                x,
                residual,
                weights.input_norm,
                weights.qkv,
                weights.qkv_bias,
                weights.q_norm,
                weights.k_norm,
                weights.output,
                keys,
                values,
                cos,
                sin,
                self._sequences,
                slots,
                heads,
                self._kv_heads,
                eps,
            )
            if pages is not None:
                blocks.write_pages(
                    keys,
                    values,
                    self._sequences,
                    slots,
                    pages.keys[number],
                    pages.values[number],
                    pages.places,
                )
            x = collectives.reduce(x)
            x, residual = blocks.mlp(
                x,
                residual,
                weights.post_norm,
                weights.gate_up,
                weights.down,
                eps,
                numerics.activation,
            )
            x = collectives.reduce(x)
        return x, residual

    def choose(self, logits: torch.Tensor, blocks: Blocks, collectives: Collectives) -> None:
        """Greedy sampling over all ranks' rows; the chosen token is the next step's input."""
        if self.model.tp == 1:
            torch.argmax(logits, dim=-1, out=self.tokens)
            return
        best = blocks.best_here(logits, self.model.shard.first_row)
        self.tokens.copy_(blocks.best_of_all(collectives.gather(best)))

    def run(self, blocks: Blocks, collectives: Collectives) -> None:
        """One whole step: the next token replaces the last one."""
        self.choose(self.logits(blocks, collectives), blocks, collectives)


def capture(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Record work that has run at least once into a graph."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # other threads (NCCL's watchdog) may ask for events meanwhile
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    torch.cuda.synchronize()
    return graph
