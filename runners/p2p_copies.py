"""Copies between two GPUs: verified where they arrive, then timed one way, both ways, and small."""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from runners.rank_fault import Fault
from runners.rank_program import Rank
from runners.value_check import count_wrong, fill

_PERIOD = 8191
_POISON = -559038737
_BATCH_S = 0.02
_BATCHES = 10
_SMALL_BYTES = 16
_SMALL_COPIES = 200
# long enough for the host to queue all small copies behind it, at any clock
_HOLD_CYCLES = 40_000_000


def patterns() -> dict[str, torch.Tensor]:
    """Name -> one period of 32-bit words, each unlike the poison that lies at the destination."""
    index = torch.arange(_PERIOD, dtype=torch.int64)
    mixed = (index * 2654435761) % 2**31
    return {
        "counter": index.to(torch.int32),
        "mixed": mixed.to(torch.int32),
        "alternating": torch.where(index % 2 == 0, 0x55555555, -0x55555556).to(torch.int32),
        "ones": torch.full((_PERIOD,), -1, dtype=torch.int32),
    }


def grants(rank: Rank, payload: dict[str, Any]) -> dict[str, Any]:
    """What the driver says about each ordered pair of the visible GPUs; CPU ranks always may."""
    members = int(payload["members"])
    with rank.within("asking the driver for peer access", payload["limit_s"]):
        table = [
            [
                a == b or rank.device.type == "cpu" or torch.cuda.can_device_access_peer(a, b)
                for b in range(members)
            ]
            for a in range(members)
        ]
    return {"granted": table}


def gpu_copies(rank: Rank, payload: dict[str, Any]) -> dict[str, Any]:
    """Both directions of one pair, by one process that sees both GPUs as 0 and 1."""
    fault = Fault.from_environment(rank.rank, rank.n_ranks)
    rank.say({"fault": fault.text})
    for src, dst in ((0, 1), (1, 0)):
        for n_bytes in payload["sizes_bytes"]:
            with rank.within(f"a copy of {n_bytes} bytes", payload["limit_s"]):
                fault.before(n_bytes)
                source, target = _words(n_bytes, src), _words(n_bytes, dst)
                for name, period in patterns().items():
                    wrong = _verified(source, target, period, fault)
                    place = {"src": src, "dst": dst, "bytes": n_bytes, "test": name}
                    rank.say({"copy": {**place, "wrong": wrong}})
    with rank.within("timing copies", payload["limit_s"]):
        for row in _timed(payload["bandwidth_bytes"]):
            rank.say({"timed": row})
    return {}


def cpu_copies(rank: Rank, payload: dict[str, Any]) -> dict[str, Any]:
    """The same steps between two CPU ranks over gloo: a rehearsal."""
    fault = Fault.from_environment(rank.rank, rank.n_ranks)
    rank.say({"fault": fault.text})
    for src, dst in ((0, 1), (1, 0)):
        for n_bytes in payload["sizes_bytes"]:
            with rank.within(f"a copy of {n_bytes} bytes", payload["limit_s"]):
                fault.before(n_bytes)
                buffer = _words(n_bytes, "cpu")
                for name, period in patterns().items():
                    wrong = _passed_on(rank, src, dst, buffer, period, fault)
                    if rank.rank == dst:
                        place = {"src": src, "dst": dst, "bytes": n_bytes, "test": name}
                        rank.say({"copy": {**place, "wrong": wrong}})
        with rank.within("timing copies", payload["limit_s"]):
            for quantity, n_bytes in (
                ("bandwidth", payload["bandwidth_bytes"]),
                ("latency", _SMALL_BYTES),
            ):
                seconds = _sent_s(rank, src, _words(n_bytes, "cpu"))
                if rank.rank == dst:
                    row = {"src": src, "dst": dst, "direction": "one", "bytes": n_bytes}
                    rank.say({"timed": {**row, "quantity": quantity, "seconds": seconds}})
    return {}


def _words(n_bytes: int, device: int | str) -> torch.Tensor:
    return torch.empty(n_bytes // 4, dtype=torch.int32, device=device)


def _verified(
    source: torch.Tensor, target: torch.Tensor, period: torch.Tensor, fault: Fault
) -> int:
    """Poison the destination, copy, compare there with values made there."""
    fill(source, period)
    target.fill_(_POISON)
    _synchronise(source, target)
    target.copy_(source)
    _synchronise(source, target)
    fault.spoil(target)
    return count_wrong(target, period)


def _passed_on(
    rank: Rank, src: int, dst: int, buffer: torch.Tensor, period: torch.Tensor, fault: Fault
) -> int:
    if rank.rank == src:
        fill(buffer, period)
        dist.send(buffer, dst)
        return 0
    buffer.fill_(_POISON)
    dist.recv(buffer, src)
    fault.spoil(buffer)
    return count_wrong(buffer, period)


def _sent_s(rank: Rank, src: int, buffer: torch.Tensor) -> float:
    """Median seconds of one message, as the receiver waits for it."""
    taken = []
    for _ in range(_BATCHES):
        rank.barrier()
        began = time.perf_counter()
        if rank.rank == src:
            dist.send(buffer, 1 - src)
        else:
            dist.recv(buffer, src)
        taken.append(time.perf_counter() - began)
    return median(taken)


def _synchronise(*tensors: torch.Tensor) -> None:
    for tensor in tensors:
        torch.cuda.synchronize(tensor.device)


class _Lane:
    """Copies from one GPU to the other in order, on streams that no other lane uses.

    A copy runs on the source's stream and makes the destination's stream wait: two directions over
    the same pair of streams would take turns.
    """

    def __init__(self, src: int, dst: int, n_bytes: int) -> None:
        new_stream: Any = torch.cuda.Stream  # torch leaves these untyped
        self._new_event: Any = torch.cuda.Event
        self.src, self.dst = src, dst
        self._source, self._target = _words(n_bytes, src), _words(n_bytes, dst)
        self._streams = [new_stream(device) for device in (src, dst)]

    def copy(self, count: int, *, held: bool = False) -> tuple[Any, Any]:
        """Queue copies; returns the events before the first and after the last."""
        near, far = self._streams
        with torch.cuda.stream(far), torch.cuda.stream(near):
            begin, end = (self._new_event(enable_timing=True) for _ in range(2))
            if held:
                hold: Any = torch.cuda._sleep  # private, and in every torch for years
                hold(_HOLD_CYCLES)
            begin.record(near)
            for _ in range(count):
                self._target.copy_(self._source, non_blocking=True)
            end.record(near)
        return begin, end

    def wait(self) -> None:
        """Until everything that was queued is done."""
        for stream in self._streams:
            stream.synchronize()


def _timed(n_bytes: int) -> list[dict[str, Any]]:
    there, back = _Lane(0, 1, n_bytes), _Lane(1, 0, n_bytes)
    rows = []
    for lane in (there, back):
        place = {"src": lane.src, "dst": lane.dst, "direction": "one"}
        seconds = _seconds_a_copy([lane])
        rows.append({**place, "quantity": "bandwidth", "bytes": n_bytes, "seconds": seconds})
    both = {"src": 0, "dst": 1, "direction": "both", "quantity": "bandwidth"}
    rows.append({**both, "bytes": 2 * n_bytes, "seconds": _seconds_a_copy([there, back])})
    for src, dst in ((0, 1), (1, 0)):
        lane = _Lane(src, dst, _SMALL_BYTES)
        seconds = _seconds_of([lane], _SMALL_COPIES, held=True)
        place = {"src": src, "dst": dst, "direction": "one", "bytes": _SMALL_BYTES}
        rows.append({**place, "quantity": "latency", "seconds": seconds})
    return rows


def _seconds_a_copy(lanes: Sequence[_Lane]) -> float:
    """Seconds in which each lane makes one copy, all lanes at work at once."""
    count = max(2, int(_BATCH_S / max(_seconds_of(lanes, 2), 1e-6)))
    return _seconds_of(lanes, count)


def _seconds_of(lanes: Sequence[_Lane], count: int, *, held: bool = False) -> float:
    """Median over batches of the slowest lane's time, a copy; the first batch warms up.

    ``held`` queues the copies behind a pause, so that the host's launches are not what is timed.
    """
    taken: list[float] = []
    for _ in range(_BATCHES + 1):
        marks = [lane.copy(count, held=held) for lane in lanes]
        for lane in lanes:
            lane.wait()
        taken.append(max(float(begin.elapsed_time(end)) for begin, end in marks) / 1000 / count)
    return median(taken[1:])
