"""What-if: what would TP, another link or another card do, on hardware that is not here?"""

import streamlit as st

from models.errors import LinkworthError
from models.prediction_calibration import Calibration
from pages.widgets import (
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
    try:
        calibration = what_if_sources.calibration()
        asked = what_if_form.ask()
    except LinkworthError as error:
        store.show_error(error)
        return
    if asked is None:
        return
    with finding.collected() as parts:
        _answer(asked, calibration)
    finding_report.offer(store.engine(), "What-if", parts, [], "prediction")


def _answer(asked: what_if_form.Question, calibration: Calibration) -> None:
    found = what_if_frames.answers(asked, calibration)
    what_if_sections.verdicts(asked, found, calibration)
    what_if_sections.steps(asked, found)
    what_if_sections.terms(found)
    what_if_sections.speedups(asked, found, calibration)
    what_if_sections.loads(asked, calibration)
    what_if_sections.other_links(asked)
    what_if_sections.sizes(asked, calibration)
    what_if_second.render(asked, found)
    what_if_sections.to_roi(asked, found, calibration)
    what_if_trust.calibration_chart(asked, calibration)
