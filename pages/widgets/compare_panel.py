"""Runs → Compare: any runs side by side, what differs between them first, then the numbers."""

import json
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models import side_by_side
from models.conditions import counted
from models.definitions import describe, group_of
from models.errors import NotFound
from models.metrics import METRICS
from models.result import Result
from models.side_by_side import Row
from models.step_clocks import words as clock_words
from pages.charts import compare as drawing
from pages.widgets.badges import badge
from pages.widgets.compare_table import numbers, stacked
from pages.widgets.downloads import UNKNOWN, chart, table
from pages.widgets.plain import plain

MOST = 6  # one colour each
_FIRST = ("output_throughput", "decode_step", "allreduce_latency")  # what is drawn at first
_WIDEST = 36  # characters of a column's name
_MOST_ROWS, _MOST_HIGH = 12, 640  # rows that are shown whole; the height in pixels of more


def render(engine: Engine, run_ids: Sequence[str]) -> None:
    """Draw the comparison of two or more runs.

    Args:
        engine: The database.
        run_ids: The runs; the first is the base of every change.
    """
    results = _load(engine, list(dict.fromkeys(run_ids)))
    if len(results) < 2:
        st.info("Choose two or more runs to compare them.")
        return
    if len(results) > MOST:
        st.info(f"The first {MOST} of {len(results)} runs are compared.")
        results = results[:MOST]
    labels = labels_of(results)
    for label, result in zip(labels, results, strict=True):
        st.markdown(f"**{plain(label)}** {badge(result.origin, result.validity)}")
    if any(result.validity == "invalid" for result in results):
        st.warning("An invalid run is listed; none of its numbers enters the comparison.")
    _conditions(results, labels)
    rows = side_by_side.rows(results)
    if not rows:
        st.info("These runs have no quantity in common that was measured in both.")
        return
    _one_quantity(rows, labels)
    _all_quantities(rows, results, labels)


def _load(engine: Engine, run_ids: Sequence[str]) -> list[Result]:
    found = []
    for run_id in run_ids:
        try:
            found.append(runs.load(engine, run_id))
        except NotFound:
            st.warning(f"Run {plain(run_id[:8])} does not exist any more.")
    return found


def labels_of(results: Sequence[Result]) -> list[str]:
    """A short name a run, unique: title, arm, and a number where they repeat."""
    names = []
    for result in results:
        title = result.title or result.kind
        arm = result.evaluation.arm if result.evaluation is not None else ""
        names.append((f"{title} · {arm}" if arm and arm not in title else title)[:80])
    if len(set(names)) == len(names):
        return names
    return [f"{number}: {name}" for number, name in enumerate(names, start=1)]


def _conditions(results: Sequence[Result], labels: Sequence[str]) -> None:
    st.subheader("What differs")
    found = side_by_side.differing_conditions(results)
    if not found:
        st.success("No recorded condition differs between these runs.")
        return
    frame = pd.DataFrame(
        [
            {"condition": row.name, **dict(zip(labels, row.values, strict=True)),
             "why it matters": row.why}
            for row in found
        ]
    )  # fmt: skip
    words = counted(len(found), sum(bool(row.why) for row in found))
    st.caption(f"{words}. Whatever changes below may come from any of them.")
    table(
        frame,
        "compare-conditions",
        words,
        column_order=["condition", *labels],
        is_wrapped=True,
        file=frame,
    )
    reasons: dict[str, list[str]] = {}
    for row in found:
        if row.why:
            reasons.setdefault(row.why, []).append(row.name)
    for why, names in reasons.items():
        st.markdown(f"- **{plain(', '.join(names), 300)}**: {plain(why, 1000)}")


def _one_quantity(rows: Sequence[Row], labels: Sequence[str]) -> None:
    st.subheader("One quantity")
    words_of = choices(rows)
    codes = list(words_of)
    metrics = [code.partition("|")[0] for code in codes]
    first = next((metrics.index(name) for name in _FIRST if name in metrics), 0)
    chosen = st.selectbox(
        "Quantity", codes, index=first, key="compare-quantity", format_func=words_of.get
    )
    of_choice = [row for row in rows if _choice(row) == chosen]
    metric, statistic = of_choice[0].metric, of_choice[0].statistic
    reason = next((row.reason for row in of_choice if row.reason), None)
    if reason is not None:
        st.warning(f"These runs are not drawn on one axis. {plain(reason, 1000)}")
        return
    for caution in dict.fromkeys(row.caution for row in of_choice if row.caution):
        st.caption(f"⚠ {plain(caution, 1000)}")
    x = drawing.axis_of(of_choice)
    data = drawing.frame(of_choice, labels, x)
    picture = drawing.compared(data, metric, labels, x)
    words = f"{METRICS[metric].label}, {statistic}: {_takeaway(of_choice, labels)}"
    chart(picture, f"compare-{metric}-{statistic}", words, data, key="compare-chart")


def _choice(row: Row) -> str:
    """Rows that may share an axis: one metric, one statistic, one meaning."""
    meaning = "mixed" if row.reason else group_of(row.meanings[0])
    return f"{row.metric}|{row.statistic}|{meaning}"


def choices(rows: Sequence[Row]) -> dict[str, str]:
    """Choice -> words; what the tools mean is added only where one quantity has two meanings."""
    several: dict[str, set[str]] = {}
    for row in rows:
        several.setdefault(f"{row.metric}|{row.statistic}", set()).add(_choice(row))
    found = {}
    for row in rows:
        known = METRICS[row.metric]
        words = known.label if row.statistic == "value" else f"{known.label}, {row.statistic}"
        words = f"{words} ({row.unit})" if row.unit else words
        if len(several[f"{row.metric}|{row.statistic}"]) > 1:
            words += ", meant in two ways" if row.reason else f", {_meant(row)}"
        found.setdefault(_choice(row), words)
    return found


def _meant(row: Row) -> str:
    """What tells a quantity from its namesake: its clock, else its definition."""
    clock = row.dims.get("clock")
    return clock_words(str(clock)) if clock else f"as {row.meanings[0]}"


def _takeaway(rows: Sequence[Row], labels: Sequence[str]) -> str:
    changes = [
        (labels[index], change)
        for row in rows
        for index in range(len(labels))
        if index != row.base and (change := row.change_pct(index)) is not None
    ]
    if not changes:
        return "no change can be said"
    return (
        ", ".join(
            f"{label} {min(own):+.1f} % to {max(own):+.1f} %"
            if len(own) > 1
            else f"{label} {own[0]:+.1f} %"
            for label in dict.fromkeys(name for name, _ in changes)
            for own in ([change for name, change in changes if name == label],)
        )
        + f" against {labels[0]}"
    )


def _all_quantities(rows: Sequence[Row], results: Sequence[Result], labels: Sequence[str]) -> None:
    st.subheader("All quantities")
    frame = numbers(rows, labels)
    st.caption(
        "Changes are against the first run that has the quantity, medians over rounds; where there "
        "are fewer than three rounds they show a direction, no more."
    )
    words = f"{len(frame)} quantities of {len(labels)} runs"
    table(
        stacked(rows, labels), "compare-numbers", words,
        is_wrapped=True, height=_height(len(frame)), file=frame,
    )  # fmt: skip
    with st.expander("Every column, to sort and search"):
        _every_column(frame, labels, words)
    left, right = st.columns(2)
    left.download_button(
        "JSON", data=lambda: as_json(rows, results, labels), file_name="linkworth-compare.json",
        mime="application/json", key="compare-json", on_click="ignore",
        icon=":material/download:", type="tertiary",
    )  # fmt: skip
    right.download_button(
        "Markdown", data=lambda: as_markdown(frame), file_name="linkworth-compare.md",
        mime="text/markdown", key="compare-markdown", on_click="ignore",
        icon=":material/download:", type="tertiary",
    )  # fmt: skip
    reasons = list(dict.fromkeys(row.reason for row in rows if row.reason))
    if reasons:
        with st.expander(f"Not comparable: {len(reasons)} pairs of meanings", expanded=True):
            for reason in reasons:
                st.markdown(f"- {plain(reason, 1000)}")
    _conversions(rows, results, labels)


def _height(n_rows: int) -> int | str:
    """A long table scrolls in itself: what stands below it must be found too."""
    return _MOST_HIGH if n_rows > _MOST_ROWS else "auto"


def _every_column(frame: pd.DataFrame, labels: Sequence[str], words: str) -> None:
    """All columns beside each other, for a wide screen."""
    names = list(frame.columns)
    told = ["quantity", "statistic", "where", "unit"]
    config = {
        name: st.column_config.NumberColumn(_short(name), format="%.4g")
        if name in labels
        else st.column_config.TextColumn(_short(name))
        for name in names
        if name not in (*told, "as")
    }
    config["quantity"] = st.column_config.TextColumn(width=130)
    config["where"] = st.column_config.TextColumn(width=165)
    st.dataframe(
        frame,
        hide_index=True,
        column_order=[*told, *(name for name in names if name not in (*told, "as")), "as"],
        column_config=config,
        placeholder=UNKNOWN,
        alt=words,
    )


def _short(name: str) -> str:
    """A run's name above a column of figures."""
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1].rstrip()}…"


def _conversions(rows: Sequence[Row], results: Sequence[Result], labels: Sequence[str]) -> None:
    found = [item for row in rows for item in side_by_side.converted(row, results)]
    for run, target, value, words in found:
        st.caption(plain(f"{labels[run]} as {describe(target)}: {value:.4g} ms. {words}", 1000))


def as_json(rows: Sequence[Row], results: Sequence[Result], labels: Sequence[str]) -> str:
    """The comparison for programs: names as in our files, values unrounded."""
    content = {
        "runs": [
            {"id": result.id, "label": label, "origin": result.origin, "validity": result.validity}
            for label, result in zip(labels, results, strict=True)
        ],
        "conditions": [
            {"name": row.name, "values": list(row.values), "why": row.why}
            for row in side_by_side.differing_conditions(results)
        ],
        "quantities": [
            {
                "metric": row.metric,
                "statistic": row.statistic,
                "unit": row.unit,
                "dims": row.dims,
                "values": [None if cell is None else cell.value for cell in row.cells],
                "definitions": [None if cell is None else cell.definition for cell in row.cells],
                "change_pct": [row.change_pct(index) for index in range(len(labels))],
                "not_comparable": row.reason,
            }
            for row in rows
        ],
    }
    return json.dumps(content, indent=1, allow_nan=False)


def as_markdown(frame: pd.DataFrame) -> str:
    """The table for a report; empty cells stay empty."""
    lines = ["| " + " | ".join(map(str, frame.columns)) + " |"]
    lines.append("|" + "|".join("---" for _ in frame.columns) + "|")
    for _, line in frame.iterrows():
        cells = ["" if pd.isna(cell) else _cell(cell) for cell in line]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("|", "\\|")
