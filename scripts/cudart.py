"""CUDA's own copies and clocks behind a thin seam: ctypes on the runtime that torch carries."""

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

_GATE_LIMIT_S = 10.0
# a thread of CUDA's calls these: they stay as long as the process, whatever fails in between
_GATES: list[Any] = []


class WrongCallError(Exception):
    """A call of the CUDA runtime that failed, with its own words."""


@dataclass
class Stream:
    device: int
    handle: Any


@dataclass
class Way:
    """Copies from one place to another, in order, on a stream of the source's GPU."""

    src: int
    dst: int
    n_bytes: int
    source: int
    target: int
    stream: Any


class Runtime(Protocol):
    """The seam: what is asked of CUDA. Devices are places among the visible GPUs."""

    def facts(self) -> dict[str, Any]: ...

    def grant(self, device: int, peer: int) -> bool:
        """Enable direct access from one GPU to another, where the driver grants it."""

    def allocate(self, device: int, n_bytes: int) -> int: ...

    def free(self, pointer: int) -> None: ...

    def write(self, pointer: int, data: np.ndarray) -> None: ...

    def read(self, pointer: int, n_words: int) -> np.ndarray: ...

    def stream(self, device: int) -> Any: ...

    def mark(self, stream: Any) -> Any:
        """An event, recorded now."""

    def copy(self, way: Way) -> None:
        """Queue one copy."""

    def hold(self, stream: Any) -> Callable[[], None]:
        """Let the stream wait at a gate; the function returned opens it."""

    def seconds(self, begin: Any, end: Any) -> float:
        """Wait for the second event; the time between both, by the GPU's clock."""


class Cudart:
    """The CUDA runtime through ctypes.

    Args:
        path: Its shared library.
    """

    _D2D, _H2D, _D2H = 3, 1, 2
    _NON_BLOCKING = 1
    _ALREADY_ENABLED = 704

    def __init__(self, path: str) -> None:
        self._path = path
        self._lib = ctypes.CDLL(path)
        self._lib.cudaGetErrorString.restype = ctypes.c_char_p
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self._copy_inside = self._lib.cudaMemcpyAsync
        self._copy_inside.argtypes = [pointer, pointer, size, number, pointer]
        self._copy_between = self._lib.cudaMemcpyPeerAsync
        self._copy_between.argtypes = [pointer, number, pointer, number, size, pointer]
        self._lib.cudaMemcpy.argtypes = [pointer, pointer, size, number]
        self._lib.cudaMalloc.argtypes = [ctypes.POINTER(pointer), size]
        self._lib.cudaFree.argtypes = [pointer]
        self._lib.cudaEventRecord.argtypes = [pointer, pointer]
        self._lib.cudaEventSynchronize.argtypes = [pointer]
        self._lib.cudaEventDestroy.argtypes = [pointer]
        # one release renamed it
        self._elapsed = getattr(self._lib, "cudaEventElapsedTime", None) or (
            self._lib.cudaEventElapsedTime_v2
        )
        self._elapsed.argtypes = [ctypes.POINTER(ctypes.c_float), pointer, pointer]
        self._host_function = ctypes.CFUNCTYPE(None, pointer)
        self._lib.cudaLaunchHostFunc.argtypes = [pointer, self._host_function, pointer]

    def facts(self) -> dict[str, Any]:
        versions = {}
        for name in ("Runtime", "Driver"):
            number = ctypes.c_int()
            self._ask(f"cuda{name}GetVersion", ctypes.byref(number))
            versions[name] = f"{number.value // 1000}.{number.value % 1000 // 10}"
        return {
            "cuda_runtime": versions["Runtime"],
            "cuda_of_driver": versions["Driver"],
            "libcudart": Path(self._path).name,
        }

    def grant(self, device: int, peer: int) -> bool:
        answer = ctypes.c_int()
        self._ask("cudaDeviceCanAccessPeer", ctypes.byref(answer), device, peer)
        if answer.value:
            self._ask("cudaSetDevice", device)
            code = self._lib.cudaDeviceEnablePeerAccess(peer, 0)
            if code == self._ALREADY_ENABLED:
                self._lib.cudaGetLastError()  # else the next call seems to fail
            else:
                self._check("cudaDeviceEnablePeerAccess", code)
        return bool(answer.value)

    def allocate(self, device: int, n_bytes: int) -> int:
        found = ctypes.c_void_p()
        self._ask("cudaSetDevice", device)
        self._ask("cudaMalloc", ctypes.byref(found), n_bytes)
        return int(found.value or 0)

    def free(self, pointer: int) -> None:
        self._ask("cudaFree", pointer)

    def write(self, pointer: int, data: np.ndarray) -> None:
        self._ask("cudaMemcpy", pointer, data.ctypes.data, data.nbytes, self._H2D)
        # the last piece may still be on its way, and our streams do not wait for it
        self._ask("cudaDeviceSynchronize")

    def read(self, pointer: int, n_words: int) -> np.ndarray:
        data = np.empty(n_words, dtype=np.uint32)
        self._ask("cudaMemcpy", data.ctypes.data, pointer, data.nbytes, self._D2H)
        return data

    def stream(self, device: int) -> Stream:
        handle = ctypes.c_void_p()
        self._ask("cudaSetDevice", device)
        self._ask("cudaStreamCreateWithFlags", ctypes.byref(handle), self._NON_BLOCKING)
        return Stream(device, handle)

    def mark(self, stream: Stream) -> Any:
        event = ctypes.c_void_p()
        self._ask("cudaSetDevice", stream.device)  # an event belongs to its stream's GPU
        self._ask("cudaEventCreate", ctypes.byref(event))
        self._ask("cudaEventRecord", event, stream.handle)
        return event

    def copy(self, way: Way) -> None:
        if way.src == way.dst:
            code = self._copy_inside(
                way.target, way.source, way.n_bytes, self._D2D, way.stream.handle
            )
            self._check("cudaMemcpyAsync", code)
        else:
            code = self._copy_between(
                way.target, way.dst, way.source, way.src, way.n_bytes, way.stream.handle
            )
            self._check("cudaMemcpyPeerAsync", code)

    def hold(self, stream: Stream) -> Callable[[], None]:
        gate = threading.Event()

        def wait(_: Any) -> None:
            gate.wait(_GATE_LIMIT_S)

        function = self._host_function(wait)
        _GATES.append(function)
        self._ask("cudaSetDevice", stream.device)
        self._ask("cudaLaunchHostFunc", stream.handle, function, None)
        return gate.set

    def seconds(self, begin: Any, end: Any) -> float:
        taken_ms = ctypes.c_float()
        self._ask("cudaEventSynchronize", end)
        self._check("cudaEventElapsedTime", self._elapsed(ctypes.byref(taken_ms), begin, end))
        for event in (begin, end):
            self._ask("cudaEventDestroy", event)
        return taken_ms.value / 1000

    def _ask(self, name: str, *arguments: Any) -> None:
        self._check(name, getattr(self._lib, name)(*arguments))

    def _check(self, name: str, code: int) -> None:
        if code:
            words = self._lib.cudaGetErrorString(code).decode()
            raise WrongCallError(f"{name} failed: {words} ({code}).")
