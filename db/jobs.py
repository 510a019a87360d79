"""The queue: what is to be measured, what is being measured, and how it ended."""

import uuid
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, select, update

from db.claims import claim, in_use, resources, waiting_for
from db.engine import reading, writing
from db.job_rows import job_columns, job_dict
from db.leases import alive_workers, heartbeat, reap
from db.schema import Job, JobEvent
from db.statements import changed, upsert
from models.errors import InvalidSpec, NotFound
from models.result import utc_now
from models.secrets import scrub, scrub_text

__all__ = [
    "ENDED",
    "STATES",
    "add_events",
    "alive_workers",
    "claim",
    "counts",
    "enqueue",
    "events",
    "finish",
    "heartbeat",
    "in_use",
    "job",
    "list_jobs",
    "reap",
    "request_cancel",
    "started",
    "waiting_for",
]

ENDED = ("succeeded", "failed", "cancelled", "timed_out", "lost")
STATES = ("queued", "running", *ENDED)
_LOG_TAIL_CHARACTERS = 20_000


def enqueue(
    engine: Engine,
    spec: dict[str, Any],
    *,
    token: str | None = None,
    title: str = "",
    evaluation: dict[str, Any] | None = None,
    time_limit_s: float | None = None,
    order: int = 0,
) -> str:
    """Put a job into the queue.

    Args:
        engine: The database.
        spec: What a runner takes, already validated; secrets in it are not stored.
        token: One a form: the same token gives the same job, however often it is sent.
        title: Words for people.
        evaluation: ``id`` and ``arm`` of the plan that the job belongs to.
        time_limit_s: Limit of the whole job; None: the one of the spec.
        order: Place in the evaluation.

    Returns:
        The job's id.
    """
    uses_gpus, uses_cpu = resources(spec)
    limit = time_limit_s if time_limit_s is not None else spec.get("time_limit_s")
    values = {
        "id": str(uuid.uuid4()),
        "token": token,
        "kind": str(spec.get("kind", "")),
        "title": scrub_text(title),
        "state": "queued",
        "reason": "",
        "evaluation_id": evaluation.get("id") if evaluation else None,
        "position": order,
        "uses_cpu": uses_cpu,
        "uses_gpus": uses_gpus,
        "created_at": utc_now(),
        "cancel_requested": False,
        "time_limit_s": limit,
        "spec": scrub(spec),
        "evaluation": scrub(evaluation) if evaluation else None,
        "log_tail": "",
    }
    with writing(engine) as connection:
        connection.execute(upsert(connection, Job, values, key=["token"]))
        if token is None:
            return str(values["id"])
        return connection.execute(select(Job.id).where(Job.token == token)).scalar_one()


def started(engine: Engine, job_id: str, *, pid: int, pgid: int) -> None:
    """The runner's process is there.

    Raises:
        NotFound: There is no such job.
    """
    with writing(engine) as connection:
        _existing(connection, job_id)
        changed(
            connection,
            update(Job)
            .where(Job.id == job_id)
            .values(pid=pid, pgid=pgid, started_at=utc_now(), heartbeat_at=utc_now()),
        )


def finish(
    engine: Engine,
    job_id: str,
    state: str,
    *,
    reason: str = "",
    log_tail: str = "",
    run_id: str | None = None,
) -> None:
    """A job has ended; the first end counts.

    Two exceptions: a job that was given up as lost gets its true end when a worker comes with
    its result, and its last log lines when one finds them.

    Raises:
        InvalidSpec: The state is not one of ``ENDED``.
        NotFound: There is no such job.
    """
    if state not in ENDED:
        raise InvalidSpec(f"A job cannot end as {state!r}.")
    open_states = ["queued", "running"]
    if state == "lost" or run_id is not None:
        open_states.append("lost")
    with writing(engine) as connection:
        _existing(connection, job_id)
        changed(
            connection,
            update(Job)
            .where(Job.id == job_id, Job.state.in_(open_states))
            .values(
                state=state,
                reason=scrub_text(reason),
                log_tail=scrub_text(log_tail[-_LOG_TAIL_CHARACTERS:]),
                run_id=run_id,
                finished_at=utc_now(),
                live=None,
            ),
        )


def request_cancel(engine: Engine, job_id: str) -> None:
    """End a job: at once while it is queued, else its worker ends it. Ended jobs stay as they are.

    Raises:
        NotFound: There is no such job.
    """
    with writing(engine) as connection:
        _existing(connection, job_id)
        ended = changed(
            connection,
            update(Job)
            .where(Job.id == job_id, Job.state == "queued")
            .values(
                state="cancelled",
                reason="Cancelled before it started.",
                cancel_requested=True,
                finished_at=utc_now(),
            ),
        )
        if not ended:  # also when a worker claimed it between the two statements
            changed(
                connection,
                update(Job)
                .where(Job.id == job_id, Job.state == "running")
                .values(cancel_requested=True),
            )


def job(engine: Engine, job_id: str) -> dict[str, Any]:
    """One job.

    Raises:
        NotFound: There is no such job.
    """
    with reading(engine) as connection:
        row = connection.execute(select(*job_columns()).where(Job.id == job_id)).first()
    if row is None:
        raise _not_found()
    return job_dict(row)


def list_jobs(
    engine: Engine, *, states: Collection[str] | None = None, limit: int = 200
) -> list[dict[str, Any]]:
    """Jobs, newest first."""
    statement = select(*job_columns()).order_by(Job.number.desc()).limit(limit)
    if states is not None:
        statement = statement.where(Job.state.in_(list(states)))
    with reading(engine) as connection:
        return [job_dict(row) for row in connection.execute(statement)]


def counts(engine: Engine) -> dict[str, int]:
    """How many jobs are in each state; every state is there."""
    with reading(engine) as connection:
        rows = connection.execute(select(Job.state, func.count()).group_by(Job.state)).all()
    found = {state: int(n) for state, n in rows}
    return {state: found.get(state, 0) for state in STATES}


def add_events(engine: Engine, job_id: str, rows: list[dict[str, Any]]) -> None:
    """Keep what a runner said; its latest stage stands in the job.

    Raises:
        NotFound: There is no such job.
    """
    if not rows:
        return
    with writing(engine) as connection:
        number = _existing(connection, job_id)
        events = [_event(number, row) for row in rows]
        connection.execute(insert(JobEvent), events)
        stages = [row for row in events if row["type"] == "stage"]
        if stages:
            latest = {name: stages[-1][name] for name in ("stage", "fraction", "message", "eta_s")}
            changed(connection, update(Job).where(Job.number == number).values(**latest))


def events(
    engine: Engine, job_id: str, *, after: int = 0, limit: int = 2000
) -> list[dict[str, Any]]:
    """Events of a job, oldest first, with an ``id`` to ask for later ones.

    Raises:
        NotFound: There is no such job.
    """
    with reading(engine) as connection:
        number = _existing(connection, job_id)
        rows = connection.execute(
            select(
                JobEvent.number.label("id"),
                JobEvent.t,
                JobEvent.type,
                JobEvent.stage,
                JobEvent.fraction,
                JobEvent.message,
                JobEvent.eta_s,
                JobEvent.level,
                JobEvent.data,
            )
            .where(JobEvent.job_number == number, JobEvent.number > after)
            .order_by(JobEvent.number)
            .limit(limit)
        )
        return [dict(row) for row in rows.mappings()]


def _event(number: int, row: dict[str, Any]) -> dict[str, Any]:
    message, stage = row.get("message"), row.get("stage")
    return {
        "job_number": number,
        "t": float(row.get("t") or utc_now().timestamp()),
        "type": str(row.get("type") or "log"),
        "stage": None if stage is None else scrub_text(str(stage)),
        "fraction": row.get("fraction"),
        "message": None if message is None else scrub_text(str(message)),
        "eta_s": row.get("eta_s"),
        "level": row.get("level"),
        "data": scrub(data) if isinstance(data := row.get("data"), dict) else data,
    }


def _existing(connection: Connection, job_id: str) -> int:
    number = connection.execute(select(Job.number).where(Job.id == job_id)).scalar()
    if number is None:
        raise _not_found()
    return int(number)


def _not_found() -> NotFound:
    return NotFound("There is no such job any more.", "Look for it in the list of runs.")
