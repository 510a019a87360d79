"""Runs: filters, one run opened from the URL, deletion by id, the queue."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

import settings as settings_module
from db import jobs, runs
from models.errors import NotFound
from models.result import Measurement, Result, Tool
from pages.widgets import run_detail

OpenPage = Callable[..., AppTest]
SPEC = {"kind": "allreduce", "device": "cpu", "ranks": 2, "sizes_bytes": [1024]}


def stored(engine: Engine, title: str = "Sweep", validity: str = "valid") -> str:
    run = Result(
        kind="allreduce",
        origin="measured",
        title=title,
        validity=validity,  # type: ignore[arg-type]
        reasons=[] if validity == "valid" else ["values were wrong at 1 KB"],
        tool=Tool(name="linkworth", version="0.1.0"),
        host={"hostname": "abc", "cpu_model": "Test CPU"},
        measurements=[
            Measurement(
                metric="allreduce_latency",
                statistic="median",
                unit="us",
                value=12.5,
                n=30,
                round=0,
                dims={"bytes": 1024, "mode": "eager", "ranks": 2},
                definition="linkworth:allreduce-eager-gloo:1",
            )
        ],
    )
    return runs.store(engine, run, raw=title.encode())


def test_everything_is_listed_with_badges(database: Engine, open_page: OpenPage) -> None:
    stored(database)
    at = open_page("runs")
    frame = at.dataframe[0].value
    assert {"● measured", "❝ published"} <= set(frame["origin"])
    assert "✓ valid" in set(frame["validity"])


def test_filters_narrow_the_list_and_say_when_nothing_fits(
    database: Engine, open_page: OpenPage
) -> None:
    stored(database)
    at = open_page("runs")
    at.multiselect(key="origin").set_value(["measured"]).run()
    assert list(at.dataframe[0].value["what"]) == ["Sweep"]
    at.text_input(key="text").set_value("no such words").run()
    assert at.info[0].value == "No run fits these filters. Clear one of them."


def test_an_empty_database_says_what_to_do(empty_database: Engine, open_page: OpenPage) -> None:
    at = open_page("runs")
    assert "Start a benchmark first" in at.info[0].value


def test_one_run_with_conditions_and_hash(database: Engine, open_page: OpenPage) -> None:
    run_id = stored(database)
    at = open_page("runs", run=run_id)
    assert at.subheader[0].value == "Sweep"
    assert any("SHA-256" in block.value for block in at.markdown)
    values = [frame.value for frame in at.dataframe if "value" in frame.value]
    assert list(values[0]["value"]) == [12.5]
    assert list(values[0]["unit"]) == ["us"]


def test_an_invalid_run_says_why_and_that_it_never_counts(
    database: Engine, open_page: OpenPage
) -> None:
    at = open_page("runs", run=stored(database, "Broken", "invalid"))
    assert at.warning[0].value == "values were wrong at 1 KB"
    assert any("never enters a comparison" in caption.value for caption in at.caption)


def test_a_run_that_is_gone_is_a_sentence(database: Engine, open_page: OpenPage) -> None:
    at = open_page("runs", run="11111111-2222-3333-4444-555555555555")
    assert not at.exception
    assert at.error


def test_delete_takes_one_run_and_leaves_the_others(
    database: Engine, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = stored(database, "Mine"), stored(database, "Other")
    run_detail.delete(mine)
    with pytest.raises(NotFound):
        runs.load(database, mine)
    assert runs.load(database, other).title == "Other"


def test_read_only_cannot_be_talked_round(
    database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models.errors import ReadOnly
    from pages import new_run_page

    run_id = stored(database)
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings_module.settings.cache_clear()
    with pytest.raises(ReadOnly):
        run_detail.delete(run_id)
    with pytest.raises(ReadOnly):
        new_run_page.submit("allreduce", [{"spec": SPEC, "title": "x", "order": 0}])
    assert jobs.list_jobs(database) == []


def test_the_queue_is_watched_and_cancels(database: Engine, open_page: OpenPage) -> None:
    job_id = jobs.enqueue(database, SPEC, title="Queued sweep")
    at = open_page("runs")
    assert any("Queued sweep" in block.value for block in at.markdown)
    assert "No worker is alive" in at.warning[0].value
    at.button(key=f"runs-queue-cancel-{job_id}").click().run()
    assert jobs.job(database, job_id)["cancel_requested"]


def test_a_running_job_shows_stage_progress_and_time_left(
    database: Engine, open_page: OpenPage
) -> None:
    job_id = jobs.enqueue(database, SPEC, title="Running sweep")
    jobs.heartbeat(database, "w", pid=1, host="abc")
    assert jobs.claim(database, "w")
    jobs.add_events(
        database,
        job_id,
        [
            {
                "t": 1.0,
                "type": "stage",
                "stage": "eager, 1 KB",
                "fraction": 0.4,
                "message": "",
                "eta_s": 42.0,
                "level": "info",
                "data": None,
            },
            {
                "t": 2.0,
                "type": "round",
                "stage": "eager, 1 KB",
                "fraction": None,
                "message": "round 0",
                "eta_s": None,
                "level": "info",
                "data": {"1 KB (us)": 12.5},
            },
        ],
    )
    at = open_page("runs")
    bar = at.get("progress")[0].proto
    assert bar.value == 40
    assert "about 42 s left" in bar.text
    assert any("1 KB (us)" in frame.value.columns for frame in at.dataframe)


def test_an_ended_job_without_a_run_gives_its_reason(database: Engine, open_page: OpenPage) -> None:
    job_id = jobs.enqueue(database, SPEC, title="Crashed sweep")
    jobs.finish(database, job_id, "failed", reason="Rank 1 ended with signal 11.")
    at = open_page("runs")
    reasons = [frame.value for frame in at.dataframe if "reason" in frame.value.columns]
    assert reasons[0]["reason"].iloc[0] == "Rank 1 ended with signal 11."
