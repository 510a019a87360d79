"""Link A/B, all arms at once: what TP, the link and the engine's kernel give this model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.comparison import VERDICT_WORDS, Comparison
from models.confounds import acceptance_warning
from models.layout_gain import Change, RoundsOf, changes, splits, verdicts
from models.layout_worth import Worth, worth, worth_sentences
from models.layouts import Question, alike, questions
from models.metrics import metric
from models.rounds import Round, summary
from pages.charts import serving as pictures
from pages.widgets import finding
from pages.widgets.downloads import chart, table
from pages.widgets.plain import plain
from pages.widgets.serving_arms import (
    SINGLE,
    Arm,
    Cell,
    Group,
    definition_of,
    facts_of,
    figures,
    rounds_of,
)
from pages.widgets.serving_confounds import unasked
from pages.widgets.serving_evidence import outputs_words
from pages.widgets.serving_loads import sweep_cells

FEWEST_ARMS = 3  # two arms are what the rest of the page is about
CURVES = ("tpot", "ttft")
LONGEST = 2000
_SHORT = {
    "tpot": "TPOT, median (%)",
    "ttft": "TTFT, median (%)",
    "output_throughput": "output tok/s (%)",
}
BEST_OF = (
    " What the link is worth is told between the best layouts with and without it, which the same "
    "rounds chose."
)
HEIGHT = 340
LEGEND = 16  # a line an arm, which is part of the picture's height


@dataclass(frozen=True)
class Curve:
    """A figure's mean over rounds by concurrency, a line an arm; drawn once, not at every rerun.

    Attributes:
        name: Metric.
        drawing: The picture.
        takeaway: Of it, in a sentence.
        rows: The numbers in it.
    """

    name: str
    drawing: alt.LayerChart
    takeaway: str
    rows: pd.DataFrame


@dataclass(frozen=True)
class Found:
    """What the arms of an evaluation say together.

    Attributes:
        arms: Those that a question is about.
        asked: The questions.
        changes: Of each question whose arms' outputs agree.
        worth: Of the link, each side with its best layout.
        cells: The workloads looked at, by concurrency.
        curves: Figures over concurrency, where there are two at least.
        vetoed: Question -> how its arms' outputs differ: nothing is concluded from it.
        care: Arm or question -> why its figures are to be read with care.
    """

    arms: list[Arm]
    asked: list[Question]
    changes: list[Change]
    worth: list[Worth]
    cells: list[Cell]
    curves: list["Curve"]
    vetoed: dict[Question, str]
    care: dict[str, str]


def link_pair(engine: Engine, group: Group) -> tuple[str, str] | None:
    """Codes of the arms that differ by the link, all else equal; None where there are none.

    Of several TP sizes the smallest: the pair that a bridge joins.
    """
    if group.code in ("any", SINGLE) or len(group.arms) < FEWEST_ARMS:
        return None
    asked = _found(engine, runs.version(engine), group).asked
    codes = {arm.name: arm.code for arm in group.arms}
    pairs = [(codes[q.reference], codes[q.other]) for q in asked if q.code == "both"]
    return pairs[0] if pairs else None


def render(engine: Engine, group: Group) -> None:
    """Sentences, curves and a table over all arms that differ in their layout alone."""
    if group.code in ("any", SINGLE) or len(group.arms) < FEWEST_ARMS:
        return
    every = _found(engine, runs.version(engine), group)
    arms, found, cells = every.arms, every.changes, every.cells
    if len(every.asked) < 2 or not found:
        return
    names = [arm.name for arm in arms]
    finding.heading("All arms: what TP, the link and the kernel give")
    for question, why in every.vetoed.items():
        words = f"**No verdict on {plain(question.words)}.** {plain(why, LONGEST)}"
        st.error(words)
        finding.note(finding.Part("text", words))
    for text in verdicts(found):
        finding.say(f"**{plain(text, LONGEST)}**")
    for text in [*worth_sentences(every.worth), *splits(found)]:
        finding.say(plain(text, LONGEST))
    frame = _table(found)
    table(
        frame,
        "link-ab-layouts",
        f"{frame['question'].nunique()} questions, {len(found)} changes",
        key="ab-layouts",
        file=_numbers(found),
    )
    finding.caption(
        f"Arms {plain(', '.join(names))}; {_lengths(cells)}. Each cell: the change in percent with "
        "its 95 % interval over rounds. Link off against on changes two things, since the engine's "
        "own all-reduce kernel needs the link; an arm with the link and the library's all-reduce "
        "splits them, on the logarithm, where parts add up." + (BEST_OF if every.worth else "")
    )
    if every.care:
        told = "; ".join(f"{name}: {why.rstrip('.')}" for name, why in every.care.items())
        finding.caption(f"To be read with care, {plain(told, LONGEST)}.")
    if not every.curves:
        return
    for column, curve in zip(st.columns(2), every.curves, strict=False):
        with column:
            chart(
                curve.drawing,
                f"link-ab-layouts-{curve.name}",
                curve.takeaway,
                curve.rows,
                key=f"ab-layouts-{curve.name}",
            )


@st.cache_resource(show_spinner=False, max_entries=16)
def _found(_engine: Engine, version: str, group: Group) -> Found:
    """Arms, questions, changes and the workloads looked at. Only to be read."""
    facts = {arm.name: facts_of(_engine, arm) for arm in group.arms if arm.validity != "invalid"}
    layouts = alike({name: several[0]["spec"] for name, several in facts.items()})
    asked = questions(layouts)
    named = {arm.name: arm for arm in group.arms}
    used = [name for name in layouts if any(name in (q.reference, q.other) for q in asked)]
    frames = {name: figures(_engine, named[name]) for name in used}
    every = {cell for frame in frames.values() if len(frame) for cell in set(frame["cell"])}
    by_cap = {cell[1]: cell for cell in sweep_cells(sorted(every, key=str))}

    def veto(first: str, second: str) -> str | None:
        """How the outputs of two arms differ, where they do."""
        pair = (named[first], named[second])
        words, is_wrong = outputs_words(_engine, pair, [facts[first], facts[second]])
        return words if is_wrong else None

    vetoed = {q: words for q in asked if (words := veto(q.reference, q.other))}

    def rounds(arm: str, name: str, statistic: str, cap: int) -> list[Round]:
        return rounds_of(frames[arm], name, statistic, by_cap[cap])

    def definition(arm: str, name: str, statistic: str, cap: int) -> str | None:
        return definition_of(frames[arm], name, statistic, by_cap[cap])

    found = changes(
        [question for question in asked if question not in vetoed],
        sorted(by_cap),
        rounds,
        is_paired=group.origin == "measured",
        definition=definition,
    )
    care = {
        name: next((reason for fact in facts[name] for reason in fact["reasons"]), "suspect")
        for name in used
        if named[name].validity == "suspect"
    }
    for question in asked:
        texts = unasked(_engine, (named[question.reference], named[question.other]))
        texts += _drafts(question, sorted(by_cap), rounds)
        if texts and question not in vetoed:
            care[question.words] = " ".join(texts)
    cells = [by_cap[cap] for cap in sorted(by_cap)]
    return Found(
        arms=[named[name] for name in used],
        asked=asked,
        changes=found,
        worth=worth(
            {name: layouts[name] for name in used},
            sorted(by_cap),
            rounds,
            is_paired=group.origin == "measured",
            may_compare=lambda first, second: not veto(first, second),
        ),
        cells=cells,
        curves=_curves(frames, cells, used),
        vetoed=vetoed,
        care=care,
    )


def _drafts(question: Question, caps: Sequence[int], rounds: RoundsOf) -> list[str]:
    """Where speculation was accepted otherwise in one of the two arms: the first such place."""
    pair = (question.reference, question.other)
    for cap in caps:
        left, right = (
            summary(rounds(arm, "spec_decode_acceptance_rate", "value", cap)).mean for arm in pair
        )
        notice = acceptance_warning(left, right, arms=pair)
        if notice is not None:
            return [f"At concurrency {cap}: {notice.text}"]
    return []


def _lengths(cells: Sequence[Cell]) -> str:
    _, _, _, inputs, outputs = cells[0]
    return f"{inputs or '?'} tokens in, {outputs or '?'} out"


def _curves(
    frames: Mapping[str, pd.DataFrame], cells: Sequence[Cell], names: Sequence[str]
) -> list[Curve]:
    """The curves; none of a single concurrency, which has no course."""
    found = []
    for name in CURVES if len(cells) > 1 else ():
        lines = []
        for arm in names:
            for cell in cells:
                values = [r.value for r in rounds_of(frames[arm], name, "median", cell) if r.valid]
                if values:
                    value = float(np.mean(values))
                    lines.append({"arm": arm, "concurrency": cell[1], "y": value})
        rows = pd.DataFrame(lines)
        if rows.empty:
            continue
        unit = metric(name).unit
        least = rows.loc[rows["y"].idxmin()]
        drawing = pictures.load_curve(rows, "y", f"{name.upper()}, median ({unit})", names)
        found.append(
            Curve(
                name,
                drawing.properties(height=HEIGHT + LEGEND * len(names)),
                f"Least {least.y:.4g} {unit} with {least.arm} at concurrency {least.concurrency}",
                rows.rename(columns={"y": f"{name}_{unit}"}),
            )
        )
    return found


def _table(found: Sequence[Change]) -> pd.DataFrame:
    """A row a question and figure, a column a concurrency."""
    caps = sorted({change.concurrency for change in found})
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for change in found:
        figure = _SHORT[change.figure[0]]
        line = lines.setdefault(
            (change.question.words, figure),
            {
                "question": change.question.words,
                "figure": figure,
                **{f"concurrency {cap}": "" for cap in caps},
            },
        )
        line[f"concurrency {change.concurrency}"] = _cell(change.result)
    return pd.DataFrame(list(lines.values()))


def _numbers(found: Sequence[Change]) -> pd.DataFrame:
    """A row a change, as numbers: what the table's words are made of."""
    return pd.DataFrame(
        [
            {
                "question": change.question.words,
                "reference": change.question.reference,
                "other": change.question.other,
                "metric": change.figure[0],
                "statistic": change.figure[1],
                "concurrency": change.concurrency,
                "change_pct": change.result.change_pct,
                "low_pct": change.result.low_pct,
                "high_pct": change.result.high_pct,
                "verdict": VERDICT_WORDS[change.result.verdict],
                "counted": change.result.unit,
                "n_reference": change.result.n_reference,
                "n_other": change.result.n_other,
            }
            for change in found
        ]
    )


def _cell(result: Comparison) -> str:
    words = VERDICT_WORDS[result.verdict]
    if result.low_pct is None or result.high_pct is None:
        return f"{result.change_pct:+.1f}: {words}"
    return f"{result.change_pct:+.1f} [{result.low_pct:+.1f}, {result.high_pct:+.1f}]: {words}"
