"""Migrated databases with and without the shipped studies, and pages opened inside the frame."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from sqlalchemy import Engine
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from db.engine import connect
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


@pytest.fixture(scope="session", autouse=True)
def _packages_read_once() -> Iterator[None]:
    """Each AppTest reads the metadata of all installed packages, in search of components."""
    found = manifest_scanner.scan_component_manifests()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", lambda: list(found))
        yield


@pytest.fixture(scope="session")
def _published_file(
    migrated_file: Path, tmp_path_factory: pytest.TempPathFactory, whole: Callable[[Engine], None]
) -> Path:
    folder = tmp_path_factory.mktemp("published-only")
    shutil.copytree(SHIPPED_DATA / "published", folder / "published")
    return _seeded(migrated_file, folder / "published.sqlite", folder, whole)


@pytest.fixture(scope="session")
def _shipped_file(
    migrated_file: Path, tmp_path_factory: pytest.TempPathFactory, whole: Callable[[Engine], None]
) -> Path:
    path = tmp_path_factory.mktemp("shipped") / "shipped.sqlite"
    return _seeded(migrated_file, path, SHIPPED_DATA, whole)


def _seeded(migrated: Path, path: Path, data: Path, whole: Callable[[Engine], None]) -> Path:
    """Studies in one file, to be copied: quicker than reading them for each test."""
    shutil.copy(migrated, path)
    engine = connect(f"sqlite:///{path}")
    seed(engine, data, published.read)
    whole(engine)
    return path


def _copied(file: Path) -> Iterator[Engine]:
    url = settings().url
    shutil.copy(file, url.removeprefix("sqlite:///"))
    engine = connect(url)
    yield engine
    engine.dispose()


@pytest.fixture
def empty_database(data_dir: Path, migrated_file: Path) -> Iterator[Engine]:
    """A migrated database without any run."""
    yield from _copied(migrated_file)


@pytest.fixture
def database(data_dir: Path, _published_file: Path) -> Iterator[Engine]:
    """The published studies are there; what else is measured a test stores itself."""
    yield from _copied(_published_file)


@pytest.fixture
def first_start(data_dir: Path, _shipped_file: Path) -> Iterator[Engine]:
    """A database as after the first start: published and measured studies are there."""
    yield from _copied(_shipped_file)


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
