"""A database that does not answer costs patience, never a result."""

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from db import jobs, runs
from db.engine import Engine
from db.probes import best_rates
from models.errors import DatabaseUnavailable
from models.result import Measurement
from settings import settings
from tests.worker.scripted_context import FAST, at_stage, context_of, ended, spec, until, working
from tests.worker.scripted_runner import a_result
from worker.carry_out import carry_out
from worker.context import Context
from worker.keeping import examined

FULL = DatabaseUnavailable("The disk of the database is full, so nothing was saved.", "Free some.")


@pytest.fixture
def go(tmp_path: Path) -> Path:
    path = tmp_path / "go"
    os.mkfifo(path)
    return path


@pytest.fixture
def locker(data_dir: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(data_dir / "linkworth.sqlite", isolation_level=None, timeout=5)
    yield connection
    connection.close()


def release(go: Path) -> None:
    go.open("wb").close()  # opens only while the runner waits at the other end


def result_is_there(context: Context, job_id: str) -> bool:
    return context.folder(job_id).result.exists()


def test_a_result_waits_for_a_locked_database(
    context: Context, go: Path, locker: sqlite3.Connection
) -> None:
    job_id = jobs.enqueue(context.engine, spec("wait_for_go", go=str(go)))
    with working(context):
        at_stage(context.engine, job_id, "ready")
        locker.execute("BEGIN IMMEDIATE")
        release(go)
        until(lambda: result_is_there(context, job_id), "the runner's result")
        # the lock outlasts one attempt: the next one must follow
        with pytest.raises(DatabaseUnavailable):
            jobs.request_cancel(context.engine, job_id)
        assert jobs.job(context.engine, job_id)["state"] == "running"
        locker.execute("COMMIT")
        assert ended(context.engine, job_id)["state"] == "succeeded"
    assert runs.count(context.engine) == 1
    assert not result_is_there(context, job_id)


def test_where_patience_ends_the_next_look_saves_the_result(
    context: Context, go: Path, locker: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = replace(context, timing=replace(FAST, store_patience_s=0.0))
    job_id = jobs.enqueue(context.engine, spec("wait_for_go", go=str(go)))
    with working(impatient):
        at_stage(context.engine, job_id, "ready")
        locker.execute("BEGIN IMMEDIATE")
        release(go)
        until(lambda: f"{job_id} stays open" in caplog.text, "the end of patience")
        assert str(context.folder(job_id).result) in caplog.text
        locker.execute("COMMIT")
        until(lambda: jobs.job(context.engine, job_id)["state"] == "succeeded", "the rescue")
    assert runs.count(context.engine) == 1


@pytest.mark.parametrize("problem", [FULL, ValueError("a mistake of ours")])
def test_a_job_says_where_its_unstored_result_lies(
    context: Context, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def refuse(*arguments: Any, **more: Any) -> str:
        raise problem

    monkeypatch.setattr(runs, "store", refuse)
    impatient = replace(context, timing=replace(FAST, store_patience_s=0.0))
    job_id = jobs.enqueue(context.engine, spec("succeed"))
    context.heartbeat()
    job = jobs.claim(context.engine, context.worker_id)
    assert job is not None
    assert carry_out(impatient, job)
    job = jobs.job(context.engine, job_id)
    path = context.folder(job_id).result
    assert job["state"] == "failed"
    assert str(problem).split(".")[0] in job["reason"]
    assert f"It lies at {path}" in job["reason"]
    assert path.exists()


def test_a_full_disk_costs_no_result(context: Context, locker: sqlite3.Connection) -> None:
    """A limit on pages stands for the disk: the result does not fit, the job's end does."""
    pages = locker.execute("PRAGMA page_count").fetchone()[0]

    def limit(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA max_page_count={pages + 8}")

    context.engine.dispose()  # the limit holds for a connection, so all must be new
    event.listen(context.engine, "connect", limit)
    impatient = replace(context, timing=replace(FAST, store_patience_s=0.0))
    job_id = jobs.enqueue(context.engine, spec("succeed", rounds=400))
    context.heartbeat()
    job = jobs.claim(context.engine, context.worker_id)
    assert job is not None
    kept = carry_out(impatient, job)
    path = context.folder(job_id).result
    assert path.exists()
    assert runs.count(context.engine) == 0
    event.remove(context.engine, "connect", limit)
    context.engine.dispose()
    if kept:
        assert (
            f"disk of the database is full, so nothing was saved. It lies at {path}"
            in (jobs.job(context.engine, job_id)["reason"])
        )
    else:  # not even the job's end fitted: it stays open, and the next look saves all
        with working(context):
            until(lambda: runs.count(context.engine) == 1, "the rescue")
        assert jobs.job(context.engine, job_id)["state"] == "succeeded"


def test_a_job_deleted_in_mid_run_does_not_trouble_the_worker(
    context: Context, go: Path, locker: sqlite3.Connection
) -> None:
    job_id = jobs.enqueue(context.engine, spec("wait_for_go", go=str(go)))
    later = jobs.enqueue(context.engine, spec("succeed"))
    with working(context):
        at_stage(context.engine, job_id, "ready")
        locker.execute("PRAGMA foreign_keys=ON")
        locker.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
        assert ended(context.engine, later)["state"] == "succeeded"


def test_another_worker_that_gave_the_job_up_wins(context: Context) -> None:
    job_id = jobs.enqueue(context.engine, spec("hang"))
    with working(context):
        at_stage(context.engine, job_id, "all-reduce")
        jobs.finish(context.engine, job_id, "lost", reason="Given up.")
        until(lambda: "Another worker" in jobs.job(context.engine, job_id)["reason"], "the end")
    assert jobs.job(context.engine, job_id)["state"] == "lost"


def a_job(**changes: Any) -> dict[str, Any]:
    return {"id": "j", "title": "", "evaluation": None, "order": 0, **changes}


def a_probe(rate: float) -> Measurement:
    return Measurement(
        metric="matmul_rate",
        statistic="max",
        unit="TFLOP/s",
        value=rate,
        dims={"device": "cpu", "dtype": "float32"},
        definition="linkworth:probe-matmul:1",
    )


class _Spec:
    def model_dump(self, mode: str) -> dict[str, Any]:
        return {}


def probed(context: Context, rate: float) -> Any:
    result = a_result(_Spec())
    host = {"hostname": context.host_id}
    return result.model_copy(
        update={"measurements": [*result.measurements, a_probe(rate)], "host": host}
    )


def test_a_machine_slower_than_its_best_makes_a_run_suspect(context: Context) -> None:
    assert best_rates(context.engine, context.host_id) == {}
    runs.store(context.engine, probed(context, 100.0))
    runs.store(context.engine, probed(context, 90.0))
    assert best_rates(context.engine, context.host_id) == {
        ("cpu", "float32"): {"matmul_rate": 100.0}
    }
    assert best_rates(context.engine, "another host") == {}
    assert examined(context, a_job(), probed(context, 96.0), [], ()).validity == "valid"
    slow = examined(context, a_job(), probed(context, 94.0), [], ())
    assert slow.validity == "suspect"
    assert slow.reasons == [
        "The machine was slow before the run: matrix product rate 94 TFLOP/s, 6 % under this "
        "host's best of 100 TFLOP/s."
    ]


def test_telemetry_speaks_for_or_against_a_run(context: Context) -> None:
    row = {"uuid": "GPU-1", "index": 0, "utilization_pct": 99, "throttle_reasons": []}
    result = a_result(_Spec())
    assert examined(context, a_job(), result, [row], ()).validity == "valid"
    hot = {**row, "throttle_reasons": ["hw_thermal_slowdown"]}
    assert examined(context, a_job(), result, [row, hot], ()).reasons == [
        "GPU 0 was throttled: it was too hot."
    ]


def test_the_plan_of_the_job_goes_into_the_result(context: Context) -> None:
    job = a_job(title="link on", order=3, evaluation={"id": "e", "arm": "on", "start": 1, "x": 2})
    result = examined(context, job, a_result(_Spec()), [], ())
    assert result.title == "link on"
    assert result.evaluation is not None
    assert result.evaluation.model_dump() == {"id": "e", "arm": "on", "order": 3, "start": 1}


def test_two_workers_give_a_gpu_to_one_job_at_a_time(engine: Engine, tmp_path: Path) -> None:
    uuids = ["GPU-aaaa-0", "GPU-bbbb-1"]
    gpus = [{"index": i, "uuid": uuid, "name": "a card"} for i, uuid in enumerate(uuids)]
    pair = [context_of(engine, settings().files_dir, name) for name in ("one", "two")]
    pair = [replace(one, host={**one.host, "gpus": gpus}) for one in pair]
    job_ids = []
    for number in range(8):
        index = number % 2
        # the same card by two names
        name: int | str = index if number < 4 else uuids[index]
        wish = spec("alone_on", lock=str(tmp_path / f"gpu-{index}"))
        job_ids.append(jobs.enqueue(engine, {**wish, "device": "cuda", "gpus": [name]}))
    with working(*pair):
        found = [ended(engine, job_id) for job_id in job_ids]
    assert [job["state"] for job in found] == ["succeeded"] * 8, [job["reason"] for job in found]
    assert {job["worker_id"] for job in found} == {"one", "two"}
    for one in pair:
        one.stop.close()
