"""The same arm before and after a change of driver, engine or firmware. Draws one table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from db import runs
from db.engine import Engine
from models.metrics import metric
from pages.widgets.downloads import table
from pages.widgets.plain import plain
from pages.widgets.serving_arms import Arm, cell_words, facts_of, groups
from pages.widgets.serving_compare import MAIN, Row, kept_rows, table_of
from pages.widgets.serving_evidence import arm_mark, stack_words

MOST_LOOKED_AT = 8  # earlier arms of the same name, newest first


@dataclass(frozen=True)
class Change:
    """One arm under two software stacks.

    Attributes:
        arm: Its name.
        before: The older stack, in words.
        after: The newer one.
        rows: Every figure of both.
        arms: The two, named by their stacks.
    """

    arm: str
    before: str
    after: str
    rows: Sequence[Row]
    arms: tuple[Arm, Arm]

    @property
    def words(self) -> str:
        """What changed, in a sentence."""
        main = [row for row in self.rows if (row.metric, row.statistic) in MAIN and row.result]
        parts = [
            f"{cell_words(row.cell)}, {metric(row.metric).label.lower()} {row.result.words}"
            for row in main
            if row.result is not None
        ]
        said = " ".join(parts) if parts else "no figure of both."
        return f"{self.arm} before ({self.before}) and after ({self.after}): {said}"


def changes(engine: Engine, arms: Sequence[Arm]) -> list[Change]:
    """Each arm beside the newest run of the same configuration under another stack.

    Args:
        engine: The database.
        arms: Arms that were measured here; others have no history.
    """
    known = [arm for group in groups(engine) for arm in group.arms]
    found = []
    for arm in arms:
        change = _change(engine, arm, known) if arm.origin == "measured" else None
        if change is not None:
            found.append(change)
    return found


def _change(engine: Engine, arm: Arm, known: Sequence[Arm]) -> Change | None:
    own = _serving(engine, arm)
    if own is None:
        return None
    alike = [
        other
        for other in known
        if other.name == arm.name and other.code != arm.code and other.origin == "measured"
    ]
    for other in alike[:MOST_LOOKED_AT]:
        its = _serving(engine, other)
        if its is None or its[0] != own[0] or not its[1] or not own[1] or its[1] == own[1]:
            continue
        older, newer = sorted(((own[2], own[1], arm), (its[2], its[1], other)), key=lambda t: t[0])
        pair = replace(older[2], name=older[1]), replace(newer[2], name=newer[1])
        rows = kept_rows(engine, runs.version(engine), pair, is_paired=False)
        if rows:
            return Change(arm.name, older[1], newer[1], rows, pair)
    return None


def _serving(engine: Engine, arm: Arm) -> tuple[str, str, Any] | None:
    """Configuration, stack and time of an arm's latest serving run."""
    for fact in reversed(facts_of(engine, arm)):
        mark = arm_mark(fact)
        if mark and fact["finished_at"] is not None:
            return mark, stack_words(fact), fact["finished_at"]
    return None


def render(found: Sequence[Change]) -> None:
    """Every figure before and after, one table an arm."""
    for place, change in enumerate(found):
        with st.expander(f"Before and after: {plain(change.arm)}"):
            st.caption(
                f"The same arm under {plain(change.before)} and under {plain(change.after)}. The "
                "days between lie in the difference too."
            )
            table(
                table_of(change.rows, change.arms),
                f"link-ab-before-after-{change.arm}",
                plain(change.words, 1000),
                key=f"ab-before-after-{place}",
            )
