"""A past in bulk, for databases that are invented whole: a load for benchmarks and tests.

Nothing here belongs to a database that holds measured numbers: it skips what keeps those safe.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, event, insert, update

from db.engine import is_sqlite, writing
from db.schema import Job, JobEvent, Run

_HASTE = ("cache_size=-200000", "synchronous=OFF", "wal_autocheckpoint=20000")


def hurry(engine: Engine) -> None:
    """Let SQLite keep its pages in memory and write them late, on every connection from now on.

    A power cut would leave a damaged file. Other databases stay as they are.
    """
    if not is_sqlite(engine):
        return

    @event.listens_for(engine, "connect")
    def _give_up_safety(connection: Any, _record: Any) -> None:
        for pragma in _HASTE:
            connection.execute(f"PRAGMA {pragma}")


def add_past_jobs(
    engine: Engine,
    jobs: Sequence[Mapping[str, Any]],
    events: Sequence[Sequence[Mapping[str, Any]]],
) -> None:
    """Add jobs that have ended, in one transaction.

    Args:
        engine: The database.
        jobs: Columns of table ``jobs``, the same ones in each.
        events: What each of them said: columns of ``job_events`` without ``job_number``.
    """
    if not jobs:
        return
    with writing(engine) as connection:
        numbers = connection.execute(
            insert(Job).returning(Job.number, sort_by_parameter_order=True),
            [dict(job) for job in jobs],
        ).scalars()
        said = [
            {"job_number": number, **one}
            for number, of_job in zip(numbers, events, strict=True)
            for one in of_job
        ]
        if said:
            connection.execute(insert(JobEvent), said)


def backdate_runs(engine: Engine, shipped_at: datetime) -> None:
    """Give each run the time at which it ended as that of its storing, shipped ones a given one."""
    ended = Run.finished_at
    with writing(engine) as connection:
        connection.execute(update(Run).where(Run.seed.is_not(None)).values(created_at=shipped_at))
        connection.execute(
            update(Run).where(Run.seed.is_(None), ended.is_not(None)).values(created_at=ended)
        )
