"""A decision to take away: one A4 page, the full report, and JSON with every assumption."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from models.assessment import Assessment
from models.decision import payback_quantile
from models.gates import money_speaks
from models.result import VERSION
from models.wording import chance, money, months
from pages.charts import roi as pictures
from pages.widgets import report
from pages.widgets.roi_answer import fan_frame, money_sentence, payback_frame
from pages.widgets.roi_fields import FIELDS, GROUPS, Default, Values, text_of
from pages.widgets.roi_sections import break_even_frame, tornado_frame

_WIDE = 620


@dataclass(frozen=True)
class Paper:
    """What an export says beside the assessment.

    Attributes:
        found: The assessment.
        subject: What is weighed, one line.
        choices: The page's choices by name.
        values: The inputs.
        given: Their defaults.
        made_at: When.
    """

    found: Assessment
    subject: str
    choices: dict[str, str]
    values: Values
    given: Mapping[str, Default]
    made_at: datetime


def buttons(paper: Paper) -> None:
    """Download buttons; each file is made when it is asked for."""
    st.subheader("Take it away")
    left, middle, right = st.columns(3)
    for column, label, name, mime, make in (
        (left, "One page (HTML, A4)", "roi-one-page.html", "text/html", one_page),
        (middle, "Full report (HTML)", "roi-report.html", "text/html", full),
        (right, "Every assumption (JSON)", "roi.json", "application/json", as_json),
    ):
        column.download_button(
            label,
            data=(lambda make=make: make(paper)),
            file_name=f"linkworth-{name}",
            mime=mime,
            key=f"roi-export-{name}",
            on_click="ignore",
            icon=":material/download:",
        )
    st.caption("The HTML files need nothing else and print well.")


def one_page_button(paper: Paper) -> None:
    """The page for the one who pays, where the verdict stands."""
    st.download_button(
        "One page",
        data=lambda: one_page(paper),
        file_name="linkworth-roi-one-page.html",
        mime="text/html",
        key="roi-one-page-above",
        on_click="ignore",
        icon=":material/download:",
        help="The decision on one A4 page (HTML). The full report stands at the end.",
    )


def _head(paper: Paper) -> list[str]:
    found = paper.found
    question = found.question
    symbol, outcome = question.symbol, found.outcome
    low, middle, high = outcome.npv[0], outcome.npv[2], outcome.npv[-1]
    if not money_speaks(found.gates):
        words = [report.heading(found.verdict.word), report.paragraph(found.verdict.sentence)]
        return [report.paragraph(paper.subject), report.box(*words)]
    return [
        report.paragraph(paper.subject),
        report.box(
            report.heading(found.verdict.word),
            report.paragraph(found.verdict.sentence),
            report.paragraph(money_sentence(found)),
            report.figures(
                [
                    (f"net value over {question.case.months} months", money(middle, symbol)),
                    (
                        "nine cases in ten (P5 to P95)",
                        f"{money(low, symbol)} to {money(high, symbol)}",
                    ),
                    ("of simulated cases gain money", chance(outcome.p_positive)),
                    ("paid at the start", money(outcome.upfront[1], symbol)),
                    ("benefit a month", money(outcome.monthly[1], symbol)),
                    (
                        "half have paid back",
                        months(payback_quantile(outcome, 0.5), question.case.months),
                    ),
                ]
            ),
        ),
    ]


def _reasons(paper: Paper) -> str:
    found = paper.found
    return report.columns(
        report.heading("For it", 3) + report.bullets(found.reasons_for, "Nothing."),
        report.heading("Against it", 3) + report.bullets(found.reasons_against, "Nothing."),
    )


def _foot(paper: Paper) -> str:
    question = paper.found.question
    return report.paragraph(
        f"Linkworth {VERSION}, {paper.made_at:%Y-%m-%d %H:%M} UTC. {question.draws:,} simulated "
        f"cases, seed {question.seed}. Gain: {question.case.gain.origin}. Net value: "
        f"present value of all benefits and costs at {100 * question.case.discount:g} % a year.",
        is_small=True,
    )


def one_page(paper: Paper) -> bytes:
    """For the one who pays: verdict, sum, chart, reasons, risks, conditions."""
    found = paper.found
    blocks = _head(paper)
    if found.question.case.months and money_speaks(found.gates):
        blocks.append(_fan(found))
    blocks += [
        _reasons(paper),
        report.heading("Conditions and risks"),
        report.bullets(
            [
                *(gate.words for gate in found.gates[:2] if gate.state != "not asked"),
                *found.changes[:3],
                found.rollout[-1],
            ]
        ),
        _foot(paper),
    ]
    return report.document("Is the link worth it?", blocks, is_one_page=True)


def full(paper: Paper) -> bytes:
    """Everything on the page, with every assumption and its source."""
    found = paper.found
    question = found.question
    symbol = question.symbol
    blocks = [*_head(paper), _reasons(paper), report.heading("What would change it")]
    blocks += [report.bullets(found.changes, "Nothing in sight."), report.heading("Gates")]
    gates = [{"gate": g.code, "state": g.state, "why": g.words} for g in found.gates]
    blocks.append(report.table(pd.DataFrame(gates)))
    if not money_speaks(found.gates):
        return _finished(paper, blocks)
    if found.remarks:
        blocks += [report.heading("Read with it"), report.bullets([n.text for n in found.remarks])]
    if question.case.months:
        blocks += [report.heading("Over time"), _fan(found)]
        back = payback_frame(found)
        if back["share (%)"].sum() > 0:
            words = f"{chance(found.outcome.p_never)} of the simulated cases never pay back."
            blocks.append(report.picture(_sized(pictures.payback(back), 180), words, words))
    frame = tornado_frame(found)
    blocks.append(report.heading("What decides it"))
    if not frame.empty:
        drawing = pictures.tornado(frame, found.typical.npv, symbol)
        words = "Each input alone from its P10 to its P90, the others at their medians."
        blocks.append(report.picture(_sized(drawing), words, words))
    blocks += [
        report.table(break_even_frame(found)),
        report.heading("Alternatives"),
        report.table(_alternatives(found)),
        report.heading("Rollout and rollback"),
        report.bullets(found.rollout),
    ]
    return _finished(paper, blocks)


def _finished(paper: Paper, blocks: list[str]) -> bytes:
    end = [report.heading("Every assumption"), report.table(assumptions(paper)), _foot(paper)]
    return report.document("Is the link worth it? Full report", [*blocks, *end])


def _sized(drawing: Any, height: int | None = None) -> alt.TopLevelMixin:
    known = drawing.properties(width=_WIDE, background="white")
    return known if height is None else known.properties(height=height)


def _fan(found: Assessment) -> str:
    outcome, symbol = found.outcome, found.question.symbol
    words = (
        f"Value so far by month: median {money(outcome.npv[2], symbol)} at the end, P5 "
        f"{money(outcome.npv[0], symbol)}, P95 {money(outcome.npv[-1], symbol)}."
    )
    return report.picture(_sized(pictures.fan(fan_frame(found), symbol), 200), words, words)


def _alternatives(found: Assessment) -> pd.DataFrame:
    symbol = found.question.symbol
    return pd.DataFrame(
        [
            {
                "alternative": row.label,
                "gain": "" if row.gain is None else f"{100 * row.gain:+.1f} % {row.badge}",
                "at the start": money(row.upfront, symbol),
                "a month": money(row.monthly, symbol),
                "net value P5, P50, P95": ", ".join(money(value, symbol) for value in row.npv),
                "gains money": "" if row.p_positive is None else chance(row.p_positive),
            }
            for row in found.alternatives
        ]
    )


def assumptions(paper: Paper) -> pd.DataFrame:
    """Every input: value, unit, source, date, and whether somebody changed it. In US dollars."""
    rows = []
    for code, field in FIELDS.items():
        if code not in paper.values:
            continue
        value, default = paper.values[code], paper.given[code]
        is_changed = text_of(value) != text_of(default.value)
        rows.append(
            {
                "group": GROUPS[field.group],
                "input": field.label,
                "value": text_of(value),
                "unit": field.unit,
                "source": "entered by hand" if is_changed else default.source,
                "date": "" if is_changed or default.day is None else default.day.isoformat(),
            }
        )
    return pd.DataFrame(rows)


def as_json(paper: Paper) -> bytes:
    """Every assumption and every figure, for programs; no NaN and no infinity."""
    found = paper.found
    question, outcome = found.question, found.outcome
    gain = question.case.gain
    content = {
        "linkworth": VERSION,
        "made_at": paper.made_at.isoformat(),
        "subject": paper.subject,
        "choices": paper.choices,
        "inputs": {
            code: {"value": value, "unit": FIELDS[code].unit, "source": paper.given[code].source}
            | {"default": paper.given[code].value}
            for code, value in paper.values.items()
        },
        "assumptions": assumptions(paper).to_dict("records"),
        "currency": question.symbol,
        "gain": {
            "value": gain.value,
            "kind": gain.kind,
            "rounds": gain.rounds,
            "origin": gain.origin,
            "source": gain.words,
            "engine": question.engine,
            "measured_on": question.measured_on,
        },
        "thresholds": asdict(question.thresholds),
        "draws": question.draws,
        "seed": question.seed,
        "gates": [asdict(gate) for gate in found.gates],
        "verdict": asdict(found.verdict),
        "reasons_for": found.reasons_for,
        "reasons_against": found.reasons_against,
        "changes": found.changes,
        "outcome": {
            "p_positive": outcome.p_positive,
            "p_never_pays_back": outcome.p_never,
            "npv": dict(zip(("P5", "P25", "P50", "P75", "P95"), outcome.npv, strict=True)),
            "monthly": dict(zip(("P10", "P50", "P90"), outcome.monthly, strict=True)),
            "upfront": dict(zip(("P10", "P50", "P90"), outcome.upfront, strict=True)),
            "payback_by_month": list(outcome.payback),
        },
        "typical": asdict(found.typical),
        "ceiling": question.ceiling,
        "break_even": found.break_evens,
        "tornado": [asdict(swing) for swing in found.swings],
        "alternatives": [asdict(row) for row in found.alternatives],
        "rollout": found.rollout,
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False).encode()
