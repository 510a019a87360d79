"""A migrated database with the shipped studies, and pages opened inside the frame."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db.engine import connect
from db.migrations import upgrade
from db.seed import seed
from importers import published
from settings import SHIPPED_DATA, settings

FRAMED = """
import streamlit as st
from app import main
from pages import make_page
if "opened" not in st.session_state:
    st.session_state["opened"] = True
    st.switch_page(make_page({slug!r}), query_params={query!r})
main()
"""


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    st.cache_data.clear()
    st.cache_resource.clear()
    yield
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def empty_database(data_dir: Path) -> Iterator[Engine]:
    """A migrated database without any run."""
    engine = connect(settings().url)
    upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def database(empty_database: Engine) -> Engine:
    """A database as after the first start: the shipped studies are there."""
    seed(empty_database, SHIPPED_DATA, published.read)
    return empty_database


@pytest.fixture
def open_page() -> Callable[..., AppTest]:
    """Open a page inside the frame: open_page("runs", kind="allreduce")."""

    def opened(slug: str, **query: str) -> AppTest:
        script = FRAMED.format(slug=slug, query=query)
        return AppTest.from_string(script, default_timeout=30).run()

    return opened
