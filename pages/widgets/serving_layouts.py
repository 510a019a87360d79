"""Link A/B, all arms at once: what TP, the link and the engine's kernel give this model."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.comparison import VERDICT_WORDS
from models.layout_gain import Change, changes, sentences, verdicts
from models.layouts import Question, alike, questions
from models.metrics import metric
from models.rounds import Round
from pages.charts import serving as pictures
from pages.widgets import finding
from pages.widgets.downloads import chart, table
from pages.widgets.plain import plain
from pages.widgets.serving_arms import SINGLE, Arm, Cell, Group, facts_of, figures, rounds_of
from pages.widgets.serving_loads import sweep_cells

FEWEST_ARMS = 3  # two arms are what the rest of the page is about
CURVES = ("tpot", "ttft")
LONGEST = 2000


def render(engine: Engine, group: Group) -> None:
    """Sentences, curves and a table over all arms that differ in their layout alone."""
    if group.code in ("any", SINGLE) or len(group.arms) < FEWEST_ARMS:
        return
    arms, asked, found, cells = _found(engine, runs.version(engine), group)
    if len(asked) < 2 or not found:
        return
    names = [arm.name for arm in arms]
    finding.heading("All arms: what TP, the link and the kernel give")
    answers = verdicts(found)
    for text in answers:
        finding.say(f"**{plain(text, LONGEST)}**")
    finding.say("\n".join(f"- {plain(t, LONGEST)}" for t in sentences(found) if t not in answers))
    finding.caption(
        f"Arms {plain(', '.join(names))}; {_lengths(cells)}. Each figure is a change from the "
        "first arm named to the other, with its 95 % interval over rounds. Link off against on "
        "changes two things, since the engine's own all-reduce needs the link; an arm with the "
        "link and the library's all-reduce splits them, on the logarithm, where parts add up."
    )
    for column, name in zip(st.columns(2), CURVES, strict=True):
        with column:
            _curve(engine, arms, cells, name, names)
    frame = _table(found)
    with st.expander("All arms: every change"):
        table(frame, "link-ab-layouts", f"{len(frame)} changes", key="ab-layouts")


@st.cache_resource(show_spinner=False, max_entries=16)
def _found(
    _engine: Engine, version: str, group: Group
) -> tuple[list[Arm], list[Question], list[Change], list[Cell]]:
    """Arms, questions, changes and the workloads looked at. Only to be read."""
    arms = [arm for arm in group.arms if arm.validity != "invalid"]
    layouts = alike({arm.name: facts_of(_engine, arm)[0]["spec"] for arm in arms})
    asked = questions(layouts)
    named = {arm.name: arm for arm in arms}
    used = [name for name in layouts if any(name in (q.reference, q.other) for q in asked)]
    frames = {name: figures(_engine, named[name]) for name in used}
    every = {cell for frame in frames.values() if len(frame) for cell in set(frame["cell"])}
    by_cap = {cell[1]: cell for cell in sweep_cells(sorted(every, key=str))}

    def rounds(arm: str, name: str, statistic: str, cap: int) -> list[Round]:
        return rounds_of(frames[arm], name, statistic, by_cap[cap])

    is_paired = group.origin == "measured"
    found = changes(asked, sorted(by_cap), rounds, is_paired=is_paired)
    cells = [by_cap[cap] for cap in sorted(by_cap)]
    return [named[name] for name in used], asked, found, cells


def _lengths(cells: Sequence[Cell]) -> str:
    _, _, _, inputs, outputs = cells[0]
    return f"{inputs or '?'} tokens in, {outputs or '?'} out"


def _curve(
    engine: Engine, arms: Sequence[Arm], cells: Sequence[Cell], name: str, names: list[str]
) -> None:
    """A figure's mean over rounds by concurrency, a line an arm."""
    lines = []
    for arm in arms:
        frame = figures(engine, arm)
        for cell in cells:
            values = [r.value for r in rounds_of(frame, name, "median", cell) if r.valid]
            if values:
                lines.append({"arm": arm.name, "concurrency": cell[1], "y": float(np.mean(values))})
    rows = pd.DataFrame(lines)
    if rows.empty:
        return
    known = metric(name)
    least = rows.loc[rows["y"].idxmin()]
    chart(
        pictures.load_curve(rows, "y", f"{known.label.lower()}, median ({known.unit})", names),
        f"link-ab-layouts-{name}",
        f"Least {least.y:.4g} {known.unit} with {least.arm} at concurrency {least.concurrency}",
        rows.rename(columns={"y": f"{name}_{known.unit}"}),
        key=f"ab-layouts-{name}",
    )


def _table(found: Sequence[Change]) -> pd.DataFrame:
    lines = []
    for change in found:
        known, result = metric(change.figure[0]), change.result
        is_known = result.low_pct is not None and result.high_pct is not None
        lines.append(
            {
                "question": change.question.words,
                "figure": f"{known.label}, {change.figure[1]}".removesuffix(", value"),
                "concurrency": change.concurrency,
                "change (%)": f"{result.change_pct:+.1f}",
                "95 % interval (%)": f"{result.low_pct:+.1f} to {result.high_pct:+.1f}"
                if is_known
                else "",
                "verdict": VERDICT_WORDS[result.verdict],
                "from": change.question.reference,
                "to": change.question.other,
            }
        )
    return pd.DataFrame(lines)
