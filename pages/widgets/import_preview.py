"""What an import understood, what is missing and what looks wrong, before anything is stored."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from importers.files import Reading
from importers.said import FIELDS, SHORT, missing
from models.result import Result
from models.step_clocks import told
from pages.widgets.badges import badge, plain_validity
from pages.widgets.downloads import table
from pages.widgets.import_store import worth_storing
from pages.widgets.links import page_link
from pages.widgets.plain import plain
from pages.widgets.run_detail import measurement_frame

SHOWN = 10  # files in detail; the table above has all of them
_TOLD_AS_MISSING = ("no_version", "no_tp", "no_gpu")


def render(readings: Sequence[Reading], known: Mapping[str, str]) -> None:
    """Draw the table of files and the details of the first of them.

    Args:
        readings: What was read.
        known: Hash of a file -> id of the run that has it already.
    """
    n_results = sum(len(reading.results) for reading in readings)
    refused = [reading for reading in readings if reading.error is not None]
    frame = overview(readings, known)
    files = "1 file" if len(readings) == 1 else f"{len(readings)} files"
    results = "1 result" if n_results == 1 else f"{n_results} results"
    words = f"{results} in {files}, {len(refused)} not understood"
    st.markdown(f"**{words}.** Nothing is stored yet.")
    table(
        frame,
        "import-overview",
        words,
        column_config={"looks wrong": st.column_config.TextColumn(width="large")},
    )
    for reading in refused[:SHOWN]:
        said = f": {reading.error.sentence}" if reading.error else ""
        st.error(plain(f"{reading.name}{said}", 1000))
        if reading.error and reading.error.next_step:
            st.caption(plain(reading.error.next_step, 1000))
    there = [reading for reading in readings if reading.results and reading.sha256 in known]
    for reading in there[:SHOWN]:
        st.info(f"{plain(reading.name)} is already stored.")
        page_link("runs", f"Open the run that {reading.name} brought", run=known[reading.sha256])
    shown = 0
    for reading in readings:
        for result in reading.results:
            if reading.sha256 not in known and shown < SHOWN:
                shown += 1
                _details(reading.name, result, opened=n_results == 1)


def overview(readings: Sequence[Reading], known: Mapping[str, str]) -> pd.DataFrame:
    """One row a result, and one a file without any."""
    rows = []
    for reading in readings:
        if not reading.results:
            state = "left out" if reading.skipped else "not understood"
            why = reading.skipped or (reading.error.sentence if reading.error else "")
            rows.append(_row(reading.name, state, looks_wrong=why))
        for result in reading.results:
            state = "already stored" if reading.sha256 in known else "new"
            if not worth_storing(result):
                state = "holds no number"
            rows.append(
                _row(
                    reading.name,
                    state,
                    what=result.title or result.kind,
                    tool=f"{result.tool.name} {result.tool.version or ''}".strip(),
                    validity=plain_validity(result.validity),
                    missing=", ".join(SHORT[name] for name in missing(result)),
                    looks_wrong=told(" ".join(doubts(result))),
                )
            )
    return pd.DataFrame(rows)


def _row(name: str, state: str, **cells: str) -> dict[str, str]:
    columns = ("what", "tool", "validity", "looks_wrong", "missing")
    known = {column.replace("_", " "): cells.get(column, "") for column in columns}
    return {"file": name, "state": state, **known}


def doubts(result: Result) -> list[str]:
    """What is wrong or remarkable; what is merely missing has a column of its own."""
    texts = [notice.text for notice in result.warnings if notice.code not in _TOLD_AS_MISSING]
    return list(dict.fromkeys([*result.reasons, *texts]))


def _details(name: str, result: Result, *, opened: bool) -> None:
    with st.expander(plain(f"{name}: {result.title or result.kind}"), expanded=opened):
        st.markdown(badge(result.origin, result.validity))
        for reason in result.reasons:
            st.warning(plain(told(reason), 1000))
        for text in doubts(result):
            if text not in result.reasons:
                st.caption(f"⚠ {plain(told(text), 1000)}")
        absent = [FIELDS[field].lower() for field in missing(result)]
        if absent:
            st.caption(f"The file does not say: {', '.join(absent)}.")
        frame = measurement_frame(result)
        if frame.empty:
            st.caption("No measurement could be read from it.")
        else:
            table(
                frame,
                f"import-{result.id[:8]}",
                f"{len(frame)} measurements, as they would be stored",
                key=f"import-values-{result.id}",
            )
