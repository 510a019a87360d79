"""What the numbers were measured on: the host, the versions and variables, the CPU's conditions.

Read from files of the system and from what is installed, so that it works where only torch, numpy
and pydantic are. A fact that cannot be read is None. ``root`` is another system's files, for tests.
"""

import importlib.metadata
import json
import os
import platform
import re
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from models.cpu_lists import compact
from models.errors import RunnerUnavailable
from models.machine import hidden_name
from models.secrets import is_secret, scrub
from runners.nvml import open_nvml

__all__ = ["boot_id", "environment", "host_facts", "is_secret", "process_conditions", "scrub"]

ALLOWED_PREFIXES = (
    "NCCL_",
    "CUDA_",
    "VLLM_",
    "OMP_",
    "MKL_",
    "TORCH_",
    "PYTORCH_",
    "GLOO_",
    "NVSHMEM_",
)
_ROOT = Path("/")


def boot_id(root: Path = _ROOT) -> str | None:
    """Identifier of this boot of the kernel: another one means that the machine went down."""
    return _read(root / "proc/sys/kernel/random/boot_id")


def host_facts(root: Path = _ROOT) -> dict[str, Any]:
    """The machine. Its name is hashed: it is nobody's business, but two hosts must differ."""
    cpuinfo = _read(root / "proc/cpuinfo") or ""
    model = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read(root / "proc/meminfo") or "", re.MULTILINE)
    release = _read(root / "etc/os-release") or ""
    name = re.search(r'^PRETTY_NAME="?([^"\n]+)', release, re.MULTILINE)
    gpus, problems = _gpus()
    facts = {
        "hostname": hidden_name(socket.gethostname()),
        "os": name[1] if name else platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_model": model[1].strip() if model else (platform.processor() or None),
        "cores": os.cpu_count(),
        "physical_cores": _physical_cores(cpuinfo),
        "numa_nodes": _numa_nodes(root),
        "memory_bytes": int(memory[1]) * 1024 if memory else None,
        "boot_id": boot_id(root),
        "gpus": gpus,
        "driver": gpus[0]["driver"] if gpus else None,
        "cuda": gpus[0]["cuda"] if gpus else None,
    }
    return {**facts, "gpu_problems": problems} if problems else facts


def environment() -> dict[str, Any]:
    """Versions, and the variables that change how fast things run, without secrets."""
    allowed = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(ALLOWED_PREFIXES) and not is_secret(name)
    }
    torch = sys.modules.get("torch")  # never loaded for this: the worker asks too
    return {
        "variables": scrub(allowed, strict=True),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "torch_cuda": getattr(getattr(torch, "version", None), "cuda", None),
        "nccl": _nccl_version(torch),
        "numpy": _version("numpy"),
    }


def process_conditions(root: Path = _ROOT) -> dict[str, Any]:
    """What this process effectively gets of the CPU, whatever its settings say."""
    torch = sys.modules.get("torch")
    cpus = sorted(os.sched_getaffinity(0))
    return {
        "threads": torch.get_num_threads() if torch is not None else None,
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "affinity": compact(cpus),
        "n_cpus": len(cpus),
        "cpu_quota": cpu_quota(root),
        "clock_mhz": clock_mhz(cpus, root),
        "governor": _read(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "python": platform.python_version(),
    }


def cpu_quota(root: Path = _ROOT) -> float | None:
    """CPUs that the control groups allow, the tightest on the way up; None without a limit."""
    quotas: list[float] = []
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        unified = controllers == ""
        if not unified and "cpu" not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("" if unified else "cpu")
        # a container sees its own group as the top of the tree, so the path may not exist there
        folder = base / path.lstrip("/")
        for place in (folder, *folder.parents):
            quota = _quota_in(place)
            if quota is not None:
                quotas.append(quota)
            if place == base:
                break
    return min(quotas, default=None)


def clock_mhz(cpus: Iterable[int], root: Path = _ROOT) -> float | None:
    """Mean clock of these CPUs at this moment, as the kernel states it."""
    folder = root / "sys/devices/system/cpu"
    readings = [_read(folder / f"cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in cpus]
    clocks = [int(text) / 1000 for text in readings if text and text.isdigit()]
    if not clocks:
        found = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _read(root / "proc/cpuinfo") or "", re.M)
        wanted = set(cpus)
        clocks = [float(text) for cpu, text in enumerate(found) if cpu in wanted]
    return round(sum(clocks) / len(clocks), 1) if clocks else None


def _quota_in(folder: Path) -> float | None:
    limits = (_read(folder / "cpu.max") or "").split()
    if len(limits) == 2 and limits[0] != "max":
        return int(limits[0]) / int(limits[1])
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if quota and period and int(quota) > 0:
        return int(quota) / int(period)
    return None


def _gpus() -> tuple[list[dict[str, Any]], list[str]]:
    """GPUs that answer, and a sentence for each that does not."""
    try:
        with open_nvml() as nvml:
            return [gpu.as_dict() for gpu in nvml.gpus()], nvml.problems()
    except RunnerUnavailable:
        return [], []


def _physical_cores(cpuinfo: str) -> int | None:
    pairs = set(
        zip(
            re.findall(r"^physical id\s*:\s*(\d+)", cpuinfo, re.M),
            re.findall(r"^core id\s*:\s*(\d+)", cpuinfo, re.M),
            strict=False,
        )
    )
    return len(pairs) or None


def _numa_nodes(root: Path) -> int | None:
    folder = root / "sys/devices/system/node"
    if not folder.is_dir():
        return None
    return sum(re.fullmatch(r"node\d+", entry.name) is not None for entry in folder.iterdir())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _nccl_version(torch: Any) -> str | None:
    """The NCCL that torch carries: by torch itself where it is loaded, else by its package."""
    if torch is not None and torch.cuda.is_available():
        try:
            return ".".join(str(part) for part in torch.cuda.nccl.version())
        except (AttributeError, RuntimeError):
            return None  # a build of torch without NCCL
    for package in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"):
        found = _version(package)
        if found:
            return found
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


if __name__ == "__main__":  # the worker asks this way: it need not load what runners load
    print(json.dumps(host_facts()))
