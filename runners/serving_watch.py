"""Telemetry beside a serving round: the GPUs through NVML, and who uses the host's processors."""

import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from models.errors import RunnerUnavailable
from runners.nvml import Nvml, open_nvml
from runners.vllm_processes import host_cpu_seconds

INTERVAL_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
# one child that ends between two samples must not make the sum fall
_Times = dict[int, float]


class Watch:
    """Samples until it is left; use it in a ``with``.

    Args:
        uuids: GPUs to sample; none on CPUs.
        servers: Processes of the servers, whose processor time is the test's own.
        interval_s: Pause between two samples.
    """

    def __init__(
        self, uuids: Collection[str], servers: Collection[int], interval_s: float = INTERVAL_S
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self.clients: set[int] = set()
        self._uuids = set(uuids)
        self._servers = sorted(servers)
        self._interval_s = interval_s
        self._done = threading.Event()
        self._wake = threading.Event()
        self._taken = threading.Condition()
        self._last_t = 0.0
        self._thread = threading.Thread(target=self._run, name="serving-watch", daemon=True)
        self._first: _Times = {}
        self._own: _Times = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._wake.set()
        self._thread.join()

    def now(self, limit_s: float = 2.0) -> None:
        """Take a sample at this moment, so that the window that just ended is covered."""
        if not self._thread.is_alive():
            return
        asked = time.time()
        self._wake.set()
        with self._taken:
            self._taken.wait_for(lambda: self._last_t >= asked, limit_s)

    def _run(self) -> None:
        nvml: Nvml | None = None
        if self._uuids:
            with suppress(RunnerUnavailable):
                nvml = open_nvml()
        try:
            while True:
                self._sample(nvml)
                self._wake.wait(self._interval_s)
                self._wake.clear()
                if self._done.is_set():
                    self._sample(nvml)  # a last one, so that the window is covered
                    return
        finally:
            if nvml is not None:
                nvml.close()

    def _sample(self, nvml: Nvml | None) -> None:
        now = time.time()
        host = host_cpu_seconds()
        if host is not None:
            for pid in (*self._servers, *self.clients, os.getpid()):
                used = _cpu_seconds(pid)
                if used is not None:
                    # what it used before it was watched is no part of what is watched
                    self._own[pid] = used - self._first.setdefault(pid, used)
            self.rows.append(
                {
                    "t": now,
                    "cpu_busy_s": host[0],
                    "cpu_total_s": host[1],
                    "cpu_own_s": sum(self._own.values()),
                }
            )
        if nvml is not None:
            self.rows += [{"t": now, **row} for row in nvml.sample(self._uuids)]
        with self._taken:
            self._last_t = now
            self._taken.notify_all()


def _cpu_seconds(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS
