"""The parts of Link A/B that compare: warnings, finding, table, load curves, distributions."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.metrics import metric
from models.serving_slo import drain_note
from pages.charts import serving as pictures
from pages.widgets import environment_compare, finding
from pages.widgets.downloads import chart, table
from pages.widgets.plain import plain
from pages.widgets.serving_arms import (
    Arm,
    Cell,
    cell_order,
    cell_words,
    facts_of,
    figures,
    rounds_of,
    shared_cells,
)
from pages.widgets.serving_compare import (
    FIGURES,
    MAIN,
    Row,
    figure_words,
    interval_frame,
    rounds_frame,
    table_of,
)
from pages.widgets.serving_confounds import confounds, speculation
from pages.widgets.serving_samples import distribution, samples_of

Arms = tuple[Arm, Arm]
Frames = tuple[pd.DataFrame, pd.DataFrame]
MOST_WARNINGS = 6


def warnings(engine: Engine, arms: Arms, frames: Frames, rows: Sequence[Row]) -> None:
    """What to know before believing any of it, first; many of one kind are one line."""
    kinds: dict[str, dict[str, None]] = {}

    def add(kind: str, text: str) -> None:
        kinds.setdefault(kind, {})[text] = None

    for arm, frame in zip(arms, frames, strict=True):
        if arm.validity == "invalid" and not frame.empty:
            add("invalid", f"{arm.name} is invalid and enters no decision.")
    facts = [(arm, fact) for arm in arms for fact in facts_of(engine, arm)]
    # what else changed comes first: the authors' words, and what is recorded
    for _, fact in facts:
        for code, text in fact["warnings"]:
            if code == "confounds":
                add(text, text)
    for text in confounds(engine, arms):
        add(text, text)
    for arm, fact in facts:
        for reason in fact["reasons"]:
            add(f"reason {reason[:12]}", f"{arm.name}: {reason}")
        for code, text in fact["warnings"]:
            if code in _PER_ROUND:
                add(f"{code} {arm.name}", f"{arm.name}: {text}")
            elif code in _PER_ARM:
                add(code, f"{arm.name}: {text}")
            else:
                add(text, text)
        for load in _loads(fact["spec"]):
            note = drain_note(load.get("num_prompts"), load.get("concurrency"))
            if note:
                add(f"drain {arm.name}", f"{arm.name}: {note}")
    for text in speculation(rows, arms):
        add("speculation", text)
    for row in rows:
        if row.result is not None and (row.metric, row.statistic) in MAIN:
            for notice in row.result.warnings:
                where = f"{row.label}, {cell_words(row.cell)}"
                add(f"rounds {notice.code}", f"{where}: {notice.text}")
    if not kinds:
        nothing = "Nothing recorded speaks against comparing these two arms."
        st.success(nothing)
        finding.note(finding.Part("text", nothing))
        return
    with st.container(border=True):
        count = len(kinds)
        finding.say(f"**Read with it: {count} warning{'s' if count > 1 else ''}**")
        lines = [_line(list(texts)) for texts in kinds.values()]
        for text in lines[:MOST_WARNINGS]:
            finding.say(f"- ⚠ {plain(text, 1000)}")
        rest = lines[MOST_WARNINGS:]
        rest += [text for texts in kinds.values() for text in list(texts)[1:]]
        if rest:
            with st.expander(f"{len(rest)} more"):
                for text in rest:
                    st.markdown(f"- {plain(text, 1000)}")


# said of each round and workload: one line stands for all
_PER_ROUND = frozenset(
    {
        "recomputed_differs",
        "foreign_load",
        "client_slow",
        "replicas_apart",
        "abnormal_input",
        "power_capped",
    }
)
# said of each arm with the others' names: one line stands for both
_PER_ARM = frozenset({"side_by_side"})


def _line(texts: Sequence[str]) -> str:
    more = len(texts) - 1
    return f"{texts[0]} (and {more} more like it)" if more else texts[0]


def _loads(spec: dict[str, object]) -> list[dict[str, int | None]]:
    several = spec.get("workloads")
    if isinstance(several, list):
        return [load for load in several if isinstance(load, dict)]
    one = spec.get("workload")
    if not isinstance(one, dict):
        return []
    return [{**one, "num_prompts": one.get("num_prompts") or one.get("num_prompts_about")}]


def comparison(arms: Arms, rows: Sequence[Row], *, is_vetoed: bool = False) -> None:
    """Every figure of both arms, the change and how sure it is.

    Args:
        arms: Reference and other arm.
        rows: The figures.
        is_vetoed: Whether nothing may be concluded: values are shown, no verdict is.
    """
    finding.heading("Figure by figure")
    if not rows:
        return
    frame = table_of(rows, arms, is_vetoed=is_vetoed)
    judged = frame["verdict"].value_counts()
    words = ", ".join(f"{count} {word}" for word, count in judged.items())
    changed = frame["change (%)"]
    frame["change (%)"] = ["" if pd.isna(value) else f"{value:+.1f}" for value in changed]
    told = [name for name in frame if name in _ALWAYS or (frame[name] != "").any()]
    # on a phone the first columns are all that is seen: what, how much, how sure
    first = [name for name in ("figure", "change (%)", "verdict") if name in told]
    shown = [*first, *(name for name in told if name not in first)]
    table(
        frame,
        f"link-ab-{arms[0].name}-{arms[1].name}",
        f"{arms[1].name} against {arms[0].name}: {words}",
        key="ab-table",
        column_order=shown,
        column_config={
            "note": st.column_config.TextColumn(width="large"),
            "printed by the author": st.column_config.TextColumn("author printed"),
        },
    )
    changes = pd.DataFrame() if is_vetoed else interval_frame(rows)
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


_ALWAYS = frozenset({"workload", "figure", "verdict"})


def everything(engine: Engine, arms: Arms) -> None:
    """All figures of each arm, also those that the other has not."""
    lines = _all_figures(engine, runs.version(engine), arms)
    if lines:
        with st.expander("All figures of each arm"):
            table(
                pd.DataFrame(lines),
                "link-ab-figures",
                f"{len(lines)} figures of both arms, each round",
                key="ab-figures",
            )


@st.cache_data(show_spinner=False, max_entries=32)
def _all_figures(_engine: Engine, version: str, arms: Arms) -> list[dict[str, str]]:
    lines = []
    for arm in arms:
        frame = figures(_engine, arm)
        if frame.empty:
            continue
        for cell in sorted(set(frame.loc[frame["kind"] != "soak", "cell"]), key=cell_order):
            for name, statistic in FIGURES:
                rounds = rounds_of(frame, name, statistic, cell)
                if not rounds:
                    continue
                known = metric(name)
                words = [
                    figure_words(r.value, known.unit, as_printed=arm.origin == "published")
                    for r in rounds
                ]
                lines.append(
                    {
                        "arm": arm.name,
                        "workload": cell_words(cell),
                        "figure": f"{known.label}, {statistic}",
                        "value of each round": " · ".join(words),
                        "unit": known.unit,
                    }
                )
    return lines


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
    finding.heading("Distribution of requests")
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
            found = distribution(engine, arm, name, cells[chosen])
            if found is None:
                continue
            lines.append(found[0].assign(arm=arm.name))
            tails.append(f"{arm.name} {found[1]:.4g} ms")
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
    finding.caption(
        f"{_pooled(engine, arms, cells[chosen])} With speculative decoding a chunk holds several "
        "tokens, so a gap is per chunk, not per token."
    )


def _pooled(engine: Engine, arms: Arms, cell: Cell) -> str:
    """Which rounds stand in the pictures: of some studies not every round's gaps are kept."""
    kept = [
        {name: len(samples_of(engine, arm, name, cell)) for name in ("ttft", "itl")} for arm in arms
    ]
    fewer = [n for n in kept if 0 < n["itl"] < n["ttft"]]
    if not fewer:
        return "All rounds pooled."
    return (
        "Times to first token: all rounds pooled. Gaps between chunks: those of "
        f"{fewer[0]['itl']} of {fewer[0]['ttft']} rounds, the others' were not kept; their medians "
        "and P99 are in the figures."
    )


def conditions(engine: Engine, arms: Arms) -> None:
    """Which recorded conditions differ, beside the one that is meant to."""
    with st.expander("Conditions side by side"):
        environment_compare.render(
            engine, arms[0].run_ids[0], arms[1].run_ids[0], key="ab-conditions"
        )
