"""Runs: filters, one run opened from the URL, deletion by id, the queue."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, update
from streamlit.testing.v1 import AppTest

import settings as settings_module
from db import jobs, runs
from db.engine import writing
from db.schema import Job, Worker
from models.errors import NotFound
from models.result import Measurement, Result, Tool, utc_now
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


def test_what_tells_the_figures_of_a_run_apart_stands_beside_their_metric(
    database: Engine, open_page: OpenPage
) -> None:
    rows = [
        Measurement(
            metric="allreduce_latency",
            statistic="median",
            unit="us",
            value=12.5,
            n=30,
            round=0,
            dims={"bytes": size, "mode": "graph", "ranks": 2},
            definition="linkworth:allreduce-graph:1",
        )
        for size in (1024, 2048)
    ]
    run = Result(
        kind="allreduce", origin="measured", tool=Tool(name="linkworth"), measurements=rows
    )
    at = open_page("runs", run=runs.store(database, run))
    (shown,) = [one for one in at.dataframe if "value" in one.value.columns]
    assert list(shown.proto.column_order) == [
        "metric", "bytes", "statistic", "value", "unit", "n", "round", "mode", "ranks",
        "definition",
    ]  # fmt: skip


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


def running(engine: Engine, live: list[dict[str, Any]]) -> None:
    job_id = jobs.enqueue(engine, SPEC, title="Running sweep")
    jobs.heartbeat(engine, "w", pid=1, host="abc")
    assert jobs.claim(engine, "w")
    jobs.heartbeat(engine, "w", pid=1, host="abc", job_id=job_id, live=live)


def test_a_running_job_shows_how_its_gpus_do(database: Engine, open_page: OpenPage) -> None:
    running(
        database,
        [
            {
                "uuid": "GPU-a",
                "index": 0,
                "power_w": 312.5,
                "temperature_c": 61,
                "sm_clock_mhz": 1755,
                "utilization_pct": 98,
                "memory_used_bytes": 20_000_000_000,
                "throttle_reasons": ["sw_power_cap"],
            },
            {"uuid": "GPU-b", "index": 1, "power_w": 88.0, "throttle_reasons": ["gpu_idle"]},
        ],
    )
    at = open_page("runs")
    (frame,) = [one.value for one in at.dataframe if "power (W)" in one.value.columns]
    assert list(frame["device"]) == ["GPU 0", "GPU 1"]
    assert list(frame["power (W)"]) == [312.5, 88.0]
    assert list(frame["held back"]) == ["at its power limit", "no"]
    assert frame["load (%)"].iloc[0] == 98
    assert frame["memory in use (GB)"].iloc[0] == 20


def test_a_running_job_on_the_cpu_shows_its_load_in_a_line(
    database: Engine, open_page: OpenPage
) -> None:
    running(database, [{"cpu_pct": 87.5, "cpu_mhz": 2400.0, "load_1min": 1.5}])
    said = [caption.value for caption in open_page("runs").caption]
    assert "CPU now: load (%) 87.5 · clock (MHz) 2,400 · load average (1 min) 1.5" in said


def test_a_running_job_whose_worker_is_gone_says_so_and_offers_another(
    database: Engine, open_page: OpenPage
) -> None:
    running(database, [])
    assert not open_page("runs").warning
    an_hour = timedelta(hours=1)
    with writing(database) as connection:
        for model in (Job, Worker):
            connection.execute(update(model).values(heartbeat_at=utc_now() - an_hour))
    said = [warning.value for warning in open_page("runs").warning]
    assert said[0].startswith("Its worker has not been heard of for 60 min.")
    assert "No worker is alive" in said[1]


def test_an_ended_job_without_a_run_gives_its_reason(database: Engine, open_page: OpenPage) -> None:
    job_id = jobs.enqueue(database, SPEC, title="Crashed sweep")
    jobs.finish(database, job_id, "failed", reason="Rank 1 ended with signal 11.")
    at = open_page("runs")
    reasons = [frame.value for frame in at.dataframe if "reason" in frame.value.columns]
    assert reasons[0]["reason"].iloc[0] == "Rank 1 ended with signal 11."


def in_url(at: AppTest, name: str) -> str:
    """AppTest keeps a list for what a link brought and a text for what the page wrote."""
    value = at.query_params[name]
    return value if isinstance(value, str) else value[0]


def tick(at: AppTest, *rows: int) -> AppTest:
    at.session_state["runs-table-0"] = {
        "selection": {"rows": list(rows), "columns": [], "cells": []}
    }
    return at.run()


def test_one_tick_opens_the_run_and_it_stays_that_run_when_a_new_one_lands_on_top(
    database: Engine, open_page: OpenPage
) -> None:
    mine = stored(database, "Mine")
    at = tick(open_page("runs"), 0)
    assert in_url(at, "run") == mine
    stored(database, "Newer")
    at.run()
    assert in_url(at, "run") == mine
    assert at.subheader[0].value == "Mine"


def test_several_ticks_offer_a_comparison_of_the_runs_that_were_ticked(
    database: Engine, open_page: OpenPage
) -> None:
    first, second = stored(database, "First"), stored(database, "Second")
    at = tick(open_page("runs"), 0, 1)
    stored(database, "Third")
    at.run()
    at.button(key="runs-compare").click().run()
    assert in_url(at, "view") == "compare"
    assert in_url(at, "runs") == f"{second},{first}"
    assert at.multiselect(key="runs-compared").value == [second, first]
    assert at.subheader[0].value == "What differs"
    assert at.dataframe[-1].value["quantity"].tolist() == ["AllReduce latency"]


def test_one_tick_offers_no_comparison(database: Engine, open_page: OpenPage) -> None:
    stored(database)
    at = tick(open_page("runs"), 0)
    assert at.subheader[0].value == "Sweep"
    assert "runs-compare" not in [button.key for button in at.button]


def test_the_compare_view_of_the_url_names_runs_even_where_one_was_deleted(
    database: Engine, open_page: OpenPage
) -> None:
    first, second = stored(database, "First"), stored(database, "Second")
    gone = "11111111-2222-3333-4444-555555555555"
    at = open_page("runs", view="compare", runs=f"{first},{second},{gone}")
    assert not at.exception
    assert at.segmented_control(key="runs-view").value == "compare"
    assert "does not exist any more" in at.warning[0].value
    at.multiselect(key="runs-compared").set_value([second, first]).run()
    assert in_url(at, "runs") == f"{second},{first}"
    at.multiselect(key="runs-compared").set_value([]).run()
    assert at.info[0].value == "Choose two or more runs to compare them."


@pytest.mark.parametrize(
    ("view", "key"), [("import", "import-read"), ("bundle", "bundle-measured")]
)
def test_every_view_has_its_panel_and_its_place_in_the_url(
    database: Engine, open_page: OpenPage, view: str, key: str
) -> None:
    at = open_page("runs")
    at.segmented_control(key="runs-view").set_value(view).run()
    assert in_url(at, "view") == view
    assert key in [widget.key for widget in (*at.button, *at.toggle)]
    at.segmented_control(key="runs-view").set_value("list").run()
    assert "view" not in at.query_params
    assert "origin" in [widget.key for widget in at.multiselect]


def test_an_unknown_view_is_the_list(database: Engine, open_page: OpenPage) -> None:
    at = open_page("runs", view="no-such-view")
    assert at.segmented_control(key="runs-view").value == "list"


def test_a_demo_imports_nothing(
    database: Engine, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings_module.settings.cache_clear()
    at = open_page("runs", view="import")
    assert "imports nothing" in at.info[0].value
    assert not [button for button in at.button if button.key == "import-read"]


def test_what_came_with_linkworth_is_not_taken_along(
    first_start: Engine, open_page: OpenPage
) -> None:
    at = open_page("runs", view="bundle")
    assert "no run of your own" in at.info[0].value
    stored(first_start)
    at.run()
    assert at.get("download_button")[0].proto.label == "Bundle of 1 run"
