"""The program of one rank: joins the others, runs the target, hands its result to the parent.

`python -m runners.rank_program CONTROL_FD REPORT_FD PARENT_PID`, started by runners.ranks only.
"""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # lacks an __all__

from models.errors import LinkworthError, OutOfMemory, RunnerUnavailable
from runners.nccl_log import transports

EXIT_ORPHANED = 130
_PR_SET_PDEATHSIG = 1


class Pipes:
    """The two pipes to the parent, JSON lines; the end of the parent is the end of this rank."""

    def __init__(self, control: int, report: int) -> None:
        self._control = control
        self._report = report
        self._lock = threading.Lock()
        self._received: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="parent-watch", daemon=True).start()

    def receive(self) -> dict[str, Any]:
        """The next message from the parent."""
        return self._received.get()

    def send(self, what: str, **fields: Any) -> None:
        """Hand one message to the parent."""
        data = json.dumps({"type": what, **fields}, allow_nan=False).encode() + b"\n"
        try:
            with self._lock:
                while data:
                    data = data[os.write(self._report, data) :]
        except BrokenPipeError:
            os._exit(EXIT_ORPHANED)

    def _listen(self) -> None:
        with os.fdopen(self._control, "rb") as control:
            for line in control:
                self._received.put(json.loads(line))
        os._exit(EXIT_ORPHANED)


class Rank:
    """What a rank's function gets: who it is, its device, and how to talk to parent and peers.

    Attributes:
        rank: 0 to n_ranks - 1.
        n_ranks: How many take part.
        device: ``cpu`` or this rank's GPU.
        link: The arm that was asked for: on, off or None.
    """

    def __init__(self, pipes: Pipes, task: dict[str, Any]) -> None:
        self._pipes = pipes
        self.rank = int(task["rank"])
        self.n_ranks = int(task["n_ranks"])
        self.link: str | None = task["link"]
        self.time_limit_s = float(task["time_limit_s"])
        self.device = _device(task["device"], self.rank, self.n_ranks)

    def say(self, data: dict[str, Any]) -> None:
        """Hand plain JSON values to the parent's ``on_message``."""
        self._pipes.send("message", data=data)

    @contextlib.contextmanager
    def within(self, label: str, limit_s: float) -> Iterator[None]:
        """Name what is done now; the parent ends the run as hung when it takes longer."""
        self._pipes.send("begin", label=label, limit_s=limit_s)
        yield
        self._pipes.send("end")

    def barrier(self) -> None:
        """Wait, on the CPU, until every rank is here."""
        dist.all_reduce(torch.zeros(1))

    def agree(self, value: float) -> float:
        """Rank 0's value, on every rank: decisions taken by a clock must be the same everywhere."""
        shared = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(shared, src=0)
        return float(shared[0])

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Every rank's list, in rank order, on every rank; all lists have one length."""
        own = torch.tensor(values, dtype=torch.float64)
        rows = [torch.empty_like(own) for _ in range(self.n_ranks)]
        dist.all_gather(rows, own)
        return [row.tolist() for row in rows]

    def transports(self) -> dict[str, int]:
        """Which transports NCCL said it chose in this rank, with how many channels each."""
        path = os.environ.get("NCCL_DEBUG_FILE")
        if not path or not Path(path).exists():
            return {}
        return transports(Path(path).read_text(encoding="utf-8", errors="replace"))

    def meet(self) -> None:
        """Join the others: gloo for the CPU side, NCCL for tensors on GPUs."""
        limit = timedelta(seconds=self.time_limit_s + 60)
        store = self._store(limit)
        dist.init_process_group(
            "gloo" if self.device.type == "cpu" else "cpu:gloo,cuda:nccl",
            store=store,
            rank=self.rank,
            world_size=self.n_ranks,
            timeout=limit,
        )
        self.barrier()

    def _store(self, limit: timedelta) -> TCPStore:
        """Rank 0 listens on a free loopback port and the parent passes its number on."""
        if self.rank:
            port = int(self._pipes.receive()["port"])
            return TCPStore("127.0.0.1", port, self.n_ranks, is_master=False, timeout=limit)
        # bound here and handed over: no gap in which another program could take the port
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        store = TCPStore(
            "127.0.0.1",
            port,
            self.n_ranks,
            is_master=True,
            timeout=limit,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
        self._pipes.send("port", port=port)
        return store


def _device(kind: str, rank: int, n_ranks: int) -> torch.device:
    if kind == "cpu":
        if "OMP_NUM_THREADS" not in os.environ:
            # ranks share the cores: each one's own pool as wide as the machine would only fight
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // n_ranks))
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise RunnerUnavailable(
            "This Python's torch finds no usable GPU.",
            "Check the driver with nvidia-smi, and that torch is a CUDA build.",
        )
    if torch.cuda.device_count() < n_ranks:
        raise RunnerUnavailable(
            f"{n_ranks} GPUs were named and only {torch.cuda.device_count()} can be used.",
            "Name GPUs that nvidia-smi lists.",
        )
    torch.cuda.set_device(rank)
    return torch.device("cuda", rank)


def _run(pipes: Pipes, task: dict[str, Any]) -> dict[str, Any]:
    rank = Rank(pipes, task)
    with rank.within("the meeting of the ranks", min(rank.time_limit_s, 120.0)):
        rank.meet()
    module, _, function = str(task["target"]).partition(":")
    result: dict[str, Any] = getattr(importlib.import_module(module), function)(
        rank, task["payload"]
    )
    gc.collect()
    with rank.within("the end of the ranks", 60.0):
        rank.barrier()
    return result


def main(arguments: list[str]) -> int:
    """Run one rank; the exit code is 0 also for an error, which the parent was told."""
    control, report, parent = (int(text) for text in arguments)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return EXIT_ORPHANED  # the parent was gone before the line above
    faulthandler.enable()
    pipes = Pipes(control, report)
    task = pipes.receive()
    try:
        result = _run(pipes, task)
    except LinkworthError as error:
        _report(pipes, type(error).__name__, error.sentence, error.next_step)
    except torch.cuda.OutOfMemoryError as error:
        _report(
            pipes,
            OutOfMemory.__name__,
            "The GPU has too little free memory.",
            "Ask for smaller sizes, or free the GPU.",
            str(error),
        )
    except Exception as error:
        text = " ".join(str(error).split())[:500]
        _report(pipes, "", f"{type(error).__name__}: {text}", "The log has the whole traceback.")
    else:
        pipes.send("result", data=result)
    sys.stderr.flush()
    return 0


def _report(pipes: Pipes, kind: str, sentence: str, next_step: str, detail: str = "") -> None:
    trace = traceback.format_exc()
    pipes.send(
        "error",
        kind=kind,
        sentence=sentence,
        next_step=next_step,
        detail=f"{detail}\n{trace}".strip(),
    )


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # not sys.exit: taking NCCL down while other ranks still hold it can hang
    os._exit(code)
