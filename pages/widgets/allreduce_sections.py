"""The parts of the AllReduce explorer below its picture."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from models import allreduce_words
from models.allreduce import ALPHA_MAX_BYTES, Fit, Interval, size_words
from models.published_checks import checks
from models.reference import NO_REFERENCE, Reference, band_at, ratio_to
from models.result import Result
from pages.charts import allreduce as pictures
from pages.widgets import finding
from pages.widgets.allreduce_choice import Step
from pages.widgets.allreduce_costs import may_be_multiplied, partner, residuals
from pages.widgets.allreduce_curves import Explained
from pages.widgets.badges import badge, plain, plain_validity
from pages.widgets.downloads import chart, table
from pages.widgets.plain import plain as as_text


def sentences(item: Explained, curves: Sequence[Explained], step: Step) -> list[str]:
    """What is seen, in words: the message, the link, launching, exposure."""
    if item.row["validity"] == "invalid":
        return [
            "This run is invalid: its curve is shown for the record, and nothing follows from it."
        ]
    size = step.message_bytes
    parts = item.parts_us(size)
    latency = item.latency_us(size)
    found = []
    counts = may_be_multiplied(item.row["mode"], item.row["definition"])
    if parts is not None:
        calls = step.calls if counts else None
        found.append(allreduce_words.sentence(size, parts[0], parts[1], calls))
    if latency is None:
        sizes = item.curve.message_bytes
        found.append(
            f"This curve knows messages from {size_words(sizes[0])} to {size_words(sizes[-1])}: "
            f"{size_words(size)} was not measured, and nothing is extrapolated."
        )
        return found
    on, off = (partner(curves, item.row, link=link) for link in ("on", "off"))
    pair = [other.latency_us(size) if other else None for other in (on, off)]
    if pair[0] is not None and pair[1] is not None:
        calls = step.calls if counts else None
        found.append(allreduce_words.link_sentence(size, pair[0], pair[1], calls))
    graph, eager, exposed = (
        partner(curves, item.row, mode=mode) for mode in ("graph", "eager", "exposed")
    )
    base = graph.latency_us(size) if graph else None
    for other, words in (
        (eager, allreduce_words.launch_sentence),
        (exposed, allreduce_words.exposed_sentence),
    ):
        value = other.latency_us(size) if other else None
        if base is not None and value is not None:
            found.append(words(size, base, value))
    return found


def headline(item: Explained) -> None:
    """Fixed cost, bandwidth, crossover and large-message bandwidth of one curve."""
    finding.say(
        f"**{as_text(item.row['curve'])}**  {badge(item.row['origin'], item.row['validity'])}"
    )
    if item.printed:
        _as_printed(item)
    if item.fit is None:
        finding.caption(item.why_no_fit)
        return
    fit = item.fit
    row = st.container(horizontal=True)  # two a line on a phone
    columns = [row.container(width=_FIGURE_PX) for _ in range(4)]
    columns[0].metric("Fixed cost (alpha)", f"{fit.alpha_us:.2f} us", help=_HELP["alpha"])
    columns[0].caption(_alpha_words(item, fit))
    beta = f"{fit.beta_gbps:.3g} GB/s" if fit.beta_gbps else "not visible"
    columns[1].metric("Bandwidth (beta)", beta, help=_HELP["beta"])
    columns[1].caption(_range(fit.beta_interval, "GB/s"))
    crossover = fit.crossover_bytes
    words = size_words(crossover) if crossover else "beyond the sweep"
    columns[2].metric("Latency-bound up to", words, help=_HELP["crossover"])
    if fit.crossover_interval:
        low, high = (size_words(value) for value in fit.crossover_interval)
        columns[2].caption(f"95 %: {low} to {high}")
    large = f"{fit.large_gbps:.3g} GB/s" if fit.large_gbps else "not measured"
    columns[3].metric(
        "Bandwidth from 8 MB up", large if fit.large_gbps else "–", help=_HELP["large"]
    )
    columns[3].caption("what prefill's large messages get")
    figures = f"Fixed cost {fit.alpha_us:.2f} us, bandwidth {beta}, latency-bound up to {words}"
    finding.note(finding.Part("text", f"{figures}, from 8 MB up {large}."))


def _as_printed(item: Explained) -> None:
    """A study's own split of one latency into fixed cost and transfer."""
    for size, (fixed, transfer) in item.printed.items():
        columns = st.columns(3)
        total = item.latency_us(size)
        columns[0].metric(f"Fixed cost at {size_words(size)}", f"{fixed:g} us")
        columns[1].metric("Transfer", f"{transfer:g} us")
        columns[2].metric("Total", "not stated" if total is None else f"{total:g} us")


_FIGURE_PX = 172
_TOLD = ("origin", "validity", "mode", "link")
_HELP = {
    "alpha": "What one all-reduce costs however small the message.",
    "beta": "Message size over transfer time on the first straight stretch.",
    "crossover": "alpha x beta: below it a link with more bandwidth hardly helps.",
    "large": "Needs three sizes of 8 MB and more.",
}


def _range(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return ""
    return f"95 %: {interval[0]:.3g} to {interval[1]:.3g} {unit}"


def _alpha_words(item: Explained, fit: Fit) -> str:
    """How well the fixed cost is known."""
    smallest = item.curve.message_bytes[0]
    if smallest > ALPHA_MAX_BYTES:
        return f"the line's start only: no message below {size_words(smallest)} was measured"
    floor = f"median up to 8 KB: {fit.floor_us:.2f} us" if fit.floor_us else ""
    return " · ".join(part for part in (_range(fit.alpha_interval, "us"), floor) if part)


def costs(frame: pd.DataFrame, step: Step, curves: Sequence[str]) -> None:
    """Cost of a step on each curve: bars and a table."""
    finding.heading("What a step pays")
    finding.caption(as_text(step.words, 1000))
    known = frame.dropna(subset=["cost a step (ms)"])
    if not known.empty:
        least, most = known["cost a step (ms)"].min(), known["cost a step (ms)"].max()
        chart(
            pictures.step_cost(known, curves),
            "allreduce-step-cost",
            f"The all-reduces of a step take {least:.2f} to {most:.2f} ms on the curves shown",
            known,
        )
    shown = frame.assign(
        origin=frame["origin"].map(plain), validity=frame["validity"].map(plain_validity)
    ).dropna(axis="columns", how="all")
    table(
        shown,
        "allreduce-costs",
        f"Latency and cost of a step at {size_words(step.message_bytes)} on {len(shown)} curves",
        # mode and link stand in the curve's name already
        column_order=[name for name in shown if name not in _TOLD] + [*_TOLD],
        column_config={
            name: st.column_config.NumberColumn(format=form)
            for name, form in (
                ("latency (us)", "%.2f"),
                ("fixed (us)", "%.2f"),
                ("transfer (us)", "%.3f"),
                ("cost a step (ms)", "%.2f"),
                ("as printed (ms)", "%.2f"),
            )
        }
        | {"note": st.column_config.TextColumn(width="large")},
    )


def fit_quality(item: Explained) -> None:
    """Residuals and kinks of the fit."""
    if item.fit is None:
        return
    with st.expander("How well the line fits: residuals and kinks"):
        for kink in item.fit.kinks:
            finding.say(
                "- "
                + allreduce_words.kink_sentence(kink.below_bytes, kink.above_bytes, kink.jump_pct)
            )
        if not item.fit.kinks:
            finding.caption("No kink: one line describes the whole sweep.")
        frame = residuals(item.curve, item.fit)
        worst = frame["residual (%)"].abs().max()
        chart(
            pictures.residual(frame),
            "allreduce-residuals",
            f"The measured latencies lie within {worst:.0f} % of the fitted line",
            frame,
        )
        finding.caption("Where residuals are large, believe the table of latencies, not the line.")


def reference(item: Explained, found: Sequence[Reference], chosen: Reference | None) -> None:
    """Distance from public measurements of the same card."""
    finding.heading("Against other hosts with this card")
    if chosen is None:
        st.info(f"{NO_REFERENCE} {_why_none(found)}")
        return
    size = item.curve.message_bytes
    rows = pd.DataFrame(
        {
            "bytes": size.astype(int),
            "measured (us)": item.curve.latency_us,
            "reference (us)": [
                value / ratio if (ratio := ratio_to(chosen, at, value)) else None
                for at, value in zip(size, item.curve.latency_us, strict=True)
            ],
            "measured / reference": [
                ratio_to(chosen, at, value)
                for at, value in zip(size, item.curve.latency_us, strict=True)
            ],
        }
    ).dropna()
    if rows.empty:
        st.info("None of the measured sizes lies within the reference's.")
        return
    small = rows[rows["bytes"] <= 64 * 1024]
    typical = float((small if not small.empty else rows)["measured / reference"].median())
    low, high = band_at(chosen, float(rows["bytes"].iloc[0])) or (None, None)
    spread = ""
    if low and high and f"{low:.1f}" != f"{high:.1f}":
        spread = f" Its tables range from {low:.1f} to {high:.1f} us at the smallest."
    finding.say(
        f"Small messages take **{typical:.2f} times** the reference ({chosen.label}, "
        f"{chosen.ranks} GPUs, {chosen.device}, {chosen.tables} tables).{spread}"
    )
    if chosen.caution:
        finding.caption(chosen.caution)
    finding.caption(
        "A reference tells what the link can do, never what this host does: two hosts with the "
        "same card have differed 4.4 times. Source: AIConfigurator (see NOTICE)."
    )
    shown = pd.DataFrame(
        {
            "message": [size_words(size) for size in rows["bytes"]],
            **{name: rows[name] for name in rows if name != "bytes"},
        }
    )
    table(
        shown,
        "allreduce-reference",
        f"Measured latency is {typical:.2f} times the reference",
        column_config={
            name: st.column_config.NumberColumn(format="%.2f") for name in rows if name != "bytes"
        },
        file=rows,
    )


def _why_none(found: Sequence[Reference]) -> str:
    if found:
        return "The card is known, but not in this mode."
    return "The shipped table knows A100, H100, H200, B200, B300, GB200, GB300, L40S and others."


def published(frame: pd.DataFrame) -> None:
    """Studies' figures as their authors print them."""
    if frame.empty:
        return
    finding.heading("As published")
    finding.caption(
        "The authors' figures, untouched. What we compute from them stands apart, below."
    )
    table(frame, "allreduce-published", f"{len(frame)} configurations as their authors print them")


def arithmetic(results: Sequence[Result], name: str) -> None:
    """A published study's derived figures: the author's and ours, neither adjusted."""
    rows = checks(results)
    if not rows:
        return
    apart = [row for row in rows if row.agrees is False]
    with st.expander(f"The author's arithmetic, done again: {as_text(name)}"):
        finding.caption(
            f"{len(apart)} figures differ from the author's in the last digit, because the author "
            "rounds before multiplying or dividing. Both stand here; neither is adjusted."
        )
        frame = pd.DataFrame(
            {
                "configuration": [row.arm for row in rows],
                "figure": [row.what for row in rows],
                "as printed": [row.printed for row in rows],
                "ours": [round(row.ours, row.digits) for row in rows],
                "from": [row.formula for row in rows],
                "agrees": [
                    {True: "yes", False: "no", None: "not printed"}[row.agrees] for row in rows
                ],
            }
        )
        table(
            frame,
            f"arithmetic-{name}",
            f"{len(apart)} of {len(rows)} figures differ from the author's",
        )
