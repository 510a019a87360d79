"""Pictures of a purchase: value over time, payback, what decides, alternatives."""

import altair as alt
import pandas as pd

from pages.charts import theme

GREY = "#808790"  # contrast of at least 3 on both themes
MAIN, SECOND = theme.PALETTE[0], theme.PALETTE[1]


def _zero(axis: str) -> alt.Chart:
    at = pd.DataFrame({"zero": [0.0]})
    rule = alt.Chart(at).mark_rule(color=GREY, strokeDash=[4, 3])
    return rule.encode(x=alt.X("zero:Q")) if axis == "x" else rule.encode(y=alt.Y("zero:Q"))


def _shares() -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:Q", format=",.0f") for name in ("P5", "P50", "P95")]


def fan(frame: pd.DataFrame, symbol: str) -> alt.LayerChart:
    """Net present value by month: P5 to P95, P25 to P75, median.

    Args:
        frame: Columns month, P5, P25, P50, P75, P95.
        symbol: Of the currency.
    """
    x = alt.X("month:Q", title="Month", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(nice=False))
    base = alt.Chart(frame).encode(x=x)
    y = alt.Y("P5:Q", title=f"Net present value so far ({symbol})")
    wide = base.mark_area(color=MAIN, opacity=0.18).encode(y=y, y2=alt.Y2("P95:Q"))
    narrow = base.mark_area(color=MAIN, opacity=0.3).encode(y=alt.Y("P25:Q"), y2=alt.Y2("P75:Q"))
    tips = [alt.Tooltip("month:Q"), *_shares()]
    middle = base.mark_line(color=MAIN, strokeWidth=2.5, point=alt.OverlayMarkDef(size=18)).encode(
        y=alt.Y("P50:Q"), tooltip=tips
    )
    return alt.layer(wide, narrow, middle, _zero("y")).properties(height=300)


def payback(frame: pd.DataFrame) -> alt.Chart:
    """Share of simulated cases that pay back in each month.

    Args:
        frame: Columns month, share (%).
    """
    return (
        alt.Chart(frame)
        .mark_bar(color=MAIN)
        .encode(
            x=alt.X("month:Q", title="Month", bin=alt.Bin(step=1), axis=_months(frame)),
            y=alt.Y("share (%):Q", title="Share of simulated cases (%)"),
            tooltip=[alt.Tooltip("month:Q"), alt.Tooltip("share (%):Q", format=".1f")],
        )
        .properties(height=300)
    )


def _months(frame: pd.DataFrame) -> alt.Axis:
    last = int(frame["month"].max())
    step = 6 if last > 12 else 2
    return alt.Axis(values=list(range(0, last + 1, step)), format="d")


def tornado(frame: pd.DataFrame, middle: float, symbol: str) -> alt.LayerChart:
    """Each input alone from its P10 to its P90, widest first.

    Args:
        frame: Columns input, at P10, at P90, low words, high words, left, right.
        middle: Value with every input at its median.
        symbol: Of the currency.
    """
    order = list(frame["input"])
    y = theme.names_above("input", sort=order)
    bars = (
        alt.Chart(frame)
        .mark_bar(color=MAIN, height=14)
        .encode(
            y=y,
            # room for the words at both ends
            x=alt.X(
                "left:Q",
                title=f"Net present value ({symbol})",
                scale=alt.Scale(padding=90),
                axis=alt.Axis(tickCount=7),
            ),
            x2=alt.X2("right:Q"),
            tooltip=[alt.Tooltip("input:N"), alt.Tooltip("low words:N"),
                     alt.Tooltip("high words:N"), alt.Tooltip("at P10:Q", format=",.0f"),
                     alt.Tooltip("at P90:Q", format=",.0f")],
        )
    )  # fmt: skip
    ends = []
    for end, align, dx in (("left", "right", -4), ("right", "left", 4)):
        words = alt.Chart(frame).mark_text(align=align, dx=dx, color=GREY, fontSize=11)
        ends.append(words.encode(y=y, x=alt.X(f"{end}:Q"), text=alt.Text(f"{end} words:N")))
    centre = alt.Chart(pd.DataFrame({"x": [middle]})).mark_rule(color=SECOND, strokeWidth=2)
    return alt.layer(bars, *ends, centre.encode(x=alt.X("x:Q")), _zero("x")).properties(
        height=theme.ROW
    )


def alternatives(frame: pd.DataFrame, symbol: str) -> alt.LayerChart:
    """Net present value of each alternative: P5 to P95 and the median.

    Args:
        frame: Columns alternative, P5, P50, P95.
        symbol: Of the currency.
    """
    order = list(frame["alternative"])
    y = theme.names_above("alternative", sort=order)
    base = alt.Chart(frame).encode(y=y)
    x = alt.X("P5:Q", title=f"Net present value ({symbol})", axis=alt.Axis(tickCount=7))
    spans = base.mark_rule(color=MAIN, strokeWidth=4, opacity=0.5).encode(x=x, x2=alt.X2("P95:Q"))
    tips = [alt.Tooltip("alternative:N"), *_shares()]
    middles = base.mark_point(color=MAIN, filled=True, size=90, opacity=1).encode(
        x=alt.X("P50:Q"), tooltip=tips
    )
    return alt.layer(spans, middles, _zero("x")).properties(height=theme.ROW)
