"""What the tables of measurements do not hold of a decode run: host, model, cost of its calls."""

from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.architecture import Architecture, read_config
from models.curve import interpolate_us, make_curve
from models.errors import InvalidSpec

# an all-reduce inside a step has work around it; an eager one is never multiplied
MODES = ("exposed", "graph", "")


class Place(Protocol):
    """Where a step was measured."""

    host_id: str
    origin: str
    study: str | None
    link: str | None


@dataclass(frozen=True)
class AllReduce:
    """What one call costs in a sweep on the same GPUs, and where that is from."""

    latency_us: float
    mode: str
    run_id: str
    is_interpolated: bool = False
    step_ms: float | None = None
    calls: int | None = None


@st.cache_data(show_spinner=False, max_entries=500)
def run_facts(_engine: Engine, run_id: str) -> dict[str, Any]:
    """What the table of measurements does not hold of a run: host, model, link, load."""
    run = runs.load(_engine, run_id)
    gpus = [gpu for gpu in run.host.get("gpus") or [] if isinstance(gpu, dict)]
    model = run.spec.get("model")
    model = model if isinstance(model, dict) else {}
    if run.spec.get("device") == "cpu":
        host = f"CPU ranks, {run.host.get('cpu_model') or 'CPU not stated'}"
    else:
        used = {str(name) for name in run.spec.get("gpus") or []}
        mine = [gpu for gpu in gpus if {str(gpu.get("uuid")), str(gpu.get("index"))} & used]
        host = str((mine or gpus or [{}])[0].get("name") or "host not stated")
        if run.host.get("interconnect"):
            host += f" over {run.host['interconnect']}"
    variant = [
        f"{name} {run.spec[name]}"
        for name in ("omp_num_threads", "cpu_affinity", "cuda_device_max_connections")
        if run.spec.get(name) is not None
    ]
    if run.spec.get("compile") is False:
        variant.append("unfused")
    elif run.spec.get("fusion") not in (None, "default"):
        variant.append(str(run.spec["fusion"]))
    return {
        "host": host,
        "host_id": str(run.host.get("hostname") or run.host.get("name") or host),
        "model": str(run.spec.get("model_name") or model.get("name") or "model not stated"),
        "config": model,
        "variant": ", ".join(variant),
        "dtype": run.spec.get("dtype"),
        "notes": [*run.reasons, *(notice.text for notice in run.warnings)],
    }


def architecture_of(config: dict[str, Any]) -> Architecture | None:
    """The architecture of a run's model where its whole config.json is known."""
    try:
        return read_config(config)
    except InvalidSpec:
        return None  # a published study may state two numbers of its model, and no more


def allreduce_of(
    engine: Engine, sweeps: pd.DataFrame, place: Place, tp: int, size: int | None
) -> AllReduce | None:
    """The cost of one message on the same host, link and number of ranks, if it was measured.

    Args:
        engine: The database.
        sweeps: Measurements of valid AllReduce runs.
        place: Where the step was measured.
        tp: Ranks.
        size: Bytes of the step's message, None where unknown.
    """
    if sweeps.empty or size is None:
        return None
    rows = sweeps[(sweeps["ranks"] == tp) & (sweeps["origin"] == place.origin)]
    best: tuple[tuple[int, bool, bool], AllReduce] | None = None
    for run_id in rows["run_id"].unique():
        own = sweeps[sweeps["run_id"] == run_id]
        study = own["study"].iloc[0] if isinstance(own["study"].iloc[0], str) else None
        # a study of somebody else's is read as its author wrote it; our own sweeps are one host's
        if study != place.study and place.origin != "measured":
            continue
        if run_facts(engine, run_id)["host_id"] != place.host_id:
            continue
        found = _cost(own, str(run_id), place, size)
        if found is None:
            continue
        rank = MODES.index(found.mode), found.is_interpolated, study != place.study
        if best is None or rank <= best[0]:  # of equals, the newest
            best = rank, found
    return best[1] if best else None


def _cost(rows: pd.DataFrame, run_id: str, place: Place, size: int) -> AllReduce | None:
    """One run's cost of the message, in the best mode that it has."""
    rows = rows[rows["statistic"].isin(["median", "value"])]
    latencies = rows[rows["metric"] == "allreduce_latency"].dropna(subset=["value", "bytes"])
    latencies = latencies[latencies["link"].fillna("") == (place.link or "")]
    at_size = rows[rows["bytes"] == size]
    for mode in MODES:
        part = latencies[latencies["mode"].fillna("") == mode]
        if part.empty or not part["bytes"].min() <= size <= part["bytes"].max():
            continue
        curve = make_curve(part["bytes"].tolist(), part["value"].tolist())
        return AllReduce(
            interpolate_us(curve, size),
            mode,
            run_id,
            size not in set(part["bytes"]),
            _single(at_size, "allreduce_step_cost"),
            _count(rows, "calls_per_step"),
        )
    return None


def _single(rows: pd.DataFrame, metric: str) -> float | None:
    values = rows.loc[rows["metric"] == metric, "value"].dropna()
    return float(values.iloc[0]) if len(values) else None


def _count(rows: pd.DataFrame, metric: str) -> int | None:
    value = _single(rows, metric)
    return None if value is None else int(value)
