"""One quantity of several runs: a line over what varies inside a run, else a bar a run."""

from collections.abc import Sequence
from typing import Literal

import altair as alt
import pandas as pd

from models.metrics import METRICS
from models.side_by_side import Row
from models.step_clocks import in_words
from pages.charts.theme import ROW, colour, message_sizes, names_above, shape

AXIS_TITLES = {
    "concurrency": "Requests at once",
    "batch": "Batch size",
    "kv_len": "KV cache length (tokens)",
    "input_len": "Prompt tokens",
    "output_len": "Output tokens",
}
_LOG = ("concurrency", "batch", "kv_len", "input_len", "output_len")

_WIDE = 50.0  # times the smallest value, from which on a linear axis would hide the small ones
_MOST_TICKS = 12


def frame(rows: Sequence[Row], labels: Sequence[str], x: str | None) -> pd.DataFrame:
    """Long form: run, value, change, one column a dimension, and those off the axis in words."""
    found = []
    for row in rows:
        where = ", ".join(in_words(name, value) for name, value in row.dims.items() if name != x)
        for index, cell in enumerate(row.cells):
            if cell is not None:
                found.append(
                    {
                        **row.dims,
                        "where": where,
                        "run": labels[index],
                        "value": cell.value,
                        "change": row.change_pct(index),
                        "rounds": cell.rounds,
                        "definition": cell.definition,
                    }
                )
    return pd.DataFrame(found)


def axis_of(rows: Sequence[Row]) -> str | None:
    """The numeric dimension with most values, for the horizontal axis; None where none varies."""
    values: dict[str, set[float]] = {}
    for row in rows:
        for name, value in row.dims.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                values.setdefault(name, set()).add(float(value))
    best = max(values, key=lambda name: len(values[name]), default=None)
    return best if best is not None and len(values[best]) > 1 else None


def compared(data: pd.DataFrame, metric: str, labels: Sequence[str], x: str | None) -> alt.Chart:
    """The chart of one metric and statistic.

    Args:
        data: From ``frame`` with the same ``x``; definitions that mean the same.
        metric: Name in the table of metrics.
        labels: The runs in order: each keeps its colour.
        x: Dimension of the horizontal axis, or None for bars.
    """
    known = METRICS[metric]
    tips = [alt.Tooltip(name) for name in data.columns if name != "change"]
    several = data["where"].nunique() > 1
    if x is None:
        bars = data.assign(bar=data["run"] + (" · " + data["where"] if several else ""))
        return (
            alt.Chart(bars)
            .mark_bar()
            .encode(
                x=alt.X("value:Q", title=known.axis, scale=alt.Scale(zero=True)),
                y=names_above("bar"),
                color=colour("run", labels).legend(None),  # the axis names the runs
                tooltip=tips,
            )
            .properties(height=ROW)
        )
    values = data["value"]
    # sizes span orders of magnitude, and so do their times: the small ones decide
    is_wide = bool((values > 0).all()) and float(values.max()) > _WIDE * float(values.min())
    scale = alt.Scale(type="log", nice=False, padding=16) if is_wide else alt.Scale(zero=True)
    lines = alt.StrokeDash("where:N", title=None) if several else alt.Detail("where:N")
    return (
        alt.Chart(data)
        .mark_line(point=alt.OverlayMarkDef(size=60))
        .encode(
            lines,
            x=_across(data, x),
            y=alt.Y("value:Q", title=known.axis, scale=scale, axis=alt.Axis(tickCount=6)),
            color=colour("run", labels, is_filled=True),
            shape=shape("run", labels),
            tooltip=tips,
        )
        .properties(height=420)
    )


def _across(data: pd.DataFrame, x: str) -> alt.X:
    """The horizontal axis: sizes as people say them, counts at the values that were measured."""
    if x == "bytes" and bool((data[x] > 0).all()):
        low, high = float(data[x].min()), float(data[x].max())
        return message_sizes(low, high)
    kind: Literal["log", "linear"] = "log" if x in _LOG and bool((data[x] > 0).all()) else "linear"
    seen = sorted(set(data[x]))
    axis = alt.Axis(values=seen, format="~g") if len(seen) <= _MOST_TICKS else alt.Axis()
    return alt.X(
        f"{x}:Q", title=AXIS_TITLES.get(x, x), scale=alt.Scale(type=kind, nice=False), axis=axis
    )
