"""What a person sees: one file a page, each with ``render()``; nothing runs at import.

The table below is the navigation. A page stands here only when it is whole.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from pages.loading import module_of

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage


@dataclass(frozen=True)
class Entry:
    """A line of the navigation: title, group, and the question that the page answers."""

    title: str
    group: str
    question: str


# slug (the URL path) -> entry; the first is served at "/"
PAGES: dict[str, Entry] = {
    "overview": Entry("Overview", "", "What is here, what was last measured, what comes next?"),
    "hardware": Entry(
        "Hardware",
        "Measure",
        "Which GPUs, which links, does peer-to-peer really work, where should TP groups go?",
    ),
    "new-run": Entry("New run", "Measure", "Start a benchmark on this machine."),
    "runs": Entry("Runs", "Measure", "What ran, is it valid, and where is the raw data?"),
    "allreduce": Entry(
        "AllReduce",
        "Explain",
        "Is the message latency-bound, and what does a step pay?",
    ),
    "speedup": Entry(
        "Speedup",
        "Explain",
        "Does tensor parallelism help this model here, and where does a step's time go?",
    ),
    "link-ab": Entry(
        "Link A/B",
        "Explain",
        "What changed when the link changed, with intervals, by scenario, and the scorecard",
    ),
    "what-if": Entry(
        "What-if",
        "Decide",
        "What would TP, another link or another card do, on hardware that is not here?",
    ),
    "roi": Entry(
        "ROI",
        "Decide",
        "Does the gain cover price, labour and risk? Buy, not yet, don't, or measure more",
    ),
    "catalogue": Entry(
        "Catalogue",
        "Decide",
        "What do cards, power and failures cost, who says so, and when was it said?",
    ),
    "method": Entry("Method", "About", "What each number means and how it is obtained."),
    "settings": Entry("Settings", "About", "Every setting and where its value came from."),
}


def make_page(slug: str) -> "StreamlitPage":
    """The page object for st.navigation, st.page_link and st.switch_page."""

    def render() -> None:
        module_of(slug).render()

    return st.Page(
        render, title=PAGES[slug].title, url_path=slug, default=slug == next(iter(PAGES))
    )


def navigation() -> dict[str, list["StreamlitPage"]]:
    """All pages by group, in the order of the table."""
    groups: dict[str, list[StreamlitPage]] = {}
    for slug, entry in PAGES.items():
        groups.setdefault(entry.group, []).append(make_page(slug))
    return groups
