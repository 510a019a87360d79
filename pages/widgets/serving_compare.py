"""Two arms compared figure by figure, as frames. Draws nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from db.engine import Engine
from models.comparison import VERDICT_WORDS, Comparison, compare
from models.definitions import comparable
from models.metrics import metric
from models.rounds import Round, quantile_label
from models.scorecard import Finding
from pages.widgets.figure_places import places
from pages.widgets.serving_arms import (
    Arm,
    Cell,
    cell_words,
    definition_of,
    figures,
    rounds_of,
    shared_cells,
)

# what is compared, in the order of the table
FIGURES = (
    ("output_throughput", "value"),
    ("total_token_throughput", "value"),
    ("request_throughput", "value"),
    ("ttft", "median"),
    ("ttft", "mean"),
    ("ttft", "p99"),
    ("tpot", "median"),
    ("tpot", "mean"),
    ("tpot", "p99"),
    ("itl", "median"),
    ("itl", "p99"),
    ("e2el", "median"),
    ("e2el", "p99"),
    ("energy_per_token", "value"),
    ("spec_decode_acceptance_rate", "value"),
    ("spec_decode_acceptance_length", "value"),
)
MAIN = frozenset({("output_throughput", "value"), ("ttft", "median"), ("tpot", "median")})


@dataclass(frozen=True)
class Row:
    """One figure of one workload in both arms.

    Attributes:
        metric: Our metric's name.
        statistic: median, mean, p99, value.
        cell: The workload.
        reference: Rounds of the arm that the change is relative to.
        other: Rounds of the other arm.
        result: The comparison, None where the two cannot be compared.
        printed: The author's own change, in words.
        why_not: Why there is no comparison.
        n: Requests behind each round's value, where known.
    """

    metric: str
    statistic: str
    cell: Cell
    reference: Sequence[Round]
    other: Sequence[Round]
    result: Comparison | None
    printed: str
    why_not: str
    n: int | None = None

    @property
    def label(self) -> str:
        """The figure in words."""
        known = metric(self.metric)
        if self.statistic == "value":
            return known.label
        return f"{known.label}, {quantile_label(self.statistic, self.n)}"


def rows_of(
    left: pd.DataFrame, right: pd.DataFrame, arms: tuple[Arm, Arm], *, is_paired: bool
) -> list[Row]:
    """Every figure that both arms have, and every change that an author printed.

    Args:
        left: Figures of the reference arm.
        right: Figures of the other arm.
        arms: The two arms.
        is_paired: Whether the plan pairs rounds by seed.
    """
    found = []
    for cell in shared_cells(left, right):
        for name, statistic in FIGURES:
            row = _row(left, right, arms, name, statistic, cell, is_paired)
            if row is not None:
                found.append(row)
        found += _only_printed(left, right, arms, cell, found)
    return found


@st.cache_resource(show_spinner=False, max_entries=32)
def kept_rows(
    _engine: Engine, version: str, arms: tuple[Arm, Arm], *, is_paired: bool
) -> list[Row]:
    """`rows_of` two arms, kept while the runs are the same. Only to be read.

    Args:
        _engine: The database.
        version: Of its runs, see `db.runs.version`.
        arms: The two arms.
        is_paired: Whether the plan pairs rounds by seed.
    """
    left, right = (figures(_engine, arm) for arm in arms)
    return rows_of(left, right, arms, is_paired=is_paired)


def _row(
    left: pd.DataFrame,
    right: pd.DataFrame,
    arms: tuple[Arm, Arm],
    name: str,
    statistic: str,
    cell: Cell,
    is_paired: bool,
) -> Row | None:
    reference = rounds_of(left, name, statistic, cell)
    other = rounds_of(right, name, statistic, cell)
    if not reference or not other:
        return None
    printed = _printed(right, arms, name, statistic, cell)
    names = definition_of(left, name, statistic, cell), definition_of(right, name, statistic, cell)
    why_not = comparable(str(names[0]), str(names[1])) or ""
    result = None
    if not why_not:
        result = compare(
            name,
            reference,
            other,
            is_paired=is_paired,
            arms=(arms[0].name, arms[1].name),
        )
    counts = left["n"].iloc[places(left, name, statistic, cell)].dropna()
    n = int(counts.min()) if len(counts) else None
    return Row(name, statistic, cell, reference, other, result, printed, why_not, n)


def _changes(frame: pd.DataFrame, arms: tuple[Arm, Arm], cell: Cell) -> pd.DataFrame:
    """An author's changes of the second arm against the first."""
    rows = frame[(frame["statistic"] == "change_pct") & (frame["cell"] == cell)]
    return rows[rows["relative_to"] == arms[0].name]


def _statistic_of(definition: str) -> str:
    """Which statistic a published change is of; ``value`` where the author does not say."""
    return definition.rsplit("-of-", 1)[1] if "-of-" in definition else "value"


def _printed(
    frame: pd.DataFrame, arms: tuple[Arm, Arm], name: str, statistic: str, cell: Cell
) -> str:
    rows = frame.iloc[places(frame, name, "change_pct", cell)]
    for row in rows[rows["relative_to"] == arms[0].name].itertuples() if len(rows) else ():
        if _statistic_of(row.definition) == statistic:
            return _change_words(row)
    return ""


def _change_words(row: Any) -> str:
    if pd.notna(row.low) and pd.notna(row.high) and row.low != row.high:
        return f"{row.low:+g} to {row.high:+g} %"
    return f"{row.value:+g} %"


def _only_printed(
    left: pd.DataFrame,
    frame: pd.DataFrame,
    arms: tuple[Arm, Arm],
    cell: Cell,
    found: Sequence[Row],
) -> list[Row]:
    """Changes that an author gives without the values: shown as they are, never turned round."""
    known = {(row.metric, row.statistic) for row in found if row.cell == cell and row.printed}
    rows = []
    for row in _changes(frame, arms, cell).itertuples():
        statistic = _statistic_of(row.definition)
        if (row.metric, statistic) not in known:
            why = f"The author prints the change and no value of {arms[1].name}."
            own = rounds_of(left, row.metric, statistic, cell)
            rows.append(Row(row.metric, statistic, cell, own, (), None, _change_words(row), why))
    return rows


def table_of(
    rows: Sequence[Row], arms: tuple[Arm, Arm], *, is_vetoed: bool = False
) -> pd.DataFrame:
    """The comparison as a table for people; empty cells are unknown.

    Args:
        rows: The figures.
        arms: The two arms.
        is_vetoed: Whether the verdicts are withheld, because an arm is wrong.
    """
    lines = []
    for row in rows:
        known = metric(row.metric)
        unit = f" ({known.unit})" if known.unit else ""
        result = row.result
        lines.append(
            {
                "workload": cell_words(row.cell),
                "figure": f"{row.label}{unit}",
                "change (%)": None if result is None else _rounded(result.change_pct),
                "95 % interval (%)": ""
                if result is None or result.low_pct is None or result.high_pct is None
                else f"{result.low_pct:+.1f} to {result.high_pct:+.1f}",
                "verdict": _verdict(row, is_vetoed=is_vetoed),
                arms[0].name: _values(row.reference, arms[0], known.unit),
                arms[1].name: _values(row.other, arms[1], known.unit),
                "printed by the author": row.printed,
                "note": row.why_not or _note(row),
            }
        )
    return pd.DataFrame(lines)


def _verdict(row: Row, *, is_vetoed: bool) -> str:
    if row.result is None:
        return "as printed"
    if is_vetoed:
        return "vetoed"
    return "no ratio" if row.result.change_pct is None else VERDICT_WORDS[row.result.verdict]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _note(row: Row) -> str:
    notes = []
    if row.result is not None and row.result.verdict == "not_shown" and row.result.rounds_needed:
        notes.append(f"about {row.result.rounds_needed} {row.result.unit}s an arm would settle it")
    if row.result is not None and row.result.change_pct is not None and row.printed:
        digits = len(row.printed.split()[0].partition(".")[2])
        ours = f"{row.result.change_pct:+.{digits}f}"
        if ours != row.printed.split()[0] and " to " not in row.printed:
            notes.append(f"from the printed values it is {ours} %")
    return "; ".join(notes)


def _values(rounds: Sequence[Round], arm: Arm, unit: str) -> str:
    """Each round's value; a failed round in brackets."""
    texts = []
    for item in rounds:
        text = figure_words(item.value, unit, as_printed=arm.origin == "published")
        texts.append(text if item.valid else f"({text})")
    return " · ".join(texts[:8]) + (f" · … {len(texts)} rounds" if len(texts) > 8 else "")


def figure_words(value: float, unit: str, *, as_printed: bool = False) -> str:
    """A figure with four digits, or with all that its author printed."""
    if not as_printed:
        return f"{value:.4g}"
    is_whole = float(value).is_integer()
    # the studies print rates, and milliseconds below a hundred, with a decimal
    return f"{value:.1f}" if is_whole and (unit == "tok/s" or value < 100) else f"{value:.10g}"


def findings_of(rows: Sequence[Row]) -> list[Finding]:
    """The compared figures for the scorecard."""
    found = []
    for row in rows:
        if row.result is not None and row.result.change_pct is not None:
            found.append(
                Finding(
                    row.metric,
                    row.statistic,
                    cell_words(row.cell),
                    row.result.words,
                    row.result.verdict,
                )
            )
        elif row.printed:
            words = f"{row.printed}, printed by the author without values"
            found.append(
                Finding(row.metric, row.statistic, cell_words(row.cell), words, "published")
            )
    return found


def interval_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Change and interval of the main figures, for the picture."""
    lines = []
    for row in rows:
        result = row.result
        if result is None or result.change_pct is None or (row.metric, row.statistic) not in MAIN:
            continue
        lines.append(
            {
                "workload": cell_words(row.cell),
                "figure": row.label,
                "change_pct": result.change_pct,
                "low_pct": result.low_pct,
                "high_pct": result.high_pct,
                "verdict": VERDICT_WORDS[result.verdict],
                "order": len(lines),
            }
        )
    return pd.DataFrame(lines)


def rounds_frame(rows: Sequence[Row], arms: tuple[Arm, Arm], name: str, statistic: str) -> Any:
    """Each round's value of one figure in both arms, by workload."""
    lines = []
    for row in rows:
        if (row.metric, row.statistic) != (name, statistic):
            continue
        for arm, rounds in ((arms[0], row.reference), (arms[1], row.other)):
            lines += [
                {
                    "workload": cell_words(row.cell),
                    "arm": arm.name,
                    "round": item.round,
                    "value": item.value,
                    "state": "valid" if item.valid else "invalid",
                }
                for item in rounds
            ]
    return pd.DataFrame(lines)
