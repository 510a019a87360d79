"""The Catalogue page: shipped figures, edits with source and date, restoring."""

import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from db import scenarios
from importers.catalogue import shipped_rows
from models.errors import InvalidSpec, ReadOnly
from pages.widgets import catalogue_store
from settings import settings

BARE = "from pages.catalogue_page import render\nrender()"
ROW = {"label": "A bridge", "unit": "$", "value": 80.0, "source": "a seller", "date": "2026-11-01"}


def opened(**query: str) -> AppTest:
    at = AppTest.from_string(BARE, default_timeout=60)
    for name, value in query.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    return at


def said(at: AppTest) -> str:
    kinds = (at.markdown, at.caption, at.info, at.warning, at.error, at.success)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def button(at: AppTest, label: str) -> Any:
    return next(each for each in at.button if each.label.startswith(label))


@pytest.mark.parametrize(
    ("kind", "column", "n"), [("prices", "price", 14), ("cards", "card", 7), ("priors", "prior", 3)]
)
def test_every_kind_shows_its_figures_with_source_and_date(empty_database, kind, column, n):
    frame = opened(kind=kind).dataframe[0].value
    assert column in frame
    assert len(frame) >= n
    assert frame["source"].str.len().gt(5).all()
    assert frame["date"].str.match(r"\d{4}-\d{2}-\d{2}").all()
    assert set(frame["state"]) == {"shipped"}


def test_what_is_bought_comes_first_however_old(empty_database):
    frame = opened().dataframe[0].value
    assert frame["unit"].drop_duplicates().tolist() == ["$", "$/GPU-hour", "$/kWh", "kWh/kWh"]
    assert frame["price"][0] == "NVLink bridge for two RTX 3090"


def test_old_figures_are_counted(empty_database):
    assert re.search(r"\d+ of 14 figures are older than 90 days", said(opened()))
    assert "older than" not in said(opened(kind="cards"))  # what a card can do does not age


def test_an_unknown_kind_falls_back(empty_database):
    assert "price" in opened(kind="wishes").dataframe[0].value


def test_a_figure_is_edited_and_restored(empty_database):
    at = opened(key="bridge-3090")
    at.number_input(key="catalogue-prices-bridge-3090-value").set_value(60.0)
    at.text_input(key="catalogue-prices-bridge-3090-source").set_value("my seller")
    button(at, "Keep").click().run()
    assert "is kept" in said(at)
    rows = at.dataframe[0].value.set_index("key")
    assert rows.loc["bridge-3090", "value"] == 60
    assert rows.loc["bridge-3090", "state"] == "edited by you"
    assert catalogue_store.current(empty_database)[0].prices["bridge-3090"].likely == 60
    assert shipped_rows("prices")["bridge-3090"]["value"] == 100
    button(at, "Restore the shipped figure").click().run()
    assert at.dataframe[0].value.set_index("key").loc["bridge-3090", "value"] == 100
    assert "Every figure is as shipped" in said(at)


def test_an_added_figure_needs_key_source_and_date(empty_database):
    at = opened()
    button(at, "Keep").click().run()
    assert at.error
    at.text_input(key="catalogue-prices-new-key").set_value("my-bridge")
    at.text_input(key="catalogue-prices-new-label").set_value("My bridge")
    at.number_input(key="catalogue-prices-new-value").set_value(70.0)
    button(at, "Keep").click().run()
    assert "has no source" in said(at)
    at.text_input(key="catalogue-prices-new-source").set_value("a shop")
    button(at, "Keep").click().run()
    assert "has no date" in said(at)
    at.date_input(key="catalogue-prices-new-date").set_value("2026-11-01")
    button(at, "Keep").click().run()
    rows = at.dataframe[0].value.set_index("key")
    assert rows.loc["my-bridge", "state"] == "yours"
    assert rows.loc["my-bridge", "value"] == 70
    assert rows.loc["my-bridge", ["low", "high"]].isna().all()  # one price, no range
    assert list(rows.index)[:3] == ["bridge-3090", "used-rtx-3090", "my-bridge"]  # among its like


def test_a_shipped_key_is_not_added_twice(empty_database):
    at = opened()
    at.text_input(key="catalogue-prices-new-key").set_value("bridge-3090")
    button(at, "Keep").click().run()
    assert "already" in said(at)


def test_all_edits_are_restored_at_once(empty_database):
    for key in ("bridge-3090", "mine"):
        catalogue_store.keep(empty_database, "prices", key, ROW)
    at = opened()
    button(at, "Restore all (2 yours)").click().run()
    assert set(at.dataframe[0].value["state"]) == {"shipped"}
    assert catalogue_store.edits(empty_database)["prices"] == {}


def test_edits_are_checked_before_they_are_kept(empty_database):
    for key, row in (
        ("Bad Key", ROW),
        ("", ROW),
        ("../x", ROW),
        ("ok", {**ROW, "source": " "}),
        ("ok", {**ROW, "low": 100.0}),
    ):
        with pytest.raises(InvalidSpec):
            catalogue_store.keep(empty_database, "prices", key, row)
    assert catalogue_store.edits(empty_database)["prices"] == {}


def test_a_damaged_edit_is_left_out_with_a_sentence(empty_database):
    scenarios.save(empty_database, "prices", catalogue_store.PAGE, {"rows": {"x": {"value": "?"}}})
    known, problem = catalogue_store.current(empty_database)
    assert "left out" in problem
    assert "x" not in known.prices
    at = opened()
    assert "left out" in said(at)
    button(at, "Restore all").click().run()
    assert "left out" not in said(at)


def test_a_cards_further_facts_survive_an_edit(empty_database):
    at = opened(kind="cards", key="rtx-3090")
    at.number_input(key="catalogue-cards-rtx-3090-board_power_w").set_value(280.0)
    button(at, "Keep").click().run()
    card = catalogue_store.current(empty_database)[0].cards["rtx-3090"]
    assert card.board_power_w == 280
    assert card.facts == shipped_rows("cards")["rtx-3090"].get("facts", {})


def test_a_demo_edits_nothing(empty_database, monkeypatch):
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings.cache_clear()
    at = opened()
    assert "cannot be edited" in said(at)
    assert not at.button
    with pytest.raises(ReadOnly):
        catalogue_store.keep(empty_database, "prices", "x", ROW)
    with pytest.raises(ReadOnly):
        catalogue_store.restore(empty_database, "prices")
