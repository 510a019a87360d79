"""One rank of an AllReduce sweep: check, warm up, time, check again, for every size and mode."""

import gc
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from models.errors import RunnerUnavailable
from runners.allreduce_cuda import CudaBench
from runners.allreduce_plan import CPU_WARM_UP, Unit, buffer_count, repeats_in_batch, units
from runners.allreduce_timing import Buffers, Taken, seconds_of
from runners.environment import environment, process_conditions
from runners.gpu_state import own_uuid
from runners.probe import probe
from runners.rank_fault import Fault
from runners.rank_program import Rank
from runners.spec import AllReduceSpec

# rotating through memory matters less on CPUs, and checking every buffer costs much more
_CPU_BUFFERS = 4
_PROBE_LIMIT_S = 120.0


def measure(rank: Rank, payload: dict[str, Any]) -> dict[str, Any]:
    """Carry out a sweep as one of its ranks; rank 0 tells the parent the numbers as they come."""
    spec = AllReduceSpec.model_validate(payload["spec"])
    fault = Fault.from_environment(rank.rank, rank.n_ranks)
    rank.say({"facts": _facts(rank)})
    if rank.rank == 0:
        rank.say({"environment": environment(), "fault": fault.text})
    if payload.get("probe", True):
        with rank.within("the probe", _PROBE_LIMIT_S):
            _probe(rank)
    with rank.within("setting up buffers", _PROBE_LIMIT_S):
        bench: CpuBench | CudaBench
        bench = (
            CpuBench(rank, spec, fault) if spec.device == "cpu" else CudaBench(rank, spec, fault)
        )
        gc.collect()
        gc.freeze()  # each capture collects garbage: torch's own objects need not be walked again
        rank.barrier()
    if rank.rank == 0:
        rank.say({"ready": True})
    for unit in units(spec):
        with rank.within(_label(unit), spec.size_time_limit_s):
            fault.before(unit.n_bytes)
            taken = bench.take(unit)
            _tell(rank, unit, taken)
        if unit.is_first:
            rank.say({"transports": rank.transports()})
    bench.close()
    return {"transports": rank.transports()}


def _label(unit: Unit) -> str:
    return f"an all-reduce of {unit.n_bytes} bytes ({unit.mode} mode, round {unit.round + 1})"


def _tell(rank: Rank, unit: Unit, taken: Taken) -> None:
    """Put the ranks' numbers together: a caller waits for the slowest rank of each batch."""
    rows = rank.gather(taken.values_us)
    slowest = [max(column) for column in zip(*rows, strict=True)]
    if taken.baseline_us is not None:
        alone = [max(column) for column in zip(*rank.gather(taken.baseline_us), strict=True)]
        slowest = [both - work for both, work in zip(slowest, alone, strict=True)]
    wrong = int(sum(row[0] for row in rank.gather([float(taken.wrong)])))
    place = {"round": unit.round, "mode": unit.mode, "bytes": unit.n_bytes}
    if taken.clock is not None:
        rank.say({"clock": {**place, **taken.clock}})
    if rank.rank == 0:
        rank.say({"unit": {**place, "values_us": slowest, "wrong": wrong, "layout": taken.layout}})


def _probe(rank: Rank) -> None:
    """How fast is each device just now? CPU ranks share one, so one of them asks."""
    if rank.device.type == "cuda":
        name = own_uuid(rank.rank) or str(rank.device)
        rows = probe(str(rank.device), name=name)
    elif rank.rank == 0:
        rows = probe("cpu")
    else:
        rows = []
    for row in rows:
        rank.say({"probe": row.model_dump(mode="json")})
    rank.barrier()


def _facts(rank: Rank) -> dict[str, Any]:
    facts: dict[str, Any] = {"rank": rank.rank, "conditions": process_conditions()}
    if rank.device.type == "cuda":
        properties = torch.cuda.get_device_properties(rank.device)
        facts |= {
            "uuid": own_uuid(rank.rank) or _uuid_of(properties),
            "name": properties.name,
            "memory_bytes": properties.total_memory,
            "multiprocessors": properties.multi_processor_count,
        }
    return facts


def _uuid_of(properties: Any) -> str | None:
    uuid = getattr(properties, "uuid", None)
    return None if uuid is None else f"GPU-{str(uuid).removeprefix('GPU-')}"


class CpuBench:
    """Eager all-reduces over gloo: shows that everything works, says nothing about a GPU link."""

    def __init__(self, rank: Rank, spec: AllReduceSpec, fault: Fault) -> None:
        self._rank, self._spec = rank, spec
        calls = min(spec.calls_per_graph, _CPU_BUFFERS)
        self._buffers = Buffers(rank, spec, fault, calls)
        self._calls = calls
        try:
            dist.all_reduce(self._buffers.views(spec.sizes_bytes[0], 1)[0])
        except (RuntimeError, ValueError) as error:
            raise RunnerUnavailable(
                f"Gloo in this torch cannot reduce {spec.dtype} on CPUs.",
                "Choose float32 for CPU ranks.",
                detail=str(error),
            ) from None

    def take(self, unit: Unit) -> Taken:
        """Measure one size."""
        views = self._buffers.views(unit.n_bytes, buffer_count(unit.n_bytes, self._calls))

        def once() -> None:
            for view in views:
                dist.all_reduce(view)

        def batch(calls: int) -> None:
            for index in range(calls):
                dist.all_reduce(views[index % len(views)])

        wrong = self._buffers.check(views, once)
        self._buffers.rest()
        repeats = self._warm_up(batch)
        values_us = [
            seconds_of(lambda: batch(repeats)) * 1e6 / repeats
            for _ in range(self._spec.samples_per_round)
        ]
        wrong += self._buffers.check(views, once)
        layout = {"calls": repeats, "replays": 1, "buffers": len(views)}
        return Taken(values_us, wrong, layout)

    def close(self) -> None:
        """Nothing is held."""

    def _warm_up(self, batch: Callable[[int], None]) -> int:
        """Calls of one timed batch, known once it is warm."""
        calls, elapsed_s, done = CPU_WARM_UP.min_replays, 0.0, 0
        while not CPU_WARM_UP.is_done(self._rank.agree(elapsed_s), done, None):
            elapsed_s += seconds_of(lambda: batch(calls))
            done += calls
        return repeats_in_batch(self._rank.agree(elapsed_s / done * 1e6))
