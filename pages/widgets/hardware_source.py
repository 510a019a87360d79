"""Which machine the Hardware page shows: this one as last read, a stored one, or a pasted one."""

import hashlib
import json
import uuid
from itertools import count
from typing import Any

import pandas as pd
import streamlit as st

from db import hosts, jobs, runs
from importers import recognise
from models.errors import DuplicateFile, LinkworthError, NotFound, UnreadableFile
from models.host_changes import rising
from models.host_findings import Finding
from models.result import Result, dump, parse
from models.wording import plural
from pages.widgets import live_job, store, this_machine
from pages.widgets.badges import plain
from runners.spec import TopologySpec
from settings import settings

# described machines are kept for this visitor only in demo mode: one dict a paste, newest last,
# with the hash of its text and its machines as JSON texts
_VISITOR = "hardware-described"
UNSAVED = "pasted"
_SHOWN = "hardware-pastes-shown"  # how many pastes of this visitor were shown
_OFFERED = 64  # machines of one text; in demo mode of one visitor
_READINGS = 50  # of one machine that are looked at for the one before
_TOKEN = "hardware-token"  # noqa: S105  (an idempotency token, no secret)
PASTE_HELP = (
    "What `nvidia-smi topo -m` prints is enough; `topo -p2p` and `nvlink -s` of the same machine "
    "may stand in the same text, and other machines after it; `rocm-smi --showtopo` is read too. "
    "What nvbandwidth or p2pBandwidthLatencyTest print is shown under peer-to-peer: paste it by "
    "itself."
)


def known() -> pd.DataFrame:
    """Stored machines, newest first."""
    return runs.list_runs(store.engine(), kinds=["topology"], limit=200)


def worse_than_before(shown: Result) -> list[Finding]:
    """What a machine that was read has got worse in since the reading before."""
    host = hosts.host_id(shown.host)
    if shown.origin != "measured" or host is None:
        return []
    engine = store.engine()
    listed = runs.list_runs(
        engine, kinds=["topology"], origins=["measured"], hosts=[host], limit=_READINGS
    )
    ids = list(listed["id"])
    # newest first; what stands behind this one was read before it
    earlier = ids[ids.index(shown.id) + 1 :] if shown.id in ids else []
    return rising(shown, runs.load(engine, earlier[0])) if earlier else []


def is_here(result: Result) -> bool:
    """Whether a result was measured on the machine of this app's worker."""
    here = this_machine.host_id()
    return result.origin == "measured" and here is not None and hosts.host_id(result.host) == here


def choose() -> Result | None:
    """Draw the choice of machine; returns the machine to show, None where there is none."""
    frame = known()
    pastes = _visitors()
    visitors = {code: machine for paste in pastes for code, machine in paste.items()}
    labels = {
        code: f"Pasted machine{_place(k, len(visitors))} (not stored)"
        for k, code in enumerate(visitors)
    }
    labels |= {str(row.id): _label(row) for row in frame.itertuples()}
    asked = _asked(labels)
    start = asked or _default(frame, labels) or next(iter(labels), None)
    ids = list(labels)
    if start is None:
        return None
    if pastes and not asked:
        start = next(iter(pastes[-1]))
    chosen = st.selectbox(
        "Machine", ids, index=ids.index(start), format_func=labels.get, key=f"machine-{start}"
    )
    if chosen != start:
        st.query_params["runs"] = str(chosen)
        st.rerun()
    if chosen in visitors:
        _offer_others(chosen, next(paste for paste in pastes if chosen in paste))
        return visitors[chosen]
    try:
        shown = runs.load(store.engine(), str(chosen))
    except NotFound:
        return None
    if shown.origin == "described":
        _offer_others(shown.id, _of_same_text(shown.id))
    return shown


def _visitors() -> list[dict[str, Result]]:
    """Machines that a demo's visitor pasted, one dict a paste: code -> machine."""
    numbers = count(1)
    return [
        {_code(next(numbers)): parse(json.loads(text)) for text in paste["machines"]}
        for paste in st.session_state.get(_VISITOR) or []
    ]


def _code(number: int) -> str:
    return UNSAVED if number == 1 else f"{UNSAVED}-{number}"


def _keep_for_visitor(data: bytes, machines: list[Result]) -> str:
    """Keep the machines of one text beside those of earlier ones; the code of the first of them.

    Raises:
        UnreadableFile: There is no room for more.
    """
    pastes = st.session_state.get(_VISITOR) or []
    sha256 = hashlib.sha256(data).hexdigest()
    before = 0
    for paste in pastes:
        if paste["sha256"] == sha256:
            return _code(before + 1)
        before += len(paste["machines"])
    if before and before + len(machines) > _OFFERED:
        raise UnreadableFile(
            f"This demo keeps {_OFFERED} pasted machines, and {before} are here already.",
            "Load the page anew: it forgets them.",
        )
    texts = [json.dumps(dump(machine)) for machine in machines[:_OFFERED]]
    st.session_state[_VISITOR] = [*pastes, {"sha256": sha256, "machines": texts}]
    return _code(before + 1)


def _place(k: int, count: int) -> str:
    return f" {k + 1} of {count}" if count > 1 else ""


def _of_same_text(run_id: str) -> dict[str, Result]:
    """The machines that one text or file described: id -> machine."""
    engine = store.engine()
    found = runs.heads(engine, runs.of_same_file(engine, run_id)[:_OFFERED])
    return {code: run for code, run in found.items() if run.kind == "topology"}


def _offer_others(shown: str, machines: dict[str, Result]) -> None:
    """The machines of one text side by side, the shown one chosen."""
    if len(machines) < 2 or shown not in machines:
        return
    words = {
        code: f"{k}: {plural(len(machine.gpus or []), 'GPU')}"
        for k, (code, machine) in enumerate(machines.items(), start=1)
    }
    picked = st.segmented_control(
        f"This text describes {len(machines)} machines",
        list(words),
        default=shown,
        format_func=words.__getitem__,
        required=True,
        key=f"machine-of-text-{shown}",
    )
    if picked != shown:
        st.query_params["runs"] = str(picked)
        st.rerun()


def _asked(labels: dict[str, str]) -> str:
    """The machine that the URL names, put among the labels where it is older than those.

    A check that is named there is shown in its own section.
    """
    asked = st.query_params.get("runs", "").split(",")[0]
    if not asked or asked in labels:
        return asked
    run = runs.heads(store.engine(), [asked]).get(asked)
    if run is not None and run.kind == "topology":
        labels[asked] = _older_label(run)
        return asked
    if run is None:
        st.warning("The machine that this link names is not stored here (any more).")
    elif run.kind == "p2p":
        st.query_params["p2p"] = asked
    del st.query_params["runs"]
    return ""


def _label(row: Any) -> str:
    when = row.created_at.strftime("%Y-%m-%d %H:%M") if pd.notna(row.created_at) else ""
    return f"{row.title or 'Machine'} · {plain(row.origin)} · {when}"


def _older_label(run: Result) -> str:
    when = run.finished_at or run.started_at
    words = [run.title or "Machine", plain(run.origin)]
    return " · ".join([*words, *([f"{when:%Y-%m-%d %H:%M}"] if when else [])])


def _default(frame: pd.DataFrame, labels: dict[str, str]) -> str | None:
    """The newest reading of this machine, else the newest measured one, else the first."""
    here = this_machine.host_id()
    if here is not None:
        own = runs.list_runs(
            store.engine(), kinds=["topology"], origins=["measured"], hosts=[here], limit=1
        )
        for row in own.itertuples():
            labels.setdefault(str(row.id), _label(row))
            return str(row.id)
    measured = [str(run_id) for run_id in frame.loc[frame["origin"] == "measured", "id"]]
    return measured[0] if measured else None


def read_this_machine() -> None:
    """The button that has the worker read this machine, and the job while it runs."""
    job_id = st.query_params.get("job")
    if job_id:
        _watch(job_id)
        return
    if settings().read_only:
        st.caption("This is a demo: it cannot read a machine. Paste one instead.")
        return
    if st.button(
        "Read this machine",
        type="primary",
        key="read-machine",
        icon=":material/memory:",
        help="Asks the driver for GPUs and links; takes a few seconds and loads no GPU.",
    ):
        st.query_params["job"] = enqueue()
        st.rerun()


def enqueue() -> str:
    """Queue a reading of this machine; the same token until it has ended gives the same job.

    Raises:
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    token = st.session_state.setdefault(_TOKEN, str(uuid.uuid4()))
    spec = TopologySpec().model_dump(mode="json")
    return jobs.enqueue(store.engine(), spec, token=token, title="Read this machine")


def _watch(job_id: str) -> None:
    try:
        job = jobs.job(store.engine(), job_id)
    except NotFound:
        del st.query_params["job"]
        return
    if job["state"] not in live_job.ACTIVE:
        st.session_state.pop(_TOKEN, None)
        if job["state"] == "succeeded" and job["run_id"]:
            del st.query_params["job"]
            st.query_params["runs"] = job["run_id"]
            st.rerun()
    live_job.watch([job_id], key="hardware")
    if job["state"] not in live_job.ACTIVE and st.button("Try again", key="read-again"):
        del st.query_params["job"]
        st.rerun()


def describe() -> None:
    """Paste or upload another machine's output: it becomes a described machine."""
    # a new key closes it: what was asked for stands below
    key = f"describe-{st.session_state.get(_SHOWN, 0)}"
    with st.expander("Describe another machine", icon=":material/content_paste:", key=key):
        st.caption(PASTE_HELP)
        text = st.text_area("Output of the tool", height=160, key="pasted-text")
        file = st.file_uploader("or a file", key="pasted-file")
        if not st.button("Show this machine", key="describe"):
            return
        data = file.getvalue() if file is not None else text.encode()
        name = file.name if file is not None else ""
        try:
            kind, run_id = keep(data, name)
        except LinkworthError as error:
            store.show_error(error)
            return
        st.query_params["runs" if kind == "topology" else "p2p"] = run_id
        st.session_state[_SHOWN] = st.session_state.get(_SHOWN, 0) + 1
        st.rerun()


def keep(data: bytes, name: str) -> tuple[str, str]:
    """Read pasted bytes and store all that they describe.

    Returns:
        Kind and run id of the first machine or result; the page offers the others.

    Args:
        data: Tables of links, link status, or a peer-to-peer benchmark's output.
        name: File name, for the title.

    Raises:
        UnreadableFile: Another kind of result, or none.
        ReadOnly: A demo keeps machines for its visitor, and no benchmark results.
    """
    if not data.strip():
        raise UnreadableFile("There is nothing to read yet.", "Paste the tool's output first.")
    results = recognise.read(data, name).results
    kept = [result for result in results if result.kind in ("topology", "p2p")]
    if not kept:
        kinds = ", ".join(sorted({result.kind for result in results}))
        raise UnreadableFile(
            f"This is a result of another kind ({kinds}), not a table of links.",
            "Import it on the page Runs; here goes what nvidia-smi topo -m prints.",
        )
    kind = kept[0].kind
    if settings().read_only:
        if kind == "p2p":
            store.refuse_read_only()
        machines = [result for result in kept if result.kind == "topology"]
        return kind, _keep_for_visitor(data, machines)
    try:
        ids = runs.store_all(store.engine(), kept, raw=data, raw_name=name or "pasted.txt")
        return kind, ids[0]
    except DuplicateFile as known_already:
        return kind, known_already.detail
