"""Raw values behind the figures of an arm, kept while the runs are the same. Only to be read."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.serving import ecdf
from pages.widgets.serving_arms import CELL, Arm, Cell, cell_of

MOST_MARKS = 600


def samples_of(engine: Engine, arm: Arm, metric: str, cell: Cell) -> list[dict[str, Any]]:
    """Raw values of an arm's workload, one item a round; ``run`` names the run it is of."""
    version = runs.version(engine)
    return [
        item
        for run_id in arm.run_ids
        for item in _by_cell(engine, version, run_id, metric).get(cell, ())
    ]


# two arms, four metrics and a few more: one round may hold 41,000 gaps between tokens
@st.cache_resource(show_spinner=False, max_entries=12)
def _by_cell(
    _engine: Engine, version: str, run_id: str, metric: str
) -> Mapping[Cell, list[dict[str, Any]]]:
    found: dict[Cell, list[dict[str, Any]]] = {}
    for item in runs.samples(_engine, run_id, metric=metric):
        if not item["dims"].get("phase"):
            row = pd.Series({name: item["dims"].get(name) for name in CELL})
            found.setdefault(cell_of(row), []).append({**item, "run": run_id})
    return found


def distribution(
    engine: Engine, arm: Arm, metric: str, cell: Cell
) -> tuple[pd.DataFrame, float] | None:
    """All rounds pooled: columns value and share (at or below), at most ``MOST_MARKS``; and P99.

    None where the arm has no samples of the metric there.
    """
    return _distribution(engine, runs.version(engine), arm, metric, cell)


@st.cache_data(show_spinner=False, max_entries=64)
def _distribution(
    _engine: Engine, version: str, arm: Arm, metric: str, cell: Cell
) -> tuple[pd.DataFrame, float] | None:
    items = samples_of(_engine, arm, metric, cell)
    values = np.concatenate([item["values"] for item in items]) if items else np.empty(0)
    if not values.size:
        return None
    x, share = ecdf(values)
    keep = np.unique(np.linspace(0, x.size - 1, min(x.size, MOST_MARKS)).astype(int))
    return pd.DataFrame({"value": x[keep], "share": share[keep]}), float(np.percentile(values, 99))


def telemetry_of(engine: Engine, arm: Arm) -> list[pd.DataFrame]:
    """Telemetry of each run of an arm that has any."""
    version = runs.version(engine)
    found = (_telemetry(engine, version, run_id) for run_id in arm.run_ids)
    return [rows for rows in found if len(rows)]


@st.cache_resource(show_spinner=False, max_entries=12)
def _telemetry(_engine: Engine, version: str, run_id: str) -> pd.DataFrame:
    return runs.telemetry(_engine, run_id)
