"""The finding of Link A/B: a veto, or each change in words, with conditions and limits."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from db.engine import Engine
from models.comparison import smallest_shown_pct
from models.metrics import metric
from models.scorecard import Evidence
from pages.widgets import finding
from pages.widgets.plain import plain
from pages.widgets.serving_arms import Arm, cell_words, facts_of
from pages.widgets.serving_compare import MAIN, Row
from pages.widgets.serving_evidence import is_same_arm, stack_words
from pages.widgets.serving_headline import headline

Arms = tuple[Arm, Arm]
Facts = Sequence[Sequence[dict[str, Any]]]
LONGEST = 1000


def answer(engine: Engine, arms: Arms, rows: Sequence[Row], evidence: Evidence) -> bool:
    """The answer first, in one sentence: a veto, or what changed.

    Returns:
        Whether it is vetoed: nothing may be concluded from the figures.
    """
    veto = veto_words(arms, rows, [facts_of(engine, arm) for arm in arms], evidence)
    if veto:
        st.error(f"**No verdict.** {plain(veto, LONGEST)}")
        finding.note(finding.Part("text", f"**No verdict.** {plain(veto, LONGEST)}"))
        return True
    words = headline(arms, rows)
    if words:
        finding.say(f"**{plain(words, LONGEST)}**")
    else:
        st.info("The two arms share no figure. Choose arms with the same workloads.")
    return False


def by_workload(
    engine: Engine, arms: Arms, rows: Sequence[Row], evidence: Evidence, *, is_vetoed: bool
) -> None:
    """The comparison workload by workload, with its conditions and what it does not say."""
    facts = [facts_of(engine, arm) for arm in arms]
    main = [row for row in rows if (row.metric, row.statistic) in MAIN]
    main = main or [row for row in rows if row.printed]
    if not main and not is_vetoed:
        return
    finding.heading("Finding")
    if not is_vetoed:
        if is_same_arm(facts[0], facts[1]):
            itself = plain(against_itself(main), LONGEST)
            st.info(itself)
            finding.note(finding.Part("text", itself))
        for cell in dict.fromkeys(row.cell for row in main):
            finding.say(_line([row for row in main if row.cell == cell]))
    finding.caption(plain(conditions_words(arms, rows, facts), LONGEST))
    finding.caption(plain(limits_words(rows, facts, evidence), LONGEST))


def _line(rows: Sequence[Row]) -> str:
    """One workload's changes; what is said of all of them is said once."""
    parts, tails = [], []
    for row in rows:
        known = metric(row.metric)
        words = (
            row.result.words
            if row.result is not None
            else f"{row.printed}, printed by the author without values."
        )
        head, _, tail = words.rstrip(".").partition(", ")
        parts.append((f"{known.label[0].lower()}{known.label[1:]}", head))
        tails.append(tail)
    if len(set(tails)) == 1:
        said = ", ".join(" ".join(part) for part in parts)
        said += f" ({tails[0]})" if tails[0] else ""
    else:
        said = "; ".join(
            f"{label} {head}" + (f", {tail}" if tail else "")
            for (label, head), tail in zip(parts, tails, strict=True)
        )
    return f"- **{plain(cell_words(rows[0].cell))}**: {plain(said, LONGEST)}."


def veto_words(arms: Arms, rows: Sequence[Row], facts: Facts, evidence: Evidence) -> str:
    """Why nothing may be concluded, or nothing: wrong outputs, or an arm without a valid round."""
    if evidence.outputs_wrong and evidence.outputs:
        bad = [arm.name for arm in arms if arm.validity == "invalid"]
        whose = f"{' and '.join(bad)} is invalid. " if bad else ""
        return f"{whose}{evidence.outputs} However fast: speed with wrong outputs is no speed."
    for place, arm in enumerate(arms):
        mine = [row.reference if place == 0 else row.other for row in rows if row.result]
        if arm.validity == "invalid" and not any(r.valid for several in mine for r in several):
            reasons = [reason for fact in facts[place] for reason in fact["reasons"]]
            why = f": {reasons[0]}" if reasons else "."
            return f"{arm.name} has no valid round{why} Its figures must not be used."
    return ""


def against_itself(rows: Sequence[Row]) -> str:
    """What an arm against itself shows: the smallest change that this machine can tell."""
    found: dict[str, list[float]] = {}
    for row in rows:
        smallest = smallest_shown_pct(row.result) if row.result is not None else None
        if smallest is not None:
            found.setdefault(row.label, []).append(smallest)
    if not found:
        return (
            "A against A: both arms are one configuration. With three rounds or more an arm, the "
            "smallest change that this machine can show stands here."
        )
    parts = [f"{label[0].lower()}{label[1:]} {max(v):.1f} %" for label, v in found.items()]
    return (
        "A against A: both arms are one configuration, so what differs is the machine. The "
        f"smallest change that so many rounds can show here: {'; '.join(parts)}. A smaller one "
        "between two real arms is not shown."
    )


def conditions_words(arms: Arms, rows: Sequence[Row], facts: Facts) -> str:
    """Model, engine, machine, loads and repetitions that the finding holds for."""
    parts = []
    models = _distinct(facts, _model)
    if models:
        parts.append(" and ".join(models))
    cells = list(dict.fromkeys(cell_words(row.cell) for row in rows))
    if cells:
        shown = "; ".join(cells[:4]) + (f" and {len(cells) - 4} more" if len(cells) > 4 else "")
        parts.append(shown)
    machines = _distinct(facts, _machine)
    if machines:
        parts.append(" and ".join(machines))
    stacks = _distinct(facts, stack_words)
    if stacks:
        parts.append(" and ".join(stacks))
    counts = [len(side) for row in rows for side in (row.reference, row.other) if side]
    if counts:
        least, most = min(counts), max(counts)
        rounds = str(least) if least == most else f"{least} to {most}"
        parts.append(f"{rounds} round{'s' if most > 1 else ''} an arm")
    days = sorted({_day(fact) for several in facts for fact in several} - {""})
    if days and arms[0].origin == "measured":
        parts.append(days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}")
    return f"It holds for: {'; '.join(parts)}." if parts else "Its conditions are not stated."


def limits_words(rows: Sequence[Row], facts: Facts, evidence: Evidence) -> str:
    """What the finding does not say, from what was not measured."""
    gaps = ["what another model, other lengths and loads, or several machines would show"]
    codes = {code for several in facts for fact in several for code, _ in fact["warnings"]}
    if "dummy_weights" in codes:
        gaps.append("whether answers are right, since the weights are random")
    elif evidence.outputs is None:
        gaps.append("whether answers are right: outputs were not checked")
    if not evidence.soaks:
        gaps.append("whether it holds for hours")
    if any(row.result is not None and row.result.verdict == "direction_only" for row in rows):
        gaps.append("how large the change is: with so few rounds only its direction counts")
    return f"It does not say {'; '.join(gaps)}."


def _distinct(facts: Facts, words: Any) -> list[str]:
    found = (words(fact) for several in facts for fact in several)
    return list(dict.fromkeys(text for text in found if text))[:3]


def _model(fact: dict[str, Any]) -> str:
    spec = fact["spec"]
    name = spec.get("model_name") or spec.get("model") or ""
    return f"{name} with random weights" if name and spec.get("load_format") == "dummy" else name


def _machine(fact: dict[str, Any]) -> str:
    spec, host = fact["spec"], fact["host"]
    if spec.get("device") == "cpu":
        return str(host.get("cpu_model") or "")
    names = [str(gpu.get("name")) for gpu in host.get("gpus") or [] if gpu.get("name")]
    used = host.get("ranks")
    count = len(used) if used else len(names)
    kinds = list(dict.fromkeys(names))
    return f"{count}x {' / '.join(kinds)}" if kinds else ""


def _day(fact: dict[str, Any]) -> str:
    moment = fact.get("finished_at")
    return f"{moment:%Y-%m-%d}" if moment is not None and pd.notna(moment) else ""
