"""When the pages' code is loaded: each page when it is first drawn, the rest in the background.

Together they bring numpy, pandas, scipy and Altair along: a first visitor waits for the page that
they asked for, and not for all the others.
"""

import gc
import threading
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

_first_drawn = threading.Event()


def module_of(slug: str) -> ModuleType:
    """The module of a page, by its place in the URL."""
    return import_module(f"pages.{slug.replace('-', '_')}_page")


def first_page_drawn() -> None:
    """A visitor has a page: now there is time for the others."""
    _first_drawn.set()


def load_the_rest(slugs: Iterable[str]) -> threading.Thread:
    """Load all pages in the background, once the first visitor has theirs."""
    thread = threading.Thread(
        target=_load, args=(tuple(slugs),), name="linkworth-pages", daemon=True
    )
    thread.start()
    return thread


def _load(slugs: tuple[str, ...]) -> None:
    _first_drawn.wait()
    for slug in slugs:
        module_of(slug)
    # Streamlit collects garbage after every run of a page and holds the next one up meanwhile;
    # what is loaded stays for ever and need not be looked at each time
    gc.collect()
    gc.freeze()
