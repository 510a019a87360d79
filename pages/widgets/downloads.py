"""A table or chart never stands alone: numbers behind it, and files to take away."""

import re
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st
import vl_convert

from pages.charts.theme import PALETTE
from pages.widgets.finding import Part, note
from pages.widgets.plain import plain

_MOST_CELL = 2000
UNKNOWN = "–"  # a cell without a value: never 0, and no programmer's word


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "data"


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False).encode()


def table(
    frame: pd.DataFrame,
    name: str,
    alt: str,
    *,
    key: str | None = None,
    column_config: dict[str, Any] | None = None,
    column_order: list[str] | None = None,
    height: int | str = "auto",
    is_wrapped: bool = False,
    file: pd.DataFrame | None = None,
) -> None:
    """A table with its takeaway for those who cannot see it, and a CSV download.

    Args:
        frame: What to show; column names carry their unit.
        name: Stem of the file name and, unless given, of the widget keys.
        alt: The takeaway in a sentence.
        key: Unique stem of the widget keys.
        column_config: As in st.dataframe.
        column_order: As in st.dataframe.
        height: As in st.dataframe; "auto" shows all of a wrapped table.
        is_wrapped: Sentences in the cells: all of them are shown, on several lines.
        file: What the CSV holds, where that is more than what is shown: numbers behind words.
    """
    stem = key or _slug(name)
    note(Part("table", alt, frame=frame[column_order] if column_order else frame))
    if is_wrapped:
        shown = frame[column_order] if column_order else frame
        cells = shown.astype(object).where(shown.notna(), UNKNOWN)
        # cells and headers of this kind of table read markdown
        cells = cells.map(lambda cell: plain(cell, _MOST_CELL) if isinstance(cell, str) else cell)
        cells = cells.rename(columns=plain)
        st.table(cells, hide_index=True, alt=alt, height="content" if height == "auto" else height)
    else:
        st.dataframe(
            frame,
            hide_index=True,
            column_config=column_config,
            column_order=column_order,
            height=height,
            placeholder=UNKNOWN,
            alt=alt,
        )
    st.download_button(
        "CSV",
        data=lambda: _csv(frame if file is None else file),
        file_name=f"linkworth-{_slug(name)}.csv",
        mime="text/csv",
        key=f"{stem}-csv",
        on_click="ignore",
        type="tertiary",
        icon=":material/download:",
        help="Download this table",
    )


def picture(drawing: alt.TopLevelMixin, form: str) -> bytes:
    """PNG or SVG of a chart, made without a browser, in the app's colours."""
    spec = drawing.to_dict()
    spec.setdefault("config", {}).setdefault("range", {}).setdefault("category", list(PALETTE))
    spec.setdefault("width", 640)
    if form == "svg":
        return vl_convert.vegalite_to_svg(spec).encode()
    return vl_convert.vegalite_to_png(spec, scale=2.0)


class _Ready:
    """A drawing as Streamlit takes it.

    Altair's check of the finished picture takes as long as making it and finds mistakes of ours
    only, so tests do it and a visitor does not wait for it.
    """

    def __init__(self, drawing: alt.TopLevelMixin) -> None:
        self._drawing = drawing

    def to_dict(self) -> dict[str, Any]:
        return self._drawing.to_dict(validate=False)


def chart(
    drawing: alt.TopLevelMixin,
    name: str,
    alt: str,
    data: pd.DataFrame,
    *,
    key: str | None = None,
) -> None:
    """A chart, the table behind it, and downloads as CSV, PNG and SVG.

    Args:
        drawing: The Altair chart.
        name: Stem of the file names.
        alt: The takeaway in a sentence, not the axes.
        data: The numbers that the chart shows.
        key: Unique stem of the widget keys.
    """
    stem = key or _slug(name)
    note(Part("chart", alt, drawing=drawing))
    st.altair_chart(_Ready(drawing), alt=alt)
    with st.popover("Numbers and files", icon=":material/table:", key=f"{stem}-popover"):
        st.dataframe(data, hide_index=True, placeholder=UNKNOWN, alt=alt)
        for form, label, mime in (
            ("csv", "CSV", "text/csv"),
            ("png", "PNG", "image/png"),
            ("svg", "SVG", "image/svg+xml"),
        ):
            st.download_button(
                label,
                data=(lambda: _csv(data))
                if form == "csv"
                else (lambda form=form: picture(drawing, form)),
                file_name=f"linkworth-{_slug(name)}.{form}",
                mime=mime,
                key=f"{stem}-{form}",
                on_click="ignore",
            )
