"""Report: a page's finding as one HTML file, with its charts, conditions and the method's text."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.conditions import conditions, said
from models.errors import NotFound
from models.result import VERSION, Result
from models.step_clocks import told
from pages.widgets import report
from pages.widgets.badges import plain, plain_validity
from pages.widgets.finding import Part

METHOD = Path(__file__).resolve().parents[2] / "docs" / "method"
MOST_ROWS = 60  # of a table on paper; the CSV of the page has all
MOST_COLUMNS = 7
MOST_SIGNS = 90  # of one condition; a run's own JSON has all
_WIDTH = 620
_BADGE = re.compile(r":[a-z]+-badge\[([^\]]*)\]")
_LINK = re.compile(r"(?<!\\)\[([^\]]+)\]\([^)\s]+\)")
_ESCAPED = re.compile(r"\\([\\`*\[\]<~$:_&\-+=#>.)])")
_EMPHASIS = re.compile(r"(?<!\\)(\*\*|`|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w))")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")


def offer(
    engine: Engine, title: str, parts: Sequence[Part], run_ids: Sequence[str], topic: str
) -> None:
    """A button that makes the report when it is asked for.

    Args:
        engine: The database.
        title: Name of the page.
        parts: What the page said and drew.
        run_ids: Runs whose conditions are printed.
        topic: Of the method's texts.
    """
    kept, ids = list(parts), list(dict.fromkeys(run_ids))

    def make() -> bytes:
        return build(title, kept, _load(engine, ids), topic, datetime.now(UTC))

    st.download_button(
        "Report",
        data=make,
        file_name=f"linkworth-{re.sub(r'[^a-z0-9]+', '-', title.lower())}.html",
        mime="text/html",
        key=f"report-{topic}",
        on_click="ignore",
        icon=":material/description:",
        help="What this page shows, with charts, conditions and method, as one HTML file that "
        "prints well",
    )


def _load(engine: Engine, run_ids: Sequence[str]) -> list[Result]:
    found = []
    for run_id in run_ids:
        try:
            found.append(runs.head(engine, run_id))
        except NotFound:
            continue  # deleted since the page was drawn
    return found


def build(
    title: str, parts: Sequence[Part], results: Sequence[Result], topic: str, made_at: datetime
) -> bytes:
    """The report as an HTML file.

    Args:
        title: Name of the page.
        parts: What the page said and drew.
        results: Runs whose conditions are printed.
        topic: Of the method's texts.
        made_at: Printed in its head.
    """
    head = f"Linkworth {VERSION}, {made_at:%Y-%m-%d %H:%M} UTC."
    blocks = [report.paragraph(head, is_small=True), *_runs(results)]
    after = [*parts[1:], Part("heading", "")] if parts else []
    for part, following in zip(parts, after, strict=True):
        # a heading whose section only told what is missing has nothing to head
        if part.kind != "heading" or following.kind != "heading":
            blocks.append(_block(part))
    blocks += _conditions(results)
    text = METHOD / f"{topic}.md"
    if text.exists():
        blocks += [report.heading("Method"), *from_markdown(text.read_text(encoding="utf-8"))]
    return report.document(f"Linkworth: {title}", blocks)


def unmarked(text: str) -> str:
    """Markdown of our pages as plain text: badges and links as their words, no escapes."""
    words = _LINK.sub(r"\1", _BADGE.sub(r"(\1)", text))
    return _ESCAPED.sub(r"\1", _EMPHASIS.sub("", words)).replace("\u2060", "").strip()


def _block(part: Part) -> str:
    words = unmarked(part.words)
    if part.drawing is not None:
        drawing = part.drawing.copy()
        if "width" not in drawing.to_dict():
            drawing = drawing.properties(width=_WIDTH)
        return report.picture(drawing, words, words)
    if part.frame is not None:
        return _printed(part.frame)
    if part.kind == "heading":
        return report.heading(words)
    if _ITEM.match(words):
        return report.bullets([_ITEM.sub("", words)])
    return report.paragraph(words, is_small=part.kind == "small")


def _printed(frame: pd.DataFrame) -> str:
    """A table for paper: what is the same in every row of a wide one stands below it."""
    same = []
    if len(frame.columns) > MOST_COLUMNS and len(frame) > 1:
        same = [name for name in frame.columns if frame[name].nunique(dropna=False) == 1]
    cells = _rounded(frame.drop(columns=same).head(MOST_ROWS))
    notes = [f"{name}: {value}" for name in same if pd.notna(value := frame[name].iloc[0])]
    below = [f"In every row: {', '.join(notes)}."] if notes else []
    if len(frame) > MOST_ROWS:
        below.append(f"{len(frame) - MOST_ROWS} more rows are left out here.")
    return report.table(cells) + (report.paragraph(" ".join(below), is_small=True) if below else "")


def _rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Four digits are enough on paper."""
    return frame.map(
        lambda cell: f"{cell:.4g}" if isinstance(cell, float) and cell == cell else cell
    )


def _runs(results: Sequence[Result]) -> list[str]:
    """What was looked at, each run with its badges in words."""
    lines = [
        " · ".join(
            part
            for part in (
                run.title or run.kind,
                plain(run.origin),
                plain_validity(run.validity),
                f"{run.tool.name} {run.tool.version or ''}".strip(),
                f"{run.finished_at:%Y-%m-%d %H:%M} UTC" if run.finished_at else "",
                f"run {run.id[:8]}",
                *map(told, run.reasons),
            )
            if part
        )
        for run in results
    ]
    return [report.box(report.bullets(lines))] if lines else []


def _conditions(results: Sequence[Result]) -> list[str]:
    """Every recorded condition, one column a run."""
    if not results:
        return []
    columns = [conditions(run) for run in results]
    names = list(dict.fromkeys(name for column in columns for name in column))
    labels = [f"{run.id[:8]}" for run in results]
    rows = [
        {
            "condition": name,
            **{
                label: _short(said(column[name])) if name in column else None
                for label, column in zip(labels, columns, strict=True)
            },
        }
        for name in names
    ]
    return [
        report.heading("Conditions"),
        report.paragraph("What the numbers depend on; an empty cell was not recorded."),
        report.table(pd.DataFrame(rows)),
    ]


def _short(words: str) -> str:
    return words if len(words) <= MOST_SIGNS else f"{words[:MOST_SIGNS]} …"


def from_markdown(text: str) -> list[str]:
    """The plain markdown of docs/method as blocks: headings, paragraphs, lists, tables."""
    blocks: list[str] = []
    for chunk in re.split(r"\n\s*\n", text.strip()):
        lines = chunk.splitlines()
        while lines and (found := re.match(r"(#+) (.*)", lines[0])):
            blocks.append(report.heading(unmarked(found[2]), 3 if len(found[1]) > 1 else 2))
            lines = lines[1:]
        if not lines:
            continue
        if lines[0].startswith("|"):
            blocks.append(_table(lines))
        elif _ITEM.match(lines[0]):
            blocks.append(report.bullets([unmarked(item) for item in _joined(lines, _ITEM.match)]))
        elif any(map(_ITEM.match, lines)):
            first = next(k for k, line in enumerate(lines) if _ITEM.match(line))
            blocks.append(report.paragraph(unmarked(" ".join(lines[:first]))))
            items = _joined(lines[first:], _ITEM.match)
            blocks.append(report.bullets([unmarked(item) for item in items]))
        else:
            blocks.append(report.paragraph(unmarked(" ".join(map(str.strip, lines)))))
    return blocks


def _joined(lines: Iterable[str], starts: Callable[[str], object]) -> list[str]:
    """Lines of a list put together, one text an item."""
    items: list[str] = []
    for line in lines:
        if starts(line):
            items.append(_ITEM.sub("", line).strip())
        else:
            items[-1] += f" {line.strip()}"
    return items


def _table(lines: Sequence[str]) -> str:
    rows = [[unmarked(cell) for cell in line.strip().strip("|").split("|")] for line in lines]
    return report.table(pd.DataFrame(rows[2:], columns=rows[0]))
