"""A decode step as a serving engine drives it: what the host does for each step is in it.

A captured step that holds everything from token to token costs the host one launch. An engine
cannot have that: which sequences run, where their cache lies and how their tokens are sampled
changes from step to step. So its graph holds the layers only; around it the host keeps pages of
the cache, fills and sends arrays, and launches head and sampling one by one.
"""

import time
from collections.abc import Callable, Sequence

import torch

from models.decode import PAGE, pages_for
from runners.decode_clocks import DISCARDED
from runners.decode_step import Collectives, Pages, Step
from runners.decoder import PLAIN, logits_of


class Books:
    """The host's books of a paged cache: which page holds which positions of which sequence.

    Args:
        batch: Sequences.
        longest: Positions that a sequence may reach.
    """

    def __init__(self, batch: int, longest: int) -> None:
        self.width = pages_for(longest)
        self._free = list(range(batch * self.width))
        self._held: list[list[int]] = [[] for _ in range(batch)]

    def grow(self, sequence: int, length: int) -> Sequence[int]:
        """The sequence's pages once ``length`` positions have a place."""
        held = self._held[sequence]
        while len(held) * PAGE < length:
            held.append(self._free.pop())
        return held

    def release(self, sequence: int) -> None:
        """The sequence has ended: others may have its pages."""
        self._free += self._held[sequence]
        self._held[sequence] = []


def longest(step: Step) -> int:
    """Positions that a sequence of the step may reach before it starts again."""
    return step.kv_len - 1 + step.span


def pages_of(step: Step) -> Pages:
    """Pages for the longest sequences of a step."""
    return Pages(step, step.batch * pages_for(longest(step)) * PAGE)


class ServedLoop:
    """Step after step as an engine drives them, in wall clock.

    Each step: a page for the new position where one is due; positions, lengths and page table to
    the device; the place of the new position worked out there; the layers, which write keys and
    values to that place by a kernel of its own (and attend to the step's own cache, which no page
    table splits); head, float32 and sampling launched one by one; tokens to the host, appended,
    checked for the end. One step follows the other: an engine that prepares the next step while
    this one runs hides a part of it.

    Args:
        step: The buffers.
        layers: Runs the layers into ``hidden``: a graph's replay.
        hidden: Where it leaves its result, (B, E).
        pages: What the layers write; the loop fills its places.
        collectives: For choosing among all ranks' rows.
    """

    def __init__(
        self,
        step: Step,
        layers: Callable[[], None],
        hidden: torch.Tensor,
        pages: Pages,
        collectives: Collectives,
    ) -> None:
        device = step.tokens.device
        self._step, self._layers, self._hidden = step, layers, hidden
        self._pages, self._collectives = pages, collectives
        self._longest = longest(step)
        self._books = Books(step.batch, self._longest)
        self._lengths = [step.kv_len] * step.batch
        self._on_gpu = device.type == "cuda"

        def pair(*shape: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
            """An array on the host, and its copy on the device."""
            host = torch.zeros(shape, dtype=dtype, pin_memory=self._on_gpu)
            return host, torch.zeros(shape, dtype=dtype, device=device)

        self._host_positions, _ = pair(step.batch, dtype=torch.long)
        self._host_lengths, self.lengths = pair(step.batch, dtype=torch.int32)
        self._host_table, self.table = pair(step.batch, self._books.width, dtype=torch.long)
        self._chosen, _ = pair(step.batch, dtype=torch.long)

    def __call__(self, n_steps: int) -> list[float]:
        """Milliseconds of each of ``n_steps`` steps."""
        texts: list[list[int]] = [[] for _ in range(self._step.batch)]
        times: list[float] = []
        for _ in range(n_steps + DISCARDED):
            begin = time.perf_counter()
            self._one(texts)
            times.append((time.perf_counter() - begin) * 1e3)
        return times[DISCARDED:]

    def _one(self, texts: list[list[int]]) -> None:
        self._prepare()
        self._layers()
        self._sample()
        for number, token in enumerate(self._chosen.tolist()):
            texts[number].append(token)
            if self._lengths[number] >= self._longest:
                self._books.release(number)
                self._lengths[number] = self._step.kv_len
            else:
                self._lengths[number] += 1

    def _prepare(self) -> None:
        """The host's books, the arrays, and the places in the cache."""
        step = self._step
        positions, lengths = self._host_positions.numpy(), self._host_lengths.numpy()
        table = self._host_table.numpy()
        for number, length in enumerate(self._lengths):
            pages = self._books.grow(number, length)
            positions[number] = length - 1
            lengths[number] = length
            table[number, : len(pages)] = pages
        step.positions.copy_(self._host_positions, non_blocking=True)
        self.lengths.copy_(self._host_lengths, non_blocking=True)
        self.table.copy_(self._host_table, non_blocking=True)
        page = self.table.gather(1, (step.positions // PAGE)[:, None])[:, 0]
        torch.add(step.positions % PAGE, page, alpha=PAGE, out=self._pages.places)

    def _sample(self) -> None:
        """Head, float32, the best token of all ranks; to the host, which waits for it."""
        step, shard = self._step, self._step.model.shard
        logits = logits_of(self._hidden, shard.head, shard.valid_rows).float()
        step.choose(logits, PLAIN, self._collectives)
        self._chosen.copy_(step.tokens, non_blocking=True)
        if self._on_gpu:
            torch.cuda.current_stream().synchronize()
