"""Overview: what is here, what was last measured, what comes next."""

from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from db import hosts, jobs, runs, studies
from pages import PAGES
from pages.widgets import live_job, store
from pages.widgets.badges import badge, plain
from pages.widgets.downloads import chart, table
from pages.widgets.links import explorer_link, page_link

RECENT = 8


def render() -> None:
    """One screen: purpose, this machine, last results with a picture, three next steps."""
    st.markdown(
        "**Is a faster link between these GPUs worth its price, for this work?** "
        "Linkworth measures it, explains it, and puts a price on it."
    )
    left, right = st.columns([3, 2], gap="large")
    with left:
        _last_results()
    with right:
        _machine()
        _next_steps()
    _studies()


def _machine() -> None:
    st.subheader("This machine")
    known = hosts.list_hosts(store.engine())
    gpus = (known[0]["facts"].get("gpus") or []) if known else []
    if gpus:
        for name, count in pd.Series([gpu["name"] for gpu in gpus]).value_counts().items():
            st.markdown(f"{count} × {name}")
    elif known:
        st.markdown("No GPU was found here. CPU ranks show how everything works.")
    else:
        st.markdown("Not read yet: the worker reads it when it starts.")
    counts = jobs.counts(store.engine())
    busy = counts.get("running", 0) + counts.get("queued", 0)
    if busy:
        page_link("runs", f"{busy} jobs running or queued")


def _next_steps() -> None:
    st.subheader("Next steps")
    steps = (
        ("new-run", "Measure AllReduce on this machine", {"kind": "allreduce"}),
        ("allreduce", "See what a link costs a token: RTX 5090 against B200", {}),
        ("roi", "Weigh a purchase", {}),
        ("runs", "Look at every run and its conditions", {}),
    )
    offered = [step for step in steps if step[0] in PAGES][:3]
    for slug, label, query in offered:
        page_link(slug, label, **query)


def _last_results() -> None:
    st.subheader("Last results")
    database = store.engine()
    active = jobs.list_jobs(database, states=live_job.ACTIVE, limit=3)
    if active:
        live_job.watch([job["id"] for job in active], key="overview-live")
    here = {"origins": ["measured", "imported"], "shipped": False}
    frame = runs.list_runs(database, **here, limit=RECENT)
    if frame.empty:
        st.info(
            "Nothing was measured here yet. Below are published results; "
            "your own appear here once you start a benchmark."
        )
        page_link("new-run", "Start a benchmark", kind="allreduce")
        frame = runs.list_runs(database, kinds=["allreduce"], origins=["published"], limit=RECENT)
    _picture(database, frame)
    if not frame.empty:
        shown = pd.DataFrame(
            {
                "what": frame["title"].fillna(frame["kind"]),
                "headline": frame["headline"],
                "origin": frame["origin"].map(plain),
                "finished (UTC)": frame["finished_at"],
            }
        )
        table(shown, "last-results", f"The last {len(shown)} results")
        newest = frame.iloc[0]
        explorer_link(str(newest["kind"]), str(newest["id"]), "Explain the newest")


def _picture(database: Any, frame: pd.DataFrame) -> None:
    """Latency at the smallest messages of the newest AllReduce runs, one bar a run."""
    ids = frame.loc[frame["kind"] == "allreduce", "id"].tolist() if not frame.empty else []
    if not ids:
        return
    rows = runs.measurements(
        database, run_ids=ids, metrics=["allreduce_latency"], include_invalid=False
    )
    if rows.empty:
        return
    rows = rows[rows["statistic"].isin(["median", "value"])]
    small = rows[(rows["bytes"] - 3072).abs() == (rows["bytes"] - 3072).abs().min()]
    if small.empty:
        return
    titles = small["title"].fillna(small["run_id"].str[:8])
    data = pd.DataFrame({"run": titles, "latency (us)": small["value"]})
    data = data.groupby("run", as_index=False).median()
    size = int(small["bytes"].iloc[0])
    drawing = (
        alt.Chart(data)
        .mark_bar()
        .encode(
            x=alt.X("latency (us):Q", title=f"AllReduce latency at {size:,} B (us)"),
            y=alt.Y("run:N", title=None, sort="x", axis=alt.Axis(labelLimit=260)),
        )
    )
    low, high = data["latency (us)"].min(), data["latency (us)"].max()
    chart(
        drawing,
        "overview-allreduce",
        f"One all-reduce of {size:,} bytes takes {low:.1f} to {high:.1f} microseconds",
        data,
    )


def _studies() -> None:
    st.subheader("Studies")
    for study in studies.list_studies(store.engine()):
        with st.container(border=True):
            st.markdown(f"**{study['title']}**  {badge(study['origin'])}")
            if study.get("summary"):
                st.caption(study["summary"])
            page_link("runs", "Its runs", text=study["id"])
