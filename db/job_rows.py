"""How a job leaves the database: one dict, the same wherever it is read."""

from typing import Any

from sqlalchemy import Row
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.elements import Label

from db.schema import Job


def job_columns() -> list[InstrumentedAttribute[Any] | Label[Any]]:
    """What a job dict is made of."""
    return [
        Job.id, Job.kind, Job.title, Job.state, Job.reason, Job.spec, Job.evaluation,
        Job.position.label("order"), Job.worker_id, Job.host_id.label("host"), Job.boot_id,
        Job.pid, Job.pgid, Job.created_at, Job.started_at, Job.finished_at, Job.heartbeat_at,
        Job.cancel_requested, Job.time_limit_s, Job.run_id, Job.log_tail, Job.stage,
        Job.fraction, Job.message, Job.eta_s, Job.live,
    ]  # fmt: skip


def job_dict(row: Row[Any]) -> dict[str, Any]:
    """A row of ``job_columns`` as a dict."""
    return dict(row._mapping)
