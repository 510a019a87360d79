"""Overview: what a first visitor sees, what stands there after the first run, the next steps."""

from collections.abc import Callable
from datetime import UTC, datetime

import pandas as pd
import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import jobs, runs
from models.result import EvaluationRef, Measurement, Result, Tool
from pages.widgets import overview_picture

OpenPage = Callable[..., AppTest]


def sweep(
    title: str,
    microseconds: float,
    *,
    arm: str | None = None,
    sizes: tuple[int, ...] = (1024, 4096, 1 << 20),
    definition: str = "linkworth:allreduce-graph:1",
    hour: int = 1,
) -> Result:
    return Result(
        kind="allreduce",
        origin="measured",
        title=title,
        tool=Tool(name="linkworth", version="0.1.0"),
        host={"hostname": "abc", "cpu_model": "Test CPU"},
        evaluation=EvaluationRef(id="e1", arm=arm) if arm else None,
        finished_at=datetime(2026, 1, 2, hour, tzinfo=UTC),
        measurements=[
            Measurement(
                metric="allreduce_latency",
                statistic="median",
                unit="us",
                value=microseconds * size / 1024,
                n=30,
                round=0,
                dims={"bytes": size, "mode": "graph", "ranks": 2},
                definition=definition,
            )
            for size in sizes
        ],
    )


def links(at: AppTest) -> list[tuple[str, str, str]]:
    found = [link.proto for link in at.get("page_link")]
    return [(link.page, link.label, link.query_string) for link in found]


def test_a_first_visitor_sees_a_measured_example_and_reaches_an_answer_in_one_click(
    first_start: Engine, open_page: OpenPage
) -> None:
    at = open_page("overview")
    assert not at.exception
    assert at.subheader[0].value == "A measured example"
    sentence = at.markdown[1].value
    assert "● measured" in sentence
    assert "2 x NVIDIA H200" in sentence
    assert "link on" in sentence
    assert "link off" in sentence
    assert at.get("vega_lite_chart")[0].proto.alt in sentence
    offered = links(at)
    explained = [row for row in offered if row[0] == "allreduce" and "runs=" in row[2]]
    assert explained, offered
    answer = next(row for row in offered if row[1] == "Does a second GPU help?")
    assert answer[0] == "speedup"
    assert "runs=" in answer[2]


def test_the_answer_behind_the_link_is_a_verdict(first_start: Engine, open_page: OpenPage) -> None:
    at = open_page("overview")
    query = next(row[2] for row in links(at) if row[1] == "Does a second GPU help?")
    name, _, value = query.lstrip("?").partition("=")
    shown = open_page("speedup", **{name: value.replace("%2C", ",")})
    assert not shown.exception
    assert any("TP=2 makes this model" in block.value for block in shown.markdown)


def test_every_study_leads_to_the_pages_that_explain_it(
    first_start: Engine, open_page: OpenPage
) -> None:
    at = open_page("overview")
    assert {"allreduce", "speedup", "hardware", "runs"} <= {row[0] for row in links(at)}
    assert sum(row[1] == "All its runs" for row in links(at)) == 10


def test_after_the_first_run_it_stands_there_with_picture_and_table(
    first_start: Engine, open_page: OpenPage
) -> None:
    run_id = runs.store(first_start, sweep("My sweep", 12.5))
    at = open_page("overview")
    assert at.subheader[0].value == "Last results"
    assert "4 KB" in at.markdown[1].value
    assert "50 us" in at.markdown[1].value
    assert list(at.dataframe[-1].value["what"]) == ["My sweep"]
    assert ("allreduce", "Explain these runs", f"?runs={run_id}") in [
        (page, label, f"?{query.lstrip('?')}") for page, label, query in links(at)
    ]


def test_an_empty_database_says_what_to_do(empty_database: Engine, open_page: OpenPage) -> None:
    at = open_page("overview")
    assert not at.exception
    assert at.info[0].value.startswith("Nothing was measured here yet")


def test_waiting_jobs_are_counted(first_start: Engine, open_page: OpenPage) -> None:
    spec = {"kind": "allreduce", "device": "cpu", "ranks": 2, "sizes_bytes": [1024]}
    jobs.enqueue(first_start, spec, title="Waiting sweep")
    at = open_page("overview")
    assert "1 job runs or waits" in [row[1] for row in links(at)]


def test_the_picture_never_mixes_definitions_and_takes_the_condition_of_most_arms(
    empty_database: Engine,
) -> None:
    other = "nccl-tests:allreduce:1"
    runs.store(empty_database, sweep("on", 5, arm="link on"))
    runs.store(empty_database, sweep("off", 9, arm="link off", sizes=(4096,)))
    runs.store(empty_database, sweep("theirs", 7, arm="theirs", definition=other))
    found = overview_picture.newest(empty_database, runs.list_runs(empty_database))
    assert found is not None
    values = dict(zip(found.frame["arm"], found.frame["value"], strict=True))
    assert values == {"link on": 20.0, "link off": 36.0}
    assert found.sentence.endswith("link on 20 us, link off 36 us.")


def test_runs_of_one_title_are_told_apart_by_their_time(empty_database: Engine) -> None:
    runs.store(empty_database, sweep("CPU sweep", 5, hour=1))
    runs.store(empty_database, sweep("CPU sweep", 6, hour=2))
    found = overview_picture.newest(empty_database, runs.list_runs(empty_database))
    assert found is not None
    assert sorted(found.frame["arm"]) == ["CPU sweep, 02 Jan 01:00", "CPU sweep, 02 Jan 02:00"]


@pytest.mark.parametrize(
    ("value", "wanted", "distance"),
    [(1536, 3072, 1.0), (pd.NA, 1, float("inf")), ("eager", ("graph", "eager"), 1.0)],
)
def test_distance(value: object, wanted: object, distance: float) -> None:
    assert overview_picture._distance(value, wanted) == distance
