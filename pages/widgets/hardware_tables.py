"""Tables of the Hardware page: GPUs, host and variables, and what stands out."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from db import hosts, runs
from db.engine import Engine
from models.host_findings import Finding, pcie_gb_s
from models.host_report import product
from models.result import Gpu, Result
from pages.widgets import pcie_load, store
from pages.widgets.downloads import table
from pages.widgets.plain import plain

_LOADING_KINDS = ("p2p", "allreduce", "decode", "serving", "soak")


def under_load(result: Result) -> dict[str, dict[str, int]]:
    """GPU UUID -> widest and fastest PCIe link seen while it worked, from stored telemetry."""
    wanted = tuple(sorted(gpu.uuid for gpu in result.gpus or [] if gpu.uuid))
    if not wanted:
        return {}
    engine = store.engine()
    return _under_load(engine, runs.version(engine), hosts.host_id(result.host), wanted)


@st.cache_data(show_spinner=False, max_entries=50)
def _under_load(
    _engine: Engine, version: str, host: str | None, wanted: tuple[str, ...]
) -> dict[str, dict[str, int]]:
    """Of the newest runs of the host; ``version`` is that of the runs, for the cache."""
    found: dict[str, dict[str, int]] = {}
    listed = runs.list_runs(
        _engine,
        kinds=_LOADING_KINDS,
        origins=["measured"],
        hosts=None if host is None else [host],
        limit=12,
    )
    for run_id in listed["id"]:
        for uuid, now in pcie_load.seen(runs.telemetry(_engine, str(run_id))).items():
            if uuid in wanted:
                before = found.setdefault(uuid, now)
                before.update({key: max(before[key], now[key]) for key in now})
    return found


def gpu_frame(gpus: Sequence[Gpu], loaded: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row a GPU; columns that nothing is known of are left out."""
    rows = [_gpu_row(gpu, loaded.get(gpu.uuid or "", {})) for gpu in gpus]
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def _gpu_row(gpu: Gpu, loaded: Mapping[str, Any]) -> dict[str, Any]:
    facts = gpu.facts
    memory, used = facts.get("memory_bytes"), facts.get("memory_used_bytes")
    ecc = facts.get("ecc") or {}
    return {
        "GPU": gpu.index,
        "card": product(gpu),
        "memory (GB)": None if memory is None else memory / 1e9,
        "in use (GB)": None if used is None else used / 1e9,
        "NVLinks active": _links(facts),
        "rate a link (GB/s)": facts.get("gb_s_per_link"),
        "power cap (W)": facts.get("power_limit_w"),
        "power (W)": facts.get("power_w"),
        "SM clock (MHz)": facts.get("sm_clock_mhz"),
        "SM clock max (MHz)": facts.get("sm_clock_max_mhz"),
        "memory clock (MHz)": facts.get("mem_clock_mhz"),
        "memory clock max (MHz)": facts.get("mem_clock_max_mhz"),
        "temperature (°C)": facts.get("temperature_c"),
        "PCIe when read": _slot(facts.get("pcie_gen"), facts.get("pcie_width")),
        "PCIe under load": _slot(loaded.get("pcie_gen"), loaded.get("pcie_width")),
        "PCIe at most": _slot(facts.get("pcie_gen_max"), facts.get("pcie_width_max")),
        "uncorrected ECC errors": ecc.get("uncorrected"),
        "NUMA node": gpu.numa,
        "CPUs": gpu.cpus,
        "driver": facts.get("driver"),
        "compute capability": facts.get("compute_capability"),
        "UUID": gpu.uuid,
    }


def _slot(generation: int | None, width: int | None) -> str | None:
    if generation is None or width is None:
        return None
    ceiling = pcie_gb_s(generation, width)
    return f"gen {generation} x{width}" + (f" ({ceiling:.1f} GB/s)" if ceiling else "")


def _links(facts: Mapping[str, Any]) -> str | None:
    active, total = facts.get("links_active"), facts.get("links_total")
    if active is None:
        return None
    return f"{active} of {total}" if total is not None else str(active)


def gpus(result: Result, loaded: Mapping[str, Mapping[str, Any]]) -> None:
    """The table of GPUs."""
    frame = gpu_frame(result.gpus or [], loaded)
    cards = ", ".join(sorted({product(gpu) or "cards not named" for gpu in result.gpus or []}))
    table(
        frame,
        "gpus",
        f"{len(frame)} GPUs: {cards}",
        column_config={
            name: st.column_config.NumberColumn(format="%.1f")
            for name in ("memory (GB)", "in use (GB)", "power cap (W)", "power (W)")
        },
    )
    if "PCIe when read" in frame and "PCIe under load" not in frame:
        st.caption(
            "An idle GPU lowers its PCIe generation. Under load it is known after the first run "
            "on this machine."
        )


def show_findings(found: Sequence[Finding]) -> None:
    """What stands out, what it means, what to do: a box for each problem, a list of notes."""
    for one in found:
        if one.severity == "problem":
            st.warning(_words(one))
    notes = [one for one in found if one.severity != "problem"]
    if notes:
        st.markdown("\n".join(f"- {_words(one)}" for one in notes))


def _words(one: Finding) -> str:
    # names of cards in them come from the driver, or from what somebody pasted
    step = f" **Next:** {plain(one.next_step, 1000)}" if one.next_step else ""
    return f"**{plain(one.sentence, 1000)}** {plain(one.meaning, 1000)}{step}"


def show_notices(result: Result, found: Sequence[Finding]) -> None:
    """Warnings that came with the reading and are not among the findings."""
    told = {one.code for one in found}
    for notice in result.warnings:
        if notice.code not in told:
            st.warning(plain(notice.text, 1000))


def host(result: Result) -> None:
    """CPU, memory, versions, and the variables that change speed."""
    facts, environment = result.host, result.environment
    memory = facts.get("memory_bytes")
    versions = " · ".join(
        f"{name} {environment[key]}"
        for name, key in (("Python", "python"), ("torch", "torch"), ("NCCL", "nccl"))
        if environment.get(key)
    )
    rows = {
        "CPU": facts.get("cpu_model"),
        "CPUs seen": facts.get("cores"),
        "physical cores": facts.get("physical_cores"),
        "NUMA nodes": facts.get("numa_nodes"),
        "memory": None if memory is None else f"{memory / 1e9:.0f} GB",
        "network cards in the link table": result.nics,
        "system": facts.get("os"),
        "kernel": facts.get("kernel"),
        "driver": facts.get("driver"),
        "CUDA": facts.get("cuda"),
        "versions": versions or None,
        "second source of links": environment.get("second_source"),
    }
    known = {name: str(value) for name, value in rows.items() if value is not None}
    if known:
        frame = pd.DataFrame({"what": list(known), "value": list(known.values())})
        table(frame, "host", f"{len(frame)} facts on the host")
    else:
        st.caption("The pasted text says nothing of the host's CPU and memory.")
    variables = environment.get("variables") or {}
    if variables:
        frame = pd.DataFrame({"variable": list(variables), "value": list(variables.values())})
        table(frame, "variables", f"{len(frame)} environment variables that change speed")
