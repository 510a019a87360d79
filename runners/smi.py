"""GPU facts from the program nvidia-smi, where Python has no NVML library: slower, and fewer."""

import re
import shutil
import subprocess
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Self

from models.errors import RunnerUnavailable
from runners.gpu_facts import GpuFacts, throttle_names

_FACTS = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "driver_version",
    "power.limit",
    "clocks.max.sm",
    "clocks.max.memory",
    "pcie.link.gen.max",
    "pcie.link.width.max",
    "pci.bus_id",
    "compute_cap",
)
_STATE = (
    "index",
    "uuid",
    "clocks.sm",
    "clocks.mem",
    "power.draw",
    "temperature.gpu",
    "utilization.gpu",
    "memory.used",
    "clocks_event_reasons.active",
    "pcie.link.gen.current",
    "pcie.link.width.current",
)
_NOTHING: Mapping[str, str] = MappingProxyType({})
_OLD_NAMES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}  # before 535
_TIME_LIMIT_S = 30.0  # waking a sleeping driver can take seconds


def find_smi() -> str | None:
    """Path of nvidia-smi, or None."""
    return shutil.which("nvidia-smi")


class SmiNvml:
    """Answers like NVML, one start of nvidia-smi a question.

    Args:
        program: Its path; by default what is on the search path.
    """

    def __init__(self, program: str | None = None) -> None:
        found = program or find_smi()
        if found is None:
            raise RunnerUnavailable(
                "nvidia-smi was not found.", "Without a GPU, CPU ranks over gloo still work."
            )
        self._program = found
        self._gpus = [self._facts(row) for row in self._query(_FACTS)]
        self._has_old_names = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held."""

    def gpus(self) -> list[GpuFacts]:
        """All GPUs in PCI bus order."""
        return list(self._gpus)

    def sample(self, uuids: Collection[str] | None = None) -> list[dict[str, Any]]:
        """The state of the named GPUs (all by default) at this moment, one dict a GPU."""
        if not self._has_old_names:
            try:
                rows = self._query(_STATE)
            except RunnerUnavailable:
                self._has_old_names = True
        if self._has_old_names:
            rows = self._query(_STATE, _OLD_NAMES)
        return [self._state(row) for row in rows if uuids is None or row["uuid"] in uuids]

    def links(self) -> dict[str, Any]:
        """Which GPUs there are; nvidia-smi's tables of links are not read here."""
        uuids = [gpu.uuid for gpu in self._gpus]
        return {"gpus": uuids, "pairs": [], "nvlinks": [], "complete": False}

    def problems(self) -> list[str]:
        """None: the program refuses to answer at all where a GPU is gone."""
        return []

    def _query(
        self, fields: tuple[str, ...], called: Mapping[str, str] = _NOTHING
    ) -> list[dict[str, str | None]]:
        names = ",".join(called.get(field, field) for field in fields)
        command = [self._program, f"--query-gpu={names}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunnerUnavailable(
                "nvidia-smi does not answer.", "Run it by hand to see why.", detail=repr(error)
            ) from None
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise RunnerUnavailable(
                f"nvidia-smi failed: {said[-1] if said else f'exit code {done.returncode}'}.",
                "Load the NVIDIA driver, or measure with CPU ranks.",
            )
        lines = [line.split(",") for line in done.stdout.splitlines() if line.strip()]
        return [
            {field: _known(text) for field, text in zip(fields, line, strict=True)}
            for line in lines
            if len(line) == len(fields)
        ]

    @staticmethod
    def _facts(row: dict[str, str | None]) -> GpuFacts:
        return GpuFacts(
            index=_whole(row["index"]) or 0,
            uuid=row["uuid"] or "",
            name=row["name"] or "",
            memory_bytes=_mebibytes(row["memory.total"]),
            driver=row["driver_version"],
            power_limit_w=_number(row["power.limit"]),
            sm_clock_max_mhz=_whole(row["clocks.max.sm"]),
            mem_clock_max_mhz=_whole(row["clocks.max.memory"]),
            pcie_gen_max=_whole(row["pcie.link.gen.max"]),
            pcie_width_max=_whole(row["pcie.link.width.max"]),
            pci_bus_id=row["pci.bus_id"],
            compute_capability=row["compute_cap"],
        )

    @staticmethod
    def _state(row: dict[str, str | None]) -> dict[str, Any]:
        mask = row["clocks_event_reasons.active"]
        return {
            "uuid": row["uuid"],
            "index": _whole(row["index"]),
            "sm_clock_mhz": _whole(row["clocks.sm"]),
            "mem_clock_mhz": _whole(row["clocks.mem"]),
            "power_w": _number(row["power.draw"]),
            "temperature_c": _whole(row["temperature.gpu"]),
            "utilization_pct": _whole(row["utilization.gpu"]),
            "memory_used_bytes": _mebibytes(row["memory.used"]),
            "throttle_reasons": None if mask is None else throttle_names(int(mask, 16)),
            "pcie_gen": _whole(row["pcie.link.gen.current"]),
            "pcie_width": _whole(row["pcie.link.width.current"]),
            "pcie_replays": None,
            "nvlink_errors": None,
            "ecc": None,
            "energy_mj": None,
            "processes": None,
            "xids": None,
        }


def _known(text: str) -> str | None:
    """nvidia-smi writes [N/A], [Not Supported] and the like for what it cannot tell."""
    text = text.strip()
    return None if not text or re.fullmatch(r"\[.*\]|N/A", text) else text


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number)


def _mebibytes(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number * 2**20)
