"""Every page opens inside the frame, with and without data, and never shows a traceback."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

import app
from models.errors import DatabaseTooNew
from pages import PAGES
from pages.widgets import store

OpenPage = Callable[..., AppTest]


@pytest.mark.parametrize("slug", PAGES)
def test_page_opens_after_the_first_start(
    slug: str, first_start: Engine, open_page: OpenPage
) -> None:
    at = open_page(slug)
    assert not at.exception
    assert at.title[0].value == PAGES[slug].title
    assert at.caption[0].value == PAGES[slug].question
    assert not at.error


@pytest.mark.parametrize("slug", PAGES)
def test_page_opens_on_an_empty_database(
    slug: str, empty_database: Engine, open_page: OpenPage
) -> None:
    at = open_page(slug)
    assert not at.exception
    assert not at.error
    assert at.title[0].value == PAGES[slug].title


def test_a_problem_at_start_is_a_sentence_on_every_page(
    database: Engine, open_page: OpenPage
) -> None:
    store.note_problem(DatabaseTooNew("The database is newer than this Linkworth.", "Update it."))
    try:
        at = open_page("runs")
        assert at.error[0].value == "The database is newer than this Linkworth."
        assert at.info[0].value == "Update it."
        at.button(key="retry-start").click().run()
        assert not at.error
    finally:
        store.note_problem(None)


def test_prepare_migrates_and_seeds_once(empty_database: Engine) -> None:
    app.prepare()
    app.prepare()
    from db import studies

    assert {row["id"] for row in studies.list_studies(empty_database)} >= {
        "tp-on-5090-and-b200",
        "nvlink-on-4x3090",
        "two-gpu-interconnect-evaluation",
        "allreduce-on-2-h200",
        "decode-on-h200",
        "hardware-2-h200",
        "one-h200",
        "two-h200",
        "served-14b-on-2-h200",
        "served-1-5b-on-2-h200",
    }


def test_read_only_says_so(
    database: Engine, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    import settings as settings_module

    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings_module.settings.cache_clear()
    at = open_page("new-run")
    assert "demo" in at.caption[0].value.lower()
    assert not [button for button in at.button if button.key == "start"]
