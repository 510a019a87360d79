"""The scorecard on the page: ten dimensions, the check list, alerts, and what is missing."""

import uuid
from typing import Any

import pandas as pd
import streamlit as st

from db import jobs, runs, scenarios
from db.engine import Engine
from models.errors import LinkworthError
from models.scorecard import Card, Evidence, scorecard
from models.scorecard_checks import Threshold, checklist
from pages.widgets import finding, store, this_machine
from pages.widgets.downloads import table
from pages.widgets.links import page_link
from pages.widgets.live_job import duration_words
from pages.widgets.plain import plain
from pages.widgets.serving_arms import Arm, facts_of, figures
from pages.widgets.serving_evidence import DRILL_PAGE, proposed
from pages.widgets.serving_samples import telemetry_of
from runners.evaluation_serving import fill_jobs
from settings import settings

MARKS = {"shown": "✓", "partly": "◐", "not measured yet": "○", "fails": "✗"}
FILL_WORDS = {
    "evaluation": "rounds at concurrency 1 and 4",
    "sweep": "rounds at concurrency 1 and 4",
    "abnormal": "wrong inputs",
    "pressure": "short memory",
    "long_output": "long outputs",
    "short_output": "short outputs",
    "soak": "two hours of sustained load",
    "again": "the same arms again, after an upgrade or the way back",
}
NOT_AT_ONCE = ("soak", "again")  # hours, or only after something has changed


def render(
    engine: Engine,
    arms: tuple[Arm, Arm],
    frames: tuple[pd.DataFrame, pd.DataFrame],
    evidence: Evidence,
) -> None:
    """Draw the ten dimensions, the check list, the thresholds and the drill."""
    finding.heading("Scorecard")
    cards = scorecard(evidence)
    counted = {state: sum(card.status == state for card in cards) for state in MARKS}
    words = ", ".join(f"{count} {state}" for state, count in counted.items() if count)
    marked = ", ".join(f"{MARKS[state]} {n} {state}" for state, n in counted.items() if n)
    finding.caption(f"Ten dimensions: {marked}. A dimension has evidence, or says what is missing.")
    table(
        pd.DataFrame(
            {
                "dimension": [f"{MARKS[card.status]} {card.title}" for card in cards],
                "evidence": [" ".join(card.evidence) for card in cards],
                "missing": [" ".join(card.missing) for card in cards],
            }
        ),
        "link-ab-scorecard",
        f"Scorecard of {arms[1].name} against {arms[0].name}: {words}",
        key="ab-scorecard",
        is_wrapped=True,
    )
    with st.expander("What each dimension asks"):
        for card in cards:
            st.markdown(f"- **{card.title}**: {plain(card.reads, 1000)}")
    _fill(engine, arms, cards)
    _checks(evidence)
    _alerts(engine, arms, frames)
    _drill(engine, arms)


def _fill(engine: Engine, arms: tuple[Arm, Arm], cards: list[Card]) -> None:
    """Queue what is missing on arms that were measured here; else say where to start."""
    fills = list(dict.fromkeys(fill for card in cards for fill in card.fill))
    if not fills:
        return
    specs = {arm.name: spec for arm in arms if (spec := _runnable(engine, arm))}
    if len(specs) < 2 or arms[0].group != arms[1].group:
        st.info(
            "What is missing cannot be queued from here: these arms were not measured on this "
            "machine. Plan an evaluation of your own; the published ones are presets."
        )
        page_link("new-run", "Plan an evaluation", kind="evaluation")
        return
    chosen = st.pills(
        "Measure what is missing",
        fills,
        selection_mode="multi",
        default=[fill for fill in fills if fill not in NOT_AT_ONCE],
        format_func=FILL_WORDS.__getitem__,
        key="ab-fill",
    )
    try:
        planned = fill_jobs(specs, chosen, evaluation_id=arms[0].group, first_order=1000)
    except LinkworthError as error:
        store.show_error(error)
        return
    if not planned:
        return
    total = sum(job["expected_s"] for job in planned)
    st.caption(f"{len(planned)} jobs on the arms as measured, about {duration_words(total)}.")
    if settings().read_only:
        st.info("This is a demo: it starts nothing.")
        return
    # what was asked for: other arms or another choice are another request
    asked = f"{arms[0].code} {arms[1].code} {' '.join(sorted(chosen))}"
    if st.button("Queue it", key="ab-queue"):
        st.session_state[f"ab-queued {asked}"] = queue(engine, planned, asked)
    if queued := st.session_state.get(f"ab-queued {asked}"):
        page_link("new-run", "Watch the jobs", jobs=",".join(queued))


def queue(engine: Engine, planned: list[dict[str, Any]], asked: str) -> list[str]:
    """Queue the planned jobs once, however often the button is clicked.

    Args:
        engine: The database.
        planned: The jobs.
        asked: What they were planned for; the same is queued once.

    Raises:
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    token = st.session_state.setdefault(f"token-ab-fill {asked}", str(uuid.uuid4()))
    return [
        jobs.enqueue(
            engine,
            job["spec"],
            token=f"{token}:{place}",
            title=job["title"],
            evaluation=job["evaluation"],
            time_limit_s=job["time_limit_s"],
            order=job["order"],
        )
        for place, job in enumerate(planned)
    ]


def _runnable(engine: Engine, arm: Arm) -> dict[str, Any] | None:
    """The spec of an arm's serving run, where it was measured here."""
    if arm.origin != "measured":
        return None
    for fact in facts_of(engine, arm):
        if not this_machine.may_be(fact["host"]):
            return None
        if fact["kind"] == "serving" and fact["spec"].get("workloads"):
            return dict(fact["spec"])
    return None


def _checks(evidence: Evidence) -> None:
    rows = checklist(evidence)
    with st.expander(f"Check list: {sum(bool(row.done) for row in rows)} of {len(rows)} done"):
        for row in rows:
            mark = {True: "☑", False: "☐", None: "☐"}[row.done]
            st.markdown(f"{mark} {row.title}: *{plain(row.why, 1000)}*")


def _alerts(
    engine: Engine, arms: tuple[Arm, Arm], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    arm = arms[1]
    if frames[1].empty or arm.origin != "measured":
        return
    found = _proposed(engine, runs.version(engine), arm)
    if not found:
        return
    with st.expander(f"Alerts to set on {plain(arm.name)}"):
        st.caption("Proposals from what was measured here, not limits of the hardware.")
        table(
            pd.DataFrame(
                {
                    "watch": [item.name for item in found],
                    "alarm": ["above" if item.above else "below" for item in found],
                    "value": [round(item.value, 2) for item in found],
                    "unit": [item.unit for item in found],
                    "because": [item.basis for item in found],
                }
            ),
            "link-ab-alerts",
            f"{len(found)} alert thresholds proposed",
            key="ab-alerts",
        )


@st.cache_resource(show_spinner=False, max_entries=32)
def _proposed(_engine: Engine, version: str, arm: Arm) -> list[Threshold]:
    """`proposed` of an arm, kept while the runs are the same. Only to be read."""
    known = telemetry_of(_engine, arm)
    return proposed(figures(_engine, arm), pd.concat(known) if known else pd.DataFrame())


def _drill(engine: Engine, arms: tuple[Arm, Arm]) -> None:
    """Record that the way back was tried: a date and what was done."""
    if settings().read_only:
        return
    with st.expander("Record a rollback drill"):
        st.caption("The way back (driver, firmware, engine, link), tried on a day and timed.")
        day = st.date_input("Day", key="ab-drill-day", value="today")
        what = st.text_input("What was done, and how long it took", key="ab-drill-what")
        if st.button("Record", key="ab-drill-save", disabled=not what.strip()):
            record_drill(engine, arms[0].group, str(day), what)
            st.rerun()


def record_drill(engine: Engine, evaluation: str, day: str, what: str) -> str:
    """Keep a drill with its evaluation.

    Raises:
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    state = {"evaluation": evaluation, "date": day, "what": what.strip()[:300]}
    return scenarios.save(engine, f"{evaluation} {day}", DRILL_PAGE, state)
