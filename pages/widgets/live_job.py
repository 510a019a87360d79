"""One job as it happens: stage, progress, time left, rounds, log lines, a cancel that works."""

import math
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from db import jobs
from models.errors import LinkworthError
from models.step_clocks import told
from pages.widgets import store
from pages.widgets.badges import state_badge
from pages.widgets.links import explorer_link, page_link
from pages.widgets.live_events import heard
from pages.widgets.plain import plain
from pages.widgets.run_telemetry import HELD_BACK
from settings import settings

ACTIVE = ("queued", "running")
MOST_ROUNDS = 100  # in the table of a running job
END_LINES = 40  # of the log of one that ended: a server's reason stands above its consequences
_SILENCE_S = 15.0  # a worker gives a sign of life twice a second
# telemetry -> column of the live table
LIVE = {
    "power_w": "power (W)",
    "temperature_c": "temperature (°C)",
    "sm_clock_mhz": "SM clock (MHz)",
    "utilization_pct": "load (%)",
    "cpu_pct": "load (%)",
    "cpu_mhz": "clock (MHz)",
    "load_1min": "load average (1 min)",
}


def duration_words(seconds: float | None) -> str:
    """Seconds as a person says them; empty where unknown."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _elapsed(job: dict[str, Any]) -> float | None:
    started = job["started_at"]
    if started is None:
        return None
    finished = job["finished_at"] or datetime.now(UTC)
    return (_aware(finished) - _aware(started)).total_seconds()


def _since(moment: datetime | None) -> float | None:
    return None if moment is None else (datetime.now(UTC) - _aware(moment)).total_seconds()


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def watch(job_ids: list[str], *, key: str) -> None:
    """Draw jobs and keep them fresh while any is queued or running.

    Args:
        job_ids: What to watch, in the order to show.
        key: Unique stem of the widget keys.
    """
    database = store.engine()
    shown = [jobs.job(database, job_id) for job_id in job_ids]
    busy = any(job["state"] in ACTIVE for job in shown)

    @st.fragment(run_every="1s" if busy else None)
    def live() -> None:
        try:
            current = [jobs.job(database, job_id) for job_id in job_ids]
            for job in current:
                _draw(job, key)
        except LinkworthError as error:
            # a fragment draws itself: nobody above it would say this. The next look may succeed
            store.show_error(error)
            return
        if busy and not any(job["state"] in ACTIVE for job in current):
            st.rerun()  # redefines this fragment without its timer

    live()


def cancel(job_id: str) -> None:
    """End a job.

    Raises:
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    jobs.request_cancel(store.engine(), job_id)


def _draw(job: dict[str, Any], key: str) -> None:
    with st.container(border=True):
        left, right = st.columns([3, 1], vertical_alignment="center")
        left.markdown(f"**{plain(job['title'] or job['kind'])}**  {state_badge(job['state'])}")
        if job["state"] in ACTIVE:
            if job["cancel_requested"]:
                right.caption("Cancelling …")
            elif not settings().read_only and right.button(
                "Cancel", key=f"{key}-cancel-{job['id']}"
            ):
                cancel(job["id"])
                st.rerun(scope="fragment")
        if job["state"] == "queued":
            _draw_queued(job, key)
        elif job["state"] == "running":
            _draw_running(job, key)
        else:
            _draw_end(job)
        lines = _log_lines(job)
        if lines:
            with st.expander("Last log lines"):
                st.code("\n".join(lines), language=None, wrap_lines=True)


def _draw_queued(job: dict[str, Any], key: str) -> None:
    if jobs.alive_workers(store.engine()):
        why = jobs.waiting_for(store.engine(), job["id"])
        st.caption(plain(why) or "Waiting for its turn: one job at a time uses a device.")
    else:
        store.offer_worker(f"{key}-worker-{job['id']}")


def _draw_running(job: dict[str, Any], key: str) -> None:
    silent_s = _since(job["heartbeat_at"])
    if silent_s is not None and silent_s > _SILENCE_S:
        st.warning(
            f"Its worker has not been heard of for {duration_words(silent_s)}. If it is gone, the "
            "next worker ends what is left, says so here, and goes on with the queue."
        )
        if not jobs.alive_workers(store.engine()):
            store.offer_worker(f"{key}-worker-{job['id']}")
    words = [plain(job["stage"]) or "Starting", duration_words(_elapsed(job)) + " so far"]
    left = duration_words(job["eta_s"])
    if left:
        words.append(f"about {left} left")
    st.progress(min(max(job["fraction"] or 0.0, 0.0), 1.0), text=" · ".join(words))
    if job["message"]:
        st.caption(plain(job["message"]))
    _draw_machine(job["live"] or [])
    said = heard(job["id"])
    said.listen(store.engine())
    _draw_rounds(said.rounds)


def _draw_machine(rows: list[dict[str, Any]]) -> None:
    """Power, temperature, clock and load at this moment, a row a GPU; one line for the CPU."""
    frame = machine_frame(rows)
    if frame.empty:
        return
    if list(frame["device"]) == ["CPU"]:
        only = frame.iloc[0].drop("device")
        st.caption("CPU now: " + " · ".join(f"{name} {value:,.4g}" for name, value in only.items()))
        return
    st.dataframe(
        frame,
        hide_index=True,
        height="content",
        alt=f"How {len(frame)} devices do at this moment",
    )


def machine_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The last telemetry of a running job; what no device tells is left out."""
    shown = []
    for row in rows:
        used = row.get("memory_used_bytes")
        held = row.get("throttle_reasons")
        shown.append(
            {
                "device": f"GPU {row.get('index', row['uuid'])}" if row.get("uuid") else "CPU",
                **{words: row[name] for name, words in LIVE.items() if row.get(name) is not None},
                "memory in use (GB)": None if used is None else used / 1e9,
                "held back": None
                if held is None
                else ", ".join(HELD_BACK.get(name, name) for name in held if name != "gpu_idle")
                or "no",
            }
        )
    return pd.DataFrame(shown).dropna(axis="columns", how="all")


def _draw_rounds(rounds: list[dict[str, Any]]) -> None:
    shown = rounds[-MOST_ROUNDS:]
    if not shown:
        return
    words = f"{len(rounds)} rounds finished so far"
    frame = pd.DataFrame(shown).rename(columns=told)
    st.dataframe(frame, hide_index=True, alt=words, height="content")
    if len(shown) < len(rounds):
        st.caption(f"The last {len(shown)} of {words}.")


def _draw_end(job: dict[str, Any]) -> None:
    took = duration_words(_elapsed(job))
    if job["state"] == "succeeded":
        st.caption(f"Took {took}." if took else "")
    else:
        reason = plain(told(job["reason"]), 1500)
        st.error(reason or "It ended without saying why; the log below may tell.")
    if job["run_id"]:
        explorer_link(job["kind"], job["run_id"])
        page_link("runs", "Conditions and raw data", run=job["run_id"])


def _log_lines(job: dict[str, Any]) -> list[str]:
    if job["log_tail"]:
        return str(job["log_tail"]).splitlines()[-END_LINES:]
    return list(heard(job["id"]).lines) if job["state"] == "running" else []
