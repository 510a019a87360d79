"""Pictures of decode steps: time by TP size, speedup with its ideal, the step in its parts."""

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from pages.charts import theme

GREY = "#808790"  # contrast of at least 3 on both themes


def step_time(frame: pd.DataFrame, cases: Sequence[str], title: str) -> alt.LayerChart:
    """Step time by TP size: bars from 0, intervals as rules, the roofline floor as ticks.

    Args:
        frame: As `pages.widgets.speedup_frames.steps`.
        cases: Labels in the order of their colours.
        title: The clock, for the axis.
    """
    return _by_tp(frame, cases, f"{title} (ms)", "step (ms)", "low (ms)", "high (ms)")


def rate(frame: pd.DataFrame, cases: Sequence[str], title: str) -> alt.LayerChart:
    """Tokens a second by TP size, as `step_time`; a floor in time is no bar's height here."""
    return _by_tp(frame, cases, f"{title} (tok/s)", "tok/s", "tok/s low", "tok/s high")


def _by_tp(
    frame: pd.DataFrame, cases: Sequence[str], title: str, value: str, low: str, high: str
) -> alt.LayerChart:
    """Bars of one column by TP size, with the rules of its interval."""
    x = alt.X("TP:O", title="Tensor-parallel size", axis=alt.Axis(labelAngle=0))
    offset = alt.XOffset("case:N", sort=list(cases))
    y = alt.Y(f"{value}:Q", title=title, scale=alt.Scale(zero=True))
    tips = [
        alt.Tooltip("case"),
        alt.Tooltip("TP"),
        alt.Tooltip("step (ms)", format=".3f"),
        alt.Tooltip("tok/s", format=".0f"),
        alt.Tooltip("rounds"),
        alt.Tooltip("validity"),
    ]
    colour = theme.colour("case", cases, is_filled=True)
    layers: list[alt.Chart] = []
    invalid = frame["validity"] == "invalid"
    for rows, mark in (
        (frame[~invalid], {}),
        (frame[invalid], {"filled": False, "strokeWidth": 1.5}),
    ):
        if not rows.empty:
            bars = alt.Chart(rows).mark_bar(**mark)
            layers.append(bars.encode(x=x, xOffset=offset, y=y, color=colour, tooltip=tips))
    known = frame.dropna(subset=[low, high])
    if not known.empty:
        layers.append(
            alt.Chart(known)
            .mark_rule(color=GREY, strokeWidth=2)
            .encode(x=x, xOffset=offset, y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q"))
        )
    floors = frame.dropna(subset=["roofline floor (ms)"])
    if value == "step (ms)" and not floors.empty:
        layers.append(
            alt.Chart(floors)
            # as wide as its bar, however many there are; white with a dark edge shows on all
            .mark_tick(
                orient="horizontal",
                thickness=4,
                color="#FFFFFF",
                stroke="#33383F",
                strokeWidth=1,
                opacity=1,
            )
            .encode(
                x=x,
                xOffset=offset,
                y=alt.Y("roofline floor (ms):Q"),
                tooltip=[alt.Tooltip("case"), alt.Tooltip("roofline floor (ms)", format=".3f")],
            )
        )
    return alt.layer(*layers).properties(height=_height(cases))


def speedup(frame: pd.DataFrame, cases: Sequence[str]) -> alt.LayerChart:
    """Speedup by TP size with the ideal line and the band that was promised.

    Args:
        frame: As `pages.widgets.speedup_frames.speedups`.
        cases: Labels in the order of their colours.
    """
    x = _tp_axis(sorted(frame["TP"].unique()))
    y = alt.Y("speedup:Q", title="Speedup", scale=alt.Scale(zero=True))
    reference = frame.drop_duplicates(["TP", "reference TP"])
    layers: list[alt.Chart] = [
        alt.Chart(reference)
        .mark_area(color=GREY, opacity=0.2)
        .encode(
            x=x,
            y=alt.Y("promised low:Q"),
            y2=alt.Y2("promised high:Q"),
            detail=alt.Detail("reference TP:N"),
        ),
        alt.Chart(reference)
        .mark_line(color=GREY, strokeDash=[4, 4])
        .encode(x=x, y=alt.Y("ideal:Q"), detail=alt.Detail("reference TP:N")),
        alt.Chart(pd.DataFrame({"one": [1.0]})).mark_rule(color=GREY).encode(y=alt.Y("one:Q")),
    ]
    colour = theme.colour("case", cases, is_filled=True)
    known = frame.dropna(subset=["low", "high"])
    if not known.empty:
        layers.append(
            alt.Chart(known)
            .mark_rule(strokeWidth=2)
            .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=colour)
        )
    tips = [alt.Tooltip("case"), alt.Tooltip("TP"), alt.Tooltip("speedup", format=".2f")]
    tips += [alt.Tooltip("efficiency (%)", format=".0f")]
    base = alt.Chart(frame).encode(x=x, y=y, color=colour, tooltip=tips)
    layers.append(base.mark_line().encode(strokeDash=theme.dash("case", cases)))
    layers.append(
        base.mark_point(filled=True, size=70, opacity=1).encode(shape=theme.shape("case", cases))
    )
    return alt.layer(*layers).properties(height=_height(cases))


def _tp_axis(sizes: Sequence[int]) -> alt.X:
    """TP sizes on a logarithmic axis: a doubling is one step."""
    return alt.X(
        "TP:Q",
        title="Tensor-parallel size",
        scale=alt.Scale(type="log", base=2, domain=[min(sizes), max(sizes)], nice=False),
        axis=alt.Axis(values=list(sizes), format="d"),
    )


def _height(cases: Sequence[str]) -> int:
    """Axes and legend take their part of a picture's height: a line a case."""
    return 340 + 20 * len(cases)


def step_parts(frame: pd.DataFrame, parts: Sequence[str]) -> alt.LayerChart:
    """Steps as stacked bars; a negative part lies left of zero, the whole step is a tick.

    Args:
        frame: As `pages.widgets.speedup_frames.parts`.
        parts: Words of the parts, in the order of the stack and the colours.
    """
    y = theme.names_above("step")
    order = {part: place for place, part in enumerate(parts)}
    shown = frame.assign(order=frame["part"].map(order))
    bars = (
        alt.Chart(shown)
        .mark_bar()
        .encode(
            y=y,
            x=alt.X("ms:Q", title="Time of a step (ms)", stack="zero"),
            color=alt.Color(
                "part:N",
                # from the palette's end: the first colours mean cases on this page
                scale=alt.Scale(domain=list(parts), range=list(theme.PALETTE[::-1][: len(parts)])),
                legend=alt.Legend(title=None, orient="bottom", columns=1, labelLimit=300),
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("step"),
                alt.Tooltip("part"),
                alt.Tooltip("ms", format="+.3f"),
                alt.Tooltip("basis"),
                alt.Tooltip("flag"),
            ],
        )
    )
    whole = frame.drop_duplicates("step")
    layers: list[alt.Chart] = [
        bars,
        alt.Chart(whole)
        .mark_tick(color=GREY, thickness=3, size=30)
        .encode(
            y=y,
            x=alt.X("whole step (ms):Q"),
            tooltip=[alt.Tooltip("step"), alt.Tooltip("whole step (ms)")],
        ),
    ]
    floors = whole.dropna(subset=["roofline floor (ms)"])
    if not floors.empty:
        layers.append(
            alt.Chart(floors)
            # white with a dark edge: it stands on bars of any colour, in both themes
            .mark_point(
                shape="triangle-up",
                size=70,
                filled=True,
                opacity=1,
                color="#FFFFFF",
                stroke="#33383F",
                strokeWidth=1.5,
            )
            .encode(
                y=y,
                x=alt.X("roofline floor (ms):Q"),
                tooltip=[alt.Tooltip("step"), alt.Tooltip("roofline floor (ms)", format=".3f")],
            )
        )
    return alt.layer(*layers).properties(height=theme.ROW)


def inverse_fit(points: pd.DataFrame, curves: pd.DataFrame, cases: Sequence[str]) -> alt.LayerChart:
    """Measured steps by TP size with their curves T = A/tp + C, drawn between them only.

    Args:
        points: As `pages.widgets.speedup_checks.fitted`, a row a measured step.
        curves: The same cases at closely spaced sizes: case, TP, fitted (ms).
        cases: Labels in the order of their colours.
    """
    sizes = sorted(points["TP"].unique())
    x = _tp_axis(sizes)
    y = alt.Y("step (ms):Q", title="Step (ms)", scale=alt.Scale(zero=True))
    colour = theme.colour("case", cases, is_filled=True)
    lines = (
        alt.Chart(curves)
        .mark_line()
        .encode(x=x, y=alt.Y("fitted (ms):Q"), color=colour, strokeDash=theme.dash("case", cases))
    )
    tips = [alt.Tooltip("case"), alt.Tooltip("TP")]
    tips += [alt.Tooltip(name, format=".3f") for name in ("step (ms)", "fitted (ms)")]
    marks = (
        alt.Chart(points)
        .mark_point(filled=True, size=80, opacity=1)
        .encode(x=x, y=y, color=colour, shape=theme.shape("case", cases), tooltip=tips)
    )
    return alt.layer(lines, marks).properties(height=_height(cases))


def break_even(frame: pd.DataFrame, title: str) -> alt.LayerChart:
    """Speedup against model size or batch, a line a TP size, with the line above which TP pays.

    Args:
        frame: As `pages.widgets.speedup_frames.sweep`, of one TP size or several.
        title: Title of the size axis, with its unit.
    """
    # both axes in logarithms: the line between two points crosses 1 where the sentence says
    x = alt.X("size:Q", title=title, scale=alt.Scale(type="log", nice=False, padding=12))
    y = alt.Y(
        "speedup:Q",
        title="Speedup over one GPU",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(values=_round_ratios(frame[["speedup", "low", "high"]]), format=".3~g"),
    )
    drawn = frame.assign(size_of_tp=frame["TP"].map("TP={}".format))
    sizes = [f"TP={tp}" for tp in sorted(frame["TP"].unique())]
    colour = theme.colour("size_of_tp", sizes, is_filled=True)
    base = alt.Chart(drawn).encode(x=x, color=colour)
    tips = [alt.Tooltip("case"), alt.Tooltip("TP"), alt.Tooltip("size")]
    tips.append(alt.Tooltip("speedup", format=".2f"))
    layers: list[alt.Chart] = [
        alt.Chart(pd.DataFrame({"one": [1.0]})).mark_rule(color=GREY).encode(y=alt.Y("one:Q")),
        base.mark_line().encode(y=y, strokeDash=theme.dash("size_of_tp", sizes)),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            y=alt.Y("speedup:Q"), shape=theme.shape("size_of_tp", sizes), tooltip=tips
        ),
    ]
    known = drawn.dropna(subset=["low", "high"])
    if not known.empty:
        layers.append(
            alt.Chart(known)
            .mark_rule()
            .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=colour)
        )
    return alt.layer(*layers).properties(height=240 + 20 * len(sizes))


def _round_ratios(drawn: pd.DataFrame) -> list[float]:
    """Round values from the lowest ratio drawn to the highest, 1 included; doubled if far apart.

    Vega's own on a logarithmic axis are tenths and ones, and within a decade it names only some.
    """
    low, high = min(1.0, drawn.min().min()), max(1.0, drawn.max().max())
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= 6:
            return [round(number * step, 2) for number in range(max(first, 1), last + 1)]
    return [2.0**k for k in range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)]


def promised(frame: pd.DataFrame) -> alt.LayerChart:
    """Gains of more GPUs in serving, beside the band that was promised.

    Args:
        frame: Columns change, gain, promised low, promised high.
    """
    y = theme.names_above("change")
    band = (
        alt.Chart(frame)
        .mark_bar(color=GREY, opacity=0.3)
        .encode(
            y=y, x=alt.X("promised low:Q", title="Throughput ratio"), x2=alt.X2("promised high:Q")
        )
    )
    marks = (
        alt.Chart(frame)
        .mark_point(color=theme.PALETTE[0], filled=True, size=90, opacity=1)
        .encode(
            y=y,
            x=alt.X("gain:Q"),
            tooltip=[alt.Tooltip("change"), alt.Tooltip("gain", format=".2f")],
        )
    )
    one = alt.Chart(pd.DataFrame({"one": [1.0]})).mark_rule(color=GREY).encode(x=alt.X("one:Q"))
    return alt.layer(band, one, marks).properties(height=theme.ROW)
