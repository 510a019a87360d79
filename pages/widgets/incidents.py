"""What went wrong with a machine or a GPU: shown until a person has looked after it."""

from typing import Any

import streamlit as st

from db import hosts
from pages.widgets import store, this_machine
from pages.widgets.plain import plain
from settings import settings

# kind of incident -> what it means, what to do before the GPU works again
MEANINGS = {
    "reboot": (
        "The machine went down or restarted in mid-run: driver, power supply or card may be the "
        "cause. A patched driver has done this under load.",
        "Look for Xid messages in the kernel log and check power and temperature, then run the "
        "peer-to-peer check.",
    ),
    "survivor": (
        "Processes that even SIGKILL does not end hang inside the driver and may hold the GPU. "
        "What is measured beside them is not to be trusted.",
        "Restart the machine, then run the peer-to-peer check.",
    ),
}
_UNKNOWN = ("Something happened that makes its measurements doubtful.", "Look after the machine.")


def section() -> None:
    """Draw every open incident with a way to clear it; nothing where there is none."""
    found = hosts.open_incidents(store.engine())
    if not found:
        return
    here = this_machine.host_id()
    labels = {row["id"]: row["label"] for row in hosts.list_hosts(store.engine())}
    known = this_machine.gpus()
    for row in found:
        where = "" if row["host"] in (here, None) else f" of {labels.get(row['host']) or 'a host'}"
        with st.container(border=True):
            st.error(f"**{_who(row, known)}{plain(where)}.** {plain(row['text'])}")
            meaning, step = MEANINGS.get(row["kind"], _UNKNOWN)
            st.caption(f"{meaning} **Next:** {step}")
            waits = "" if row["gpu"] == "cpu" else " Jobs that need it wait until it is cleared."
            st.caption(f"Since {row['opened_at']:%Y-%m-%d %H:%M} UTC.{waits}")
            if settings().read_only:
                continue
            if st.button("I have looked after it: use it again", key=f"clear-{row['id']}"):
                clear(str(row["id"]))
                st.rerun()


def _who(row: dict[str, Any], known: list[dict[str, Any]]) -> str:
    if row["gpu"] is None:
        return "All GPUs are set aside"
    if row["gpu"] == "cpu":
        return "An incident without a GPU"
    return f"{plain(this_machine.gpu_words(row['gpu'], known))} is set aside"


def set_aside(host: str | None) -> set[str]:
    """UUIDs or indices of a host's GPUs that wait for a person; ``*`` is all of them."""
    if host is None:
        return set()
    rows = hosts.open_incidents(store.engine(), host)
    return {"*" if row["gpu"] is None else str(row["gpu"]) for row in rows} - {"cpu"}


def clear(incident_id: str) -> None:
    """Let a GPU work again.

    Raises:
        ReadOnly: Demo mode.
        NotFound: Somebody was quicker.
    """
    store.refuse_read_only()
    hosts.clear_incident(store.engine(), incident_id)
