"""Runs: what ran, is it valid, and where is the raw data; import, compare, take along."""

import pandas as pd
import streamlit as st

from db import jobs, runs
from db.engine import Engine
from models.errors import NotFound
from models.step_clocks import told
from pages.widgets import bundle_panel, compare_panel, import_panel, live_job, run_detail, store
from pages.widgets.badges import plain
from pages.widgets.downloads import table
from pages.widgets.links import page_link
from pages.widgets.runs_list import render as runs_list
from settings import settings

# code (stands in the URL) -> words
VIEWS = {"list": "All runs", "import": "Import", "compare": "Compare", "bundle": "Take along"}
_MOST_ASKED = 50  # of a URL: each may have to be looked for
MOST_OFFERED = 200  # newest runs in the choice of what to compare
_VIEW, _COMPARED = "runs-view", "runs-compared"


def render() -> None:
    """List, filter, open, import, compare and delete runs; watch the queue."""
    deleted = st.session_state.pop("runs-deleted", None)
    if deleted:
        st.success(f"Run {deleted} was deleted.")
    engine = store.engine()
    view = _view()
    if view == "import":
        _import(engine)
    elif view == "compare":
        _compare(engine)
    elif view == "bundle":
        bundle_panel.render(engine)
    else:
        _queue(engine)
        runs_list(engine)
        _one_run()
    if view in ("import", "bundle"):
        page_link("method", "What is read, and what is never guessed", topic="importing")
    else:
        page_link("method", "How runs are judged and compared", topic="statistics")


def _view() -> str:
    """The view that the URL names: ``?view=compare``; a click changes the URL first."""
    asked = st.query_params.get("view")
    st.session_state[_VIEW] = asked if asked in VIEWS else "list"
    return str(
        st.segmented_control(
            "View",
            list(VIEWS),
            format_func=VIEWS.__getitem__,
            required=True,
            key=_VIEW,
            on_change=_view_to_url,
            label_visibility="collapsed",
        )
    )


def _view_to_url() -> None:
    chosen = st.session_state[_VIEW]
    if chosen == "list":
        st.query_params.pop("view", None)
    else:
        st.query_params["view"] = chosen


def _one_run() -> None:
    chosen = st.query_params.get("run")
    if not chosen:
        return
    st.divider()
    if st.button("Close this run", key="runs-close", icon=":material/close:"):
        del st.query_params["run"]
        st.session_state["runs-table-generation"] = (
            int(st.session_state.get("runs-table-generation", 0)) + 1
        )
        st.rerun()
    run_detail.render(chosen)


def _queue(engine: Engine) -> None:
    active = jobs.list_jobs(engine, states=live_job.ACTIVE, limit=20)
    if active:
        st.subheader("Queue")
        live_job.watch([job["id"] for job in active], key="runs-queue")
    ended = jobs.list_jobs(engine, states=("failed", "timed_out", "lost", "cancelled"))
    without_run = [job for job in ended if not job["run_id"]][:10]
    if without_run:
        with st.expander(f"Jobs that ended without a run ({len(without_run)})"):
            frame = pd.DataFrame(without_run)[
                ["title", "kind", "state", "reason", "created_at", "id"]
            ]
            frame = frame.assign(reason=frame["reason"].map(told, na_action="ignore"))
            table(frame, "ended-jobs", f"{len(frame)} jobs ended without a run")


def _import(engine: Engine) -> None:
    if settings().read_only:
        st.info("This is a demo: it imports nothing. Run your own Linkworth to read your files.")
        return
    import_panel.render(engine)


def _compare(engine: Engine) -> None:
    """Runs side by side; ``?runs=id,id`` chooses them, the first is the base."""
    words = {
        str(row.id): _words(row) for row in runs.list_runs(engine, limit=MOST_OFFERED).itertuples()
    }
    asked = [part for part in st.query_params.get("runs", "").split(",") if part][:_MOST_ASKED]
    for run_id in asked:
        words.setdefault(run_id, _older(engine, run_id))
    st.session_state[_COMPARED] = list(dict.fromkeys(asked))
    picked: list[str] = st.multiselect(
        "Runs, the first is what the others are held against",
        list(words),
        format_func=words.__getitem__,
        key=_COMPARED,
        on_change=_compared_to_url,
        placeholder="Choose two or more runs",
    )
    compare_panel.render(engine, picked)


def _compared_to_url() -> None:
    st.query_params["runs"] = ",".join(st.session_state[_COMPARED])


def _older(engine: Engine, run_id: str) -> str:
    """A run that the URL names and the newest do not hold."""
    try:
        run = runs.load(engine, run_id)
    except NotFound:
        return f"{run_id[:8]} (deleted)"
    return f"{run.title or run.kind} · {plain(run.origin)}"


def _words(row: object) -> str:
    title = getattr(row, "title", None) or getattr(row, "kind", "")
    arm = getattr(row, "arm", None)
    moment = getattr(row, "finished_at", None)
    when = f"{moment:%Y-%m-%d %H:%M}" if pd.notna(moment) else ""
    parts = (title, arm if arm and arm not in str(title) else "", when, plain(row.origin))  # type: ignore[attr-defined]
    return " · ".join(str(part) for part in parts if part)
