"""Worker and runner die at any moment: nothing half-written, no process, the queue goes on."""

import os
import random
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from db import jobs, runs
from db.engine import Engine
from settings import settings
from tests.worker.scripted_context import (
    at_stage,
    context_of,
    ended,
    kill,
    spec,
    start_worker,
    until,
    working,
)
from worker import descendants

ROUNDS = 3


@pytest.fixture
def workers(engine: Engine) -> Iterator[list["subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        kill(process)


def test_a_killed_worker_takes_its_runner_along(
    engine: Engine, workers: list["subprocess.Popen[bytes]"]
) -> None:
    workers.append(start_worker())
    hung = jobs.enqueue(engine, spec("hang"))
    waiting = jobs.enqueue(engine, spec("succeed"))
    at_stage(engine, hung, "all-reduce")
    workers[0].kill()
    # nobody but the runner itself can do this: no other worker is there
    until(lambda: not descendants.members(hung), "the runner's own end")
    assert jobs.job(engine, hung)["state"] == "running"
    workers.append(start_worker())
    job = ended(engine, hung)
    assert job["state"] == "lost"
    assert "worker that ran this job is gone" in job["reason"]
    assert ended(engine, waiting)["state"] == "succeeded"
    assert runs.count(engine) == 1


def test_a_deaf_runner_of_a_dead_worker_is_ended_by_the_next(
    engine: Engine, workers: list["subprocess.Popen[bytes]"]
) -> None:
    workers.append(start_worker())
    job_id = jobs.enqueue(engine, spec("stubborn"))
    job = at_stage(engine, job_id, "all-reduce")
    # stopped, it cannot see that its worker is gone
    for pid in descendants.members(job_id):
        os.kill(pid, signal.SIGSTOP)
    workers[0].kill()
    workers.append(start_worker())
    assert ended(engine, job_id)["state"] == "lost"
    until(lambda: not descendants.members(job_id, job["pgid"]), "the end of its processes")


def test_an_orphan_without_any_tie_stays_the_workers_child(
    engine: Engine, workers: list["subprocess.Popen[bytes]"]
) -> None:
    workers.append(start_worker())
    job_id = jobs.enqueue(engine, spec("stray", bare=True))
    assert ended(engine, job_id)["state"] == "succeeded"
    assert not _children(workers[0].pid)


def test_a_result_that_was_whole_is_saved_by_the_next_worker(
    engine: Engine, workers: list["subprocess.Popen[bytes]"]
) -> None:
    """The worker dies between the runner's last byte and the database."""
    context = context_of(engine, settings().files_dir)
    context.heartbeat()
    job_id = jobs.enqueue(engine, spec("succeed"))
    job = jobs.claim(engine, context.worker_id)
    assert job is not None
    folder = context.folder(job_id)
    folder.prepare(job["spec"])
    subprocess.run(
        [
            context.python, "-m", "tests.worker.scripted_runner",
            "--spec", folder.spec, "--result", folder.result, "--events", "/dev/null",
        ],
        check=True,
    )  # fmt: skip
    with working(context_of(engine, settings().files_dir, "next")):
        until(lambda: jobs.job(engine, job_id)["state"] == "succeeded", "the rescue")
    job = jobs.job(engine, job_id)
    assert len(runs.load(engine, job["run_id"]).find("decode_step")) == ROUNDS
    context.stop.close()


@pytest.mark.parametrize("n_kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_at_random_moments_leave_nothing_half_done(
    engine: Engine, workers: list["subprocess.Popen[bytes]"], n_kills: int
) -> None:
    chance = random.Random(20261129)
    workers.append(start_worker())
    job_ids = []
    for _ in range(n_kills):
        job_id = jobs.enqueue(engine, spec("succeed", rounds=ROUNDS, round_s=0.03))
        job_ids.append(job_id)
        until(
            lambda job_id=job_id: jobs.job(engine, job_id)["state"] != "queued", "a worker's claim"
        )
        _wait(chance.uniform(0.0, 0.8))
        if chance.random() < 0.5:
            kill(workers.pop())
            workers.append(start_worker())
        else:
            pid = jobs.job(engine, job_id)["pid"]
            if pid is not None and pid in descendants.members(job_id):
                os.kill(pid, signal.SIGKILL)
    last = jobs.enqueue(engine, spec("succeed", rounds=ROUNDS))
    assert ended(engine, last)["state"] == "succeeded"
    states = {job_id: ended(engine, job_id) for job_id in job_ids}
    for job_id, job in states.items():
        assert job["state"] in ("succeeded", "failed", "lost"), job
        assert (job["run_id"] is not None) == (job["state"] == "succeeded"), job
        assert job["state"] == "succeeded" or job["reason"]
        assert descendants.members(job_id) == set()
    n_good = sum(job["state"] == "succeeded" for job in states.values()) + 1
    assert runs.count(engine) == n_good
    for run_id in runs.list_runs(engine)["id"]:
        result = runs.load(engine, run_id)
        assert len(result.find("decode_step")) == ROUNDS
        assert [len(one.values) for one in result.samples] == [3] * ROUNDS
        assert len(runs.raw(engine, run_id)) == 1
    # a seed that kills nothing would show nothing
    assert any(job["state"] != "succeeded" for job in states.values())


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _wait(seconds: float) -> None:
    """The random moment itself: there is no event to wait for."""
    select.select([], [], [], seconds)
