"""What the AllReduce explorer has worked out, kept while the runs are the same. Only to be read."""

import pandas as pd
import streamlit as st

from db import reference, runs
from db.engine import Engine
from models.reference import Reference, references
from pages.widgets.allreduce_curves import METRICS, Explained, curve_points, explain


@st.cache_resource(show_spinner=False, max_entries=16)
def curves(
    _engine: Engine, version: str, run_ids: tuple[str, ...]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Measurements of some runs, and the points of their curves.

    Args:
        _engine: The database.
        version: Of its runs, see `db.runs.version`.
        run_ids: The runs, in the order in which they were chosen.
    """
    measured = runs.measurements(_engine, run_ids=run_ids, metrics=METRICS)
    return measured, curve_points(measured) if not measured.empty else pd.DataFrame()


def n_sizes(engine: Engine, version: str, run_ids: tuple[str, ...]) -> dict[str, int]:
    """How many message sizes each of some runs has; a run without latencies is left out."""
    _, points = curves(engine, version, run_ids)
    return {} if points.empty else points.groupby("run_id")["bytes"].nunique().to_dict()


@st.cache_resource(show_spinner=False, max_entries=200)
def explained(
    _engine: Engine, version: str, run_ids: tuple[str, ...], code: str, with_intervals: bool
) -> Explained:
    """One of those curves with its fit; the intervals need all samples of its run."""
    measured, points = curves(_engine, version, run_ids)
    samples = []
    if with_intervals:
        run_id = str(points.loc[points["code"] == code, "run_id"].iloc[0])
        samples = runs.samples(_engine, run_id, metric="allreduce_latency")
    return explain(points, measured, code, samples)


@st.cache_resource(show_spinner=False, max_entries=64)
def references_of(gpu_name: str, ranks: int) -> list[Reference]:
    """What other people's hosts with this card reach."""
    return references(reference.allreduce_reference(), gpu_name, ranks)
