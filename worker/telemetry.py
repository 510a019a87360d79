"""What the machine does while a run measures: GPU samples through NVML, CPU samples else.

Rows carry ``t`` (epoch seconds). GPU rows have a ``uuid``; CPU rows have ``cpu_pct``, ``cpu_mhz``,
``load_1min``, ``temperature_c`` and ``memory_used_bytes``. Unknown values are None.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Self

import psutil

from models.errors import LinkworthError
from runners.nvml import Nvml, open_nvml, resolve

log = logging.getLogger("linkworth.worker")

Row = dict[str, Any]
# a soak of days must not fill the memory: above this every second row goes, and the pace halves
MAX_ROWS = 40_000


class Telemetry:
    """Samples in a thread of its own, from ``with`` to the end of its block.

    Args:
        take: Gives the rows of one moment; an error ends the sampling, not the run.
        hz: Samples a second.
        max_rows: Rows to keep; beyond, the record is thinned.
    """

    def __init__(
        self, take: Callable[[], list[Row]], hz: float, *, max_rows: int = MAX_ROWS
    ) -> None:
        self._take = take
        self._period_s = 1 / hz
        self._max_rows = max_rows
        self._moments: list[list[Row]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="telemetry", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(timeout=10)  # a driver that hangs must not hang the worker

    @property
    def rows(self) -> list[Row]:
        """Everything sampled so far, in order."""
        return [row for moment in list(self._moments) for row in moment]

    def latest(self) -> list[Row]:
        """The rows of the last moment; empty before the first."""
        moments = self._moments
        return list(moments[-1]) if moments else []

    def _sample(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            now = time.time()
            try:
                moment = [{"t": now, **row} for row in self._take()]
            except (LinkworthError, OSError, psutil.Error) as error:
                log.warning("telemetry ended: %s", error)
                return
            self._moments.append(moment)
            if len(self._moments) * max(len(moment), 1) > self._max_rows:
                self._moments = self._moments[::2]
                self._period_s *= 2
            due = max(due + self._period_s, time.monotonic())
            self._over.wait(due - time.monotonic())


class GpuSampler:
    """Samples of the GPUs that a job uses.

    Args:
        names: Indices or UUIDs as the spec has them; none: all GPUs.
        nvml: The source; by default what this machine has.
    """

    def __init__(self, names: Sequence[int | str], nvml: Nvml | None = None) -> None:
        self._nvml = nvml or open_nvml()
        gpus = self._nvml.gpus()
        self.uuids = resolve(gpus, names) if names else [gpu.uuid for gpu in gpus]
        self._widths = {gpu.uuid: gpu.pcie_width_max for gpu in gpus}

    def __call__(self) -> list[Row]:
        """The rows of this moment."""
        rows = self._nvml.sample(self.uuids)
        return [{**row, "pcie_width_max": self._widths.get(row["uuid"])} for row in rows]

    def close(self) -> None:
        """Let the driver's library go."""
        self._nvml.close()


def sample_cpu() -> list[Row]:
    """The CPU's row of this moment; the load is that since the last call."""
    frequency = _frequency()
    return [
        {
            "cpu_pct": psutil.cpu_percent(interval=None),
            "cpu_mhz": frequency,
            "load_1min": os.getloadavg()[0],
            "temperature_c": _temperature(),
            "memory_used_bytes": psutil.virtual_memory().used,
        }
    ]


def gpu_names(spec: dict[str, Any]) -> Collection[int | str] | None:
    """GPUs that a spec names; an empty list means all, None that it uses none."""
    arm = spec.get("arm")
    named = spec.get("gpus") or (arm.get("gpus") if isinstance(arm, dict) else None) or []
    if named:
        return list(named)
    device = spec.get("device", "cuda" if spec.get("kind") == "serving" else "cpu")
    return [] if device == "cuda" and not spec.get("base_url") else None


def _frequency() -> float | None:
    try:
        frequency = psutil.cpu_freq()
    except (NotImplementedError, OSError, ValueError):
        return None
    return float(frequency.current) or None if frequency else None


def _temperature() -> float | None:
    """The hottest processor sensor; machines name them differently, virtual ones have none."""
    try:
        sensors = psutil.sensors_temperatures()
    except (AttributeError, OSError):
        return None
    for name in ("coretemp", "k10temp", "zenpower", "cpu_thermal"):
        readings = [one.current for one in sensors.get(name, []) if one.current is not None]
        if readings:
            return float(max(readings))
    return None
