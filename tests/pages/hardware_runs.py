"""Machines and checks as their programs leave them, and what stands on the Hardware page."""

from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import hosts, jobs
from models.result import Gpu, Measurement, Result, Tool, utc_now

PASTED = (
    "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV4\tNODE\t0-31\t0\nGPU1\tNV4\t X \tNODE\t0-31\t0\nGPU2\tNODE\tNODE\t X \t0-31\t0\n"
)
HOST = {"hostname": "aaaa1111bbbb2222", "cpu_model": "A CPU", "cores": 64, "memory_bytes": 1 << 38}


def a_worker(engine: Engine) -> None:
    """This machine, as a worker that started on it leaves it."""
    hosts.remember(engine, HOST)
    jobs.heartbeat(engine, "w", pid=1, host=str(HOST["hostname"]))


def measured(n: int = 4, **changes: object) -> Result:
    """This machine as a reading leaves it: bridges between 0-2 and 1-3."""
    links: list[list[str | None]] = [
        ["X" if i == j else "NV4" if abs(i - j) == 2 else "PHB" for j in range(n)] for i in range(n)
    ]
    fields: dict = {
        "kind": "topology",
        "origin": "measured",
        "title": f"This machine: {n}x NVIDIA GeForce RTX 3090",
        "host": HOST,
        "environment": {"variables": {"NCCL_P2P_DISABLE": "1"}, "second_source": None},
        "tool": Tool(name="linkworth", version="0.1.0"),
        "finished_at": utc_now(),
        "gpus": [
            Gpu(
                index=k,
                name="NVIDIA GeForce RTX 3090",
                uuid=f"GPU-{k:08x}-0000",
                numa=0,
                cpus="0-63",
                facts={
                    "memory_bytes": 25_769_803_776,
                    "power_limit_w": 350.0,
                    "pcie_gen": 1,
                    "pcie_gen_max": 4,
                    "pcie_width": 16,
                    "pcie_width_max": 16,
                    "links_total": 4,
                    "links_active": 4,
                    "gb_s_per_link": 14.062,
                    "n_processes": 0,
                    "memory_used_bytes": 12 << 20,
                },
            )
            for k in range(n)
        ],
        "links": links,
        "complete": True,
    }
    return Result(**{**fields, **changes})


def texts(at: AppTest) -> str:
    """Everything that stands on the page, to search in."""
    found = [at.markdown, at.caption, at.warning, at.info, at.error, at.code]
    return "\n".join(str(one.value) for group in found for one in group)


def param(at: AppTest, name: str) -> str:
    """A query parameter, whichever way AppTest hands it out."""
    value = at.query_params[name]
    return value if isinstance(value, str) else value[0]


def alts(at: AppTest) -> list[str]:
    return [chart.proto.alt for chart in at.get("vega_lite_chart")]


def checked(**changes: object) -> Result:
    rows = [(0, 1, 52.5), (1, 0, 52.1)]
    fields: dict = {
        "kind": "p2p",
        "origin": "measured",
        "title": "Peer-to-peer check",
        "host": HOST,
        "tool": Tool(name="linkworth", version="0.1.0"),
        "measurements": [
            Measurement(
                metric="p2p_bandwidth",
                unit="GB/s",
                value=value,
                definition="linkworth:copy:1",
                dims={"src": a, "dst": b, "direction": "one", "bytes": 1 << 28},
            )
            for a, b, value in rows
        ],
    }
    return Result(**{**fields, **changes})


def pair(src: int, dst: int, code: str, sentence: str, step: str, tier: str | None) -> dict:
    return {
        "src": src, "dst": dst, "code": code, "tier": tier, "sentence": sentence,
        "next_step": step, "tiers": [], "collective_us": {}, "load": None,
    }  # fmt: skip
