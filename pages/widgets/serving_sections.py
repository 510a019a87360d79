"""The parts of Link A/B that compare: warnings, finding, table, load curves, distributions."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from db.engine import Engine
from models.metrics import metric
from models.serving import ecdf
from models.serving_slo import drain_note
from pages.charts import serving as pictures
from pages.widgets import environment_compare
from pages.widgets.downloads import chart, table
from pages.widgets.serving_arms import (
    Arm,
    cell_words,
    facts_of,
    samples_of,
    shared_cells,
)
from pages.widgets.serving_compare import (
    Row,
    interval_frame,
    rounds_frame,
    speculation,
    table_of,
)

Arms = tuple[Arm, Arm]
Frames = tuple[pd.DataFrame, pd.DataFrame]
MOST_WARNINGS = 6
MOST_MARKS = 600


def warnings(engine: Engine, arms: Arms, frames: Frames, rows: Sequence[Row]) -> None:
    """What to know before believing any of it, first."""
    texts: dict[str, None] = {}
    for arm, frame in zip(arms, frames, strict=True):
        for fact in facts_of(engine, arm):
            texts |= dict.fromkeys(f"{arm.name}: {reason}" for reason in fact["reasons"])
            texts |= {text: None for _, text in fact["warnings"]}
            for load in _loads(fact["spec"]):
                note = drain_note(load.get("num_prompts"), load.get("concurrency"))
                if note:
                    texts[f"{arm.name}: {note}"] = None
        if arm.validity == "invalid" and not frame.empty:
            texts[f"{arm.name} is invalid and enters no decision."] = None
    texts |= dict.fromkeys(speculation(rows, arms))
    for row in rows:
        if row.result is not None:
            texts |= {notice.text: None for notice in row.result.warnings}
    found = list(texts)
    if not found:
        st.success("Nothing recorded speaks against comparing these two arms.")
        return
    with st.container(border=True):
        st.markdown(f"**Read first: {len(found)} warning{'s' if len(found) > 1 else ''}**")
        for text in found[:MOST_WARNINGS]:
            st.markdown(f"- ⚠ {text}")
        if len(found) > MOST_WARNINGS:
            with st.expander(f"{len(found) - MOST_WARNINGS} more"):
                for text in found[MOST_WARNINGS:]:
                    st.markdown(f"- {text}")


def _loads(spec: dict[str, object]) -> list[dict[str, int | None]]:
    several = spec.get("workloads")
    if isinstance(several, list):
        return [load for load in several if isinstance(load, dict)]
    one = spec.get("workload")
    if not isinstance(one, dict):
        return []
    return [{**one, "num_prompts": one.get("num_prompts") or one.get("num_prompts_about")}]


def finding(arms: Arms, rows: Sequence[Row]) -> None:
    """The comparison in words, with its conditions and what it does not say."""
    st.subheader("Finding")
    main = [
        row
        for row in rows
        if (row.metric, row.statistic)
        in {("output_throughput", "value"), ("tpot", "median"), ("ttft", "median")}
    ]
    if not main:
        main = [row for row in rows if row.printed]
    if not main:
        st.info("The two arms share no figure. Choose arms with the same workloads.")
        return
    for row in main:
        known = metric(row.metric)
        if row.result is not None:
            words = row.result.words
        else:
            words = f"{row.printed} (printed by the author, without values)."
        st.markdown(
            f"- **{cell_words(row.cell)}**, {known.label[0].lower()}{known.label[1:]} of "
            f"{arms[1].name} against {arms[0].name}: {words}"
        )
    st.caption(
        "It holds for this model, these lengths, these loads and this machine. It does not say "
        "what another model, longer runs or several machines would show."
    )


def comparison(arms: Arms, rows: Sequence[Row]) -> None:
    """Every figure of both arms, the change and how sure it is."""
    st.subheader("Figure by figure")
    if not rows:
        return
    frame = table_of(rows, arms)
    judged = frame["verdict"].value_counts()
    words = ", ".join(f"{count} {word}" for word, count in judged.items())
    table(
        frame,
        f"link-ab-{arms[0].name}-{arms[1].name}",
        f"{arms[1].name} against {arms[0].name}: {words}",
        key="ab-table",
        column_config={
            "change (%)": st.column_config.NumberColumn(format="%+.1f"),
            "note": st.column_config.TextColumn(width="large"),
        },
    )
    changes = interval_frame(rows)
    if len(changes):
        best = changes.iloc[changes["change_pct"].abs().argmax()]
        chart(
            pictures.changes(changes),
            "link-ab-changes",
            f"Largest change: {best.figure} {best.change_pct:+.1f} % at {best.workload}",
            changes,
            key="ab-changes",
        )
    _each_round(arms, rows)


def _each_round(arms: Arms, rows: Sequence[Row]) -> None:
    options = {
        f"{row.metric}:{row.statistic}": row.label
        for row in rows
        if row.result is not None and len(row.reference) + len(row.other) > 2
    }
    if not options:
        return
    names = list(options)
    start = names.index("tpot:median") if "tpot:median" in names else 0
    asked = st.query_params.get("figure")
    chosen = st.selectbox(
        "Rounds of",
        names,
        index=names.index(asked) if asked in names else start,
        format_func=options.__getitem__,
        key="ab-figure",
    )
    if chosen != names[start] or "figure" in st.query_params:
        st.query_params["figure"] = chosen
    name, statistic = chosen.split(":")
    frame = rounds_frame(rows, arms, name, statistic)
    chart(
        pictures.rounds(frame, metric(name).axis, [arm.name for arm in arms]),
        f"link-ab-rounds-{name}",
        f"{len(frame)} rounds of {options[chosen]} in both arms",
        frame,
        key="ab-rounds",
    )


def distributions(engine: Engine, arms: Arms, frames: Frames) -> None:
    """ECDF of TTFT and of the gaps between chunks."""
    cells = {
        cell_words(cell): cell
        for cell in shared_cells(*frames)
        if all(samples_of(engine, arm, "ttft", cell) for arm in arms)
    }
    if not cells:
        return
    st.subheader("Distribution of requests")
    words = list(cells)
    chosen = st.selectbox("Workload", words, index=len(words) - 1, key="ab-cell")
    for column, (name, title) in zip(
        st.columns(2),
        (("ttft", "time to first token (ms)"), ("itl", "gap between chunks (ms)")),
        strict=True,
    ):
        lines = []
        tails = []
        for arm in arms:
            items = samples_of(engine, arm, name, cells[chosen])
            values = np.concatenate([item["values"] for item in items]) if items else np.empty(0)
            if not values.size:
                continue
            x, share = ecdf(values)
            keep = np.unique(np.linspace(0, x.size - 1, min(x.size, MOST_MARKS)).astype(int))
            lines.append(pd.DataFrame({"arm": arm.name, "value": x[keep], "share": share[keep]}))
            tails.append(f"{arm.name} {np.percentile(values, 99):.4g} ms")
        if lines:
            frame = pd.concat(lines, ignore_index=True)
            with column:
                chart(
                    pictures.distribution(frame, title, [arm.name for arm in arms]),
                    f"link-ab-ecdf-{name}",
                    f"P99 of {title.removesuffix(' (ms)')}: {', '.join(tails)}",
                    frame,
                    key=f"ab-ecdf-{name}",
                )
    st.caption(
        "All rounds pooled. With speculative decoding a chunk holds several tokens, so a gap is "
        "per chunk, not per token."
    )


def conditions(engine: Engine, arms: Arms) -> None:
    """Which recorded conditions differ, beside the one that is meant to."""
    with st.expander("Conditions side by side"):
        environment_compare.render(
            engine, arms[0].run_ids[0], arms[1].run_ids[0], key="ab-conditions"
        )
