"""Pictures of predictions: steps with intervals, terms, speedups, loads, sizes, calibration."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from pages.charts import theme

GREY = "#808790"  # contrast of at least 3 on both themes


def _tp_axis() -> alt.X:
    return alt.X("TP:O", title="Tensor-parallel size", axis=alt.Axis(labelAngle=0))


def steps(frame: pd.DataFrame) -> alt.LayerChart:
    """TPOT by TP size with its 80 % interval; measured points as filled squares.

    Args:
        frame: As `pages.widgets.what_if_frames.steps`.
    """
    y = alt.Y("TPOT (ms):Q", title="Time per output token (ms)", scale=alt.Scale(zero=True))
    tips = [
        alt.Tooltip("TP"),
        *(alt.Tooltip(name, format=".2f") for name in ("TPOT (ms)", "low (ms)", "high (ms)")),
        alt.Tooltip("tok/s", format=".0f"),
        alt.Tooltip("nearest measurement"),
    ]
    base = alt.Chart(frame).encode(x=_tp_axis(), tooltip=tips)
    layers = [
        base.mark_rule(color=theme.PALETTE[1], strokeWidth=3).encode(
            y=alt.Y("low (ms):Q", title="Time per output token (ms)"), y2=alt.Y2("high (ms):Q")
        ),
        base.mark_point(
            color=theme.PALETTE[1], filled=False, size=110, strokeWidth=2.5, opacity=1
        ).encode(y=y),
    ]
    known = frame.dropna(subset=["measured (ms)"])
    if not known.empty:
        layers.append(
            alt.Chart(known)
            .mark_point(color=theme.PALETTE[0], shape="square", filled=True, size=90, opacity=1)
            .encode(
                x=_tp_axis(),
                y=alt.Y("measured (ms):Q"),
                tooltip=[
                    alt.Tooltip("TP"),
                    alt.Tooltip("measured (ms)"),
                    alt.Tooltip("residual (%)"),
                ],
            )
        )
    return alt.layer(*layers).properties(height=280)


def terms(frame: pd.DataFrame, order: Sequence[str]) -> alt.Chart:
    """The terms of each step, stacked.

    Args:
        frame: As `pages.widgets.what_if_frames.parts`.
        order: Names of the terms in the order of their colours.
    """
    place = {name: index for index, name in enumerate(order)}
    ordered = frame.assign(place=frame["term"].map(place))
    return (
        alt.Chart(ordered)
        .mark_bar()
        .encode(
            y=alt.Y("TP:O", title="Tensor-parallel size"),
            x=alt.X("ms:Q", title="Time per output token (ms)", stack="zero"),
            color=theme.colour("term", order),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("TP"),
                alt.Tooltip("term"),
                alt.Tooltip("ms", format=".2f"),
                alt.Tooltip("share (%)", format=".0f"),
            ],
        )
        .properties(height=alt.Step(46))
    )


def speedups(frame: pd.DataFrame) -> alt.LayerChart:
    """Speedup over one GPU with its interval, the ideal and the line at 1.

    Args:
        frame: As `pages.widgets.what_if_frames.speedups`, rows with a speedup.
    """
    tips = [
        alt.Tooltip("TP"),
        *(alt.Tooltip(name, format=".2f") for name in ("speedup", "low", "high")),
    ]
    base = alt.Chart(frame).encode(x=_tp_axis(), tooltip=tips)
    y = alt.Y("speedup:Q", title="Speedup of TPOT over one GPU", scale=alt.Scale(zero=True))
    ideal = frame.assign(ideal=frame["TP"].astype(float))
    one = pd.DataFrame({"one": [1.0]})
    return alt.layer(
        alt.Chart(one).mark_rule(color=GREY, strokeDash=[4, 4]).encode(y=alt.Y("one:Q")),
        alt.Chart(ideal)
        .mark_point(color=GREY, shape="stroke", size=500, strokeWidth=2, opacity=1)
        .encode(
            x=_tp_axis(), y=alt.Y("ideal:Q"), tooltip=[alt.Tooltip("TP"), alt.Tooltip("ideal")]
        ),
        base.mark_rule(color=theme.PALETTE[1], strokeWidth=3).encode(
            y=alt.Y("low:Q"), y2=alt.Y2("high:Q")
        ),
        base.mark_point(
            color=theme.PALETTE[1], filled=False, size=110, strokeWidth=2.5, opacity=1
        ).encode(y=y),
    ).properties(height=260)


def loads(frame: pd.DataFrame, order: Sequence[str]) -> alt.LayerChart:
    """Throughput over concurrency, a line a TP size.

    Args:
        frame: As `pages.widgets.what_if_frames.loads`.
        order: TP sizes in the order of their colours.
    """
    x = alt.X("requests:Q", title="Requests at a time", scale=alt.Scale(type="log", base=2))
    y = alt.Y("tok/s:Q", title="Output throughput (tok/s)", scale=alt.Scale(zero=True))
    colour = theme.colour("TP", order, is_filled=True, columns=4)
    tips = [
        alt.Tooltip("TP"),
        alt.Tooltip("requests"),
        alt.Tooltip("tok/s", format=".0f"),
        alt.Tooltip("TPOT (ms)", format=".2f"),
    ]
    base = alt.Chart(frame).encode(x=x, y=y, color=colour, tooltip=tips)
    return alt.layer(
        base.mark_line().encode(strokeDash=theme.dash("TP", order)),
        base.mark_point(filled=True, size=60, opacity=1).encode(shape=theme.shape("TP", order)),
    ).properties(height=340)


def sizes(frame: pd.DataFrame) -> alt.LayerChart:
    """Speedup by model size with the line at 1; hollow where one GPU cannot hold the model.

    Args:
        frame: As `pages.widgets.what_if_frames.sizes`.
    """
    x = alt.X(
        "parameters (billion):Q", title="Parameters (billion)", scale=alt.Scale(type="log", base=2)
    )
    y = alt.Y("speedup:Q", title="Speedup over one GPU", scale=alt.Scale(zero=False))
    tips = [
        alt.Tooltip("model"),
        alt.Tooltip("parameters (billion)", format=".1f"),
        alt.Tooltip("speedup", format=".2f"),
        alt.Tooltip("fits one GPU"),
    ]
    base = alt.Chart(frame).encode(x=x, y=y, tooltip=tips)
    one = pd.DataFrame({"one": [1.0]})
    return alt.layer(
        alt.Chart(one).mark_rule(color=GREY, strokeDash=[4, 4]).encode(y=alt.Y("one:Q")),
        base.mark_line(color=theme.PALETTE[1], opacity=0.6),
        base.transform_filter("datum['fits one GPU'] == 'yes'").mark_point(
            color=theme.PALETTE[1], filled=True, size=70, opacity=1
        ),
        base.transform_filter("datum['fits one GPU'] == 'no'").mark_point(
            color=theme.PALETTE[1], filled=False, size=70, opacity=1
        ),
    ).properties(height=260)


def calibration(frame: pd.DataFrame, models: Sequence[str]) -> alt.LayerChart:
    """Predicted against measured on held-out models, with the line of no error.

    Args:
        frame: Columns measured_ms, predicted_ms, model, engine, system, tp, batch.
        models: Models in the order of their colours.
    """
    low = float(min(frame["measured_ms"].min(), frame["predicted_ms"].min()))
    high = float(max(frame["measured_ms"].max(), frame["predicted_ms"].max()))
    scale = alt.Scale(type="log", domain=[0.9 * low, 1.1 * high], nice=False)
    line = pd.DataFrame({"measured_ms": [low, high], "predicted_ms": [low, high]})
    x = alt.X("measured_ms:Q", title="Measured TPOT (ms)", scale=scale)
    y = alt.Y("predicted_ms:Q", title="Predicted TPOT (ms)", scale=scale)
    dots = (
        alt.Chart(frame)
        .mark_point(filled=True, size=28, opacity=0.6)
        .encode(
            x=x,
            y=y,
            color=theme.colour("model", models, is_filled=True),
            shape=theme.shape("model", models),
            tooltip=[
                alt.Tooltip("model"),
                alt.Tooltip("engine"),
                alt.Tooltip("system"),
                alt.Tooltip("tp"),
                alt.Tooltip("batch"),
                alt.Tooltip("measured_ms", format=".2f"),
                alt.Tooltip("predicted_ms", format=".2f"),
            ],
        )
    )
    return alt.layer(
        alt.Chart(line).mark_line(color=GREY, strokeDash=[4, 4]).encode(x=x, y=y), dots
    ).properties(height=520)
