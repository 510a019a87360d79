"""What-if: what would TP, another link or another card do, on hardware that is not here?"""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.errors import LinkworthError
from models.prediction_calibration import Calibration
from pages.widgets import (
    beside,
    finding,
    finding_report,
    store,
    what_if_form,
    what_if_frames,
    what_if_second,
    what_if_sections,
    what_if_sources,
    what_if_trust,
)


def render() -> None:
    """Ask; show steps, terms, speedups, loads, links, sizes, ROI, calibration."""
    st.caption(
        "A prediction, not a measurement. It needs no GPU, says how sure it is, and refuses where "
        "it would guess."
    )
    answer, choices = beside.places()
    try:
        with choices:
            calibration = what_if_sources.calibration()
            asked = what_if_form.ask()
    except LinkworthError as error:
        with answer:
            store.show_error(error)
        return
    if asked is None:
        answer.info("The answer comes here once a model is given.")
        return
    with finding.collected() as parts:
        _answer(answer, asked, calibration)
    finding_report.offer(store.engine(), "What-if", parts, [], "prediction")


def _answer(place: DeltaGenerator, asked: what_if_form.Question, calibration: Calibration) -> None:
    found = what_if_frames.answers(asked, calibration)
    with place:
        what_if_sections.verdicts(asked, found, calibration)
        what_if_sections.steps(asked, found)
    what_if_sections.steps_in_figures(asked, found)
    what_if_sections.terms(found)
    what_if_sections.speedups(asked, found, calibration)
    what_if_sections.loads(asked, calibration)
    what_if_sections.other_links(asked)
    what_if_sections.sizes(asked, calibration)
    what_if_second.render(asked, found)
    what_if_sections.to_roi(asked, found, calibration)
    what_if_trust.calibration_chart(asked, calibration)
