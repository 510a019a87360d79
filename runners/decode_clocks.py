"""The clocks of a decode step: a serving loop's wall clock, and graphs replayed back to back."""

import time
from collections.abc import Callable
from typing import Any

import torch

from runners.decode_step import Step

# steps of a wall loop, or batches of a replay, that are thrown away at the start of each round
DISCARDED = 3
# a replay sample is a batch: a single step is too short for the events around it
REPLAY_SAMPLES = 30

_WARM_UP_REPLAYS = 200
_WARM_UP_S = 1.0
_WARM_UP_LIMIT_S = 5.0
_WARM_UP_CHUNK = 20


class WallLoop:
    """A step as a serving loop drives it: position to the device, launch, token to the host, wait.

    Args:
        step: The buffers.
        work: Launches one step: block by block, or as a graph.
    """

    def __init__(self, step: Step, work: Callable[[], None]) -> None:
        self._step = step
        self._work = work
        pinned = step.tokens.device.type == "cuda"
        self._position = torch.zeros(step.batch, dtype=torch.long, pin_memory=pinned)
        self._chosen = torch.zeros(step.batch, dtype=torch.long, pin_memory=pinned)
        self._on_gpu = pinned

    def __call__(self, n_steps: int) -> list[float]:
        """Milliseconds of each of ``n_steps`` steps."""
        sequences: list[list[int]] = [[] for _ in range(self._step.batch)]
        times: list[float] = []
        for number in range(n_steps + DISCARDED):
            begin = time.perf_counter()
            self._one(number, sequences)
            times.append((time.perf_counter() - begin) * 1e3)
        return times[DISCARDED:]

    def _one(self, number: int, sequences: list[list[int]]) -> None:
        self._position.fill_(self._step.position(number))
        self._step.positions.copy_(self._position, non_blocking=True)
        self._work()
        self._chosen.copy_(self._step.tokens, non_blocking=True)
        if self._on_gpu:
            torch.cuda.current_stream().synchronize()
        for sequence, token in zip(sequences, self._chosen.tolist(), strict=True):
            sequence.append(token)


class ReplayLoop:
    """A captured step, replayed without a pause: what the GPU alone takes."""

    def __init__(self, graph: torch.cuda.CUDAGraph) -> None:
        self._graph = graph

    def __call__(self, n_steps: int) -> list[float]:
        """Milliseconds a step, one value a batch of replays, ``n_steps`` replays in all."""
        n_samples = min(REPLAY_SAMPLES, n_steps)
        a_sample = n_steps // n_samples
        new_event: Any = torch.cuda.Event  # torch leaves it untyped
        events = [new_event(enable_timing=True) for _ in range(n_samples + DISCARDED + 1)]
        torch.cuda.synchronize()
        events[0].record()
        for event in events[1:]:
            for _ in range(a_sample):
                self._graph.replay()
            event.record()
        torch.cuda.synchronize()
        pairs = zip(events[DISCARDED:], events[DISCARDED + 1 :], strict=False)
        return [begin.elapsed_time(end) / a_sample for begin, end in pairs]


def warm_up(graph: torch.cuda.CUDAGraph, agree: Callable[[float], float]) -> int:
    """Replay until the clock is up: a second and 200 replays, or five seconds.

    An idle GPU runs at a fraction of its clock and takes most of a second to leave it.

    Args:
        graph: Replayed by every rank.
        agree: Gives every rank the same time, so that all stop after the same number.

    Returns:
        How many replays it took.
    """
    n_replays = 0
    begin = time.perf_counter()
    while True:
        for _ in range(_WARM_UP_CHUNK):
            graph.replay()
        torch.cuda.synchronize()
        n_replays += _WARM_UP_CHUNK
        elapsed = agree(time.perf_counter() - begin)
        enough = elapsed >= _WARM_UP_S and n_replays >= _WARM_UP_REPLAYS
        if enough or elapsed >= _WARM_UP_LIMIT_S:
            return n_replays
