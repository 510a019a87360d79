"""Signs of life: workers' heartbeats, and what happens to a job whose worker is gone."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, delete, select, update

from db.engine import is_sqlite, reading, writing
from db.job_rows import job_columns, job_dict
from db.schema import Job, Worker
from db.statements import changed, upsert
from models.result import utc_now

_FORGET_WORKERS_AFTER = timedelta(days=7)


def heartbeat(
    engine: Engine,
    worker_id: str,
    *,
    pid: int,
    host: str,
    boot_id: str | None = None,
    job_id: str | None = None,
    busy_gpus: Mapping[str, int] | None = None,
    live: Sequence[Mapping[str, Any]] | None = None,
) -> bool:
    """A worker is alive, and so is the job it works on.

    Args:
        engine: The database.
        worker_id: The worker.
        pid: Its process.
        host: Its machine.
        boot_id: This boot of it.
        job_id: The job at work.
        busy_gpus: GPUs that other programs use: UUID -> programs; None: not known.
        live: The machine's state at this moment, a row a device; None: keep the last.

    Returns:
        Whether the worker must end the job: a person asked for it, or it is no longer its own.
    """
    now = utc_now()
    values = {
        "id": worker_id,
        "host_id": host,
        "boot_id": boot_id,
        "pid": pid,
        "job_id": job_id,
        "busy_gpus": None if busy_gpus is None else dict(busy_gpus),
        "started_at": now,
        "heartbeat_at": now,
    }
    with writing(engine) as connection:
        connection.execute(
            upsert(
                connection,
                Worker,
                values,
                key=["id"],
                update=["host_id", "boot_id", "pid", "job_id", "busy_gpus", "heartbeat_at"],
            )
        )
        if job_id is None:
            return False
        mine = (Job.id == job_id, Job.worker_id == worker_id, Job.state == "running")
        state = {} if live is None else {"live": [dict(row) for row in live]}
        changed(connection, update(Job).where(*mine).values(heartbeat_at=now, **state))
        row = connection.execute(select(Job.cancel_requested).where(*mine)).first()
        return row is None or bool(row.cancel_requested)


def reap(
    engine: Engine, *, now: datetime | None = None, stale_s: float = 15.0
) -> list[dict[str, Any]]:
    """Mark running jobs without a sign of life as lost.

    Args:
        engine: The database.
        now: The present moment; tests give another one.
        stale_s: Silence that counts as gone, seconds.

    Returns:
        The jobs, with ``pid``, ``pgid``, ``host`` and ``boot_id``: a worker of the same host and
        boot ends what is left of the process group.
    """
    now = now or utc_now()
    with writing(engine) as connection:
        statement = (
            select(*job_columns())
            .where(Job.state == "running", Job.heartbeat_at < now - timedelta(seconds=stale_s))
            .order_by(Job.number)
        )
        if not is_sqlite(connection):
            statement = statement.with_for_update(skip_locked=True)
        gone = [job_dict(row) for row in connection.execute(statement)]
        for job in gone:
            seen = f"{job['heartbeat_at']:%H:%M:%S} UTC"
            job |= {
                "state": "lost",
                "finished_at": now,
                "reason": f"The worker that ran this job is gone; it was last heard of at {seen}.",
            }
            changed(
                connection,
                update(Job)
                .where(Job.id == job["id"])
                .values(state="lost", finished_at=now, reason=job["reason"], live=None),
            )
        changed(connection, delete(Worker).where(Worker.heartbeat_at < now - _FORGET_WORKERS_AFTER))
    return gone


def alive_workers(engine: Engine, *, stale_s: float = 15.0) -> list[dict[str, Any]]:
    """Workers heard of within ``stale_s`` seconds, oldest first."""
    with reading(engine) as connection:
        rows = connection.execute(
            select(
                Worker.id,
                Worker.host_id.label("host"),
                Worker.boot_id,
                Worker.pid,
                Worker.job_id,
                Worker.started_at,
                Worker.heartbeat_at,
            )
            .where(Worker.heartbeat_at >= utc_now() - timedelta(seconds=stale_s))
            .order_by(Worker.started_at, Worker.id)
        )
        return [dict(row) for row in rows.mappings()]
