"""A past in bulk: what it adds reads like what was stored one by one."""

from datetime import UTC, datetime

from db import bulk, jobs, runs
from db.engine import reading

WHEN = datetime(2026, 3, 1, tzinfo=UTC)


def past_job(name, **fields):
    return {
        "id": name,
        "kind": "topology",
        "title": f"Job {name}",
        "state": "succeeded",
        "reason": "",
        "position": 0,
        "uses_cpu": False,
        "uses_gpus": [],
        "created_at": WHEN,
        "started_at": WHEN,
        "finished_at": WHEN,
        "cancel_requested": False,
        "spec": {"kind": "topology"},
        "log_tail": "done",
        **fields,
    }


def line(text):
    return {"t": WHEN.timestamp(), "type": "log", "message": text}


def test_each_job_keeps_what_it_said(engine):
    names = [f"job-{number}" for number in range(40)]
    bulk.add_past_jobs(
        engine,
        [past_job(name) for name in names],
        [[line(f"{name} {place}") for place in range(place_of % 3)]
         for place_of, name in enumerate(names)],
    )  # fmt: skip
    assert jobs.counts(engine)["succeeded"] == 40
    for place_of, name in enumerate(names):
        said = [event["message"] for event in jobs.events(engine, name)]
        assert said == [f"{name} {place}" for place in range(place_of % 3)]


def test_nothing_to_add_is_no_fault(engine):
    bulk.add_past_jobs(engine, [], [])
    bulk.add_past_jobs(engine, [past_job("silent")], [[]])
    assert jobs.counts(engine)["succeeded"] == 1
    assert jobs.events(engine, "silent") == []


def test_runs_get_the_time_at_which_they_ended(engine, make_result):
    ended = runs.store(engine, make_result(finished_at="2026-03-05T10:00:00Z"))
    unknown = runs.store(engine, make_result(finished_at=None))
    before = runs.list_runs(engine).set_index("id")["created_at"]
    bulk.backdate_runs(engine, shipped_at=WHEN)
    after = runs.list_runs(engine).set_index("id")["created_at"]
    assert after[ended] == datetime(2026, 3, 5, 10, tzinfo=UTC)
    assert after[unknown] == before[unknown]


def test_haste_is_for_sqlite_alone(url, open_engine, make_result):
    engine = open_engine(url)
    bulk.hurry(engine)
    assert runs.store(engine, make_result())
    if engine.dialect.name == "sqlite":
        with reading(engine) as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 0
