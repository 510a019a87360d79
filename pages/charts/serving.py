"""Charts of served models: rounds, changes, distributions, load curves, phases, drift."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from pages.charts.theme import PALETTE, ROW, colour, dash, names_above, shape

_ZERO = "#8A8F98"  # reads on both backgrounds
_WORDS = ["better", "worse", "same within 2 %", "not shown", "direction only", "differs"]
_WORD_SHAPES = ["triangle-up", "triangle-down", "circle", "cross", "diamond", "square"]
# the page's height of a picture holds its axes and its legend, a line a name
_PLOT, _LINE = 300, 20
_SHORT_MIN = 3.0  # below, a time axis counts seconds
_WORD_COLOURS = [PALETTE[2], PALETTE[1], PALETTE[0], _ZERO, PALETTE[0], PALETTE[5]]
# where a change of throughput comes from
BATCHING, OTHER_ARM = "batching", "the other arm"


def changes(frame: pd.DataFrame) -> alt.LayerChart:
    """Change of each main figure with its interval; no interval is drawn where there is none.

    Args:
        frame: Columns workload, figure, change_pct, low_pct, high_pct, verdict, order.
    """
    rows = frame.assign(line=frame["figure"] + " · " + frame["workload"])
    order = list(rows.sort_values("order")["line"])
    y = names_above("line", sort=order)
    # an interval of too few rounds may be endless: it must not squeeze the others
    most = float(rows["change_pct"].abs().max())
    ends = rows[["low_pct", "high_pct"]].astype(float).abs().max().max()
    far = max(10.0, 1.2 * min(2.0 * most, max(most, 0.0 if pd.isna(ends) else float(ends))))
    scale = alt.Scale(domain=[-min(far, 100.0), far], clamp=True)
    x = alt.X(
        "change_pct:Q",
        title="change against the reference (%)",
        scale=scale,
        axis=alt.Axis(tickCount=8),
    )
    # only the words that occur: each keeps its shape and colour
    present = [word for word in _WORDS if word in set(rows["verdict"])]
    places = [_WORDS.index(word) for word in present]
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolOpacity=1)
    zero = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=_ZERO).encode(x=alt.X("x:Q"))
    margin = (
        alt.Chart(pd.DataFrame({"a": [-2.0], "b": [2.0]}))
        .mark_rect(opacity=0.12, color=_ZERO)
        .encode(x=alt.X("a:Q"), x2=alt.X2("b:Q"))
    )
    known = rows.dropna(subset=["low_pct", "high_pct"])
    intervals = (
        alt.Chart(known)
        .mark_rule(strokeWidth=2, color=PALETTE[0])
        .encode(x=alt.X("low_pct:Q"), x2=alt.X2("high_pct:Q"), y=y)
    )
    points = (
        alt.Chart(rows)
        .mark_point(filled=True, size=90, opacity=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "verdict:N",
                scale=alt.Scale(domain=present, range=[_WORD_COLOURS[i] for i in places]),
                legend=legend,
            ),
            shape=alt.Shape(
                "verdict:N",
                scale=alt.Scale(domain=present, range=[_WORD_SHAPES[i] for i in places]),
                legend=legend,
            ),
            tooltip=[
                alt.Tooltip("figure:N"),
                alt.Tooltip("workload:N"),
                alt.Tooltip("change_pct:Q", title="change (%)", format="+.1f"),
                alt.Tooltip("low_pct:Q", title="low (%)", format="+.1f"),
                alt.Tooltip("high_pct:Q", title="high (%)", format="+.1f"),
                alt.Tooltip("verdict:N"),
            ],
        )
    )
    layers = [margin, zero, points] if known.empty else [margin, zero, intervals, points]
    return alt.layer(*layers).properties(height=ROW)


def rounds(frame: pd.DataFrame, title: str, arms: Sequence[str]) -> alt.Chart:
    """Every round's value of one figure, a row a workload and arm, invalid rounds hollow.

    Args:
        frame: Columns workload, arm, round, value, state.
        title: Of the value axis, with its unit.
        arms: Names in order, for stable colours.
    """
    named = frame.assign(row=frame["workload"] + " · " + frame["arm"])
    order = {name: number for number, name in enumerate(arms)}
    first = {name: number for number, name in enumerate(dict.fromkeys(frame["workload"]))}
    named = named.sort_values(
        ["workload", "arm"],
        key=lambda names: names.map(first if names.name == "workload" else order),
    )
    return (
        alt.Chart(named)
        .mark_point(size=70)
        .encode(
            x=alt.X("value:Q", title=title, scale=alt.Scale(zero=False)),
            y=names_above("row", sort=list(dict.fromkeys(named["row"]))),
            color=colour("arm", arms),
            shape=shape("arm", arms),
            fillOpacity=alt.FillOpacityValue(
                0, condition={"test": "datum.state == 'valid'", "value": 0.9}
            ),
            tooltip=[
                alt.Tooltip("workload:N"),
                alt.Tooltip("arm:N"),
                alt.Tooltip("round:O"),
                alt.Tooltip("value:Q", format=".4g"),
            ],
        )
        .properties(height=ROW)
    )


def distribution(frame: pd.DataFrame, title: str, arms: Sequence[str]) -> alt.Chart:
    """Share of requests (or gaps) at or below a value, one line an arm.

    Args:
        frame: Columns arm, value, share.
        title: Of the value axis, with its unit.
        arms: Names in order.
    """
    return (
        alt.Chart(frame)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("value:Q", title=title, scale=alt.Scale(zero=False)),
            y=alt.Y("share:Q", title="share at or below", axis=alt.Axis(format=".0%")),
            color=colour("arm", arms),
            strokeDash=dash("arm", arms),
            order=alt.Order("share:Q"),
            tooltip=[
                alt.Tooltip("arm:N"),
                alt.Tooltip("value:Q", format=".4g"),
                alt.Tooltip("share:Q"),
            ],
        )
        .properties(height=_PLOT + _LINE * len(arms))
    )


def load_curve(frame: pd.DataFrame, y: str, title: str, arms: Sequence[str]) -> alt.LayerChart:
    """A figure against concurrency, one line an arm.

    Args:
        frame: Columns arm, concurrency and the column named by ``y``.
        y: Column of values.
        title: Of the value axis, with its unit.
        arms: Names in order.
    """
    base = alt.Chart(frame).encode(
        x=alt.X(
            "concurrency:Q",
            title="concurrency (requests in flight)",
            scale=alt.Scale(type="log", base=2, nice=False),
            axis=alt.Axis(values=sorted(set(frame["concurrency"])), format="d"),
        ),
        y=alt.Y(f"{y}:Q", title=title),
        color=colour("arm", arms, is_filled=True),
    )
    lines = base.mark_line().encode(strokeDash=dash("arm", arms))
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        shape=shape("arm", arms),
        tooltip=[
            alt.Tooltip("arm:N"),
            alt.Tooltip("concurrency:Q"),
            alt.Tooltip(f"{y}:Q", format=".4g"),
        ],
    )
    return alt.layer(lines, points).properties(height=320)


def trade(frame: pd.DataFrame, ttft_ms: float, arms: Sequence[str]) -> alt.LayerChart:
    """Throughput against time to first token, with the region that meets the limit.

    Args:
        frame: Columns arm, concurrency, output_tok_s, ttft_ms.
        ttft_ms: The limit.
        arms: Names in order.
    """
    top = float(frame["output_tok_s"].max()) * 1.1
    region = (
        alt.Chart(pd.DataFrame({"x0": [0.0], "x1": [ttft_ms], "y0": [0.0], "y1": [top]}))
        .mark_rect(opacity=0.12, color=PALETTE[2])
        .encode(x=alt.X("x0:Q"), x2=alt.X2("x1:Q"), y=alt.Y("y0:Q"), y2=alt.Y2("y1:Q"))
    )
    base = alt.Chart(frame).encode(
        x=alt.X("ttft_ms:Q", title="time to first token, median (ms)"),
        y=alt.Y("output_tok_s:Q", title="Output throughput (tok/s)"),
        color=colour("arm", arms, is_filled=True),
        order=alt.Order("concurrency:Q"),
    )
    lines = base.mark_line().encode(strokeDash=dash("arm", arms))
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        shape=shape("arm", arms),
        tooltip=[
            alt.Tooltip("arm:N"),
            alt.Tooltip("concurrency:Q"),
            alt.Tooltip("output_tok_s:Q", format=".4g"),
            alt.Tooltip("ttft_ms:Q", format=".4g"),
        ],
    )
    text = base.mark_text(dx=12, dy=-8, fontSize=12).encode(text=alt.Text("concurrency:Q"))
    return alt.layer(region, lines, points, text).properties(height=320)


def phases(frame: pd.DataFrame) -> alt.Chart:
    """Where a request's time goes, one bar an arm and workload.

    Args:
        frame: Columns bar (arm and workload), phase, ms, order.
    """
    names = ["client", "queue", "prefill", "decode"]
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            y=names_above("bar"),
            x=alt.X("ms:Q", title="mean time of a request (ms)", stack="zero"),
            color=alt.Color(
                "phase:N",
                sort=names,
                scale=alt.Scale(domain=names, range=list(PALETTE[2:6])),
                legend=alt.Legend(title=None, orient="bottom"),
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("bar:N"),
                alt.Tooltip("phase:N"),
                alt.Tooltip("ms:Q", format=".4g"),
            ],
        )
        .properties(height=ROW)
    )


def over_time(
    frame: pd.DataFrame, y: str, title: str, series: str, names: Sequence[str]
) -> alt.Chart:
    """A value over the minutes of a load, one line a series.

    Args:
        frame: Columns minutes, ``y`` and ``series``; at most 2,000 rows. Where there is a column
            stretch, a line ends with each.
        y: Column of values.
        title: Of the value axis, with its unit.
        series: Column that tells the lines apart.
        names: Its values in order.
    """
    is_short = float(frame["minutes"].max()) < _SHORT_MIN
    apart = {"detail": alt.Detail("stretch:N")} if "stretch" in frame else {}
    seconds = frame.assign(seconds=60 * frame["minutes"]) if is_short else frame
    at = ("seconds:Q", "time (s)") if is_short else ("minutes:Q", "time (min)")
    return (
        alt.Chart(seconds)
        .mark_line(point=len(frame) < 200)
        .encode(
            x=alt.X(at[0], title=at[1]),
            y=alt.Y(f"{y}:Q", title=title, scale=alt.Scale(zero=False)),
            color=colour(series, names, is_filled=True),
            strokeDash=dash(series, names),
            **apart,
            tooltip=[
                alt.Tooltip(f"{series}:N"),
                alt.Tooltip(at[0], format=".4g"),
                alt.Tooltip(f"{y}:Q", format=".4g"),
            ],
        )
        .properties(height=_PLOT + _LINE * len(names))
    )


def beside(frame: pd.DataFrame) -> alt.LayerChart:
    """What batching brings beside what the other arm brings, as bars from 0.

    Args:
        frame: Columns what, from (`BATCHING` or `OTHER_ARM`), gain_pct, low_pct, high_pct.
    """
    base = alt.Chart(frame).encode(
        y=names_above("what"),
        color=alt.Color(
            "from:N",
            scale=alt.Scale(domain=[BATCHING, OTHER_ARM], range=[PALETTE[4], PALETTE[0]]),
            legend=alt.Legend(title=None, orient="bottom", columns=2),
        ),
    )
    bars = base.mark_bar(height=16).encode(
        x=alt.X("gain_pct:Q", title="change of output throughput (%)", axis=alt.Axis(tickCount=8)),
        tooltip=[alt.Tooltip("what:N"), alt.Tooltip("gain_pct:Q", format="+.1f")],
    )
    spans = base.mark_rule(strokeWidth=6).encode(
        x=alt.X("low_pct:Q"),
        x2=alt.X2("high_pct:Q"),
        tooltip=[alt.Tooltip("what:N"), alt.Tooltip("low_pct:Q"), alt.Tooltip("high_pct:Q")],
    )
    return alt.layer(bars, spans).properties(height=ROW)
