"""Clocks of a decode step in words on Runs: in the comparison, its choices, a run's own table."""

import pytest
from decode_runs import decode_run
from streamlit.testing.v1 import AppTest

from db import runs
from models import side_by_side
from pages.charts import compare as drawing
from pages.widgets import compare_panel

CLOCKS = {
    "wall_graph": [1.8] * 3,
    "wall_served": [2.0] * 3,
    "wall_eager": [9.0] * 3,
    "replay": [1.7] * 3,
}
WORDS = [
    "wall clock, one graph a step",
    "wall clock as an engine drives it",
    "wall clock, launched piece by piece",
    "graph replay",
]


@pytest.fixture
def two(database):
    faster = {clock: [value / 2 for value in steps] for clock, steps in CLOCKS.items()}
    ids = [runs.store(database, decode_run(1, steps)) for steps in (CLOCKS, faster)]
    return [runs.load(database, run_id) for run_id in ids]


def test_each_clock_is_a_choice_of_its_own_in_words(two):
    rows = [row for row in side_by_side.rows(two) if row.metric == "decode_step"]
    assert all(row.reason is None for row in rows)
    said = list(compare_panel.choices(rows).values())
    assert said == [f"Decode step, median (ms), {words}" for words in WORDS]


def test_the_table_and_the_picture_name_clocks_in_words(two):
    rows = [row for row in side_by_side.rows(two) if row.metric == "decode_step"]
    frame = compare_panel.numbers(rows, ["one", "two"])
    assert frame["where"].tolist() == WORDS
    assert frame["change of two"].tolist() == ["-50.0 % ▲ better"] * 4
    assert set(drawing.frame(rows, ["one", "two"], None)["where"]) == set(WORDS)


def test_a_served_step_is_never_held_against_a_graph(two, database):
    graph = decode_run(1, {"wall_graph": [1.8] * 3})
    served = decode_run(1, {"wall_served": [2.0] * 3})
    rows = side_by_side.rows([graph, served])
    (row,) = [row for row in rows if row.metric == "decode_step"]
    assert row.reason is not None
    assert "pages of the cache" in row.reason
    assert row.change_pct(1) is None


def test_a_run_s_own_table_has_words_and_its_file_the_codes(two, database):
    script = f"from pages.widgets import run_detail\nrun_detail.render({two[0].id!r})"
    at = AppTest.from_string(script, default_timeout=30).run()
    assert not at.exception
    shown = at.dataframe[0].value
    assert set(shown["clock"].dropna()) == set(WORDS)
