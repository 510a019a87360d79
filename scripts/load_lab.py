"""The machines of an invented lab, and the pieces that its results are made of."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.metrics import metric
from models.result import Measurement, Result, Samples, Scalar

Dims = dict[str, Scalar]


@dataclass(frozen=True)
class Lab:
    """One machine: its GPUs, what its link is like, how fast its memory is."""

    name: str
    gpu: str
    n_gpus: int
    link: str
    alpha_us: float
    gbps: float
    memory_gbps: float

    def gpus(self, count: int) -> list[str]:
        """UUIDs of its first GPUs, the same on every start."""
        return [
            f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{self.name}-{index}')}"
            for index in range(count)
        ]


LABS = (
    Lab("lab-a", "NVIDIA GeForce RTX 3090", 2, "NV4", 9.5, 42.0, 800.0),
    Lab("lab-b", "NVIDIA GeForce RTX 3090", 4, "NV4", 10.5, 40.0, 790.0),
    Lab("lab-c", "NVIDIA GeForce RTX 5090", 2, "PHB", 14.0, 24.0, 1500.0),
    Lab("lab-d", "NVIDIA H100 80GB HBM3", 8, "NV18", 6.5, 330.0, 2900.0),
    Lab("lab-e", "NVIDIA H200", 8, "NV18", 6.3, 340.0, 4100.0),
    Lab("lab-f", "NVIDIA B200", 8, "NV18", 5.9, 620.0, 6800.0),
)


def host_facts(lab: Lab, boot: int) -> dict[str, Any]:
    """As `runners.environment.host_facts` tells them; ``boot`` counts how often it was started."""
    return {
        "hostname": hashlib.sha256(lab.name.encode()).hexdigest()[:16],
        "os": "Debian GNU/Linux 13",
        "kernel": "6.12.48",
        "machine": "x86_64",
        "cpu_model": "AMD EPYC 9354 32-Core Processor",
        "cores": 64,
        "physical_cores": 32,
        "numa_nodes": 2,
        "memory_bytes": 512 << 30,
        "boot_id": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{lab.name}-boot-{boot}")),
        "gpus": [
            {
                "index": index,
                "uuid": name,
                "name": lab.gpu,
                "memory_bytes": 80 << 30,
                "driver": "580.95.05",
                "cuda": "13.0",
                "power_limit_w": 700.0,
                "sm_clock_max_mhz": 1980,
                "pcie_gen_max": 5,
                "pcie_width_max": 16,
                "numa": index // 4,
            }
            for index, name in enumerate(lab.gpus(lab.n_gpus))
        ],
        "driver": "580.95.05",
        "cuda": "13.0",
    }


def environment(lab: Lab) -> dict[str, Any]:
    """Versions, variables, and the transport that NCCL took."""
    return {
        "variables": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NCCL_DEBUG": "INFO"},
        "python": "3.11.2",
        "torch": "2.13.0",
        "nccl": "2.28.9",
        "numpy": "2.4.6",
        "transports": [["P2P/CUMEM" if lab.link.startswith("NV") else "SHM"]] * 2,
    }


def one(
    name: str,
    value: float,
    round_: int | None,
    dims: Dims,
    definition: str,
    statistic: str = "value",
) -> Measurement:
    """A single number in its metric's unit."""
    return Measurement(
        metric=name,
        statistic=statistic,
        unit=metric(name).unit,
        value=value,
        n=1,
        round=round_,
        dims=dims,
        definition=definition,
    )


def summary(
    name: str, values: Sequence[float], round_: int, dims: Dims, definition: str
) -> list[Measurement]:
    """Median, p10 and p90 of a round."""
    found = np.percentile(values, (50, 10, 90))
    return [
        one(name, round(float(value), 4), round_, dims, definition, statistic)
        for statistic, value in zip(("median", "p10", "p90"), found, strict=True)
    ]


def raw_values(name: str, values: list[float], round_: int, dims: Dims) -> Samples:
    """The values behind a round's statistics."""
    return Samples(metric=name, unit=metric(name).unit, round=round_, dims=dims, values=values)


def telemetry(result: Result, rows: int) -> list[dict[str, Any]]:
    """What the worker sampled beside a run, two samples a second and GPU."""
    used = result.spec.get("gpus") or (result.spec.get("arm") or {}).get("gpus") or []
    begun = result.started_at.timestamp() if result.started_at else 0.0
    return [
        {
            "t": begun + place / 2,
            "uuid": name,
            "sm_clock_mhz": 1980 - place % 5 * 15,
            "mem_clock_mhz": 2619,
            "power_w": 420.0 + place % 7 * 11,
            "temperature_c": 55 + place % 9,
            "utilization_pct": 90 + place % 10,
            "memory_used_bytes": 60 << 30,
            "throttle_reasons": [],
            "pcie_gen": 5,
            "pcie_width": 16,
        }
        for place in range(rows)
        for name in used
    ]
