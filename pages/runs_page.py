"""Runs: what ran, is it valid, and where is the raw data."""

import pandas as pd
import streamlit as st

from db import jobs, runs
from pages.widgets import live_job, run_detail, store
from pages.widgets.badges import plain, plain_validity
from pages.widgets.downloads import table
from pages.widgets.links import page_link

KINDS = ("allreduce", "collective", "decode", "serving", "engine", "soak", "p2p", "topology")
ORIGINS = ("measured", "imported", "published", "described", "predicted", "assumed")
VALIDITIES = ("valid", "suspect", "invalid")
PAGE_SIZE = 100


def render() -> None:
    """List, filter, open, download and delete runs; watch the queue."""
    deleted = st.session_state.pop("runs-deleted", None)
    if deleted:
        st.success(f"Run {deleted} was deleted.")
    _queue()
    _list()
    chosen = st.query_params.get("run")
    if chosen:
        st.divider()
        if st.button("Close this run", key="runs-close", icon=":material/close:"):
            del st.query_params["run"]
            st.session_state["runs-table-generation"] = _generation() + 1
            st.rerun()
        run_detail.render(chosen)


def _generation() -> int:
    return int(st.session_state.get("runs-table-generation", 0))


def _queue() -> None:
    active = jobs.list_jobs(store.engine(), states=live_job.ACTIVE, limit=20)
    if active:
        st.subheader("Queue")
        live_job.watch([job["id"] for job in active], key="runs-queue")
    ended = jobs.list_jobs(store.engine(), states=("failed", "timed_out", "lost", "cancelled"))
    without_run = [job for job in ended if not job["run_id"]][:10]
    if without_run:
        with st.expander(f"Jobs that ended without a run ({len(without_run)})"):
            frame = pd.DataFrame(without_run)[
                ["title", "kind", "state", "reason", "created_at", "id"]
            ]
            table(frame, "ended-jobs", f"{len(frame)} jobs ended without a run")


def _list() -> None:
    database = store.engine()
    text, kind, origin, validity = st.columns([3, 2, 2, 2])
    filters = {
        "text": text.text_input("Search", key="text", bind="query-params") or None,
        "kinds": kind.multiselect("Kind", KINDS, key="kind", bind="query-params") or None,
        "origins": origin.multiselect("Origin", ORIGINS, key="origin", bind="query-params") or None,
        "validities": validity.multiselect(
            "Validity", VALIDITIES, key="validity", bind="query-params"
        )
        or None,
    }
    total = runs.count(database, **filters)
    if total == 0:
        if any(filters.values()):
            st.info("No run fits these filters. Clear one of them.")
        else:
            st.info("Nothing has run yet and no study is loaded. Start a benchmark first.")
            page_link("new-run", "Start a benchmark")
        return
    last = (total - 1) // PAGE_SIZE + 1
    number = 1
    if last > 1:
        number = int(st.number_input("Page", 1, last, key="page", bind="query-params", width=140))
    frame = runs.list_runs(database, **filters, limit=PAGE_SIZE, offset=(number - 1) * PAGE_SIZE)
    shown = pd.DataFrame(
        {
            "what": frame["title"].fillna(frame["kind"]),
            "kind": frame["kind"],
            "headline": frame["headline"],
            "origin": frame["origin"].map(plain),
            "validity": frame["validity"].map(plain_validity),
            "study": frame["study"],
            "arm": frame["arm"],
            "tool": frame["tool"],
            "started": frame["started_at"],
            "id": frame["id"],
        }
    )
    words = "run" if total == 1 else "runs"
    st.caption(f"{total} {words}. Select a row to open it.")
    event = st.dataframe(
        shown,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=f"runs-table-{_generation()}",
        alt=f"{total} {words}, newest first",
        column_config={"started": st.column_config.DatetimeColumn("started (UTC)")},
    )
    st.download_button(
        "CSV",
        data=lambda: runs.list_runs(database, **filters, limit=100_000).to_csv(index=False),
        file_name="linkworth-runs.csv",
        mime="text/csv",
        key="runs-csv",
        on_click="ignore",
        type="tertiary",
        icon=":material/download:",
    )
    rows = event.selection.rows
    if rows:
        # a position means another run once a new one lands on top: turn it into an id at once
        st.query_params["run"] = str(frame["id"].iloc[rows[0]])
