"""What a running job has said: every look reads on from where the last one ended.

A page looks once a second, and a long job says thousands of things.
"""

import threading
from collections import deque
from typing import Any

import streamlit as st

from db import jobs
from db.engine import Engine

LOG_LINES = 12


class Heard:
    """The rounds and the last log lines of one job, the same for all who watch it."""

    def __init__(self, job_id: str) -> None:
        self.rounds: list[dict[str, Any]] = []
        self.lines: deque[str] = deque(maxlen=LOG_LINES)
        self._job_id, self._after = job_id, 0
        self._lock = threading.Lock()

    def listen(self, engine: Engine) -> None:
        """Take in what is new.

        Raises:
            NotFound: There is no such job any more.
        """
        with self._lock:
            while rows := jobs.events(engine, self._job_id, after=self._after):
                self._after = rows[-1]["id"]
                self.rounds += [row["data"] for row in rows if row["type"] == "round"]
                self.lines += [row["message"] or "" for row in rows if row["type"] == "log"]


@st.cache_resource(show_spinner=False, max_entries=100)
def heard(job_id: str) -> Heard:
    """What was heard of a job up to now."""
    return Heard(job_id)
