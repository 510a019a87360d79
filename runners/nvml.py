"""The one seam to NVML: which GPUs there are, how they are now, how they are linked.

``open_nvml()`` gives the driver's library through pynvml, ``nvidia-smi`` where pynvml is not
installed, or a recording (``LINKWORTH_NVML_RECORDING`` names its file), so that everything above
works without a GPU too. Whatever a card or driver does not tell is None, never 0.

Recording, JSON: ``{"gpus": [GpuFacts…], "samples": [[one sample a GPU]…], "links": {…}}``.
"""

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from models.errors import InvalidSpec, RunnerUnavailable

RECORDING_VARIABLE = "LINKWORTH_NVML_RECORDING"

THROTTLE_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
# these say that a card was held back; idling and a person's own clock setting do not
HOLDING_BACK = frozenset(
    {
        "sw_power_cap",
        "hw_slowdown",
        "sw_thermal_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
    }
)


def throttle_names(mask: int) -> list[str]:
    """The reasons that are set in NVML's bit mask; an unknown bit keeps its number."""
    known = [name for bit, name in THROTTLE_REASONS.items() if mask & bit]
    rest = mask & ~sum(THROTTLE_REASONS)
    return [*known, f"reason_{rest:#x}"] if rest else known


@dataclass(frozen=True)
class GpuFacts:
    """What a GPU is, as long as the machine runs; ``index`` counts in PCI bus order."""

    index: int
    uuid: str
    name: str
    memory_bytes: int | None = None
    driver: str | None = None
    cuda: str | None = None
    power_limit_w: float | None = None
    sm_clock_max_mhz: int | None = None
    mem_clock_max_mhz: int | None = None
    pcie_gen_max: int | None = None
    pcie_width_max: int | None = None
    pci_bus_id: str | None = None
    numa: int | None = None
    cpus: str | None = None
    compute_capability: str | None = None
    mig_uuids: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "mig_uuids": list(self.mig_uuids)}


class Nvml(Protocol):
    """What every source of GPU facts answers; close it or use it in a ``with``."""

    def gpus(self) -> list[GpuFacts]:
        """All GPUs in PCI bus order."""

    def sample(self, uuids: Collection[str] | None = None) -> list[dict[str, Any]]:
        """The state of the named GPUs (all by default) at this moment, one dict a GPU."""

    def links(self) -> dict[str, Any]:
        """Raw facts on each pair and each NVLink, see ``runners.nvml_links``."""

    def problems(self) -> list[str]:
        """GPUs that are there and cannot be read, one sentence each; they are left out above."""

    def close(self) -> None:
        """Let the library go."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def open_nvml(recording: str | Path | None = None) -> Nvml:
    """The best source of GPU facts that this machine has.

    Raises:
        RunnerUnavailable: No library, no driver, or no permission: a sentence for each.
    """
    from runners.nvml_library import LibraryNvml
    from runners.smi import SmiNvml, find_smi

    recording = recording or os.environ.get(RECORDING_VARIABLE)
    if recording:
        return RecordedNvml(recording)
    try:
        import pynvml
    except ImportError:
        if find_smi() is not None:
            return SmiNvml()
        raise RunnerUnavailable(
            "No NVIDIA driver was found on this machine.",
            "Without a GPU, CPU ranks over gloo still work.",
        ) from None
    return LibraryNvml(pynvml)


def resolve(gpus: Iterable[GpuFacts], names: Iterable[int | str]) -> list[str]:
    """UUIDs of GPUs named by index or UUID, in the order named.

    Raises:
        InvalidSpec: There is no such GPU, or two names mean the same one.
    """
    known = list(gpus)
    by_index = {gpu.index: gpu.uuid for gpu in known}
    by_uuid = {uuid: uuid for gpu in known for uuid in (gpu.uuid, *gpu.mig_uuids)}
    found: list[str] = []
    for name in names:
        uuid = by_index.get(name) if isinstance(name, int) else by_uuid.get(name)
        if uuid is None:
            here = ", ".join(f"{gpu.index} ({gpu.name})" for gpu in known) or "none"
            raise InvalidSpec(
                f"There is no GPU {name} on this machine.", f"The GPUs here are: {here}."
            )
        if uuid in found:
            raise InvalidSpec(f"GPU {name} is named twice.", "Name each GPU once.")
        found.append(uuid)
    return found


def compact(numbers: Iterable[int]) -> str:
    """Numbers as the kernel writes CPU lists: 0-3,8."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in spans)


class RecordedNvml:
    """Replays a recording: each sample in turn, then the last one again and again.

    Args:
        recording: The decoded recording, or the path of its JSON file.
    """

    def __init__(self, recording: dict[str, Any] | str | Path) -> None:
        self._recording = recording if isinstance(recording, dict) else _read_recording(recording)
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Begin anew with the first sample."""
        self._next = 0

    def gpus(self) -> list[GpuFacts]:
        """All GPUs of the recording."""
        return [
            GpuFacts(**{**row, "mig_uuids": tuple(row.get("mig_uuids", ()))})
            for row in self._recording.get("gpus", [])
        ]

    def sample(self, uuids: Collection[str] | None = None) -> list[dict[str, Any]]:
        """The next recorded sample of the named GPUs."""
        samples = self._recording.get("samples") or [[]]
        rows = samples[min(self._next, len(samples) - 1)]
        self._next += 1
        return [dict(row) for row in rows if uuids is None or row["uuid"] in uuids]

    def links(self) -> dict[str, Any]:
        """The recorded links."""
        return dict(self._recording.get("links", {}))

    def problems(self) -> list[str]:
        """What the recording says could not be read."""
        return list(self._recording.get("problems", []))


def _read_recording(path: str | Path) -> dict[str, Any]:
    try:
        recording: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunnerUnavailable(
            f"The NVML recording cannot be read: {error}.",
            f"Unset {RECORDING_VARIABLE}, or name a file that is there.",
        ) from None
    return recording
