"""What CPU and GPU ranks of an AllReduce sweep share: the arena of buffers and the value checks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from runners.allreduce_plan import arena_bytes, stride_bytes
from runners.rank_fault import Fault
from runners.rank_program import Rank
from runners.spec import AllReduceSpec
from runners.value_check import contribution, count_wrong, fill, total

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
_SALTS = 8  # neighbouring buffers hold different patterns


@dataclass(frozen=True)
class Taken:
    """What one rank measured of one unit.

    Attributes:
        values_us: One value a batch, microseconds a call.
        wrong: Elements that were wrong before or after timing, this rank's.
        layout: Calls in a graph or batch, replays in a batch, buffers gone round.
        baseline_us: Exposed mode: the same without the all-reduces, to be subtracted.
        clock: SM clock before, during and after, and what held it back; None on CPUs.
    """

    values_us: list[float]
    wrong: int
    layout: dict[str, int]
    baseline_us: list[float] | None = None
    clock: dict[str, Any] | None = None


class Buffers:
    """One arena, cut into as many messages as a size needs."""

    def __init__(self, rank: Rank, spec: AllReduceSpec, fault: Fault, calls: int) -> None:
        self._rank, self._fault = rank, fault
        self.dtype = DTYPES[spec.dtype]
        n_bytes = arena_bytes(spec.sizes_bytes, calls)
        self._pool: Any = None
        self._arena = self._allocate(n_bytes, from_nccl=spec.buffers == "nccl")

    def _allocate(self, n_bytes: int, *, from_nccl: bool) -> torch.Tensor:
        n_elements = n_bytes // self.dtype.itemsize
        device = self._rank.device
        if not from_nccl:
            return torch.zeros(n_elements, dtype=self.dtype, device=device)
        dist.all_reduce(torch.zeros(1, device=device))  # NCCL's own start
        group: Any = dist.distributed_c10d._get_default_group()  # no public way to the allocator
        self._pool = torch.cuda.MemPool(group._get_backend(device).mem_allocator)
        with torch.cuda.use_mem_pool(self._pool):
            return torch.zeros(n_elements, dtype=self.dtype, device=device)

    def views(self, n_bytes: int, count: int) -> list[torch.Tensor]:
        """The messages that calls of this size go round."""
        width = self.dtype.itemsize
        stride, length = stride_bytes(n_bytes) // width, n_bytes // width
        return [self._arena[i * stride : i * stride + length] for i in range(count)]

    def rest(self) -> None:
        """Zeros: the one content that stays as it is however often it is summed in place."""
        self._arena.zero_()

    def check(self, views: Sequence[torch.Tensor], reduce_once: Callable[[], None]) -> int:
        """Fill all messages with known values, reduce each once, count wrong elements."""
        me, n_ranks = self._rank.rank, self._rank.n_ranks
        for index, view in enumerate(views):
            fill(view, contribution(me, n_ranks, self.dtype, index % _SALTS))
        reduce_once()
        self._fault.spoil(views[-1])
        return sum(
            count_wrong(view, total(n_ranks, self.dtype, index % _SALTS))
            for index, view in enumerate(views)
        )


def seconds_of(work: Callable[[], None]) -> float:
    """Wall time of something that is done when it returns."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
