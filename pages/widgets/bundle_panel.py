"""Everything that this machine has, as one file for another one."""

import streamlit as st

from db import runs
from db.engine import Engine
from importers import own_zip

_ORIGINS = ("measured", "imported", "described", "predicted", "assumed")
_LIMIT = 100_000


def render(engine: Engine) -> None:
    """Draw the choice of runs and the download of the bundle."""
    only_measured = st.toggle(
        "Only what was measured here, not what was imported", key="bundle-measured"
    )
    origins = ["measured"] if only_measured else list(_ORIGINS)
    total = runs.count(engine, origins=origins, shipped=False)
    if total == 0:
        st.info("There is no run of your own to take along yet. Measure or import something first.")
        return
    words = "1 run" if total == 1 else f"{total} runs"
    st.caption(
        f"{words} with samples, telemetry and raw files in one zip. The studies that came with "
        "Linkworth stay here: every copy has them. On the other machine, drop the zip on Import."
    )
    st.download_button(
        f"Bundle of {words}",
        data=lambda: pack(engine, origins),
        file_name="linkworth-bundle.zip",
        mime="application/zip",
        key="bundle-download",
        on_click="ignore",
        icon=":material/download:",
    )


def pack(engine: Engine, origins: list[str]) -> bytes:
    """The bundle of all runs of these origins, with their raw files."""
    listed = runs.list_runs(engine, origins=origins, shipped=False, limit=_LIMIT)
    return own_zip.pack(
        (runs.load(engine, str(run_id)), runs.raw(engine, str(run_id))) for run_id in listed["id"]
    )
