"""Clocks of a decode step in words on Runs: in the comparison, its choices, a run's own table."""

import pytest
from decode_runs import decode_run
from streamlit.testing.v1 import AppTest

from db import jobs, runs
from importers.files import File, read_each
from models import side_by_side
from models.result import Notice, dumps
from pages.charts import compare as drawing
from pages.widgets import compare_panel, finding_report, import_preview

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


def test_what_a_run_is_doubted_for_is_told_in_words(database):
    place = ", batch 1, KV 1024: the rounds lie 39% apart."
    run = decode_run(
        1,
        CLOCKS,
        validity="suspect",
        reasons=[f"wall_eager{place}"],
        warnings=[Notice(code="spread", text=f"replay{place}")],
    )
    run_id = runs.store(database, run)
    script = f"from pages.widgets import run_detail\nrun_detail.render({run_id!r})"
    at = AppTest.from_string(script, default_timeout=30).run()
    assert [box.value for box in at.warning] == [f"Wall clock, launched piece by piece{place}"]
    assert f"⚠ Graph replay{place}" in [line.value for line in at.caption]
    assert runs.load(database, run_id).reasons == [f"wall_eager{place}"]


def test_a_preview_of_a_file_and_a_report_use_the_same_words(database):
    place = ", batch 1, KV 1024: the rounds lie 39% apart."
    run = decode_run(1, CLOCKS, validity="suspect", reasons=[f"wall_served{place}"])
    readings = read_each([File("a.json", dumps([run]).encode())])
    (wrong,) = import_preview.overview(readings, {})["looks wrong"]
    said = f"Wall clock as an engine drives it{place}"
    assert wrong.startswith(said)
    assert said in " ".join(finding_report._runs([run]))


def test_rounds_of_a_job_and_its_end_use_the_same_words(database):
    job_id = jobs.enqueue(database, {"kind": "topology"}, title="A job")
    jobs.heartbeat(database, "w", pid=1, host="h")
    assert jobs.claim(database, "w")["id"] == job_id
    row = {"round": 0, "wall_eager (ms)": 9.0, "replay (ms)": 1.7}
    jobs.add_events(database, job_id, [{"type": "round", "message": "", "data": row}])
    script = f"from pages.widgets.live_job import watch\nwatch([{job_id!r}], key='test')"
    at = AppTest.from_string(script, default_timeout=30).run()
    assert list(at.dataframe[0].value) == [
        "round", "Wall clock, launched piece by piece (ms)", "Graph replay (ms)",
    ]  # fmt: skip
    jobs.finish(database, job_id, "failed", reason="The run hung at replay (batch 1, KV 16).")
    at = AppTest.from_string(script, default_timeout=30).run()
    assert [box.value for box in at.error] == ["The run hung at graph replay (batch 1, KV 16)."]
