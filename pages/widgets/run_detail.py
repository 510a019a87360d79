"""One run: what it says, under which conditions, its raw files, and its end."""

import json
from typing import Any

import pandas as pd
import streamlit as st

from db import runs
from models import result as result_shape
from models.errors import LinkworthError
from models.metrics import METRICS
from models.result import Result
from models.step_clocks import told
from models.step_clocks import words as clock_words
from pages.widgets import run_telemetry, store
from pages.widgets.badges import badge
from pages.widgets.downloads import table
from pages.widgets.links import explorer_link
from pages.widgets.plain import plain
from settings import settings

_OF_EACH = ("metric", "statistic", "value", "low", "high", "unit", "n", "round", "definition")


def measurement_frame(run: Result) -> pd.DataFrame:
    """The measurements as people read them: metric in words, unit beside each value."""
    rows = [
        {
            "metric": METRICS[row.metric].label,
            "statistic": row.statistic,
            "value": row.value,
            "low": row.low,
            "high": row.high,
            "unit": row.unit,
            "n": row.n,
            "round": row.round,
            **row.dims,
            "definition": row.definition,
        }
        for row in run.measurements
    ]
    return pd.DataFrame(rows).dropna(axis="columns", how="all") if rows else pd.DataFrame()


def _in_order(frame: pd.DataFrame) -> list[str]:
    """Columns as a narrow screen needs them: what tells rows apart stands beside their metric."""
    names = [str(name) for name in frame]
    varying = [
        name for name in names if name not in _OF_EACH and frame[name].nunique(dropna=False) > 1
    ]
    figures = [name for name in _OF_EACH[1:-1] if name in names]
    rest = [name for name in names if name not in {*_OF_EACH, *varying}]
    return ["metric", *varying, *figures, *rest, "definition"]


def render(run_id: str) -> None:
    """Draw everything that is known of one run."""
    database = store.engine()
    run = runs.load(database, run_id)
    st.subheader(plain(run.title) or f"{run.kind} run")
    st.markdown(badge(run.origin, run.validity))
    for reason in run.reasons:
        st.warning(plain(told(reason), 1000))
    if run.validity == "invalid":
        st.caption("An invalid run is shown, and never enters a comparison or the money.")
    for notice in run.warnings:
        st.caption(f"⚠ {plain(told(notice.text), 1000)}")
    left, right = st.columns(2)
    with left:
        explorer_link(run.kind, run_id)
    frame = measurement_frame(run)
    if frame.empty:
        st.info("This run holds no measurement; its conditions below say what was tried.")
    else:
        shown = frame
        if "clock" in frame:
            shown = frame.assign(clock=frame["clock"].map(clock_words, na_action="ignore"))
        words = f"{len(frame)} measurements of this run"
        table(
            shown,
            f"run-{run_id[:8]}",
            words,
            key="run-values",
            column_order=_in_order(shown),
            file=frame,
        )
    with right:
        st.download_button(
            "Result as JSON",
            data=lambda: json.dumps(result_shape.dump(run), indent=1),
            file_name=f"linkworth-{run.kind}-{run_id[:8]}.json",
            mime="application/json",
            key="run-json",
            on_click="ignore",
        )
    _conditions(run)
    run_telemetry.render(run_id)
    _files(run_id)
    may_delete = run.origin != "published" and not settings().read_only
    if may_delete and st.button("Delete this run …", key="run-delete"):
        _confirm_delete(run_id, run.title or run.kind)


def _conditions(run: Result) -> None:
    with st.expander("Conditions", expanded=False):
        st.caption(
            "What the number depends on: the request, the machine, the versions and variables."
        )
        facts: dict[str, Any] = {
            "run": run_id_words(run),
            "spec": run.spec,
            "host": run.host,
            "environment": run.environment,
        }
        if run.said:
            st.markdown("Filled in by a person at import, not read from the file:")
            st.json(run.said)
        st.json(facts, expanded=1)


def run_id_words(run: Result) -> dict[str, Any]:
    """Identity, tool and times of a run."""
    return {
        "id": run.id,
        "tool": f"{run.tool.name} {run.tool.version or '(version not stated)'}",
        "started": run.started_at.isoformat() if run.started_at else None,
        "finished": run.finished_at.isoformat() if run.finished_at else None,
        "study": run.study,
        "evaluation": run.evaluation.model_dump() if run.evaluation else None,
    }


def _files(run_id: str) -> None:
    files = runs.raw(store.engine(), run_id)
    if not files:
        return
    with st.expander("Raw files"):
        st.caption("As they were produced or uploaded, secrets removed; the hash proves it.")
        for position, file in enumerate(files):
            left, right = st.columns([4, 1])
            left.markdown(f"{plain(file['name'])}  SHA-256 `{file['sha256']}`")
            right.download_button(
                "Download",
                data=file["data"],
                file_name=file["name"],
                key=f"run-file-{position}",
                on_click="ignore",
            )


@st.dialog("Delete this run?")
def _confirm_delete(run_id: str, title: str) -> None:
    st.markdown(
        f"**{plain(title)}** (`{run_id}`), its samples, telemetry and raw files will be deleted."
    )
    st.caption("Nothing else is touched. Download its JSON first if you may need it.")
    if st.button("Delete", type="primary", key="run-delete-yes"):
        try:
            delete(run_id)
        except LinkworthError as error:  # locked, or somebody else was faster
            store.show_error(error)
            return
        st.rerun()


def delete(run_id: str) -> None:
    """Delete one run and leave its page."""
    store.refuse_read_only()
    runs.delete(store.engine(), run_id)
    if st.query_params.get("run") == run_id:
        del st.query_params["run"]
    st.session_state["runs-deleted"] = run_id
