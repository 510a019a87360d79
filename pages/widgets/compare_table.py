"""The numbers of a comparison as tables: a cell a run for reading, all columns for files."""

import math
from collections.abc import Sequence

import pandas as pd

from models.metrics import METRICS
from models.side_by_side import Row
from models.step_clocks import in_words

_SIGNS = {True: "▲ better", False: "▼ worse"}
_DIGITS = 4  # that count, of a number that is read


def numbers(rows: Sequence[Row], labels: Sequence[str]) -> pd.DataFrame:
    """All columns: quantity, unit, a column a run, change and its direction."""
    found = []
    for row in rows:
        known = METRICS[row.metric]
        line: dict[str, object] = {"quantity": known.label, "statistic": row.statistic}
        line["where"] = _where(row)
        line["unit"] = row.unit
        line["as"] = ", ".join(row.meanings)
        for label, cell in zip(labels, row.cells, strict=True):
            line[label] = None if cell is None else cell.value
        for index in range(1, len(labels)):
            line[f"change of {labels[index]}"] = _change(row, index)
        found.append(line)
    return pd.DataFrame(found)


def stacked(rows: Sequence[Row], labels: Sequence[str]) -> pd.DataFrame:
    """For reading at every width: what is compared in one cell, then a cell a run with its change.

    Two runs need three columns, which fit a phone without scrolling.
    """
    return pd.DataFrame(
        [
            {
                "quantity": _quantity(row),
                **{label: _cell(row, index) for index, label in enumerate(labels)},
            }
            for row in rows
        ]
    )


def _where(row: Row) -> str:
    return ", ".join(in_words(name, value) for name, value in row.dims.items())


def _quantity(row: Row) -> str:
    """A quantity with its statistic, unit and place."""
    label = METRICS[row.metric].label
    words = label if row.statistic == "value" else f"{label}, {row.statistic}"
    words = f"{words} ({row.unit})" if row.unit else words
    return f"{words}: {_where(row)}" if row.dims else words


def _cell(row: Row, index: int) -> str | None:
    cell = row.cells[index]
    if cell is None:
        return None
    # the first run that has the quantity is what the others are held against
    change = "" if index == row.base else _change(row, index)
    return f"{_figure(cell.value)} ({change})" if change else _figure(cell.value)


def _figure(value: float) -> str:
    """A number with `_DIGITS` digits that count, thousands parted, without zeros at its end."""
    if value == 0 or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{_DIGITS}g}"
    after = max(0, _DIGITS - 1 - math.floor(math.log10(abs(value))))
    said = f"{value:,.{after}f}"
    return said.rstrip("0").rstrip(".") if after else said


def _change(row: Row, index: int) -> str:
    """The change of a run in words; empty where there is none to be told."""
    if row.reason is not None:
        return "not comparable"
    change = row.change_pct(index)
    if change is None or index == row.base:
        return ""
    direction = METRICS[row.metric].direction
    if direction == "none" or round(change, 1) == 0:
        return f"{change:+.1f} %"
    return f"{change:+.1f} % {_SIGNS[(change > 0) == (direction == 'higher')]}"
