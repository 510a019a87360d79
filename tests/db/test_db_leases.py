"""Workers' signs of life, and jobs whose worker has gone silent."""

from datetime import timedelta

import pytest

from db import jobs
from models.result import utc_now

SPEC = {"kind": "topology"}
LATER = timedelta(seconds=60)


@pytest.fixture
def running(engine):
    jobs.enqueue(engine, SPEC)
    jobs.heartbeat(engine, "w1", pid=11, host="h1", boot_id="b1")
    job = jobs.claim(engine, "w1")
    jobs.started(engine, job["id"], pid=42, pgid=43)
    return job["id"]


def test_a_worker_is_alive_while_it_beats(engine):
    assert jobs.alive_workers(engine) == []
    jobs.heartbeat(engine, "w1", pid=11, host="h1", boot_id="b1")
    jobs.heartbeat(engine, "w1", pid=11, host="h1", boot_id="b1", job_id=None)
    (worker,) = jobs.alive_workers(engine)
    assert worker["heartbeat_at"] >= worker["started_at"]
    assert {name: worker[name] for name in ("id", "host", "boot_id", "pid", "job_id")} == {
        "id": "w1", "host": "h1", "boot_id": "b1", "pid": 11, "job_id": None,
    }  # fmt: skip
    assert jobs.alive_workers(engine, stale_s=-1) == []


def test_a_job_whose_worker_beats_is_not_lost(engine, running):
    jobs.heartbeat(engine, "w1", pid=11, host="h1", job_id=running)
    assert jobs.reap(engine) == []
    assert jobs.job(engine, running)["state"] == "running"


def test_the_machine_s_state_stands_in_the_job_while_it_runs(engine, running):
    rows = [{"uuid": "GPU-0", "power_w": 312.5}]
    jobs.heartbeat(engine, "w1", pid=11, host="h1", job_id=running, live=rows)
    jobs.heartbeat(engine, "w1", pid=11, host="h1", job_id=running)
    assert jobs.job(engine, running)["live"] == rows
    jobs.heartbeat(engine, "w2", pid=12, host="h1", job_id=running, live=[])
    assert jobs.job(engine, running)["live"] == rows  # another worker's job is not its own
    jobs.finish(engine, running, "succeeded")
    assert jobs.job(engine, running)["live"] is None


def test_a_silent_worker_s_job_is_lost_once_and_says_what_to_end(engine, running):
    (lost,) = jobs.reap(engine, now=utc_now() + LATER)
    assert {name: lost[name] for name in ("id", "state", "pid", "pgid", "host", "boot_id")} == {
        "id": running, "state": "lost", "pid": 42, "pgid": 43, "host": "h1", "boot_id": "b1",
    }  # fmt: skip
    job = jobs.job(engine, running)
    assert job["state"] == "lost"
    assert "last heard of at" in job["reason"]
    assert job["finished_at"] is not None
    assert jobs.reap(engine, now=utc_now() + LATER) == []


def test_a_worker_that_went_on_to_another_job_does_not_hold_the_first(engine, running):
    jobs.heartbeat(engine, "w1", pid=11, host="h1", job_id="another")
    (lost,) = jobs.reap(engine, now=utc_now() + LATER)
    assert lost["id"] == running


def test_queued_jobs_wait_for_ever(engine):
    jobs.enqueue(engine, SPEC)
    assert jobs.reap(engine, now=utc_now() + LATER) == []
    assert jobs.counts(engine)["queued"] == 1


def test_a_worker_that_comes_back_is_told_to_stop(engine, running):
    jobs.reap(engine, now=utc_now() + LATER)
    assert jobs.heartbeat(engine, "w1", pid=11, host="h1", job_id=running) is True
    jobs.finish(engine, running, "cancelled")
    assert jobs.job(engine, running)["state"] == "lost"


def test_a_worker_that_comes_back_with_a_result_has_succeeded(engine, running):
    jobs.reap(engine, now=utc_now() + LATER)
    jobs.finish(engine, running, "succeeded", run_id="a-run")
    assert jobs.job(engine, running)["state"] == "succeeded"


def test_another_worker_s_job_is_not_mine(engine, running):
    assert jobs.heartbeat(engine, "w2", pid=12, host="h1", job_id=running) is True


def test_workers_of_last_month_are_forgotten(engine):
    jobs.heartbeat(engine, "w1", pid=11, host="h1")
    jobs.reap(engine, now=utc_now() + timedelta(days=30))
    assert jobs.alive_workers(engine, stale_s=1e6) == []
