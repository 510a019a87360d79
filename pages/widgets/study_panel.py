"""What the author of a study says of its runs: summary, claims with their check, limits, notes."""

from collections.abc import Iterable

import pandas as pd
import streamlit as st

from db import studies
from db.engine import Engine
from models.errors import NotFound
from pages.widgets.badges import badge
from pages.widgets.plain import plain


def render(engine: Engine, study_ids: Iterable[object]) -> None:
    """One folded panel a study; ids that are none, or of no study, draw nothing."""
    names = dict.fromkeys(name for name in study_ids if isinstance(name, str) and name)
    for name in names:
        try:
            study = studies.study(engine, name)
        except NotFound:
            continue
        with st.expander(f"The study: {plain(study.title)}", icon=":material/menu_book:"):
            st.markdown(f"{badge(study.origin)} {plain(study.summary, 2000)}")
            st.caption(f"Source: {plain(study.source)}")
            if study.claims:
                frame = pd.DataFrame(
                    {
                        "claim": [plain(claim.claim, 1000) for claim in study.claims],
                        "our check": [plain(claim.check, 1000) for claim in study.claims],
                    }
                )
                st.table(frame)
            _list("What it does not say", study.limits)
            _list("Notes", study.notes)


def _list(title: str, texts: list[str]) -> None:
    if texts:
        st.markdown(f"**{title}**")
        st.markdown("\n".join(f"- {plain(text, 1000)}" for text in texts))
