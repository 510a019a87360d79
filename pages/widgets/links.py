"""Links between pages: a run opens in the explorer that explains it; a word leads to Method."""

import streamlit as st

from pages import PAGES, make_page
from pages.widgets.plain import plain

# kind of a run -> the page that explains it
EXPLORERS = {
    "allreduce": "allreduce",
    "collective": "allreduce",
    "decode": "speedup",
    "serving": "link-ab",
    "engine": "link-ab",
    "soak": "link-ab",
    "topology": "hardware",
    "p2p": "hardware",
}


_ICONS = {
    "method": ":material/menu_book:",
    "new-run": ":material/play_arrow:",
    "runs": ":material/list_alt:",
}
_EXPLAINS = ":material/insights:"


def explorer_link(kind: str, run_id: str, label: str = "Explain this run") -> None:
    """A link to the explorer of a run's kind, where that page exists."""
    slug = EXPLORERS.get(kind)
    if slug in PAGES:
        st.page_link(
            make_page(slug), label=plain(label), query_params={"runs": run_id}, icon=_EXPLAINS
        )


def page_link(slug: str, label: str, **query: str) -> None:
    """A link to a page of the table, where it exists."""
    if slug in PAGES:
        icon = _ICONS.get(slug, _EXPLAINS)
        st.page_link(make_page(slug), label=plain(label), query_params=query or None, icon=icon)
