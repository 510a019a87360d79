"""AllReduce: is the message latency-bound, what does a step pay, how far from the reference?"""

import pandas as pd
import streamlit as st

from db import runs
from models.reference import Reference, nearest
from models.result import Result
from pages.charts import allreduce as pictures
from pages.widgets import (
    allreduce_choice,
    allreduce_kept,
    allreduce_sections,
    beside,
    finding,
    finding_report,
    store,
    study_panel,
)
from pages.widgets.allreduce_costs import as_published, costs, fit_line
from pages.widgets.allreduce_curves import Explained
from pages.widgets.badges import plain
from pages.widgets.downloads import chart
from pages.widgets.links import page_link
from pages.widgets.offered import offered, say_what_is_left_out
from pages.widgets.plain import plain as as_text

KINDS = ("allreduce",)
MANY = 6  # as many colours as the palette has


def render() -> None:
    """Choose runs and a model; see curves, cost of a step, fit, reference; take it away."""
    engine = store.engine()
    listed = offered(engine, KINDS, allreduce_choice.asked_runs())
    if listed.empty:
        st.info(
            "No all-reduce was measured or imported yet, and no study is loaded. "
            "Start a sweep: two CPU ranks are enough to see how it works."
        )
        page_link("new-run", "Start an AllReduce sweep", kind="allreduce")
        return
    with finding.collected() as parts:
        chosen = _explore(listed)
    if chosen:
        finding_report.offer(engine, "AllReduce", parts, chosen, "allreduce")
        page_link("method", "How these numbers come about", topic="allreduce")


def _explore(listed: pd.DataFrame) -> list[str]:
    """Draw the choices and what follows from them.

    Returns:
        The runs that were looked at; empty where they hold nothing to look at.
    """
    if unknown := allreduce_choice.unknown_runs(listed):
        st.caption(f"{unknown} runs of the link hold no all-reduce, or were deleted.")
    chosen = allreduce_choice.pick_runs(listed, _default(listed))
    engine = store.engine()
    say_what_is_left_out(engine, KINDS, "AllReduce runs")
    answer, choices = beside.places()
    with choices:
        step = allreduce_choice.pick_step()
    these = engine, runs.version(engine), tuple(chosen)
    measured, points = allreduce_kept.curves(*these)
    if points.empty:
        answer.info("Choose at least one run that holds latencies.")
        return []
    left, right = st.columns([2, 3])  # of the picture below
    with left:
        points = allreduce_choice.pick_modes(points)
    with right:
        code = allreduce_choice.pick_curve(points)
    curves = [
        allreduce_kept.explained(*these, each, with_intervals=each == code)
        for each in points["code"].unique()
    ]
    item = next(each for each in curves if each.row["code"] == code)
    with answer:
        _reasons(listed, chosen)
        for words in allreduce_sections.sentences(item, curves, step):
            finding.say(as_text(words, 2000))
    allreduce_sections.headline(item)
    run_id = str(item.row["run_id"])
    run = runs.heads(engine, [run_id]).get(run_id)
    found = _references(run, item) if run is not None else []
    near = nearest(found, item.row["mode"] or "graph")
    _picture(points, item, step, near)
    labels = list(points["curve"].unique())
    allreduce_sections.costs(costs(curves, measured, step.message_bytes, step.calls), step, labels)
    allreduce_sections.fit_quality(item)
    allreduce_sections.reference(item, found, near)
    allreduce_sections.published(as_published(measured))
    _arithmetic(listed, chosen)
    study_panel.render(engine, listed.loc[listed["id"].isin(chosen), "study"])
    return chosen


def _default(listed: pd.DataFrame) -> list[str]:
    """The newest sound run from here with the other arms of its evaluation; else the studies.

    Among the studies that came with the code, arms that were measured to be compared come first,
    and of those the ones that hold most sizes.
    """
    engine = store.engine()
    sound = listed[listed["validity"] != "invalid"]
    came = set(runs.list_runs(engine, kinds=KINDS, shipped=True)["id"])
    is_shipped = sound["id"].isin(came)
    own = sound[sound["origin"].isin(["measured", "imported"]) & ~is_shipped]
    arms = sound[(sound["origin"] == "measured") & is_shipped & sound["evaluation"].notna()]
    first = arms if own.empty else own
    if first.empty:
        return list(sound["id"].head(MANY))
    newest = first.iloc[0]
    if own.empty:
        sizes = allreduce_kept.n_sizes(engine, runs.version(engine), tuple(first["id"]))
        newest = first.loc[first["id"].map(sizes).fillna(0).idxmax()]
    same = first["evaluation"].notna() & (first["evaluation"] == newest["evaluation"])
    return list(first.loc[same, "id"].head(MANY)) if same.any() else [newest["id"]]


def _reasons(listed: pd.DataFrame, chosen: list[str]) -> None:
    """Why a chosen run is not to be trusted, before anything is read from it."""
    for row in listed[listed["id"].isin(chosen) & (listed["validity"] != "valid")].itertuples():
        name = row.title or row.host or row.id[:8]
        st.warning(as_text(f"{name} ({row.validity}): {' '.join(row.reasons)}", 1500))


def _references(run: Result, item: Explained) -> list[Reference]:
    """References of the run's card; none for unlike cards, since no row is of such a pair."""
    ranks = item.row["ranks"]
    used = {str(name) for name in run.spec.get("gpus") or []}
    gpus = [gpu for gpu in run.host.get("gpus") or [] if isinstance(gpu, dict)]
    mine = [gpu for gpu in gpus if {str(gpu.get("uuid")), str(gpu.get("index"))} & used] or gpus
    names = {str(gpu.get("name")) for gpu in mine}
    if run.spec.get("device") == "cpu" or len(names) != 1 or not ranks.isdigit():
        return []
    return allreduce_kept.references_of(names.pop(), int(ranks))


def _picture(
    points: pd.DataFrame, item: Explained, step: allreduce_choice.Step, near: Reference | None
) -> None:
    labels = list(points["curve"].unique())
    if len(labels) > MANY:
        st.caption(f"More than {MANY} curves share colours: choose fewer runs or modes.")
    public = pd.DataFrame({"bytes": [], "latency_us": [], "low_us": [], "high_us": []})
    if near is not None:
        public = pd.DataFrame(
            {
                "bytes": near.curve.message_bytes,
                "latency_us": near.curve.latency_us,
                "low_us": near.low_us,
                "high_us": near.high_us,
            }
        )
    drawing = pictures.latency(
        points,
        labels,
        line=fit_line(item.fit) if item.fit else pd.DataFrame(),
        messages=step.messages,
        crossover_bytes=item.fit.crossover_bytes if item.fit else None,
        reference=public,
    )
    low, high = points["latency_us"].min(), points["latency_us"].max()
    shown = points.drop(columns=["code"]).assign(origin=points["origin"].map(plain))
    chart(
        drawing,
        "allreduce-latency",
        f"Latency from {low:.1f} to {high:.1f} microseconds on {len(labels)} curves; "
        "up to the crossover it hardly depends on the size",
        shown,
    )
    legend = "Band: p10 to p90. Dashed grey: the fit of the explained curve. Hollow: invalid run."
    if near is not None:
        legend += f" Dotted grey with band: reference, {near.label}."
    finding.caption(legend)


def _arithmetic(listed: pd.DataFrame, chosen: list[str]) -> None:
    """The arithmetic of each published study among the chosen runs."""
    picked = listed[listed["id"].isin(chosen) & (listed["origin"] == "published")]
    for study in picked["study"].dropna().unique():
        ids = runs.list_runs(store.engine(), study=str(study))["id"]
        results = [runs.load(store.engine(), str(run_id)) for run_id in ids]
        allreduce_sections.arithmetic(results, str(study))
