"""Migrated databases with and without the shipped studies, and pages opened inside the frame."""

import shutil
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
def database(empty_database: Engine, tmp_path: Path) -> Engine:
    """The published studies are there; what else is measured a test stores itself."""
    folder = tmp_path / "published-only"
    shutil.copytree(SHIPPED_DATA / "published", folder / "published")
    seed(empty_database, folder, published.read)
    return empty_database


@pytest.fixture(scope="session")
def _seeded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All shipped studies in one file, to be copied: quicker than reading them for each test."""
    path = tmp_path_factory.mktemp("shipped") / "shipped.sqlite"
    engine = connect(f"sqlite:///{path}")
    upgrade(engine)
    seed(engine, SHIPPED_DATA, published.read)
    with engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.exec_driver_sql("BEGIN")
    engine.dispose()
    return path


@pytest.fixture
def first_start(data_dir: Path, _seeded_file: Path) -> Iterator[Engine]:
    """A database as after the first start: published and measured studies are there."""
    url = settings().url
    shutil.copy(_seeded_file, url.removeprefix("sqlite:///"))
    engine = connect(url)
    yield engine
    engine.dispose()


@pytest.fixture
def open_page() -> Callable[..., AppTest]:
    """Open a page inside the frame: open_page("runs", kind="allreduce")."""

    def opened(slug: str, **query: str) -> AppTest:
        script = FRAMED.format(slug=slug, query=query)
        return AppTest.from_string(script, default_timeout=30).run()

    return opened


@pytest.fixture
def page(first_start: Engine) -> Callable[..., AppTest]:
    """Open a page alone, after the first start; it must not fail."""

    def opened(slug: str, **query: str) -> AppTest:
        script = f"from pages.{slug}_page import render\nrender()"
        at = AppTest.from_string(script, default_timeout=60)
        for name, value in query.items():
            at.query_params[name] = value
        at.run()
        assert not at.exception
        return at

    return opened
