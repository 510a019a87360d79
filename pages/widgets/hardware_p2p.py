"""Does peer-to-peer work? The check on the Hardware page: start it, and read its last answer."""

import uuid
from typing import Any

import pandas as pd
import streamlit as st

from db import hosts, jobs, runs
from models.errors import InvalidSpec, NotFound
from models.metrics import METRICS
from models.result import Result
from pages.charts.topology import pair_heat
from pages.widgets import live_job, store
from pages.widgets.badges import badge
from pages.widgets.downloads import chart, table
from pages.widgets.links import page_link
from runners.spec import P2PSpec, parse_spec
from settings import settings

_TOKEN = "p2p-token"  # noqa: S105  (an idempotency token, no secret)
_MATRIX_METRICS = ("p2p_bandwidth", "p2p_latency")
_SERIES = ("direction", "link", "test", "method", "bytes")
TIERS = (
    "Three tiers a pair, each in its own process with a time limit: the driver grants peer access; "
    "data that one GPU writes are read back right from the other; an all-reduce over the pair is "
    "right and not slower than through the host. What the driver grants is a claim, not a check."
)


def render(shown: Result, *, here: bool) -> None:
    """Draw the section.

    Args:
        shown: The machine on the page.
        here: Whether that is this machine.
    """
    st.caption(TIERS)
    job_id = st.query_params.get("check")
    if job_id:
        _watch(job_id)
    elif here:
        _form(shown)
    _last(shown, here=here)


def _form(shown: Result) -> None:
    gpus = [gpu for gpu in shown.gpus or [] if gpu.uuid]
    if settings().read_only:
        st.caption("This is a demo: it starts nothing.")
        return
    labels = {str(gpu.uuid): f"GPU {gpu.index} · {gpu.name}" for gpu in gpus}
    if not gpus:
        st.caption("No GPU here. Two CPU ranks can rehearse the check; they say nothing of a link.")
        if st.button("Rehearse with 2 CPU ranks", key="check-cpu"):
            start(P2PSpec(device="cpu", ranks=2))
        return
    chosen = st.multiselect(
        "GPUs to check",
        list(labels),
        default=list(labels),
        format_func=labels.get,
        key="check-gpus",
    )
    risky = st.checkbox(
        "Also load the engine's own all-reduce for a minute",
        key="check-load",
        help="The hardest test: only under load have some patched drivers returned wrong data.",
    )
    if risky:
        st.warning(
            "With a faulty driver this can reset the machine. Save your work and end other jobs "
            "on it first."
        )
    if len(chosen) == 1:
        st.caption("One GPU has no pair: the check measures copies inside it.")
    if st.button("Check peer-to-peer", key="check-start", disabled=not chosen):
        try:
            start(P2PSpec(device="cuda", gpus=list(chosen), engine_under_load=risky))
        except InvalidSpec as error:
            store.show_error(error)


def start(spec: P2PSpec) -> None:
    """Queue a check and show it.

    Raises:
        ReadOnly: Demo mode.
        InvalidSpec: The check cannot be carried out as asked.
    """
    store.refuse_read_only()
    data = spec.model_dump(mode="json", exclude_defaults=True) | {"kind": "p2p"}
    parse_spec(data)
    token = st.session_state.setdefault(_TOKEN, str(uuid.uuid4()))
    title = f"Peer-to-peer check, {len(spec.gpus) or spec.ranks} " + (
        "GPUs" if spec.gpus else "CPU ranks"
    )
    st.query_params["check"] = jobs.enqueue(store.engine(), data, token=token, title=title)
    st.rerun()


def _watch(job_id: str) -> None:
    try:
        job = jobs.job(store.engine(), job_id)
    except NotFound:
        del st.query_params["check"]
        return
    live_job.watch([job_id], key="check")
    if job["state"] not in live_job.ACTIVE:
        st.session_state.pop(_TOKEN, None)
        if st.button("Check again", key="check-again"):
            del st.query_params["check"]
            st.rerun()


def _last(shown: Result, *, here: bool) -> None:
    """The newest check of this machine; for other machines, any that a person picks."""
    frame = runs.list_runs(store.engine(), kinds=["p2p"], limit=50)
    if frame.empty:
        st.info(
            "No peer-to-peer result yet. Start the check"
            + (" above" if here else " on the machine itself")
            + ", or import nvbandwidth or p2pBandwidthLatencyTest output on the page Runs."
        )
        return
    ids = [str(run_id) for run_id in frame["id"]]
    asked = st.query_params.get("p2p", "")
    start = asked if asked in ids else _own(ids, shown)
    labels = dict(zip(ids, frame["title"].fillna("Peer-to-peer check"), strict=True))
    chosen = st.selectbox(
        "Result",
        ids,
        index=None if start is None else ids.index(start),
        format_func=labels.get,
        key=f"p2p-{start}",
        placeholder="Results of other machines: choose one",
    )
    if chosen is None:
        st.caption("No check of this machine is stored.")
        return
    if chosen != start:
        st.query_params["p2p"] = chosen
        st.rerun()
    _draw(runs.load(store.engine(), chosen), chosen)


def _own(ids: list[str], shown: Result) -> str | None:
    """The newest check that was made on the machine on the page."""
    wanted = hosts.host_id(shown.host)
    if wanted is None:
        return None
    for run_id in ids[:20]:
        if hosts.host_id(runs.load(store.engine(), run_id).host) == wanted:
            return run_id
    return None


def _draw(run: Result, run_id: str) -> None:
    when = f" {run.started_at:%Y-%m-%d %H:%M} UTC" if run.started_at else ""
    st.markdown(f"{badge(run.origin, run.validity)}{when}")
    for reason in run.reasons:
        st.error(reason)
    for notice in run.warnings:
        if notice.text not in run.reasons:
            st.warning(notice.text)
    frame = pair_frame(run)
    if not frame.empty:
        _matrices(frame)
        table(frame, "peer-to-peer", f"{len(frame)} copy measurements of {run.tool.name}")
    elif run.validity == "valid":
        st.caption("This result holds no copy bandwidth or latency.")
    page_link("runs", "Conditions and raw data", run=run_id)


def pair_frame(run: Result) -> pd.DataFrame:
    """Copy bandwidths and latencies, one row a pair and way of measuring."""
    rows: list[dict[str, Any]] = [
        {
            "what": METRICS[row.metric].label,
            "from": row.dims.get("src", row.dims.get("device")),
            "to": row.dims.get("dst", row.dims.get("device")),
            "value": row.value,
            "unit": row.unit,
            "statistic": row.statistic,
            **{name: row.dims[name] for name in _SERIES if row.dims.get(name) is not None},
            "metric": row.metric,
        }
        for row in run.measurements
        if row.metric in (*_MATRIX_METRICS, "copy_bandwidth", "host_copy_bandwidth", "wrong_values")
    ]
    return pd.DataFrame(rows)


def _series(row: pd.Series) -> str:
    """A measurement's kind in words: what tells two matrices apart."""
    words = [row["what"]]
    direction = {"both": "both ways together", "one": "one way"}.get(row.get("direction"))
    link = {"on": "link on", "off": "link off"}.get(row.get("link"))
    size = f"{int(row['bytes']):,} B" if pd.notna(row.get("bytes")) else None
    test = row.get("test") if pd.notna(row.get("test")) else None
    method = row.get("method") if pd.notna(row.get("method")) else None
    words += [str(part) for part in (direction, link, test, method, size) if part]
    return ", ".join(words)


def _matrices(frame: pd.DataFrame) -> None:
    pairs = frame[frame["metric"].isin(_MATRIX_METRICS) & (frame["from"] != frame["to"])].copy()
    pairs = pairs.dropna(subset=["value"])
    if pairs.empty:
        return
    pairs["series"] = pairs.apply(_series, axis="columns")
    names = list(dict.fromkeys(pairs["series"]))
    chosen = names[0]
    if len(names) > 1:
        chosen = st.selectbox("Matrix", names, key="p2p-series")
    shown = pairs[pairs["series"] == chosen]
    unit = str(shown["unit"].iloc[0])
    low, high = float(shown["value"].min()), float(shown["value"].max())
    chart(
        pair_heat(shown[["from", "to", "value"]], unit),
        "peer-to-peer matrix",
        f"{chosen}: {low:.4g} to {high:.4g} {unit} over {len(shown)} directions",
        shown[["from", "to", "value", "unit"]],
    )
