"""Overview: what is here, what was last measured, what comes next."""

import altair as alt
import pandas as pd
import streamlit as st

from db import hosts, jobs, runs, studies
from db.engine import Engine
from pages import PAGES
from pages.charts import theme
from pages.widgets import live_job, overview_picture, store, this_machine
from pages.widgets.badges import badge, plain
from pages.widgets.downloads import chart, table
from pages.widgets.links import EXPLORERS, page_link
from pages.widgets.overview_picture import Picture
from pages.widgets.plain import plain as as_text

RECENT = 30
SHOWN = 4
MOST_RUNS = 6  # of a study, in one link
OWN = ["measured", "imported"]
_NEAREST = ("serving", "decode", "allreduce", "p2p", "topology")
# what the drawn quantity is to somebody who meets it here first
_MEANS = {
    "allreduce": "GPUs that share a model add up their parts twice a layer: one all-reduce each.",
    "decode": "One decode step makes the next token of every request.",
    "serving": "Tokens a second that a served model gives all its users together.",
}


def render() -> None:
    """One screen: purpose, last results with a picture, this machine, three next steps."""
    st.markdown(
        "**Is a faster link between these GPUs worth its price, for this work?** "
        "Linkworth measures it, explains it, and puts a price on it."
    )
    engine = store.engine()
    own = runs.list_runs(engine, origins=OWN, shipped=False, limit=RECENT)
    shipped = runs.list_runs(engine, shipped=True)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _results(engine, own, shipped)
    with right:
        _machine(engine)
        _next_steps(own, shipped)
    _studies(engine, shipped)


def _results(engine: Engine, own: pd.DataFrame, shipped: pd.DataFrame) -> None:
    active = jobs.list_jobs(engine, states=live_job.ACTIVE, limit=3)
    if active:
        live_job.watch([job["id"] for job in active], key="overview-live")
    if own.empty:
        st.subheader("A measured example")
        found = overview_picture.newest(engine, shipped, compares=True)
        found = found or overview_picture.newest(engine, shipped)
        if found is None:
            st.info("Nothing was measured here yet: start a benchmark, or import results.")
            page_link("new-run", "Start a benchmark")
            return
        st.caption("Nothing was measured on this machine yet: this one came with Linkworth.")
        _picture(found)
        _explain(found, "What it costs a token, and why")
        return
    st.subheader("Last results")
    found = overview_picture.newest(engine, own)
    if found is not None:
        _picture(found)
    shown = pd.DataFrame(
        {
            "what": own["title"].fillna(own["kind"]),
            "headline": own["headline"],
            "origin": own["origin"].map(plain),
            "finished (UTC)": own["finished_at"],
        }
    ).head(SHOWN)
    table(
        shown,
        "last-results",
        f"The last {len(shown)} results",
        column_config={
            "what": st.column_config.TextColumn(width=165),
            "headline": st.column_config.TextColumn(width=130),
            "finished (UTC)": st.column_config.DatetimeColumn(format="D MMM HH:mm", width=95),
        },
    )
    if found is not None:
        _explain(found, "Explain these runs")


def _picture(found: Picture) -> None:
    st.markdown(f"{badge(found.origin)} {as_text(found.sentence, 1000)}")
    st.caption(_MEANS[found.kind])
    arms = list(found.frame["arm"])
    drawing = (
        alt.Chart(found.frame)
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=found.axis, scale=alt.Scale(zero=True)),
            y=theme.names_above("arm"),
            color=theme.colour("arm", arms).legend(None),
        )
        .properties(height=theme.ROW)
    )
    chart(drawing, f"overview-{found.kind}", found.sentence, found.frame, key="overview-picture")


def _explain(found: Picture, label: str) -> None:
    page_link(EXPLORERS[found.kind], label, runs=",".join(found.run_ids))


def _machine(engine: Engine) -> None:
    st.subheader("This machine")
    known = this_machine.facts()
    gpus = known.get("gpus") or []
    if gpus:
        for name, count in pd.Series([gpu["name"] for gpu in gpus]).value_counts().items():
            st.markdown(f"{count} × {as_text(name)}")
    elif known:
        st.markdown("No GPU was found. Two CPU ranks show how everything works.")
    else:
        st.markdown("Not read yet: the worker reads it when it starts.")
    if hosts.open_incidents(engine):
        page_link("hardware", "GPUs are set aside after an incident: look after them")
    counts = jobs.counts(engine)
    busy = counts.get("running", 0) + counts.get("queued", 0)
    if busy:
        page_link("runs", "1 job runs or waits" if busy == 1 else f"{busy} jobs run or wait")


def _next_steps(own: pd.DataFrame, shipped: pd.DataFrame) -> None:
    """The three things to do now, on what was done before."""
    st.subheader("Next steps")
    page_link("new-run", "Measure this machine", kind="allreduce")
    decode = own[own["kind"] == "decode"]
    studied = shipped[(shipped["kind"] == "decode") & (shipped["origin"] == "measured")]
    chosen = decode if not decode.empty else studied
    if not chosen.empty:
        label = "Does a second GPU help?" if decode.empty else "Where your steps' time goes"
        page_link("speedup", label, runs=_ids(chosen))
    else:
        page_link("speedup", "Does a second GPU help?")
    if "roi" in PAGES:
        page_link("roi", "Weigh a purchase")
    else:
        page_link("what-if", "Ask about hardware that is not here")


def _nearness(kinds: list[str]) -> int:
    """Studies of served models come first: they are nearest to what a purchase is for."""
    return min((_NEAREST.index(kind) for kind in kinds if kind in _NEAREST), default=len(_NEAREST))


def _ids(frame: pd.DataFrame) -> str:
    """Runs for a link: of each arm the newest, as many as an explorer draws."""
    newest = frame.drop_duplicates(["evaluation", "arm"]) if frame["arm"].notna().all() else frame
    return ",".join(newest["id"].head(MOST_RUNS))


def _studies(engine: Engine, shipped: pd.DataFrame) -> None:
    """Every study with its finding and the pages that explain it."""
    st.subheader("Studies to learn from")
    found = studies.list_studies(engine)
    for study in sorted(found, key=lambda study: _nearness(study["kinds"])):
        own = shipped[shipped["study"] == study["id"]]
        with st.container(border=True):
            st.markdown(f"**{as_text(study['title'])}**  {badge(study['origin'])}")
            if study.get("summary"):
                st.caption(as_text(study["summary"], 2000))
            with st.container(horizontal=True):
                explorer = own["kind"].map(EXPLORERS)
                for slug in PAGES:
                    if slug in set(explorer):
                        page_link(slug, PAGES[slug].title, runs=_ids(own[explorer == slug]))
                page_link("runs", "All its runs", text=study["id"])
