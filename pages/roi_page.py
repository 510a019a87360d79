"""ROI: does the gain cover price, labour and risk? Buy, not yet, don't, or measure more."""

from datetime import UTC, datetime

import streamlit as st

from models.assessment import Assessment, assess
from models.errors import LinkworthError
from models.gates import money_speaks
from models.risk import Evidence
from models.trial import trials
from pages.widgets import (
    badges,
    beside,
    catalogue_store,
    roi_answer,
    roi_export,
    roi_form,
    roi_more,
    roi_scenarios,
    roi_sections,
    roi_source,
    roi_state,
    store,
)
from pages.widgets.links import page_link
from pages.widgets.roi_arms import Reader
from pages.widgets.roi_case import NONE, Resolved, resolve
from pages.widgets.roi_fields import number
from pages.widgets.roi_question import ceilings_of


def render() -> None:
    """Choose what is weighed; see the verdict, what stands behind it, and take it away."""
    engine = store.engine()
    now = datetime.now(UTC)
    catalogue, problem = catalogue_store.current(engine)
    if problem:
        st.warning(roi_answer.plain(problem))
    reader = Reader(engine)
    roi_source.evidence(reader)
    answer, choices = beside.places()
    with choices:
        roi_source.level()
    state = resolve(reader, catalogue, roi_state.current(), now.date())
    found = None
    try:
        found = assess(state.question(catalogue))
    except LinkworthError as error:
        with answer:
            store.show_error(error)
    if found is not None:
        paper = roi_export.Paper(
            found, _subject(reader, state), roi_state.current(), state.values, state.given, now
        )
        with answer:
            roi_answer.verdict(found, lambda: roi_export.one_page_button(paper))
        roi_answer.gates(found)
        if money_speaks(found.gates):
            roi_answer.figures(found)
    roi_form.render(
        state.values,
        state.given,
        catalogue,
        benefit=state.asked.benefit,
        by_hand=state.asked.candidate == "hand",
        today=now.date(),
    )
    page_link("catalogue", "Prices, cards and failure priors")
    if found is not None:
        _details(found, state)
    roi_scenarios.render(
        engine,
        lambda query: assess(
            resolve(reader, catalogue, query, now.date()).question(catalogue),
            with_alternatives=False,
        ),
    )
    if found is not None:
        roi_export.buttons(paper)
    page_link("method", "How these numbers come about", topic="economics")


def _subject(reader: Reader, state: Resolved) -> str:
    """What is weighed, and where its figures come from."""
    pair = state.asked.pair
    group = reader.groups.get(pair.base.arm.group) if pair is not None else None
    if group is None:
        return state.subject
    return f"{state.subject} Evidence: {group.label} ({badges.plain(group.origin)[2:]})."


def _details(found: Assessment, state: Resolved) -> None:
    """What stands behind the verdict, in the order of the questions it raises."""
    pair = state.asked.pair
    if state.asked.candidate == NONE:
        question, values = found.question, state.values
        middle = question.case.medians()
        rent = middle["cloud_rent"]
        ways = trials(
            price=middle["price"],
            resale=middle["resale"],
            labour=middle["labour_hours"] * question.case.labour_rate,
            rent=rent or None,
            gpus=number(values, "cloud_gpus"),
            symbol=question.symbol,
        )
        roi_sections.without_candidate(ceilings_of(values), ways)
    if pair is not None:
        roi_answer.capacities(found, state.names)
        notes = pair.notes or found.question.case.gain.notes
        st.caption(roi_answer.plain(" ".join(notes)))
    if not money_speaks(found.gates):
        return  # a later gate never speaks when an earlier one failed
    roi_more.what_if(found)
    roi_answer.over_time(found)
    roi_answer.money_table(found)
    roi_sections.decides(found)
    seen = Evidence(number(state.values, "incidents_base"), number(state.values, "hours_base"))
    roi_sections.stability(found, (seen, found.question.seen))
    roi_sections.alternatives(found)
    roi_more.measure(found, pair)
    roi_sections.rollout(found)
