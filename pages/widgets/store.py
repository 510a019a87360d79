"""The pages' door to the database, and how an error is shown."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from db.engine import connect
from models.errors import LinkworthError, ReadOnly
from pages.widgets.plain import plain
from settings import settings

if TYPE_CHECKING:
    from db.engine import Engine

# What stopped the server's start, if anything did: shown on every page until it is mended.
_problem: LinkworthError | None = None
# How a worker is started: given by app.py, since pages know nothing of the worker's code.
_start_worker: Callable[[], object] | None = None


def _close(engine: "Engine") -> None:
    engine.dispose()


@st.cache_resource(show_spinner=False, on_release=_close)
def _engine(url: str) -> "Engine":
    return connect(url)


def engine() -> "Engine":
    """The database of this app, one engine a server process."""
    return _engine(settings().url)


def note_problem(error: LinkworthError | None) -> None:
    """Remember what stopped the start (None: all is well)."""
    global _problem
    _problem = error


def problem() -> LinkworthError | None:
    """What stopped the start, or None."""
    return _problem


def worker_starter(start: Callable[[], object]) -> None:
    """Tell the pages how a worker is started."""
    global _start_worker
    _start_worker = start


def offer_worker(key: str) -> None:
    """Say that no worker is alive, with a button that starts one where this app may."""
    st.warning("No worker is alive, so nothing starts. Queued jobs wait and are not lost.")
    if _start_worker is None or settings().read_only:
        st.caption("Restart the app, or type `make worker` in its folder.")
    elif st.button("Start a worker", key=key):
        refuse_read_only()
        _start_worker()
        st.caption("Started: its first sign of life takes a few seconds.")


def show_error(error: LinkworthError) -> None:
    """The sentence and the next step; never a traceback."""
    # sentences name files, models and what somebody typed
    st.error(plain(error.sentence, 1500))
    if error.next_step:
        st.info(plain(error.next_step, 1500))


def refuse_read_only() -> None:
    """Raise in demo mode: called by every function that starts or deletes, not only by the form.

    Raises:
        ReadOnly: The settings say read-only.
    """
    if settings().read_only:
        raise ReadOnly(
            "This Linkworth is a demo: it starts and deletes nothing.",
            "Run your own with `make run` to measure.",
        )
