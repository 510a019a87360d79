"""Raw facts on how GPUs are linked, as NVML tells them.

Shape: ``{"gpus": [uuid…], "pairs": [{"a": 0, "b": 1, "ancestor": "SYS", "p2p": {"read": "ok",
"write": …, "nvlink": …, "atomics": …, "pci": …}}…], "nvlinks": [{"gpu": 0, "link": 0, "active":
true, "version": 4, "speed_mbps": 26562, "p2p": true, "remote_type": "gpu", "remote_bus_id": …,
"remote_gpu": 1, "errors": {…}}…], "complete": true}``. ``ancestor`` is the closest common PCI
ancestor in the words of ``nvidia-smi topo``; a value that the driver does not tell is None.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Protocol

MAX_LINKS = 36
# NVML_TOPOLOGY_*: closest common ancestor -> the word of nvidia-smi topo -m
ANCESTORS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
P2P_INDEX = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3, "pci": 4}
P2P_STATUS = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "topology_not_supported",
    4: "disabled_by_regkey",
    5: "not_supported",
    6: "unknown",
}
REMOTE_TYPES = {0: "gpu", 1: "npu", 2: "switch", 255: "unknown"}
ERROR_COUNTERS = {"replay": 0, "recovery": 1, "crc_flit": 2, "crc_data": 3}
_CAPABILITY_P2P = 0
_FIELD_GET_SPEED = 164  # scoped to a link
_VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

Ask = Callable[..., Any]


class Linked(Protocol):
    """What is needed of a GPU here."""

    @property
    def uuid(self) -> str:
        """Its identifier."""

    @property
    def pci_bus_id(self) -> str | None:
        """Where it sits."""


def field_value(field: Any) -> int | float | None:
    """The number in an nvmlFieldValue; None where its own return code is not success."""
    if field.nvmlReturn != 0 or not 0 <= field.valueType < len(_VALUE_MEMBERS):
        return None
    value: int | float = getattr(field.value, _VALUE_MEMBERS[field.valueType])
    return value


def read_links(ask: Ask, handles: Sequence[Any], gpus: Sequence[Linked]) -> dict[str, Any]:
    """Read every pair and every NVLink.

    Args:
        ask: Calls an NVML function by name; None where there is no answer.
        handles: One a GPU.
        gpus: Their facts, in the same order.
    """
    places = {_bus_key(gpu.pci_bus_id): i for i, gpu in enumerate(gpus) if gpu.pci_bus_id}
    pairs = [_pair(ask, handles, a, b) for a, b in combinations(range(len(handles)), 2)]
    nvlinks = [
        row
        for gpu, handle in enumerate(handles)
        for link in range(MAX_LINKS)
        if (row := _nvlink(ask, handle, gpu, link, places)) is not None
    ]
    return {
        "gpus": [gpu.uuid for gpu in gpus],
        "pairs": pairs,
        "nvlinks": nvlinks,
        "complete": all(row["ancestor"] is not None for row in pairs),
    }


def _pair(ask: Ask, handles: Sequence[Any], a: int, b: int) -> dict[str, Any]:
    level = ask("nvmlDeviceGetTopologyCommonAncestor", handles[a], handles[b])
    status = {
        name: ask("nvmlDeviceGetP2PStatus", handles[a], handles[b], index)
        for name, index in P2P_INDEX.items()
    }
    return {
        "a": a,
        "b": b,
        "ancestor": None if level is None else ANCESTORS.get(level),
        "p2p": {
            name: None if code is None else P2P_STATUS.get(code, "unknown")
            for name, code in status.items()
        },
    }


def _nvlink(
    ask: Ask, handle: Any, gpu: int, link: int, places: dict[str, int]
) -> dict[str, Any] | None:
    """One NVLink; None where the card has no link of that number."""
    active = ask("nvmlDeviceGetNvLinkState", handle, link)
    if active is None:
        return None
    remote = ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link) if active else None
    bus_id = None if remote is None else _text(remote.busId)
    kind = ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) if active else None
    speed = ask("nvmlDeviceGetFieldValues", handle, [(_FIELD_GET_SPEED, link)])
    capability = ask("nvmlDeviceGetNvLinkCapability", handle, link, _CAPABILITY_P2P)
    return {
        "gpu": gpu,
        "link": link,
        "active": bool(active),
        "version": ask("nvmlDeviceGetNvLinkVersion", handle, link),
        # an inactive link has no rate: the driver then says 0
        "speed_mbps": (field_value(speed[0]) or None) if speed is not None else None,
        "p2p": None if capability is None else bool(capability),
        "remote_type": None if kind is None else REMOTE_TYPES.get(kind, "unknown"),
        "remote_bus_id": bus_id,
        "remote_gpu": places.get(_bus_key(bus_id)) if bus_id else None,
        "errors": {
            name: ask("nvmlDeviceGetNvLinkErrorCounter", handle, link, counter)
            for name, counter in ERROR_COUNTERS.items()
        },
    }


def _bus_key(bus_id: str | None) -> str:
    """Domains are written with 4 or 8 digits: compare by the last four."""
    domain, _, rest = (bus_id or "").lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
