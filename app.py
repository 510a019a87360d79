"""The frame that all pages share, and the server's start.

``streamlit run app.py`` imports this file and serves the ``st.App`` in it.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st

from models.errors import LinkworthError
from pages import PAGES, loading, navigation
from pages.widgets import store
from settings import SHIPPED_DATA, settings

ICON = Path(__file__).parent / "pages" / "assets" / "icon.png"
log = logging.getLogger("linkworth.app")


def prepare() -> None:
    """Bring the database up to date, load the shipped studies and see that a worker runs.

    Raises:
        LinkworthError: The database cannot be used; the sentence says why.
    """
    # here and not at import: the first visitor's script must not pay for migrations' imports
    from db.engine import connect
    from db.migrations import upgrade
    from db.seed import seed
    from importers import published

    config = settings()
    config.data_dir.mkdir(parents=True, exist_ok=True)
    engine = connect(config.url)
    try:
        upgrade(engine)
        seed(engine, SHIPPED_DATA, published.read)
    finally:
        engine.dispose()
    if config.start_worker and not config.read_only:
        _start_worker()


def _start_worker() -> None:
    from worker.launch import ensure_worker

    config = settings()
    ensure_worker(data_dir=config.data_dir, database_url=config.url)


def main() -> None:
    """Draw the frame, then the selected page; a problem is a sentence and a next step."""
    st.set_page_config(page_title="Linkworth", page_icon=str(ICON), layout="wide")
    page = st.navigation(navigation())
    if settings().read_only:
        st.caption("Demo: this Linkworth shows everything, and starts and deletes nothing.")
    entry = PAGES.get(page.url_path) or next(iter(PAGES.values()))
    st.title(page.title)
    st.caption(entry.question)
    problem = store.problem()
    if problem is not None:
        store.show_error(problem)
        if st.button("Try again", key="retry-start"):
            _try_prepare()
            st.rerun()
        return
    try:
        page.run()
    except LinkworthError as error:
        log.warning("page %s: %s %s", page.url_path, error, error.detail)
        store.show_error(error)
    loading.first_page_drawn()


def _try_prepare() -> None:
    try:
        prepare()
    except LinkworthError as error:
        log.error("start: %s %s", error, error.detail)
        store.note_problem(error)
    else:
        store.note_problem(None)


@asynccontextmanager
async def on_server(_app: Any) -> AsyncIterator[None]:
    """Once per server process, before the first visitor."""
    _try_prepare()
    if settings().start_worker:
        store.worker_starter(_start_worker)
    loading.load_the_rest(PAGES)
    yield


if __name__ == "__main__":  # executed as a script, as AppTest does
    main()
else:
    app = st.App("pages/__main__.py", lifespan=on_server)
