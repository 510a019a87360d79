"""Runs → Import: files, zip files and pasted text, looked at first, then stored."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from db import runs
from db.engine import Engine
from importers import said
from importers.files import File, Reading, expand, read_each
from models.errors import LinkworthError, UnreadableFile
from models.result import Scalar
from pages.widgets import import_preview, import_store, store
from pages.widgets.links import page_link
from pages.widgets.plain import plain

_TOKEN = "import-token"  # noqa: S105  (names what lies on the shelf, no secret)
_GENERATION = "import-generation"
_DONE = "import-done"
_LINKS = {"": "not known", "on": "on", "off": "off"}
_LINKED = 5  # runs that the message links to

KNOWN = (
    "Read are: vLLM serving JSON, tables and sweep folders, vLLM latency, throughput, start-up and "
    "forward JSON, SGLang, InferenceX, GuideLLM and AIPerf files, nccl-tests and RCCL output, "
    "nvbandwidth, `nvidia-smi topo -m` and `nvlink -s`, and Linkworth's own exports."
)


@st.cache_resource(max_entries=8, ttl="1h", show_spinner=False)
def _shelf(token: str) -> list[Reading]:
    """What one visitor had read, until it is stored: too large to go through the session."""
    return []


def render(engine: Engine) -> None:
    """Draw the import: input, what was understood, what a person adds, and the button to store."""
    _message()
    generation = int(st.session_state.get(_GENERATION, 0))
    uploads = st.file_uploader(
        "Result files, or a folder as zip",
        accept_multiple_files=True,
        key=f"import-files-{generation}",
    )
    pasted = st.text_area(
        "Or paste what a tool printed",
        key=f"import-text-{generation}",
        height=120,
        placeholder="============ Serving Benchmark Result ============",
    )
    st.caption(KNOWN)
    if st.button("Read", key="import-read", icon=":material/search:", type="primary"):
        given = [File(upload.name, upload.getvalue()) for upload in uploads or ()]
        if pasted.strip():
            given.append(File("pasted text", pasted.encode()))
        st.session_state.pop(_TOKEN, None)
        if given:
            _read(given)
        else:
            st.info("Drop a file or paste a text first.")
    if _TOKEN not in st.session_state:
        return
    readings = _shelf(st.session_state[_TOKEN])
    if not readings:
        st.info("These files were read too long ago. Press Read again.")
        return
    known = already_stored(engine, readings)
    import_preview.render(readings, known)
    fresh = [
        reading
        for reading in readings
        if reading.sha256 not in known and any(map(import_store.worth_storing, reading.results))
    ]
    if fresh:
        _form(engine, fresh)
    else:
        st.info("There is nothing new to store.")


def already_stored(engine: Engine, readings: Sequence[Reading]) -> dict[str, str]:
    """Hash of each file whose bytes are stored already -> the run that has them."""
    found = {
        reading.sha256: runs.find_by_sha256(engine, reading.sha256)
        for reading in readings
        if reading.results
    }
    return {sha: run_id for sha, run_id in found.items() if run_id is not None}


def _read(given: Sequence[File]) -> None:
    bar = st.progress(0.0, text="Reading …")
    try:
        several = list(expand(given))
        token = str(uuid.uuid4())
        _shelf(token).extend(read_each(several, _progress(bar, len(several), "Reading")))
        st.session_state[_TOKEN] = token
    except UnreadableFile as error:
        store.show_error(error)
    bar.empty()


def _progress(bar: Any, total: int, verb: str) -> Any:
    def told(done: int, name: str) -> None:
        bar.progress(
            min(1.0, done / max(1, total)), text=f"{verb} {done} of {total}: {plain(name)}"
        )

    return told


def _form(engine: Engine, fresh: Sequence[Reading]) -> None:
    results = [result for reading in fresh for result in reading.results]
    wanted = list(dict.fromkeys(name for result in results for name in said.missing(result)))
    with st.form("import-form"):
        answers: dict[str, Scalar] = {}
        if wanted:
            st.markdown(
                "**What the files do not say.** Fill in what you know; it is kept as said "
                "by you, and never replaces what a file says."
            )
            columns = st.columns(min(3, len(wanted)))
            for place, name in enumerate(wanted):
                answers[name] = _field(columns[place % len(columns)], name)
        n_stored = sum(map(import_store.worth_storing, results))
        words = "Store 1 result" if n_stored == 1 else f"Store {n_stored} results"
        pressed = st.form_submit_button(words, key="import-store", type="primary")
    if pressed:
        _store(engine, fresh, answers)


def _field(column: Any, name: str) -> Scalar:
    label = said.FIELDS[name]
    key = f"import-said-{name}"
    if name == "tp":
        value = column.number_input(label, min_value=1, max_value=1024, value=None, key=key)
        return None if value is None else int(value)
    if name == "link":
        return column.selectbox(label, list(_LINKS), key=key, format_func=_LINKS.get)
    examples = {"gpu": "NVIDIA H200", "interconnect": "NVLink", "engine_version": "0.33.1"}
    text = column.text_input(label, key=key, max_chars=100, placeholder=examples.get(name))
    return text.strip() or None


def _store(engine: Engine, fresh: Sequence[Reading], answers: Mapping[str, Scalar]) -> None:
    bar = st.progress(0.0, text="Storing …")
    try:
        outcome = import_store.store(engine, fresh, answers, _progress(bar, len(fresh), "Storing"))
    except LinkworthError as error:
        bar.empty()
        store.show_error(error)
        return
    st.session_state[_DONE] = {
        "stored": outcome.stored,
        "duplicates": outcome.duplicates,
        "empty": outcome.empty,
    }
    _shelf(st.session_state.pop(_TOKEN)).clear()
    st.session_state[_GENERATION] = int(st.session_state.get(_GENERATION, 0)) + 1
    st.rerun()


def _message() -> None:
    done = st.session_state.pop(_DONE, None)
    if done is None:
        return
    n_runs = len(done["stored"])
    if n_runs:
        st.success("1 run was stored." if n_runs == 1 else f"{n_runs} runs were stored.")
    for run_id in done["stored"][:_LINKED]:
        page_link("runs", f"Open run {run_id[:8]}", run=run_id)
    for name, run_id in done["duplicates"][:_LINKED]:
        st.info(f"{plain(name)} was already stored and was left out.")
        page_link("runs", f"Open run {run_id[:8]}, which has it", run=run_id)
    if done["empty"]:
        st.caption(f"{done['empty']} results held no number and were not stored.")
