"""What is told of a GPU, whoever tells it: the driver's library, nvidia-smi or a recording."""

from dataclasses import asdict, dataclass
from typing import Any

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
