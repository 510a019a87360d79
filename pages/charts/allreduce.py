"""Pictures of an all-reduce sweep: latency against size, residuals, cost of a step."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from pages.charts import theme

GREY = "#808790"  # contrast of at least 3 on both themes


def _bounds(frame: pd.DataFrame) -> tuple[float, float]:
    """Ends of the size axis; a study with a single size gets room on both sides."""
    low, high = float(frame["bytes"].min()), float(frame["bytes"].max())
    return (low, high) if low < high else (low / 8, high * 64)


def latency(
    points: pd.DataFrame,
    curves: Sequence[str],
    *,
    line: pd.DataFrame,
    messages: pd.DataFrame,
    crossover_bytes: float | None,
    reference: pd.DataFrame,
) -> alt.LayerChart:
    """Latency against message size, both logarithmic.

    Args:
        points: Columns curve, validity, bytes, latency_us, p10_us, p90_us.
        curves: Labels in the order of their colours.
        line: Fitted stretches of one curve: piece, bytes, latency_us; may be empty.
        messages: Real messages of the chosen model: bytes, batch; may be empty.
        crossover_bytes: End of the latency-bound region, None where unknown.
        reference: Public latencies: bytes, latency_us, low_us, high_us; may be empty.
    """
    low, high = _bounds(points)
    x = theme.message_sizes(low, high)
    y = alt.Y(
        "latency_us:Q",
        title="Latency of one all-reduce (us)",
        scale=alt.Scale(type="log", nice=False, padding=24),
        axis=alt.Axis(tickCount=6),
    )
    colour = theme.colour("curve", curves, is_filled=True)
    layers: list[alt.Chart] = []
    if crossover_bytes is not None and crossover_bytes > low:
        region = pd.DataFrame({"bytes": [low], "end": [min(crossover_bytes, high)]})
        shade = alt.Chart(region).encode(x=x)
        layers.append(shade.mark_rect(color=GREY, opacity=0.12).encode(x2=alt.X2("end:Q")))
        words = {"align": "left", "baseline": "bottom", "dx": 4, "dy": -4, "color": GREY}
        layers.append(shade.mark_text(text="latency-bound", **words).encode(y=alt.YValue("height")))
    if not reference.empty:
        known = alt.Chart(reference[reference["bytes"].between(low, high)]).encode(x=x)
        layers.append(
            known.mark_area(color=GREY, opacity=0.18).encode(
                y=alt.Y("low_us:Q"), y2=alt.Y2("high_us:Q")
            )
        )
        layers.append(known.mark_line(color=GREY, strokeDash=[1, 3]).encode(y=y))
    band = points.dropna(subset=["p10_us", "p90_us"])
    if not band.empty:
        layers.append(
            alt.Chart(band)
            .mark_area(opacity=0.2)
            .encode(x=x, y=alt.Y("p10_us:Q"), y2=alt.Y2("p90_us:Q"), color=colour)
        )
    tips = [
        alt.Tooltip("curve"),
        alt.Tooltip("bytes"),
        alt.Tooltip("latency_us", format=".2f"),
        alt.Tooltip("validity"),
    ]
    base = alt.Chart(points).encode(x=x, y=y, color=colour, tooltip=tips)
    layers.append(base.mark_line(strokeWidth=1.5).encode(strokeDash=theme.dash("curve", curves)))
    shape = theme.shape("curve", curves)
    invalid = points["validity"] == "invalid"
    for rows, is_filled in ((points[~invalid], True), (points[invalid], False)):
        if not rows.empty:
            marks = alt.Chart(rows).mark_point(filled=is_filled, size=55, opacity=1)
            layers.append(marks.encode(x=x, y=y, color=colour, tooltip=tips, shape=shape))
    if not line.empty:
        fitted = alt.Chart(line).mark_line(color=GREY, strokeWidth=2.5, strokeDash=[2, 2])
        layers.append(fitted.encode(x=x, y=y, detail=alt.Detail("piece:N")))
    shown = messages[messages["bytes"].between(low, high)] if not messages.empty else messages
    if not shown.empty:
        rule = alt.Chart(shown).encode(x=x)
        layers.append(rule.mark_rule(color=GREY, opacity=0.6))
        words = {"angle": 270, "align": "right", "dx": -4, "dy": -5, "color": GREY}
        layers.append(rule.mark_text(**words).encode(text=alt.Text("batch:N"), y=alt.YValue(0)))
    return alt.layer(*layers).properties(height=480)


def residual(frame: pd.DataFrame) -> alt.LayerChart:
    """Measured over fitted, minus one, at each size.

    Args:
        frame: Columns bytes, residual (%), used for.
    """
    x = theme.message_sizes(*_bounds(frame))
    zero = alt.Chart(pd.DataFrame({"y": [0]})).mark_rule(color=GREY).encode(y=alt.Y("y:Q"))
    marks = (
        alt.Chart(frame)
        .mark_bar(size=6)
        .encode(
            x=x,
            y=alt.Y("residual (%):Q", title="Measured above the line (%)"),
            color=alt.Color(
                "used for:N",
                scale=alt.Scale(domain=["fixed cost", "bandwidth"], range=list(theme.PALETTE[:2])),
                legend=alt.Legend(title="Size used for", orient="bottom"),
            ),
            tooltip=[alt.Tooltip("bytes"), alt.Tooltip("residual (%)", format="+.1f")],
        )
    )
    return alt.layer(zero, marks).properties(height=180)


def step_cost(frame: pd.DataFrame, curves: Sequence[str]) -> alt.LayerChart:
    """Cost of a step as bars from 0, an author's own figure as a tick.

    Args:
        frame: Columns curve, cost a step (ms), as printed (ms); valid runs only.
        curves: Labels in the order of their colours.
    """
    y = theme.names_above("curve")
    bars = (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            y=y,
            x=alt.X("cost a step (ms):Q", title="All-reduces of one step (ms)"),
            color=theme.colour("curve", curves).legend(None),
        )
    )
    layers: list[alt.Chart] = [bars]
    printed = frame.dropna(subset=["as printed (ms)"])
    if not printed.empty:
        layers.append(
            alt.Chart(printed)
            .mark_tick(color=GREY, thickness=3)
            .encode(
                y=y,
                x=alt.X("as printed (ms):Q"),
                tooltip=[alt.Tooltip("curve"), alt.Tooltip("as printed (ms)")],
            )
        )
    return alt.layer(*layers).properties(height=theme.ROW)
