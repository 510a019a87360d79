"""Further parts of the ROI page: what decides, stability, alternatives, ceiling, rollout."""

import numpy as np
import pandas as pd
import streamlit as st

from models.assessment import BREAK_EVENS, Assessment
from models.purchase import INPUTS
from models.risk import Evidence, Rate, bound_words, interval_a_year, mtbf_bound_hours
from models.sensitivity import utilisation_at
from models.trial import Ceilings, Trial
from models.wording import amount, chance, money, months
from pages.charts import roi as pictures
from pages.widgets.badges import plain as origin_words
from pages.widgets.downloads import chart, table
from pages.widgets.roi_answer import plain


def decides(found: Assessment) -> None:
    """Tornado and break-evens."""
    symbol = found.question.symbol
    st.subheader("What decides it")
    frame = tornado_frame(found)
    if frame.empty:
        st.info("Every input is known for sure: nothing moves the value.")
    else:
        chart(
            pictures.tornado(frame, found.typical.npv, symbol),
            "roi-tornado",
            f"{frame['input'].iloc[0]} moves the value most: from "
            f"{money(frame['left'].iloc[0], symbol)} to {money(frame['right'].iloc[0], symbol)}",
            frame[["input", "P10", "P90", "at P10", "at P90"]],
        )
        st.caption(
            "Each bar: one input from its P10 to its P90 (figures at the ends), all others at "
            "their medians. Solid line: all at their medians. Dashed: worth nothing."
        )
    table(
        break_even_frame(found),
        "roi-break-even",
        "Value of each input at which the purchase is worth exactly nothing",
        key="roi-break-even",
        is_wrapped=True,
    )
    total, parts = found.knowing
    if parts and total >= 1:
        best = max(parts, key=lambda name: parts[name])
        st.caption(
            plain(
                f"Knowing everything before deciding would be worth {money(total, symbol)}; "
                f"knowing {INPUTS[best][0].lower()} alone {money(parts[best], symbol)}."
            )
        )


def tornado_frame(found: Assessment) -> pd.DataFrame:
    """Columns input, P10, P90, at P10, at P90, left, right and the words at both ends."""
    symbol = found.question.symbol
    rows = []
    for swing in found.swings:
        low, high = (amount(swing.name, value, symbol) for value in (swing.low, swing.high))
        is_rising = swing.npv_high >= swing.npv_low
        rows.append(
            {
                "input": INPUTS[swing.name][0],
                "P10": low,
                "P90": high,
                "at P10": round(swing.npv_low, 2),
                "at P90": round(swing.npv_high, 2),
                "left": min(swing.npv_low, swing.npv_high),
                "right": max(swing.npv_low, swing.npv_high),
                "low words": f"P10: {low}",
                "high words": f"P90: {high}",
                "left words": low if is_rising else high,
                "right words": high if is_rising else low,
            }
        )
    return pd.DataFrame(rows)


def break_even_frame(found: Assessment) -> pd.DataFrame:
    """Break-even of price, demand and utilisation, gain and failure rate."""
    symbol, case = found.question.symbol, found.question.case
    middle = case.medians()
    rows = []
    for name in BREAK_EVENS:
        level = found.break_evens[name]
        rows.append(
            {
                "input": INPUTS[name][0],
                "now (median)": amount(name, middle[name], symbol),
                "breaks even at": amount(name, level, symbol)
                if level is not None
                else _never(name, found),
            }
        )
        if name == "demand":
            rows.append(
                {
                    "input": "Utilisation of the baseline",
                    "now (median)": f"{100 * utilisation_at(case, middle[name]):.0f} %",
                    "breaks even at": f"{100 * utilisation_at(case, level):.0f} %"
                    if level is not None
                    else _never(name, found),
                }
            )
    return pd.DataFrame(rows)


def _never(name: str, found: Assessment) -> str:
    """There is no break-even: the case pays at every value, or at none."""
    if found.typical.npv > 0:
        return "nowhere: it pays at every value"
    return {
        "price": "no price: not even as a gift",
        "demand": "no demand",
        "gain": "no gain up to ten times",
        "rate_added": "no failure rate",
    }[name]


def stability(found: Assessment, seen: tuple[Evidence, Evidence]) -> None:
    """Incidents, hours, what they show, and what it means in money."""
    symbol = found.question.symbol
    st.subheader("Stability")
    rates = found.question.case.stability
    rows = [
        _stability_row(name, evidence, rate)
        for name, evidence, rate in (
            ("baseline", seen[0], rates.baseline),
            ("candidate", seen[1], rates.candidate),
        )
    ]
    table(
        pd.DataFrame(rows),
        "roi-stability",
        bound_words(seen[1]),
        key="roi-stability",
        column_order=[*list(rows[0])[:3], *list(rows[0])[4:], list(rows[0])[3]],
        column_config={
            name: st.column_config.NumberColumn(format="%.2f")
            for name in (f"failures a year, {end}" for end in ("P5", "median", "P95"))
        },
    )
    st.caption(f"Candidate: {bound_words(seen[1])}")
    low, middle, high = np.quantile(found.outcome.drawn["rate_added"], (0.05, 0.5, 0.95))
    cost = -found.outcome.parts["risk"]
    words = f"costs {money(cost, symbol)}" if cost >= 0 else f"saves {money(-cost, symbol)}"
    st.markdown(
        plain(
            f"The candidate adds {middle:.2g} failures a year (P5 {low:.2g}, P95 {high:.2g}), "
            f"which {words} a month at the median."
        )
    )


def _stability_row(name: str, seen: Evidence, rate: Rate) -> dict[str, object]:
    bound = mtbf_bound_hours(seen)
    low, middle, high = interval_a_year(rate)
    return {
        "arm": name,
        "incidents": seen.incidents,
        "hours under load": round(seen.hours, 1),
        "at least apart (h, 95 %)": None if bound is None else round(bound, 1),
        "failures a year, P5": round(low, 4),
        "failures a year, median": round(middle, 4),
        "failures a year, P95": round(high, 4),
    }


def alternatives(found: Assessment) -> None:
    """Other ways to go, on the same axes."""
    symbol, horizon = found.question.symbol, found.question.case.months
    st.subheader("Alternatives side by side")
    rows = found.alternatives
    frame = pd.DataFrame(
        [
            {
                "alternative": row.label,
                "gain": "—" if row.gain is None else f"{100 * row.gain:+.1f} %",
                "origin": origin_words(row.badge) if row.badge else "—",
                f"at the start ({symbol})": round(row.upfront, 2),
                f"a month ({symbol})": round(row.monthly, 2),
                "P5": round(row.npv[0], 2),
                "P50": round(row.npv[1], 2),
                "P95": round(row.npv[2], 2),
                "gains money": "—" if row.p_positive is None else chance(row.p_positive),
                "half paid back": "—" if row.code == "nothing" else months(row.payback, horizon),
                "note": row.note,
            }
            for row in rows
        ]
    )
    best = max(rows, key=lambda row: row.npv[1])
    chart(
        pictures.alternatives(frame, symbol),
        "roi-alternatives",
        f"{best.label} is worth most at the median: {money(best.npv[1], symbol)}",
        frame,
    )
    money_columns = [f"at the start ({symbol})", f"a month ({symbol})", "P50", "P5", "P95"]
    table(
        frame,
        "roi-alternatives-table",
        f"{len(rows)} alternatives",
        key="roi-alt-table",
        column_order=[
            "alternative",
            "gain",
            *money_columns,
            "gains money",
            "half paid back",
            "origin",
            "note",
        ],
        column_config={
            name: st.column_config.NumberColumn(
                f"net value {name} ({symbol})" if name.startswith("P") else name,
                format="%.2f" if name.startswith("a month") else "%.0f",
            )
            for name in money_columns
        },
    )
    st.caption("All share the same demand, prices and luck. Enter more of them in the inputs.")


def without_candidate(found: Ceilings, ways: list[Trial]) -> None:
    """What any link could bring at most, and the cheapest way to find out."""
    st.subheader("No candidate yet: what any link could bring")
    rows = [
        ("decode step", found.decode),
        ("prefill", found.prefill),
        ("whole request", found.request),
    ]
    frame = pd.DataFrame(
        [
            {
                "phase": name,
                "communication (%)": None if share is None else round(100 * share, 2),
                "ceiling (%)": None if share is None else round(100 * (1 / (1 - share) - 1), 2),
            }
            for name, share in rows
        ]
    )
    table(frame, "roi-ceilings", "The most that any link could bring, by phase", key="roi-ceilings")
    st.markdown("**Cheapest trial first**")
    for way in ways:
        st.markdown(f"- {plain(way.words)}")


def rollout(found: Assessment) -> None:
    """The list to tick when it is bought."""
    with st.expander("Rollout and rollback", expanded=found.verdict.word == "Buy"):
        for step in found.rollout:
            st.markdown(f"- ☐ {plain(step)}")
