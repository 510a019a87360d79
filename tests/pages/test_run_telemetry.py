"""Telemetry on the page of a run: the names that the worker stores, and facts that numbers hide."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import runs
from models.result import Result, Tool
from pages.widgets.run_telemetry import READINGS, facts, prepared
from worker.telemetry import sample_cpu

OpenPage = Callable[..., AppTest]


def gpu_row(t: float, index: int = 0, **changes: Any) -> dict[str, Any]:
    """A sample as ``worker.telemetry.GpuSampler`` takes it."""
    return {
        "t": t,
        "uuid": f"GPU-{index}",
        "index": index,
        "sm_clock_mhz": 1755,
        "mem_clock_mhz": 3201,
        "power_w": 300.0 + t,
        "temperature_c": 61,
        "utilization_pct": 98,
        "memory_used_bytes": 20_000_000_000,
        "throttle_reasons": [],
        "pcie_gen": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "nvlink_errors": {"replay": 0, "recovery": None},
        "ecc": {"corrected": 2, "uncorrected": 0},
        "xids": [],
        **changes,
    }


def told(*rows: dict[str, Any]) -> list[str]:
    return facts(prepared(pd.DataFrame(list(rows))))


def stored(engine: Engine, rows: list[dict[str, Any]]) -> str:
    run = Result(kind="allreduce", origin="measured", tool=Tool(name="linkworth"))
    return runs.store(engine, run, telemetry=rows)


def test_every_reading_of_a_gpu_is_offered(database: Engine, open_page: OpenPage) -> None:
    run_id = stored(database, [gpu_row(t, index) for t in (1.0, 1.5) for index in (0, 1)])
    at = open_page("runs", run=run_id)
    offered = at.selectbox(key="run-telemetry").options
    assert offered == [
        words for name, words in READINGS.items() if name not in ("cpu_pct", "cpu_mhz", "load_1min")
    ]
    at.selectbox(key="run-telemetry").set_value("power_w").run()
    alts = [chart.proto.alt for chart in at.get("vega_lite_chart")]
    assert "Power (W) ranged from 301 to 301.5 while the run lasted" in alts
    assert any("**GPU 1**: PCIe generation 5, 16 lanes" in block.value for block in at.markdown)


def test_what_the_worker_samples_of_a_cpu_is_shown(database: Engine, open_page: OpenPage) -> None:
    """The very rows of the worker: a name that one side changes breaks this."""
    rows = [{"t": t, **row} for t in (1.0, 1.5) for row in sample_cpu()]
    at = open_page("runs", run=stored(database, rows))
    offered = at.selectbox(key="run-telemetry").options
    assert {"CPU load (%)", "Load average, 1 min", "Memory in use (GB)"} <= set(offered)


def test_a_run_without_telemetry_has_no_such_section(database: Engine, open_page: OpenPage) -> None:
    at = open_page("runs", run=stored(database, []))
    assert not at.exception
    assert at.subheader[0].value == "allreduce run"
    assert not [box for box in at.selectbox if box.key == "run-telemetry"]


def test_a_run_without_trouble() -> None:
    assert told(gpu_row(1), gpu_row(2)) == [
        "**GPU 0**: PCIe generation 5, 16 lanes; nothing held its clock back."
    ]


def test_what_held_a_clock_back_is_counted_in_busy_samples() -> None:
    idle = gpu_row(0, utilization_pct=0, throttle_reasons=["gpu_idle"], pcie_gen=1)
    rows = [idle, *(gpu_row(t, throttle_reasons=["sw_power_cap"]) for t in range(1, 4)), gpu_row(5)]
    (said,) = told(*rows)
    assert "at its power limit in 75 % of the samples" in said
    assert "generation 1" not in said  # an idle card lowers it


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pcie_width": 8}, "PCIe generation 5, 8 lanes of 16"),
        ({"throttle_reasons": None}, "the driver does not tell what held its clock back"),
        ({"throttle_reasons": ["hw_thermal_slowdown"]}, "too hot (hardware) in 100 % of the"),
        ({"throttle_reasons": ["reason_0x400"]}, "reason_0x400 in 100 %"),
        ({"xids": [79]}, "critical errors: Xid 79"),
    ],
)
def test_a_trouble_in_words(change: dict[str, Any], words: str) -> None:
    (said,) = told(gpu_row(1, **change), gpu_row(2, **change))
    assert words in said


def test_errors_count_from_the_first_sample() -> None:
    later = gpu_row(2, ecc={"corrected": 5, "uncorrected": 0}, nvlink_errors={"replay": 4})
    (said,) = told(gpu_row(1), later)
    assert "4 new NVLink errors; 3 new memory errors" in said


def test_a_pcie_link_that_changes_under_load() -> None:
    (said,) = told(gpu_row(1), gpu_row(2, pcie_gen=1))
    assert "PCIe generation 5, 16 lanes (at times generation 1, 16 lanes)" in said


def test_a_source_that_tells_little() -> None:
    assert told({"t": 1.0, "uuid": "GPU-x", "power_w": 50.0}) == []
    assert prepared(pd.DataFrame()).empty
