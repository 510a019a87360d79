"""All-reduces over one pair under load, every result checked: the engine's own kernel or NCCL's.

A faulty driver can reset the machine here: only runs that ask for it come this way.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from models.errors import RunnerUnavailable
from runners.rank_fault import Fault
from runners.rank_program import Rank
from runners.value_check import contribution, count_wrong, fill, total

_ENGINE = "vllm.distributed.device_communicators.custom_all_reduce"
_MESSAGE_BYTES = 3072  # the message of a small model: what the engine's kernel is for
_ENGINE_MAX_BYTES = 8 * 2**20
_CALLS = 50
_WIDTH = {"cuda": 4096, "cpu": 256}

Reduce = Callable[[torch.Tensor], torch.Tensor]


def under_load(rank: Rank, payload: dict[str, Any]) -> dict[str, Any]:
    """Reduce and check for a while, with matrix products at the same time."""
    fault = Fault.from_environment(rank.rank, rank.n_ranks)
    rank.say({"fault": fault.text})
    seconds = float(payload["seconds"])
    with rank.within("setting up the load", payload["limit_s"]):
        reduce = _engine(rank) if payload["engine"] else _collective
        buffer = torch.empty(_MESSAGE_BYTES // 2, dtype=torch.bfloat16, device=rank.device)
        work = _Work(rank.device)
        rank.barrier()
    began, checked, wrong, salt = time.monotonic(), 0, 0, 0
    with rank.within(f"all-reduces under load for {seconds:g} s", seconds + payload["limit_s"]):
        fault.before(_MESSAGE_BYTES)
        while rank.agree(time.monotonic() - began) < seconds:
            work.launch()
            for _ in range(_CALLS):
                salt = (salt + 1) % 64
                fill(buffer, contribution(rank.rank, rank.n_ranks, buffer.dtype, salt))
                reduced = reduce(buffer)
                fault.spoil(reduced)
                wrong += count_wrong(reduced, total(rank.n_ranks, buffer.dtype, salt))
                checked += 1
            work.wait()
        wrong = int(sum(row[0] for row in rank.gather([float(wrong)])))
    return {"checked": checked, "wrong": wrong, "seconds": time.monotonic() - began}


def _collective(buffer: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(buffer)
    return buffer


def _engine(rank: Rank) -> Reduce:
    """VLLM's own all-reduce; this process then runs in vLLM's interpreter.

    Raises:
        RunnerUnavailable: It is not there, or it refuses these GPUs.
    """
    try:
        module = importlib.import_module(_ENGINE)
    except ImportError as error:
        raise RunnerUnavailable(
            "vLLM's own all-reduce is not in the interpreter that was named.",
            "Install vLLM (make vllm), or leave the interpreter out.",
            detail=str(error),
        ) from None
    kernel = module.CustomAllreduce(
        group=dist.new_group(backend="gloo"), device=rank.device, max_size=_ENGINE_MAX_BYTES
    )
    if kernel.disabled:
        raise RunnerUnavailable("vLLM's own all-reduce refuses these GPUs.")

    def reduce(buffer: torch.Tensor) -> torch.Tensor:
        out = kernel.custom_all_reduce(buffer)
        if out is None:
            raise RunnerUnavailable("vLLM's own all-reduce refuses this message.")
        reduced: torch.Tensor = out
        return reduced

    return reduce


class _Work:
    """Matrix products beside the collectives, on a stream of their own where there are streams."""

    def __init__(self, device: torch.device) -> None:
        width = _WIDTH[device.type]
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self._left = torch.randn(width, width, device=device, dtype=dtype)
        self._out = torch.empty_like(self._left)
        new_stream: Any = torch.cuda.Stream  # torch leaves it untyped
        self._stream = new_stream(device) if device.type == "cuda" else None

    def launch(self) -> None:
        """Some milliseconds of work."""
        if self._stream is None:
            torch.mm(self._left, self._left, out=self._out)
            return
        with torch.cuda.stream(self._stream):
            for _ in range(10):
                torch.mm(self._left, self._left, out=self._out)

    def wait(self) -> None:
        """Until it is done: the queue must not grow."""
        if self._stream is not None:
            self._stream.synchronize()
