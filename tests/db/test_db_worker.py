"""A worker on each of the two databases: claims, measures, stores, cancels."""

import pytest

from db import jobs, runs
from settings import settings
from tests.worker.scripted_context import at_stage, context_of, ended, spec, working


@pytest.fixture
def two_workers(engine, open_engine, url):
    """Each with connections of its own, as two processes have."""
    pair = [
        context_of(open_engine(url, busy_timeout_s=20), settings().files_dir / name, name)
        for name in ("one", "two")
    ]
    with working(*pair):
        yield engine
    for context in pair:
        context.stop.close()


def test_what_two_workers_measure_is_stored_once_and_whole(two_workers):
    plan = {"evaluation": {"id": "e1", "arm": "on"}}
    alone = [jobs.enqueue(two_workers, spec("succeed", rounds=2)) for _ in range(4)]
    planned = [
        jobs.enqueue(two_workers, spec("succeed", rounds=2), order=n, **plan) for n in range(2)
    ]
    found = [ended(two_workers, job_id) for job_id in (*alone, *planned)]
    assert [job["state"] for job in found] == ["succeeded"] * 6, [job["reason"] for job in found]
    # the rounds of one plan and arm are one run
    assert len({job["run_id"] for job in found}) == runs.count(two_workers) == 5
    run = runs.load(two_workers, found[-1]["run_id"])
    assert [row.round for row in run.find("decode_step")] == [0, 1, 2, 3]
    assert [event["type"] for event in jobs.events(two_workers, alone[0])].count("round") == 2


def test_a_cancel_and_a_failure_end_with_their_reason(two_workers):
    hung = jobs.enqueue(two_workers, spec("hang"))
    at_stage(two_workers, hung, "all-reduce")
    jobs.request_cancel(two_workers, hung)
    assert ended(two_workers, hung)["state"] == "cancelled"
    broken = ended(two_workers, jobs.enqueue(two_workers, spec("crash")))
    assert broken["state"] == "failed"
    assert broken["reason"]
    assert runs.count(two_workers) == 0
