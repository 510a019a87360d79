"""One GPU's clock and throttling, as a measuring process sees them between its batches."""

import os
import time
from typing import Any

from models.errors import RunnerUnavailable
from runners.nvml import Nvml, open_nvml

# a source that answers slower than this (nvidia-smi) is asked only where waiting costs nothing
_QUICK_S = 0.05


class GpuState:
    """The SM clock of one GPU, and the highest one seen.

    Args:
        uuid: The GPU, None on CPUs: every reading is then None.
    """

    def __init__(self, uuid: str | None) -> None:
        self._uuid = uuid
        self._nvml: Nvml | None = None
        self._highest_mhz: float | None = None
        self.is_quick = False
        if uuid is None:
            return
        try:
            self._nvml = open_nvml()
        except RunnerUnavailable:
            return
        began = time.perf_counter()
        readable = self.read()["sm_clock_mhz"] is not None
        self.is_quick = readable and time.perf_counter() - began < _QUICK_S
        self._highest_mhz = None  # the first reading says nothing about a busy GPU

    def read(self) -> dict[str, Any]:
        """SM clock (MHz) and throttle reasons at this moment; None where unknown."""
        unknown: dict[str, Any] = {"sm_clock_mhz": None, "throttle_reasons": None}
        if self._nvml is None or self._uuid is None:
            return unknown
        rows = self._nvml.sample({self._uuid})
        if not rows:
            return unknown
        clock = rows[0].get("sm_clock_mhz")
        if clock is not None:
            self._highest_mhz = max(clock, self._highest_mhz or 0.0)
        return {"sm_clock_mhz": clock, "throttle_reasons": rows[0].get("throttle_reasons")}

    def ratio(self) -> float | None:
        """Clock now over the highest seen so far; None where it cannot be read quickly."""
        if not self.is_quick:
            return None
        clock = self.read()["sm_clock_mhz"]
        return clock / self._highest_mhz if clock and self._highest_mhz else None


def own_uuid(rank: int) -> str | None:
    """UUID of the GPU that this rank was given, if CUDA_VISIBLE_DEVICES names it so."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    name = names[rank].strip() if rank < len(names) else ""
    return name if name.startswith(("GPU-", "MIG-")) else None
