"""A pynvml of invented cards: two linked by NVLink, one old card that answers next to nothing."""

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


NOT_SUPPORTED = 3
TIMEOUT = 10


def new_card(number: int) -> dict[str, Any]:
    other = 1 - number
    return {
        "nvmlDeviceGetUUID": f"GPU-{number}{number}{number}{number}",
        "nvmlDeviceGetName": b"Invented 9000",  # old versions answer with bytes
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=24 * 2**30, used=2**30),
        "nvmlDeviceGetEnforcedPowerLimit": 350_000,
        "nvmlDeviceGetPciInfo": SimpleNamespace(busId=f"00000000:0{number}:00.0"),
        "nvmlDeviceGetCpuAffinity": [0b1111],
        "nvmlDeviceGetCudaComputeCapability": (9, 0),
        "nvmlDeviceGetMaxClockInfo": {1: 1980, 2: 3201},
        "nvmlDeviceGetClockInfo": {1: 1755, 2: 3201},
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetMigMode": (0, 0),
        "nvmlDeviceGetPowerUsage": 123_456,
        "nvmlDeviceGetTemperature": 41,
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=12),
        "nvmlDeviceGetCurrentClocksEventReasons": 0x4 | 0x40 | 0x8000,
        "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=77, usedGpuMemory=5)],
        "nvmlDeviceGetCurrPcieLinkGeneration": 4,
        "nvmlDeviceGetCurrPcieLinkWidth": 8,
        "nvmlDeviceGetPcieReplayCounter": 0,
        "nvmlDeviceGetTotalEccErrors": {0: 2, 1: 0},
        "nvmlDeviceGetTotalEnergyConsumption": 987_654,
        "nvmlDeviceGetFieldValues": {38: 0, 45: 1, 52: 0, 59: None, (164, 0): 26562},
        "nvmlDeviceGetNvLinkState": {0: 1, 1: 0},
        "nvmlDeviceGetNvLinkVersion": {0: 4, 1: 4},
        "nvmlDeviceGetNvLinkRemotePciInfo": {0: SimpleNamespace(busId=f"0000:0{other}:00.0")},
        "nvmlDeviceGetNvLinkRemoteDeviceType": {0: 0},
        "nvmlDeviceGetNvLinkCapability": {0: 1, 1: 1},
        "nvmlDeviceGetNvLinkErrorCounter": {0: 0},
        "events": [],
    }


LOST = 15


def lost_card() -> dict[str, Any]:
    """A card that the driver still counts, and that every question to it shows to be gone."""
    return {"lost": True, "events": []}


def old_card() -> dict[str, Any]:
    return {"nvmlDeviceGetUUID": "GPU-old0", "nvmlDeviceGetName": "Ancient", "events": []}


class NVMLError_GpuIsLost(NVMLError):  # noqa: N801 - pynvml's own name
    def __str__(self) -> str:
        return "GPU is lost"


class FakeLibrary:
    """Answers like the module pynvml; what a card does not have is "not supported"."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
    nvmlEventTypeXidCriticalError = 8  # noqa: N815 - NVML's own name

    def __init__(self, *cards: dict[str, Any], start_error: int | None = None) -> None:
        self.cards = list(cards)
        self.start_error = start_error
        self.is_open = False
        self.may_listen = True
        # real drivers refuse the handle, or hand one out that answers nothing
        self.lost_at_once = True

    def nvmlInit(self) -> None:  # noqa: N802
        if self.start_error is not None:
            raise NVMLError(self.start_error)
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802
        if self.lost_at_once and self.cards[index].get("lost"):
            raise NVMLError_GpuIsLost(LOST)
        return self.cards[index]

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.159.04"

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802
        return 13000

    def nvmlDeviceGetTopologyCommonAncestor(self, a: Any, b: Any) -> int:  # noqa: N802
        if "nvmlDeviceGetPciInfo" not in a or "nvmlDeviceGetPciInfo" not in b:
            raise NVMLError(NOT_SUPPORTED)
        return 20

    def nvmlDeviceGetP2PStatus(self, a: Any, b: Any, index: int) -> int:  # noqa: N802
        return {0: 0, 1: 0, 2: 0, 3: 5, 4: 2}[index]

    def nvmlDeviceGetFieldValues(self, card: Any, fields: list[Any]) -> list[Any]:  # noqa: N802
        known = self._of(card, "nvmlDeviceGetFieldValues")
        return [_field(known.get(name)) for name in fields]

    def nvmlEventSetCreate(self) -> list[Any]:  # noqa: N802
        if not self.may_listen:
            raise NVMLError(4)
        return []

    def nvmlDeviceRegisterEvents(self, card: Any, kind: int, events: Any) -> None:  # noqa: N802
        events.append(card)

    def nvmlEventSetWait_v2(self, cards: Any, timeout_ms: int) -> Any:  # noqa: N802
        assert timeout_ms == 0, "sampling must not wait"
        for card in cards:
            if card["events"]:
                return SimpleNamespace(device=card, eventData=card["events"].pop(0))
        raise NVMLError(TIMEOUT)

    def nvmlEventSetFree(self, events: Any) -> None:  # noqa: N802
        events.clear()

    def _of(self, card: dict[str, Any], name: str) -> Any:
        if card.get("lost"):
            raise NVMLError_GpuIsLost(LOST)
        if name not in card:
            raise NVMLError(NOT_SUPPORTED)
        return card[name]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)

        def answer(card: dict[str, Any], *arguments: Any) -> Any:
            value = self._of(card, name)
            if isinstance(value, dict):
                if arguments[0] not in value:
                    raise NVMLError(NOT_SUPPORTED)
                return value[arguments[0]]
            return value

        return answer


def _field(value: int | None) -> Any:
    number = SimpleNamespace(uiVal=value)
    return SimpleNamespace(nvmlReturn=0 if value is not None else 3, valueType=1, value=number)
