"""A running job on a page: what is new is read, and no more, however much was said before."""

import pytest
import streamlit as st
from sqlalchemy import event
from streamlit.testing.v1 import AppTest

from db import jobs
from models.errors import NotFound
from pages.widgets import live_events, live_job

WATCH = "from pages.widgets.live_job import watch\nwatch([{job_id!r}], key='test')"


def said(kind, number):
    data = {"round": number, "median (us)": 6.5} if kind == "round" else None
    return {"type": kind, "message": f"{kind} {number}", "data": data}


@pytest.fixture
def running(empty_database):
    """Id of a job that a worker has claimed."""
    job_id = jobs.enqueue(empty_database, {"kind": "topology"}, title="A job")
    jobs.heartbeat(empty_database, "w", pid=1, host="h")
    assert jobs.claim(empty_database, "w")["id"] == job_id
    return job_id


@pytest.fixture
def read_rows(empty_database):
    """How many events each look asked for, by their first number."""
    asked = []

    @event.listens_for(empty_database, "before_cursor_execute")
    def note(_connection, _cursor, statement, parameters, _context, _many):
        if "FROM job_events" in statement:
            asked.append(parameters)

    return asked


def test_rounds_and_lines_beyond_the_first_two_thousand_events_are_shown(empty_database, running):
    jobs.add_events(empty_database, running, [said("stage", number) for number in range(2500)])
    jobs.add_events(empty_database, running, [said("round", number) for number in range(3)])
    jobs.add_events(empty_database, running, [said("log", number) for number in range(40)])
    at = AppTest.from_string(WATCH.format(job_id=running), default_timeout=30).run()
    assert not at.exception
    assert list(at.dataframe[0].value["round"]) == [0, 1, 2]
    assert at.code[0].value.splitlines() == [f"log {number}" for number in range(28, 40)]


def test_a_look_reads_on_from_the_last_one(empty_database, running, read_rows):
    heard = live_events.heard(running)
    jobs.add_events(empty_database, running, [said("round", number) for number in range(5)])
    heard.listen(empty_database)
    jobs.add_events(empty_database, running, [said("round", 5), said("log", 1)])
    read_rows.clear()
    heard.listen(empty_database)
    last = jobs.events(empty_database, running)[4]["id"]
    assert last in read_rows[0]
    assert [data["round"] for data in heard.rounds] == list(range(6))
    assert list(heard.lines) == ["log 1"]
    assert live_events.heard(running) is heard


def test_many_rounds_are_cut_and_it_is_said(empty_database, running, monkeypatch):
    monkeypatch.setattr(live_job, "MOST_ROUNDS", 4)
    jobs.add_events(empty_database, running, [said("round", number) for number in range(10)])
    at = AppTest.from_string(WATCH.format(job_id=running), default_timeout=30).run()
    assert list(at.dataframe[0].value["round"]) == [6, 7, 8, 9]
    assert "The last 4 of 10 rounds finished so far." in [each.value for each in at.caption]


def test_a_job_that_is_gone_is_said(empty_database):
    st.cache_resource.clear()
    with pytest.raises(NotFound):
        live_events.heard("none").listen(empty_database)
