"""New run: choose a benchmark, see how long it takes, start it once, watch it, cancel it."""

import uuid
from collections.abc import Callable
from typing import Any

import streamlit as st

from db import jobs
from models.errors import NotFound
from pages.widgets import (
    allreduce_form,
    before_start,
    decode_form,
    live_job,
    serving_form,
    store,
    url_state,
)
from pages.widgets.links import page_link
from settings import settings

_MOST_WATCHED = 100
Form = Callable[[], list[dict[str, Any]] | None]

# kind -> (words, form that returns planned jobs)
FORMS: dict[str, tuple[str, Form]] = {
    "allreduce": ("AllReduce sweep", allreduce_form.render),
    "decode": ("Decode step", decode_form.render),
    "serving": ("Serving", serving_form.render),
    "evaluation": ("Evaluation", serving_form.render_evaluation),
    "soak": ("Sustained load", serving_form.render_soak),
}
EXPLAINED = {
    "allreduce": "How long does one all-reduce take, message by message? The small ones decide "
    "what tensor parallelism costs a token.",
    "decode": "How long does one token take at each TP size, and which part of it is the GPU, the "
    "link and the CPU?",
    "serving": "What does one configuration of a served model give: throughput, time to first "
    "token, time per token?",
    "evaluation": "Two or more configurations in turn, link on against link off for example: what "
    "changes, and is the change shown?",
    "soak": "Does it hold for hours: errors, drift, throttling, outputs checked again and again?",
}

METHODS = ("allreduce", "decode")  # kinds with a topic of their own; the others are served


def render() -> None:
    """Draw the chosen form, or the jobs that were started from it."""
    kind = _kind()
    started = [part for part in st.query_params.get("jobs", "").split(",") if part]
    if started:
        _watch(started)
        return
    st.caption(EXPLAINED[kind])
    page_link("method", "How it is measured", topic=kind if kind in METHODS else "serving")
    planned = FORMS[kind][1]()
    if planned is None:
        return
    _plan(planned)
    before_start.show(planned)
    if settings().read_only:
        st.info("This is a demo: it starts nothing. Run your own Linkworth to measure.")
        return
    if st.button("Start", type="primary", key="start"):
        ids = submit(kind, planned)
        st.query_params["jobs"] = ",".join(ids)
        st.rerun()


def _words(kind: str) -> str:
    return FORMS[kind][0]


def _kind() -> str:
    """The benchmark, by its code in the URL."""
    names = list(FORMS)
    kind = st.segmented_control(
        "Benchmark",
        names,
        default=url_state.asked_one("kind", names, names[0]),
        format_func=_words,
        required=True,
        key="kind",
    )
    url_state.keep("kind", kind, names[0])
    return str(kind)


def _plan(planned: list[dict[str, Any]]) -> None:
    total = sum(job["expected_s"] for job in planned)
    words = "1 job" if len(planned) == 1 else f"{len(planned)} jobs, in the order shown"
    st.markdown(f"**Expected: {live_job.duration_words(total)}** ({words}).")
    if len(planned) > 1:
        with st.expander("Plan"):
            st.dataframe(
                {
                    "order": [job["order"] + 1 for job in planned],
                    "job": [job["title"] for job in planned],
                    "expected (s)": [round(job["expected_s"]) for job in planned],
                },
                hide_index=True,
                alt=f"{len(planned)} jobs in the order in which they run",
            )


def submit(kind: str, planned: list[dict[str, Any]]) -> list[str]:
    """Queue the planned jobs once: the same form, clicked again, gives the same jobs.

    Raises:
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    # kept until another run is asked for: three quick clicks then carry one token
    token = st.session_state.setdefault(f"token-{kind}", str(uuid.uuid4()))
    return [
        jobs.enqueue(
            store.engine(),
            job["spec"],
            token=f"{token}:{position}",
            title=job["title"],
            evaluation=job.get("evaluation"),
            order=job["order"],
        )
        for position, job in enumerate(planned)
    ]


def _watch(job_ids: list[str]) -> None:
    try:
        live_job.watch(job_ids[:_MOST_WATCHED], key="new-run")
    except NotFound as error:  # an old link must not leave a person stuck
        store.show_error(error)
    if st.button("Another run", key="another"):
        for name in [name for name in st.session_state if str(name).startswith("token-")]:
            del st.session_state[name]
        del st.query_params["jobs"]
        st.rerun()
    page_link("runs", "All runs")
