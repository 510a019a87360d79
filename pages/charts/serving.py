"""Charts of served models: rounds, changes, distributions, load curves, phases, drift."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from pages.charts.theme import PALETTE, ROW, colour, dash, names_above, shape

_ZERO = "#8A8F98"  # reads on both backgrounds
_WORDS = ["better", "worse", "same within 2 %", "not shown", "direction only", "differs"]
_WORD_SHAPES = ["triangle-up", "triangle-down", "circle", "cross", "diamond", "square"]


def changes(frame: pd.DataFrame) -> alt.LayerChart:
    """Change of each main figure with its interval; no interval is drawn where there is none.

    Args:
        frame: Columns workload, figure, change_pct, low_pct, high_pct, verdict, order.
    """
    rows = frame.assign(line=frame["figure"] + " · " + frame["workload"])
    order = list(rows.sort_values("order")["line"])
    y = names_above("line", sort=order)
    # an interval of too few rounds may be endless: it must not squeeze the others
    far = max(10.0, 2.5 * float(rows["change_pct"].abs().max()))
    scale = alt.Scale(domain=[-min(far, 100.0), far], clamp=True)
    x = alt.X("change_pct:Q", title="change against the reference (%)", scale=scale)
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
        .mark_point(filled=True, size=90, color=PALETTE[0])
        .encode(
            x=x,
            y=y,
            shape=alt.Shape(
                "verdict:N",
                scale=alt.Scale(domain=_WORDS, range=_WORD_SHAPES),
                legend=alt.Legend(title=None, orient="bottom", columns=2),
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
    """Every round's value of one figure, invalid rounds hollow.

    Args:
        frame: Columns workload, arm, round, value, state.
        title: Of the value axis, with its unit.
        arms: Names in order, for stable colours.
    """
    return (
        alt.Chart(frame)
        .mark_point(size=70)
        .encode(
            x=alt.X("arm:N", title=None, sort=list(arms), axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("round:O"),
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
            color=colour("arm", arms),
            shape=shape("arm", arms),
            fillOpacity=alt.condition("datum.state == 'valid'", alt.value(0.9), alt.value(0)),
            column=alt.Column("workload:N", title=None, header=alt.Header(labelLimit=240)),
            tooltip=[
                alt.Tooltip("workload:N"),
                alt.Tooltip("arm:N"),
                alt.Tooltip("round:O"),
                alt.Tooltip("value:Q", format=".4g"),
            ],
        )
        .properties(width=180, height=200)
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
        .properties(height=280)
    )


def load_curve(frame: pd.DataFrame, y: str, title: str, arms: Sequence[str]) -> alt.Chart:
    """A figure against concurrency, one line an arm.

    Args:
        frame: Columns arm, concurrency and the column named by ``y``.
        y: Column of values.
        title: Of the value axis, with its unit.
        arms: Names in order.
    """
    return (
        alt.Chart(frame)
        .mark_line(point=alt.OverlayMarkDef(size=60))
        .encode(
            x=alt.X(
                "concurrency:Q",
                title="concurrency (requests in flight)",
                scale=alt.Scale(type="log", base=2, nice=False),
                axis=alt.Axis(values=sorted(set(frame["concurrency"])), format="d"),
            ),
            y=alt.Y(f"{y}:Q", title=title),
            color=colour("arm", arms, is_filled=True),
            strokeDash=dash("arm", arms),
            tooltip=[
                alt.Tooltip("arm:N"),
                alt.Tooltip("concurrency:Q"),
                alt.Tooltip(f"{y}:Q", format=".4g"),
            ],
        )
        .properties(height=340)
    )


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
        y=alt.Y("output_tok_s:Q", title="output throughput (tok/s)"),
        color=colour("arm", arms, is_filled=True),
        order=alt.Order("concurrency:Q"),
    )
    lines = base.mark_line().encode(strokeDash=dash("arm", arms))
    points = base.mark_point(filled=True, size=70).encode(
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
        frame: Columns minutes, ``y`` and ``series``; at most 2,000 rows.
        y: Column of values.
        title: Of the value axis, with its unit.
        series: Column that tells the lines apart.
        names: Its values in order.
    """
    return (
        alt.Chart(frame)
        .mark_line(point=len(frame) < 200)
        .encode(
            x=alt.X("minutes:Q", title="time (min)"),
            y=alt.Y(f"{y}:Q", title=title, scale=alt.Scale(zero=False)),
            color=colour(series, names),
            strokeDash=dash(series, names),
            tooltip=[
                alt.Tooltip(f"{series}:N"),
                alt.Tooltip("minutes:Q"),
                alt.Tooltip(f"{y}:Q", format=".4g"),
            ],
        )
        .properties(height=240)
    )


def beside(frame: pd.DataFrame) -> alt.Chart:
    """What batching brings beside what the other arm brings, as bars from 0.

    Args:
        frame: Columns what, gain_pct, low_pct, high_pct.
    """
    base = alt.Chart(frame).encode(y=names_above("what"))
    bars = base.mark_bar(color=PALETTE[0], height=16).encode(
        x=alt.X("gain_pct:Q", title="change of output throughput (%)"),
        tooltip=[alt.Tooltip("what:N"), alt.Tooltip("gain_pct:Q", format="+.1f")],
    )
    spans = base.mark_rule(strokeWidth=6, color=PALETTE[1]).encode(
        x=alt.X("low_pct:Q"),
        x2=alt.X2("high_pct:Q"),
        tooltip=[alt.Tooltip("what:N"), alt.Tooltip("low_pct:Q"), alt.Tooltip("high_pct:Q")],
    )
    return alt.layer(bars, spans).properties(height=ROW)
