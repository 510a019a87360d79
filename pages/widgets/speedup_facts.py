"""What the tables of measurements do not hold of a decode run: host, model, cost of its calls."""

from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.architecture import Architecture, parameter_count, read_config
from models.cpu_lists import compact
from models.curve import interpolate_us, make_curve
from models.errors import InvalidSpec
from models.result import Result

MOST_SWEEPS = 40
# an all-reduce inside a step has work around it; an eager one is never multiplied
MODES = ("exposed", "graph", "")
CPU_HOST = "CPU ranks"  # how the name of such a host begins


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


def facts_of(run: Result) -> dict[str, Any]:
    """What the table of measurements does not hold of a run: host, model, link, load."""
    gpus = [gpu for gpu in run.host.get("gpus") or [] if isinstance(gpu, dict)]
    model = run.spec.get("model")
    model = model if isinstance(model, dict) else {}
    if run.spec.get("device") == "cpu":
        host = f"{CPU_HOST}, {run.host.get('cpu_model') or 'CPU not stated'}"
    else:
        host = str((_used(run) or gpus or [{}])[0].get("name") or "host not stated")
        if run.host.get("interconnect"):
            host += f" over {run.host['interconnect']}"
    variant = [
        f"{name} {run.spec[name]}"
        for name in ("omp_num_threads", "cuda_device_max_connections")
        if run.spec.get(name) is not None
    ]
    if isinstance(cpus := run.spec.get("cpu_affinity"), list):
        variant.append(f"CPUs {compact(cpus)}")
    if run.spec.get("compile") is False:
        variant.append("unfused")
    elif run.spec.get("fusion") not in (None, "default"):
        variant.append(str(run.spec["fusion"]))
    arch = architecture_of(model)
    return {
        "host": host,
        "host_id": str(run.host.get("hostname") or run.host.get("name") or host),
        "model": str(run.spec.get("model_name") or model.get("name") or "model not stated"),
        "config": model,
        "architecture": arch,
        "parameters": parameter_count(arch) if arch else None,
        "variant": ", ".join(variant),
        "dtype": run.spec.get("dtype"),
        "cards": cards_of(run),
        "notes": [*run.reasons, *(notice.text for notice in run.warnings)],
    }


def cards_of(run: Result) -> frozenset[str]:
    """The UUIDs of the GPUs that a run used; empty where it does not name them."""
    return frozenset(str(gpu["uuid"]) for gpu in _used(run) if gpu.get("uuid"))


def _used(run: Result) -> list[dict[str, Any]]:
    """The GPUs of its host that a run's spec names, by UUID or index."""
    named = {str(name) for name in run.spec.get("gpus") or []}
    gpus = [gpu for gpu in run.host.get("gpus") or [] if isinstance(gpu, dict)]
    return [gpu for gpu in gpus if {str(gpu.get("uuid")), str(gpu.get("index"))} & named]


def architecture_of(config: dict[str, Any]) -> Architecture | None:
    """The architecture of a run's model where its whole config.json is known."""
    try:
        return read_config(config)
    except InvalidSpec:
        return None  # a published study may state two numbers of its model, and no more


@st.cache_resource(show_spinner=False, max_entries=32)
def sweeps(
    _engine: Engine, version: str, host_id: str, origin: str, study: str | None
) -> pd.DataFrame:
    """The newest AllReduce sweeps that may say what a call costs on a host: to be read only.

    Args:
        _engine: The database.
        version: Of its runs, see `db.runs.version`: rows are kept as long as it is the same.
        host_id: Where the step was measured.
        origin: Of the step.
        study: A study of somebody else's is read as its author wrote it; ours are one host's.
    """
    wanted: dict[str, Any] = {
        "kinds": ["allreduce"],
        "origins": [origin],
        "validities": ["valid", "suspect"],
        "limit": MOST_SWEEPS,
    }
    listed = runs.list_runs(_engine, **wanted, hosts=[host_id])
    if listed.empty:  # a host without a name of its own is told by what its runs say
        listed = runs.list_runs(_engine, **wanted, study=study)
    if origin != "measured":
        is_same = listed["study"].isna() if study is None else listed["study"] == study
        listed = listed[is_same]
    heads = runs.heads(_engine, list(listed["id"]))
    cards = {
        run_id: cards_of(run)
        for run_id, run in heads.items()
        if facts_of(run)["host_id"] == host_id
    }
    found = runs.measurements(
        _engine,
        run_ids=cards,
        metrics=["allreduce_latency", "allreduce_step_cost", "calls_per_step"],
        statistics=["median", "value"],
    )
    return found.assign(cards=found["run_id"].map(cards))


def allreduce_of(
    rows: pd.DataFrame, place: Place, cards: frozenset[str], tp: int, size: int
) -> AllReduce | None:
    """The cost of one message on the same GPUs, link and number of ranks, if it was measured.

    Args:
        rows: From `sweeps`.
        place: Where the step was measured.
        cards: UUIDs of the step's GPUs; where a side does not name them, the host must do.
        tp: Ranks.
        size: Bytes of the step's message.
    """
    of_these = rows["cards"].map(lambda own: not own or not cards or own == cards)
    rows = rows[(rows["ranks"] == tp) & of_these.astype(bool)]
    latencies = rows[rows["metric"] == "allreduce_latency"].dropna(subset=["value", "bytes"])
    latencies = latencies[latencies["link"].fillna("") == (place.link or "")]
    for mode in MODES:
        part = latencies[latencies["mode"].fillna("") == mode]
        found = _best(part, place, size)
        if found is None:
            continue
        own = part[part["run_id"] == found]
        curve = make_curve(own["bytes"].tolist(), own["value"].tolist())
        of_run = rows[rows["run_id"] == found]
        return AllReduce(
            interpolate_us(curve, size),
            mode,
            found,
            size not in set(own["bytes"]),
            _single(of_run[of_run["bytes"] == size], "allreduce_step_cost"),
            _count(of_run, "calls_per_step"),
        )
    return None


def _best(latencies: pd.DataFrame, place: Place, size: int) -> str | None:
    """The run that covers the message: with the very size, of the same study, the newest."""
    best: tuple[tuple[bool, bool], str] | None = None
    for run_id, own in latencies.groupby("run_id", sort=False):
        sizes = own["bytes"]
        if not sizes.min() <= size <= sizes.max():
            continue
        study = own["study"].iloc[0] if isinstance(own["study"].iloc[0], str) else None
        rank = not (sizes == size).any(), study != place.study
        if best is None or rank <= best[0]:
            best = rank, str(run_id)
    return best[1] if best else None


def _single(rows: pd.DataFrame, metric: str) -> float | None:
    values = rows.loc[rows["metric"] == metric, "value"].dropna()
    return float(values.iloc[0]) if len(values) else None


def _count(rows: pd.DataFrame, metric: str) -> int | None:
    value = _single(rows, metric)
    return None if value is None else int(value)
