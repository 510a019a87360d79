"""Does peer-to-peer work? The check on the Hardware page: start it, and read its last answer."""

import uuid

import streamlit as st

from db import hosts, jobs, runs
from models.errors import InvalidSpec, NotFound
from models.result import Result
from pages.widgets import before_start, hardware_p2p_result, live_job, store
from runners.spec import P2PSpec, parse_spec
from settings import settings

_TOKEN = "p2p-token"  # noqa: S105  (an idempotency token, no secret)
# seconds a pair: copies and collective, and what the load adds; a hang takes longer
_PAIR_S, _LOAD_S = 50.0, 75.0
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
        if settings().vllm_interpreter() is None:
            st.caption(
                "vLLM is not installed here: NCCL's all-reduce is loaded in place of the engine's "
                "own. Type `make vllm` first to test that one."
            )
    if len(chosen) == 1:
        st.caption("One GPU has no pair: the check measures copies inside it.")
    if len(chosen) > 1:
        st.caption(f"Expected: about {live_job.duration_words(expected_s(len(chosen), risky))}.")
    if not chosen:
        return
    spec = spec_for(list(chosen), risky=risky)
    before_start.show([{"spec": spec.model_dump(mode="json")}])
    if st.button("Check peer-to-peer", key="check-start"):
        try:
            start(spec)
        except InvalidSpec as error:
            store.show_error(error)


def expected_s(n_gpus: int, risky: bool) -> float:
    """How long a check takes: each pair in turn, each tier in processes of its own."""
    n_pairs = n_gpus * (n_gpus - 1) // 2
    return 20.0 * n_gpus + n_pairs * (_PAIR_S + (_LOAD_S if risky else 0.0))


def spec_for(uuids: list[str], *, risky: bool) -> P2PSpec:
    """The check of these GPUs, with time enough for every pair.

    Raises:
        InvalidSpec: The settings and the choice make no check.
    """
    engine = settings().vllm_interpreter() if risky else None
    return P2PSpec(
        device="cuda",
        gpus=list(uuids),
        engine_under_load=risky,
        vllm_python=str(engine) if engine else None,
        time_limit_s=max(600.0, 3 * expected_s(len(uuids), risky)),
    )


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
    titles = frame["title"].fillna("Peer-to-peer check")
    labels = dict(zip(frame["id"], titles, strict=True))
    own = _own(shown)
    asked = st.query_params.get("p2p", "")
    for run_id in (own, asked):  # whatever the age of this machine's, or of the one in the link
        if run_id and run_id not in labels:
            labels |= _older(run_id)
    ids = list(labels)
    start = asked if asked in ids else own
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
    hardware_p2p_result.draw(runs.load(store.engine(), chosen), chosen)


def alone() -> None:
    """The check that the URL names, where no machine is known beside it."""
    asked = st.query_params.get("p2p", "")
    if asked and _older(asked):
        st.subheader("Peer-to-peer")
        hardware_p2p_result.draw(runs.load(store.engine(), asked), asked)


def _older(run_id: str) -> dict[str, str]:
    """Id and title of a check that is not among the newest; nothing where there is none."""
    found = runs.heads(store.engine(), [run_id]).get(run_id)
    if found is None or found.kind != "p2p":
        return {}
    return {run_id: found.title or "Peer-to-peer check"}


def broken_pairs(shown: Result) -> dict[frozenset[int], str]:
    """Pairs of GPUs that the newest check of this machine found broken, with what it saw."""
    run_id = _own(shown, origins=["measured"])
    if run_id is None:
        return {}
    told = runs.load(store.engine(), run_id).environment.get("pairs") or []
    return {
        frozenset((pair["src"], pair["dst"])): pair["sentence"]
        for pair in told
        if pair["code"] in hardware_p2p_result.BROKEN
    }


def _own(shown: Result, origins: list[str] | None = None) -> str | None:
    """The newest check of this machine; a rehearsal on CPU ranks only for want of a real one."""
    wanted = hosts.host_id(shown.host)
    if wanted is None:
        return None
    engine = store.engine()
    listed = runs.list_runs(engine, kinds=["p2p"], origins=origins, hosts=[wanted], limit=20)
    found = runs.heads(engine, list(listed["id"]))
    real = (run_id for run_id, run in found.items() if run.spec.get("device") != "cpu")
    return next(real, next(iter(found), None))
