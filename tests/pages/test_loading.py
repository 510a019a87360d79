"""Pages are loaded when somebody asks for them, the rest after the first visitor has a page."""

import gc
import threading

import pytest

from pages import PAGES, loading


@pytest.fixture
def first_drawn(monkeypatch):
    event = threading.Event()
    monkeypatch.setattr(loading, "_first_drawn", event)
    yield event
    event.set()
    gc.unfreeze()


def test_the_rest_is_loaded_after_the_first_page(first_drawn, monkeypatch):
    loaded = []
    monkeypatch.setattr(loading, "module_of", loaded.append)
    frozen_before = gc.get_freeze_count()
    thread = loading.load_the_rest(PAGES)
    assert thread.daemon
    assert not loaded
    loading.first_page_drawn()
    thread.join(timeout=30)
    assert loaded == list(PAGES)
    assert gc.get_freeze_count() > frozen_before


def test_a_drawn_page_lets_the_rest_be_loaded(first_drawn, database, open_page):
    assert not first_drawn.is_set()
    assert not open_page("settings").exception
    assert first_drawn.is_set()


@pytest.mark.parametrize("slug", PAGES)
def test_every_page_has_a_module(slug):
    assert callable(loading.module_of(slug).render)
