"""The answer of the ROI page: verdict, reasons, gates, figures of money."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from models.assessment import Assessment
from models.decision import payback_quantile
from models.gates import Gate, money_speaks
from models.service import Carried
from models.wording import chance, compact, money, months, plural, rate, share
from pages.charts import roi as pictures
from pages.widgets.badges import badge
from pages.widgets.downloads import chart, table
from pages.widgets.plain import plain as one_line

MOST_CHARACTERS = 1200
FIGURE_PX = 172
SIGNS = {
    "Buy": ("green", "✓"),
    "Not yet": ("orange", "◷"),
    "Don't": ("red", "✗"),
    "Measure more": ("blue", "◌"),
}
_GATES = {"correctness": "1 Correct?", "service": "2 Good enough?", "money": "3 Worth it?"}
_STATES = {
    "passed": ("green", "✓ passed"),
    "failed": ("red", "✗ failed"),
    "not known": ("orange", "? not known"),
    "not asked": ("gray", "– not asked"),
}


def plain(text: str) -> str:
    """A sentence for markdown: dollar signs are money, and foreign words are no markup."""
    return one_line(text, MOST_CHARACTERS)


def verdict(found: Assessment, take_away: Callable[[], None]) -> None:
    """The word, its sentence, three reasons each way, and what would change it.

    Args:
        found: The assessment.
        take_away: Draws what a reader may carry off, beside the word.
    """
    colour, sign = SIGNS[found.verdict.word]
    gain = found.question.case.gain
    with st.container(border=True):
        # the button keeps its words however narrow the place, and goes below a long word there
        with st.container(
            horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
        ):
            st.markdown(f"## :{colour}[{sign} {found.verdict.word}]", width="content")
            take_away()
        if money_speaks(found.gates):
            st.markdown(f"{badge(gain.origin)} gain of **{100 * gain.value:+.1f} %**")
        else:
            st.markdown(badge(gain.origin))
        st.markdown(f"**{plain(found.verdict.sentence)}**")
        if money_speaks(found.gates):
            st.markdown(plain(money_sentence(found)))
        left, right = st.columns(2)
        with left:
            st.markdown("**For it**")
            _list(found.reasons_for, "Nothing speaks for it.")
        with right:
            st.markdown("**Against it**")
            _list(found.reasons_against, "Nothing speaks against it.")
        first, rest = found.changes[:1], found.changes[1:]
        st.markdown(
            f"**What would change it:** {plain(first[0]) if first else 'nothing in sight.'}"
        )
        if rest:
            with st.expander("What else would", expanded=found.verdict.word == "Not yet"):
                _list(rest, "")
    if found.remarks and money_speaks(found.gates):
        st.info("\n".join(f"- {plain(notice.text)}" for notice in found.remarks))


def money_sentence(found: Assessment) -> str:
    """What it comes to, in one sentence."""
    symbol, outcome, months_ = found.question.symbol, found.outcome, found.question.case.months
    low, middle, high = outcome.npv[0], outcome.npv[2], outcome.npv[-1]
    verb = "gain" if middle >= 0 else "lose"
    typical = found.question.case.medians()
    resale = ", and resale at the end" if typical["resale"] > 0 and typical["price"] > 0 else ""
    return (
        f"Over {plural(months_, 'month')} it would {verb} about {money(abs(middle), symbol)} "
        f"(nine cases in ten: {money(low, symbol)} to {money(high, symbol)}): "
        f"{money(outcome.upfront[1], symbol)} at the start, then "
        f"{money(outcome.monthly[1], symbol)} a month{resale}."
    )


def _list(lines: list[str], nothing: str) -> None:
    st.markdown("\n".join(f"- {plain(line)}" for line in lines) if lines else nothing)


def gates(found: Assessment) -> None:
    """The three gates with their state."""
    for column, gate in zip(st.columns(3), found.gates, strict=True):
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"**{_GATES[gate.code]}** {_state(gate)}")
            st.caption(plain(gate.words))


def _state(gate: Gate) -> str:
    colour, words = _STATES[gate.state]
    return f":{colour}-badge[{words}]"


def figures(found: Assessment) -> None:
    """Key figures of money, in one row."""
    symbol, outcome = found.question.symbol, found.outcome
    low, middle, high = outcome.npv[0], outcome.npv[2], outcome.npv[-1]
    shown = (
        (
            "Net present value (median)",
            money(middle, symbol),
            f"P5 {money(low, symbol)}, P95 {money(high, symbol)}",
        ),
        (
            "Gains money in",
            chance(outcome.p_positive),
            f"of {outcome.draws:,} simulated cases; {chance(outcome.p_never)} never pay back",
        ),
        (
            "Benefit a month (median)",
            money(outcome.monthly[1], symbol),
            f"P10 {money(outcome.monthly[0], symbol)}, P90 {money(outcome.monthly[2], symbol)}",
        ),
        (
            "Half have paid back by",
            months(payback_quantile(outcome, 0.5)),
            f"Paid at the start: {money(outcome.upfront[1], symbol)} (median)",
        ),
    )
    with st.container(horizontal=True):  # two a line on a phone
        for label, value, remark in shown:
            with st.container(width=FIGURE_PX):
                st.metric(label, plain(value))
                st.caption(plain(remark))


def money_table(found: Assessment) -> None:
    """Returns, costs of tokens and where the money comes from, at the medians."""
    symbol, typical = found.question.symbol, found.typical
    before, after = typical.token_cost
    horizon = found.question.case.months
    rows = [
        ("Internal rate of return", rate(typical.irr)),
        ("Simple payback", months(typical.simple_payback, horizon)),
        ("Discounted payback", months(typical.discounted_payback, horizon)),
        ("Benefit over cost", _ratio(typical.ratio)),
        ("A million output tokens, before", money(before, symbol)),
        ("A million output tokens, after", money(after, symbol)),
        ("Busy, baseline and candidate", " and ".join(share(used) for used in typical.used)),
        ("Tokens served a day, before", compact(typical.served[0])),
        ("Tokens served a day, after", compact(typical.served[1])),
        ("Less waiting", f"{plural(round(typical.minutes_a_day), 'minute')} a day"),
        *(
            (f"{label}, a month", money(found.outcome.parts[name], symbol))
            for name, label in (
                ("served", "From tokens, rent or time"),
                ("energy", "From energy"),
                ("risk", "From added failures"),
                ("operations", "From running costs"),
            )
        ),
    ]
    with st.expander("Figures of the typical case: every input at its median"):
        table(
            pd.DataFrame(rows, columns=["figure", "value"]),
            "roi-typical",
            f"Rate of return {rate(typical.irr)}; benefit over cost {_ratio(typical.ratio)}",
            key="roi-typical",
        )


def _ratio(value: float | None) -> str:
    return "does not exist: nothing is paid" if value is None else f"{value:.2f}"


def over_time(found: Assessment) -> None:
    """The fan of value by month, and when simulated cases pay back."""
    outcome, symbol = found.outcome, found.question.symbol
    st.subheader("Over time")
    if found.question.case.months == 0:
        st.info("A horizon of 0 months has no course over time.")
        return
    fan, back = fan_frame(found), payback_frame(found)
    pays_back = bool(back["share (%)"].sum())
    left, right = st.columns(2) if pays_back else (st.container(), st.container())
    with left:
        chart(
            pictures.fan(fan, symbol),
            "roi-fan",
            f"After {fan['month'].iloc[-1]} months the median is worth "
            f"{money(outcome.npv[2], symbol)}, P5 {money(outcome.npv[0], symbol)}, P95 "
            f"{money(outcome.npv[-1], symbol)}",
            fan.round(2),
        )
        st.caption("Line: median. Bands: P25 to P75, P5 to P95. Resale counts in the last month.")
    with right:
        if not pays_back:
            st.info(f"No simulated case pays back within {found.question.case.months} months.")
            return
        chart(
            pictures.payback(back),
            "roi-payback",
            f"{chance(outcome.p_never)} of the simulated cases never pay back",
            back.round(3),
        )
        st.caption(f"Never pay back, so not shown: {chance(outcome.p_never)} of the cases.")


def fan_frame(found: Assessment) -> pd.DataFrame:
    """Columns month, P5, P25, P50, P75, P95."""
    names = ("P5", "P25", "P50", "P75", "P95")
    columns = dict(zip(names, found.outcome.fan, strict=True))
    return pd.DataFrame({"month": found.outcome.fan_months, **columns})


def payback_frame(found: Assessment) -> pd.DataFrame:
    """Columns month, share (%)."""
    counts = pd.Series(found.outcome.payback, dtype=float)
    return pd.DataFrame({"month": counts.index, "share (%)": 100 * counts / found.outcome.draws})


def capacities(found: Assessment, names: tuple[str, str]) -> None:
    """What each arm carries at the service level."""
    st.subheader("What each arm carries")
    for name, carried in zip(names, found.question.carried, strict=True):
        st.markdown(f"- **{plain(name)}**: {plain(_carried(carried))}")
    if not money_speaks(found.gates):
        return
    gain = found.question.case.gain
    if gain.origin in ("measured", "imported", "published") and gain.rounds:
        words = f" ({plural(gain.rounds, 'round')} an arm)"
    else:
        words = ""
    ceiling = found.question.ceiling
    limit = (
        "not known: see Ceiling of any link in the inputs"
        if ceiling is None
        else f"{100 * (ceiling - 1):+.1f} %"
    )
    st.markdown(
        f"- Gain: **{100 * gain.value:+.1f} %** {badge(gain.origin)}{words}. Ceiling of any link: "
        f"{limit}."
    )


def _carried(carried: Carried | None) -> str:
    return "not measured." if carried is None else carried.words
