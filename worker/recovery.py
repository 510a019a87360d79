"""What a worker that died has left behind: processes, whole results, and jobs in mid-run."""

import logging
from typing import Any

from db import jobs
from models.errors import NotFound
from worker import descendants
from worker.carry_out import note_incident
from worker.context import Context
from worker.keeping import keep
from worker.outcome import Outcome, judge

log = logging.getLogger("linkworth.worker")


def recover(context: Context) -> list[dict[str, Any]]:
    """Mark silent jobs as lost, end their processes, and save results that were whole.

    Raises:
        DatabaseUnavailable: Nothing was changed.
    """
    lost = jobs.reap(context.engine, stale_s=context.timing.stale_s)
    for job in lost:
        log.warning("job %s is lost: %s", job["id"], job["reason"])
        if job["host"] == context.host_id:
            _clean_up(context, job)
    return lost


def end_forgotten(context: Context) -> None:
    """End processes of jobs that the queue holds for ended: their worker died at a bad moment.

    Raises:
        DatabaseUnavailable: The queue cannot be asked.
    """
    for job_id in descendants.marked_jobs():
        try:
            job = jobs.job(context.engine, job_id)
        except NotFound:
            continue  # another database's
        if job["state"] in jobs.ENDED:
            log.warning("job %s has ended, and processes of it have not", job_id)
            descendants.end(job_id, job["pgid"])


def _clean_up(context: Context, job: dict[str, Any]) -> None:
    if job["boot_id"] is not None and context.boot_id not in (None, job["boot_id"]):
        # pids of another boot mean nothing now
        text = "The machine went down or restarted while a job ran."
        note_incident(context, job, "reboot", text)
    else:
        survivors = descendants.end(job["id"], job["pgid"])
        if survivors:
            text = f"{len(survivors)} processes of a lost job survived SIGKILL."
            note_incident(context, job, "survivor", text)
    folder = context.folder(job["id"])
    outcome = judge(0, folder.result)
    if outcome.result is not None:
        # its worker died between the last byte of the result and the database
        log.info("job %s: its result is whole", job["id"])
        keep(context, job, outcome, log_tail=folder.log_tail())
    else:
        keep(context, job, Outcome("lost", job["reason"]), log_tail=folder.log_tail())
