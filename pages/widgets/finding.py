"""What a page has said and drawn, kept while it draws, so that it can be taken away as a report."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import altair as alt
import pandas as pd
import streamlit as st


@dataclass(frozen=True)
class Part:
    """One piece of a finding.

    Attributes:
        kind: heading, text (markdown), small (markdown), chart or table.
        words: The text; of a chart or table its takeaway.
        drawing: The chart.
        frame: The table.
    """

    kind: Literal["heading", "text", "small", "chart", "table"]
    words: str
    drawing: alt.TopLevelMixin | None = None
    frame: pd.DataFrame | None = None


# of this run of a page alone: each session draws in a thread of its own
_parts: ContextVar[list[Part] | None] = ContextVar("parts of a finding", default=None)


@contextmanager
def collected() -> Iterator[list[Part]]:
    """Keep what is said and drawn inside the block, in order."""
    parts: list[Part] = []
    token = _parts.set(parts)
    try:
        yield parts
    finally:
        _parts.reset(token)


def note(part: Part) -> None:
    """Keep one part, where a page asked for it."""
    parts = _parts.get()
    if parts is not None:
        parts.append(part)


def heading(words: str) -> None:
    """A heading on the page and in the report."""
    st.subheader(words)
    note(Part("heading", words))


def say(words: str) -> None:
    """A sentence, as markdown, on the page and in the report."""
    st.markdown(words)
    note(Part("text", words))


def caption(words: str) -> None:
    """A remark, as markdown, on the page and in the report."""
    st.caption(words)
    note(Part("small", words))
