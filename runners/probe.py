"""Two seconds before an arm: how fast are this device's matrix product and copy just now?

A machine can stay slow until a reboot. The rates are stored with the result, and whoever stores it
compares them with the best of the same host (``models.machine.suspect``).
"""

import time
from collections.abc import Callable
from typing import Any

from models.metrics import metric
from models.result import Measurement

PROBE_S = 2.0
_MIN_REPEATS = 3
# large enough to fill the device, small enough for many repeats
_MATMUL_SIZE = {"cpu": 768, "cuda": 8192}
_COPY_BYTES = {"cpu": 128 * 2**20, "cuda": 2**30}


def probe(
    device: str = "cpu", *, seconds: float = PROBE_S, name: str | None = None
) -> list[Measurement]:
    """Measure one device.

    Args:
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        seconds: How long both parts may take together.
        name: How the device is called in the result (a GPU's UUID); by default ``device``.

    Returns:
        Two measurements: matrix product rate and copy bandwidth, each the fastest repeat, since
        other work on the machine can only slow a repeat down.
    """
    import torch

    kind = torch.device(device).type
    size, n_bytes = _MATMUL_SIZE[kind], _COPY_BYTES[kind]
    dtype = torch.bfloat16 if kind == "cuda" else torch.float32
    left = torch.randn(size, size, device=device, dtype=dtype)
    right = torch.randn(size, size, device=device, dtype=dtype)
    out = torch.empty_like(left)
    product_s, n_products = _fastest_s(
        lambda: torch.mm(left, right, out=out), device, kind, seconds / 2
    )
    source = torch.ones(n_bytes, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    copy_s, n_copies = _fastest_s(lambda: target.copy_(source), device, kind, seconds / 2)
    called = name or device
    return [
        _measured(
            "matmul_rate",
            2 * size**3 / product_s / 1e12,
            n_products,
            {"device": called, "dtype": str(dtype).removeprefix("torch.")},
            "linkworth:probe-matmul:1",
        ),
        _measured(
            "copy_bandwidth",
            2 * n_bytes / copy_s / 1e9,  # read and written
            n_copies,
            {"device": called, "bytes": n_bytes},
            "linkworth:probe-copy:1",
        ),
    ]


def _fastest_s(
    work: Callable[[], object], device: str, kind: str, seconds: float
) -> tuple[float, int]:
    """Seconds of the fastest repeat, and how many repeats were timed after one warm-up."""
    clock = _gpu_s if kind == "cuda" else _cpu_s
    clock(work, device)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < _MIN_REPEATS or time.perf_counter() < end:
        times.append(clock(work, device))
    return min(times), len(times)


def _cpu_s(work: Callable[[], object], device: str) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _gpu_s(work: Callable[[], object], device: str) -> float:
    """By the device's own clock: launching takes time of its own."""
    import torch

    with torch.cuda.device(device):
        new_event: Any = torch.cuda.Event  # torch leaves it untyped
        begin, end = (new_event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000


def _measured(name: str, rate: float, n: int, dims: dict[str, Any], definition: str) -> Measurement:
    return Measurement(
        metric=name,
        statistic="max",
        unit=metric(name).unit,
        value=rate,
        n=n,
        dims=dims,
        definition=definition,
    )
