"""NVML through pynvml: every call may fail on some card, and then the answer is None."""

import contextlib
import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from models.cpu_lists import compact
from models.errors import RunnerUnavailable
from runners.gpu_facts import GpuFacts, throttle_names
from runners.nvml_links import field_value, read_links

# field ids of nvml.h; one call reads them all
NVLINK_ERROR_FIELDS = {"crc_flit": 38, "crc_data": 45, "replay": 52, "recovery": 59}


_GONE_STEP = (
    "Restart the machine; look for Xid 79 in the kernel log, and check the card's power and riser."
)


class LibraryNvml:
    """NVML through pynvml.

    Args:
        library: The pynvml module, or one that answers like it.
    """

    def __init__(self, library: ModuleType | Any) -> None:
        self._lib = library
        try:
            library.nvmlInit()
            count = library.nvmlDeviceGetCount()
        except library.NVMLError as error:
            raise _unavailable(library, error) from None
        self._handles: list[Any] = []
        self._gpus: list[GpuFacts] = []
        self._problems: list[str] = []
        for index in range(count):
            try:
                handle = library.nvmlDeviceGetHandleByIndex(index)
                facts = self._facts(index, handle)
            except library.NVMLError as error:
                # one card that is gone must not hide the others
                self._problems.append(_gone(index, error))
            else:
                self._handles.append(handle)
                self._gpus.append(facts)
        if self._problems and not self._gpus:
            self.ask(library.nvmlShutdown)
            raise RunnerUnavailable(" ".join(self._problems), _GONE_STEP)
        self._xids = _XidWatch(library, self._handles)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the library go."""
        self._xids.close()
        self.ask(self._lib.nvmlShutdown)

    def ask(self, function: Callable[..., Any] | str, *arguments: Any) -> Any:
        """The answer, or None where this card, driver or library has none."""
        if isinstance(function, str):
            function = getattr(self._lib, function, None) or _no_such_function
        try:
            return function(*arguments)
        except (self._lib.NVMLError, _NoSuchFunctionError):
            return None

    def gpus(self) -> list[GpuFacts]:
        """All GPUs in PCI bus order."""
        return list(self._gpus)

    def problems(self) -> list[str]:
        """GPUs that the driver counts and cannot reach, one sentence each."""
        return list(self._problems)

    def sample(self, uuids: Collection[str] | None = None) -> list[dict[str, Any]]:
        """The state of the named GPUs (all by default) at this moment, one dict a GPU."""
        xids = self._xids.poll()
        return [
            {
                **self._state(handle),
                "uuid": gpu.uuid,
                "index": gpu.index,
                "xids": None if xids is None else xids.get(i, []),
            }
            for i, (gpu, handle) in enumerate(zip(self._gpus, self._handles, strict=True))
            if uuids is None or gpu.uuid in uuids or set(gpu.mig_uuids) & set(uuids)
        ]

    def links(self) -> dict[str, Any]:
        """Raw facts on each pair and each NVLink, see ``runners.nvml_links``."""
        return read_links(self.ask, self._handles, self._gpus)

    def _facts(self, index: int, handle: Any) -> GpuFacts:
        lib, ask = self._lib, self.ask
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        cuda = ask("nvmlSystemGetCudaDriverVersion")
        capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
        limit_mw = ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        pci = ask("nvmlDeviceGetPciInfo", handle)
        bus_id = None if pci is None else _text(pci.busId)
        words = ask("nvmlDeviceGetCpuAffinity", handle, ((os.cpu_count() or 1) + 63) // 64)
        return GpuFacts(
            index=index,
            uuid=_text(lib.nvmlDeviceGetUUID(handle)),
            name=_text(lib.nvmlDeviceGetName(handle)),
            memory_bytes=None if memory is None else int(memory.total),
            driver=_text(ask("nvmlSystemGetDriverVersion")),
            cuda=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            power_limit_w=None if limit_mw is None else limit_mw / 1000,
            sm_clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", handle, lib.NVML_CLOCK_SM),
            mem_clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", handle, lib.NVML_CLOCK_MEM),
            pcie_gen_max=ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            pcie_width_max=ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
            pci_bus_id=bus_id,
            numa=_numa_of(bus_id),
            cpus=None if words is None else _cpu_list(words),
            compute_capability=None if capability is None else ".".join(map(str, capability)),
            mig_uuids=tuple(self._mig(handle)),
        )

    def _mig(self, handle: Any) -> list[str]:
        mode = self.ask("nvmlDeviceGetMigMode", handle)
        if mode is None or not mode[0]:
            return []
        slots = range(self.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
        parts = [self.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, slot) for slot in slots]
        uuids = [self.ask("nvmlDeviceGetUUID", part) for part in parts if part is not None]
        return [_text(uuid) for uuid in uuids if uuid is not None]

    def _state(self, handle: Any) -> dict[str, Any]:
        lib, ask = self._lib, self.ask
        power_mw = ask("nvmlDeviceGetPowerUsage", handle)
        use = ask("nvmlDeviceGetUtilizationRates", handle)
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:  # the name before driver 535
            reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        processes = ask("nvmlDeviceGetComputeRunningProcesses", handle)
        return {
            "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", handle, lib.NVML_CLOCK_SM),
            "mem_clock_mhz": ask("nvmlDeviceGetClockInfo", handle, lib.NVML_CLOCK_MEM),
            "power_w": None if power_mw is None else power_mw / 1000,
            "temperature_c": ask("nvmlDeviceGetTemperature", handle, lib.NVML_TEMPERATURE_GPU),
            "utilization_pct": None if use is None else use.gpu,
            "memory_used_bytes": None if memory is None else int(memory.used),
            "throttle_reasons": None if reasons is None else throttle_names(reasons),
            "pcie_gen": ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
            "pcie_replays": ask("nvmlDeviceGetPcieReplayCounter", handle),
            "nvlink_errors": self._nvlink_errors(handle),
            "ecc": {
                "corrected": ask("nvmlDeviceGetTotalEccErrors", handle, 0, 0),
                "uncorrected": ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0),
            },
            "energy_mj": ask("nvmlDeviceGetTotalEnergyConsumption", handle),
            "processes": None
            if processes is None
            else [
                {"pid": one.pid, "memory_bytes": getattr(one, "usedGpuMemory", None)}
                for one in processes
            ],
        }

    def _nvlink_errors(self, handle: Any) -> dict[str, int | float | None] | None:
        names = list(NVLINK_ERROR_FIELDS)
        values = self.ask("nvmlDeviceGetFieldValues", handle, list(NVLINK_ERROR_FIELDS.values()))
        if values is None:
            return None
        read = {name: field_value(one) for name, one in zip(names, values, strict=True)}
        return read if any(value is not None for value in read.values()) else None


class _XidWatch:
    """Collects the driver's critical errors (Xid) as they come; silent where it may not listen."""

    def __init__(self, library: Any, handles: Sequence[Any]) -> None:
        self._lib = library
        self._places = {}
        self._set: Any = None
        try:
            self._set = library.nvmlEventSetCreate()
            for index, handle in enumerate(handles):
                library.nvmlDeviceRegisterEvents(
                    handle, library.nvmlEventTypeXidCriticalError, self._set
                )
                self._places[library.nvmlDeviceGetUUID(handle)] = index
        except (library.NVMLError, AttributeError):
            self.close()

    def poll(self) -> dict[int, list[int]] | None:
        """New Xid numbers by GPU; None where the driver does not let us listen."""
        if self._set is None:
            return None
        found: dict[int, list[int]] = {}
        while True:
            try:
                event = self._lib.nvmlEventSetWait_v2(self._set, 0)
                index = self._places.get(self._lib.nvmlDeviceGetUUID(event.device))
            except self._lib.NVMLError:  # "timeout": nothing (more) has happened
                return found
            if index is not None:
                found.setdefault(index, []).append(int(event.eventData))

    def close(self) -> None:
        """Stop listening."""
        if self._set is not None:
            with contextlib.suppress(self._lib.NVMLError):
                self._lib.nvmlEventSetFree(self._set)
            self._set = None


class _NoSuchFunctionError(Exception):
    """This pynvml is too old for a function."""


def _no_such_function(*arguments: Any) -> Any:
    raise _NoSuchFunctionError


def _text(value: Any) -> Any:
    """Old versions of pynvml answer with bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _cpu_list(words: Sequence[int]) -> str | None:
    """CPUs of an affinity mask (64-bit words, lowest first) as the kernel writes them: 0-31,64."""
    cpus = [
        word * 64 + bit for word, mask in enumerate(words) for bit in range(64) if mask >> bit & 1
    ]
    return compact(cpus) or None


def _numa_of(bus_id: str | None) -> int | None:
    """NUMA node of a PCI device; the kernel says -1 where it does not know."""
    found = re.search(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]$", bus_id or "")
    if found is None:
        return None
    try:
        node = int(Path(f"/sys/bus/pci/devices/{found[0].lower()}/numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _gone(index: int, error: Exception) -> str:
    """Why a GPU that the driver counts is left out."""
    if "lost" in f"{type(error).__name__} {error}".lower():
        return f"GPU {index} has fallen off the bus: the driver can no longer reach it."
    return f"GPU {index} does not answer the driver ({error})."


def _unavailable(library: Any, error: Exception) -> RunnerUnavailable:
    """A sentence for each cause of a failed start."""
    code = getattr(error, "value", None)
    sentences = {
        library.NVML_ERROR_LIBRARY_NOT_FOUND: (
            "No NVIDIA driver was found on this machine.",
            "Without a GPU, CPU ranks over gloo still work.",
        ),
        library.NVML_ERROR_DRIVER_NOT_LOADED: (
            "The NVIDIA driver is installed but not loaded.",
            "Load the driver (nvidia-smi tells why it is not), then try again.",
        ),
        library.NVML_ERROR_NO_PERMISSION: (
            "This user may not talk to the NVIDIA driver.",
            "Give the user access to /dev/nvidiactl, or start the container with its GPUs.",
        ),
        library.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "The NVIDIA driver and its library have different versions.",
            "Restart the machine: the driver was updated while it ran.",
        ),
    }
    sentence, step = sentences.get(
        code, (f"The NVIDIA driver does not answer: {error}.", "nvidia-smi may tell more.")
    )
    return RunnerUnavailable(sentence, step, detail=repr(error))
