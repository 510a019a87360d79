"""What a person should know before a run starts: GPUs in use, set aside, gone, or unlike."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from db import hosts, jobs
from db.claims import ALL_GPUS, BUSY_PATIENCE_S, resources
from db.probes import best_rates
from models.unlike_cards import unlike
from pages.widgets import store, this_machine
from pages.widgets.links import page_link
from pages.widgets.plain import plain
from settings import settings


def show(planned: Sequence[Mapping[str, Any]]) -> None:
    """Draw the warnings about the GPUs that these jobs use."""
    names = {name for job in planned for name in resources(job["spec"])[0]}
    if not names:
        return
    host = this_machine.host_id()
    facts = this_machine.facts()
    gpus = _chosen(list(facts.get("gpus") or []), names)
    for sentence in facts.get("gpu_problems") or ():
        st.warning(plain(sentence))
    if host is not None:
        aside = _aside(host, gpus, names)
        for sentence in aside:
            st.warning(sentence)
        if aside:
            page_link("hardware", "Look after it on Hardware")
        for sentence in _in_use(host, gpus, names):
            st.warning(sentence)
    rates = _rates(settings().url, host) if host is not None and len(gpus) > 1 else {}
    said = unlike(gpus, rates)
    if said is not None:
        st.warning(plain(said, 1000))


def _chosen(gpus: list[dict[str, Any]], names: set[str]) -> list[dict[str, Any]]:
    if ALL_GPUS in names:
        return gpus
    return [gpu for gpu in gpus if {str(gpu.get("uuid")), str(gpu.get("index"))} & names]


def _aside(host: str, gpus: list[dict[str, Any]], names: set[str]) -> list[str]:
    """GPUs that wait for a person: a job on them waits too."""
    mine = names | {str(gpu[key]) for gpu in gpus for key in ("uuid", "index")}
    found = []
    for row in hosts.open_incidents(store.engine(), host):
        if row["gpu"] == "cpu" or not (row["gpu"] is None or str(row["gpu"]) in mine):
            continue
        who = "Every GPU" if row["gpu"] is None else this_machine.gpu_words(row["gpu"], gpus)
        found.append(
            f"**{plain(who)} is set aside after an incident.** {plain(row['text'])} The job waits "
            "until somebody clears it."
        )
    return found


def _in_use(host: str, gpus: list[dict[str, Any]], names: set[str]) -> list[str]:
    """GPUs that other programs use, as the worker last saw them."""
    seen = jobs.in_use(store.engine(), host)
    minutes = f"{BUSY_PATIENCE_S / 60:.0f} min"
    found = []
    for uuid, count in seen.items():
        if ALL_GPUS not in names and uuid not in {gpu.get("uuid") for gpu in gpus}:
            continue
        others = "another program" if count == 1 else f"{count} other programs"
        found.append(
            f"**{plain(this_machine.gpu_words(uuid, gpus))} is in use by {others}.** The job waits "
            f"for it up to {minutes}, then starts all the same, and its run is marked suspect."
        )
    return found


@st.cache_data(ttl="1min", show_spinner=False)
def _rates(url: str, host: str) -> dict[str, float]:
    """Best copy bandwidth of each GPU in the probes before runs: what a decode step waits for."""
    return {
        device: rates["copy_bandwidth"]
        for (device, _), rates in best_rates(store.engine(), host).items()
        if rates.get("copy_bandwidth")
    }
