"""One quantity of several runs: a line over what varies inside a run, else a bar a run."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from models.metrics import METRICS
from models.side_by_side import Row
from pages.charts.theme import ROW, colour, names_above, shape

AXIS_TITLES = {
    "bytes": "Message size (bytes)",
    "concurrency": "Requests at once",
    "batch": "Batch size",
    "kv_len": "KV cache length (tokens)",
    "input_len": "Prompt tokens",
    "output_len": "Output tokens",
}
_LOG = ("bytes", "concurrency", "batch", "kv_len", "input_len", "output_len")


def frame(rows: Sequence[Row], labels: Sequence[str], x: str | None) -> pd.DataFrame:
    """Long form: run, value, change, one column a dimension, and those off the axis in words."""
    found = []
    for row in rows:
        where = ", ".join(f"{name} {value}" for name, value in row.dims.items() if name != x)
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
    y = alt.Y("value:Q", title=known.axis, scale=alt.Scale(zero=True))
    kind = "log" if x in _LOG and bool((data[x] > 0).all()) else "linear"
    title = AXIS_TITLES.get(x, x)
    lines = alt.StrokeDash("where:N", title=None) if several else alt.Detail("where:N")
    return (
        alt.Chart(data)
        .mark_line(point=True)
        .encode(lines, x=alt.X(f"{x}:Q", title=title, scale=alt.Scale(type=kind)), y=y,
                color=colour("run", labels), shape=shape("run", labels), tooltip=tips)
        .properties(height=420)
    )  # fmt: skip
