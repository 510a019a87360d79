"""All-reduces on GPUs: in a CUDA graph, launched one by one, or with work in between."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist

from runners.allreduce_plan import (
    Unit,
    buffer_count,
    calls_in_graph,
    repeats_in_batch,
    warm_up_for,
)
from runners.allreduce_timing import Buffers, Taken
from runners.gpu_state import GpuState, own_uuid
from runners.rank_fault import Fault
from runners.rank_program import Rank
from runners.spec import AllReduceSpec

# the work between two calls in exposed mode: a matrix-vector product that reads 32 MB, from more
# matrices than a cache holds, as a decode step does
_GEMV_WIDTH = 4096
_GEMV_MATRICES = 4
_GEMV_US = 12.0  # for planning only
_HEAT_CALLS = 2_000
_CHUNK_US = 50_000.0
_TRIAL_CALLS = 5


class CudaBench:
    """One rank's GPU, its stream and its buffers."""

    def __init__(self, rank: Rank, spec: AllReduceSpec, fault: Fault) -> None:
        self._rank, self._spec = rank, spec
        new_stream: Any = torch.cuda.Stream  # torch leaves it untyped
        self._stream = new_stream(rank.device)
        self._state = GpuState(own_uuid(rank.rank))
        with torch.cuda.stream(self._stream):
            self._buffers = Buffers(rank, spec, fault, spec.calls_per_graph)
            self._gemv = _Gemv(rank.device) if "exposed" in spec.modes else None
            # in place on one rank NCCL launches nothing at all: no clock would ever come up
            self._heat = _Gemv(rank.device) if rank.n_ranks == 1 else None
        self._stream.synchronize()
        ratios = [row[0] for row in rank.gather([float(self._state.is_quick)])]
        self._has_clock = min(ratios) > 0

    def take(self, unit: Unit) -> Taken:
        """Measure one size in one mode."""
        before = self._state.read()
        with torch.cuda.stream(self._stream):
            taken = self._eager(unit) if unit.mode == "eager" else self._captured(unit)
            self._stream.synchronize()
        after = self._state.read()
        during = taken.clock or {}
        clock = {
            "rank": self._rank.rank,
            "before_mhz": before["sm_clock_mhz"],
            "during_mhz": during.get("sm_clock_mhz"),
            "after_mhz": after["sm_clock_mhz"],
            "throttle_reasons": during.get("throttle_reasons"),
        }
        return Taken(taken.values_us, taken.wrong, taken.layout, taken.baseline_us, clock)

    def close(self) -> None:
        """Wait for the device: graphs are gone already, each with its unit."""
        torch.cuda.synchronize(self._rank.device)

    def _eager(self, unit: Unit) -> Taken:
        views = self._views(unit, self._spec.calls_per_graph)
        place = 0

        def call() -> None:
            nonlocal place
            dist.all_reduce(views[place])
            place = (place + 1) % len(views)

        def once() -> None:
            for view in views:
                dist.all_reduce(view)

        wrong = self._buffers.check(views, once)
        self._buffers.rest()
        repeats = repeats_in_batch(self._warm_up(call, unit))
        values_us, clock = self._timed(call, repeats)
        wrong += self._buffers.check(views, once)
        layout = {"calls": repeats, "replays": 1, "buffers": len(views)}
        return Taken(values_us, wrong, layout, clock=clock)

    def _captured(self, unit: Unit) -> Taken:
        gemv = self._gemv if unit.mode == "exposed" else None
        call_us = self._trial_us(unit) + (0.0 if gemv is None else _GEMV_US)
        calls = calls_in_graph(self._spec.calls_per_graph, call_us)
        views = self._views(unit, calls)
        # checked by a graph too: what a captured call does need not be what an eager one does
        check = self._capture(views, len(views), gemv)
        wrong = self._buffers.check(views, check.replay)
        self._buffers.rest()
        graph = self._capture(views, calls, gemv)
        values_us, clock, repeats = self._replayed(graph, unit, calls)
        baseline_us = None
        if gemv is not None:
            alone = self._capture([], calls, gemv)
            baseline_us, _, _ = self._replayed(alone, unit, calls)
            alone.reset()
        wrong += self._buffers.check(views, check.replay)
        # a living graph that holds collectives keeps the process group from ending
        check.reset()
        graph.reset()
        layout = {"calls": calls, "replays": repeats, "buffers": len(views)}
        return Taken(values_us, wrong, layout, baseline_us, clock)

    def _replayed(
        self, graph: torch.cuda.CUDAGraph, unit: Unit, calls: int
    ) -> tuple[list[float], dict[str, Any], int]:
        repeats = repeats_in_batch(self._warm_up(graph.replay, unit))
        values_us, clock = self._timed(graph.replay, repeats)
        return [value / calls for value in values_us], clock, repeats

    def _capture(
        self, views: Sequence[torch.Tensor], calls: int, gemv: "_Gemv | None"
    ) -> torch.cuda.CUDAGraph:
        """``calls`` all-reduces going round the views, with a GEMV before each if there is one."""
        self._stream.synchronize()
        self._rank.barrier()
        graph = torch.cuda.CUDAGraph()
        # thread_local: NCCL's own threads may allocate while this one captures
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            for index in range(calls):
                if gemv is not None:
                    gemv.run(index)
                if views:
                    dist.all_reduce(views[index % len(views)])
        return graph

    def _views(self, unit: Unit, calls: int) -> list[torch.Tensor]:
        return self._buffers.views(unit.n_bytes, buffer_count(unit.n_bytes, calls))

    def _trial_us(self, unit: Unit) -> float:
        """A rough time of one call; also lets NCCL connect what this size needs, before capture."""
        view = self._views(unit, 1)[0]
        dist.all_reduce(view)
        self._stream.synchronize()
        began = time.perf_counter()
        for _ in range(_TRIAL_CALLS):
            dist.all_reduce(view)
        self._stream.synchronize()
        return self._rank.agree((time.perf_counter() - began) / _TRIAL_CALLS * 1e6)

    def _warm_up(self, run: Callable[[], None], unit: Unit) -> float:
        """Repeat until the clock is up; every rank repeats equally often. Microseconds a repeat."""
        rule = warm_up_for("cuda", is_first=unit.is_first, has_clock=self._has_clock)
        run()
        one_us = self._synchronised_us(run, 3)
        chunk = max(1, int(_CHUNK_US / max(one_us, 1e-3)))
        done, began = 0, time.perf_counter()
        while True:
            if self._heat is not None:
                for index in range(_HEAT_CALLS):
                    self._heat.run(index)
            one_us = self._synchronised_us(run, chunk)
            done += chunk
            ratio = self._state.ratio()
            rows = self._rank.gather(
                [time.perf_counter() - began, -1.0 if ratio is None else ratio]
            )
            ratios = [row[1] for row in rows if row[1] >= 0]
            if rule.is_done(rows[0][0], done, min(ratios, default=None)):
                return one_us

    def _synchronised_us(self, run: Callable[[], None], repeats: int) -> float:
        self._stream.synchronize()
        began = time.perf_counter()
        for _ in range(repeats):
            run()
        self._stream.synchronize()
        return self._rank.agree((time.perf_counter() - began) / repeats * 1e6)

    def _timed(self, run: Callable[[], None], repeats: int) -> tuple[list[float], dict[str, Any]]:
        """Batches back to back, no host in between: microseconds a repeat, one value a batch."""
        new_event: Any = torch.cuda.Event  # torch leaves it untyped
        marks = [new_event(enable_timing=True) for _ in range(self._spec.samples_per_round + 1)]
        # an untimed batch ahead: no rank's first sample holds the other's late start
        for _ in range(repeats):
            run()
        marks[0].record(self._stream)
        for mark in marks[1:]:
            for _ in range(repeats):
                run()
            mark.record(self._stream)
        clock = self._state.read()  # the device is still at work
        self._stream.synchronize()
        values = [a.elapsed_time(b) * 1000 / repeats for a, b in pairwise(marks)]
        return values, clock


class _Gemv:
    """A short piece of memory-bound work."""

    def __init__(self, device: torch.device) -> None:
        shape = (_GEMV_WIDTH, _GEMV_WIDTH)
        self._matrices = [
            torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(_GEMV_MATRICES)
        ]
        self._vector = torch.randn(_GEMV_WIDTH, 1, device=device, dtype=torch.bfloat16)
        self._out = torch.empty(_GEMV_WIDTH, 1, device=device, dtype=torch.bfloat16)
        for index in range(_GEMV_MATRICES):
            self.run(index)  # the library loads its kernels before anything is captured

    def run(self, index: int) -> None:
        """Launch one product."""
        torch.mm(self._matrices[index % _GEMV_MATRICES], self._vector, out=self._out)
