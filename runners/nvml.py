"""The one seam to NVML: which GPUs there are, how they are now, how they are linked.

``open_nvml()`` gives the driver's library through pynvml, ``nvidia-smi`` where pynvml is not
installed, or a recording (``LINKWORTH_NVML_RECORDING`` names its file), so that everything above
works without a GPU too. Whatever a card or driver does not tell is None, never 0.

Recording, JSON: ``{"gpus": [GpuFacts…], "samples": [[one sample a GPU]…], "links": {…}}``.
"""

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Protocol, Self

from models.errors import InvalidSpec, RunnerUnavailable
from runners.gpu_facts import GpuFacts
from runners.nvml_library import LibraryNvml
from runners.smi import SmiNvml, find_smi

RECORDING_VARIABLE = "LINKWORTH_NVML_RECORDING"


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
