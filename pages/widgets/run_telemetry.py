"""What the machine did while a run lasted: readings over time, and facts that numbers hide."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from db import runs
from pages.widgets import store
from pages.widgets.downloads import chart

# column -> axis title
READINGS = {
    "sm_clock_mhz": "SM clock (MHz)",
    "mem_clock_mhz": "Memory clock (MHz)",
    "power_w": "Power (W)",
    "temperature_c": "Temperature (°C)",
    "utilization_pct": "Utilisation (%)",
    "memory_gb": "Memory in use (GB)",
    "cpu_pct": "CPU load (%)",
    "cpu_mhz": "CPU clock (MHz)",
    "load_1min": "Load average, 1 min",
}
# NVML's names of what holds a clock back; a name that is missing here is shown as it is
HELD_BACK = {
    "sw_power_cap": "at its power limit",
    "hw_slowdown": "slowed down by its hardware",
    "sync_boost": "kept at the pace of its group",
    "sw_thermal_slowdown": "too hot",
    "hw_thermal_slowdown": "too hot (hardware)",
    "hw_power_brake_slowdown": "told to slow down by the power supply",
    "applications_clocks_setting": "at a clock that somebody set",
    "display_clock_setting": "at a clock for its display",
}
_IDLE = "gpu_idle"
_BUSY_PCT = 20


def render(run_id: str) -> None:
    """Draw the section; nothing where no telemetry was sampled."""
    frame = prepared(runs.telemetry(store.engine(), run_id))
    known = [name for name in READINGS if name in frame and frame[name].notna().any()]
    if frame.empty or not known:
        return
    with st.expander("Telemetry while it ran"):
        for sentence in facts(frame):
            st.markdown(f"- {sentence}")
        name = st.selectbox("Reading", known, format_func=READINGS.__getitem__, key="run-telemetry")
        shown = frame[["seconds", "device", name]].dropna()
        drawing = (
            alt.Chart(shown)
            .mark_line()
            .encode(
                x=alt.X("seconds:Q", title="Time since start (s)"),
                y=alt.Y(f"{name}:Q", title=READINGS[name], scale=alt.Scale(zero=False)),
                color=alt.Color("device:N", title="Device"),
                strokeDash=alt.StrokeDash("device:N", title="Device"),
            )
        )
        low, high = shown[name].min(), shown[name].max()
        chart(
            drawing,
            f"telemetry-{name}",
            f"{READINGS[name]} ranged from {low:.4g} to {high:.4g} while the run lasted",
            shown,
            key=f"telemetry-{name}",
        )


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Telemetry rows with ``device`` (words), ``seconds`` since the first, and ``memory_gb``."""
    if frame.empty or "t" not in frame:
        return pd.DataFrame()
    rows = frame.assign(seconds=frame["t"] - frame["t"].min(), device="CPU")
    if "uuid" in rows:
        index = rows["index"] if "index" in rows else pd.Series(None, rows.index, dtype=object)
        names = [
            "CPU" if pd.isna(uuid) else f"GPU {uuid if pd.isna(number) else int(number)}"
            for uuid, number in zip(rows["uuid"], index, strict=True)
        ]
        rows["device"] = names
    if "memory_used_bytes" in rows:
        rows["memory_gb"] = pd.to_numeric(rows["memory_used_bytes"]) / 1e9
    return rows


def facts(frame: pd.DataFrame) -> list[str]:
    """A sentence a GPU: its PCIe link, what held its clock back, errors that were counted."""
    found = []
    for device, rows in frame.groupby("device", sort=True):
        if device == "CPU":
            continue
        busy = rows
        if "utilization_pct" in rows and (rows["utilization_pct"] >= _BUSY_PCT).any():
            busy = rows[rows["utilization_pct"] >= _BUSY_PCT]
        parts = [*_pcie(busy), *_held_back(busy), *_errors(rows)]
        if parts:
            found.append(f"**{device}**: " + "; ".join(parts) + ".")
    return found


def _pcie(busy: pd.DataFrame) -> list[str]:
    """Generation and width while it worked: an idle card lowers both."""
    if not {"pcie_gen", "pcie_width"} <= set(busy):
        return []
    seen = busy[["pcie_gen", "pcie_width"]].dropna().astype(int)
    if seen.empty:
        return []
    best = seen.max()
    words = f"PCIe generation {best['pcie_gen']}, {best['pcie_width']} lanes"
    widest = busy["pcie_width_max"].dropna() if "pcie_width_max" in busy else []
    if len(widest) and best["pcie_width"] < int(max(widest)):
        words += f" of {int(max(widest))}"
    if (seen != best).any(axis=None):
        low = seen.min()
        words += f" (at times generation {low['pcie_gen']}, {low['pcie_width']} lanes)"
    return [words]


def _held_back(busy: pd.DataFrame) -> list[str]:
    if "throttle_reasons" not in busy:
        return []
    told = [names for names in busy["throttle_reasons"] if isinstance(names, list)]
    if not told:
        return ["the driver does not tell what held its clock back"]
    counts: dict[str, int] = {}
    for names in told:
        for name in set(names) - {_IDLE}:
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        return ["nothing held its clock back"]
    return [
        f"{HELD_BACK.get(name, name)} in {count / len(told) * 100:.0f} % of the samples"
        for name, count in sorted(counts.items(), key=lambda item: -item[1])
    ]


def _errors(rows: pd.DataFrame) -> list[str]:
    found = []
    for column, words in (("nvlink_errors", "NVLink errors"), ("ecc", "memory errors")):
        counts = [_sum(value) for value in rows[column]] if column in rows else []
        known = [count for count in counts if count is not None]
        if known and known[-1] > known[0]:
            found.append(f"{known[-1] - known[0]} new {words}")
    if "xids" in rows:
        xids = {xid for told in rows["xids"] if isinstance(told, list) for xid in told}
        if xids:
            found.append("critical errors: Xid " + ", ".join(str(xid) for xid in sorted(xids)))
    return found


def _sum(counters: Any) -> int | None:
    if not isinstance(counters, Mapping):
        return None
    known = [int(count) for count in counters.values() if count is not None]
    return sum(known) if known else None
