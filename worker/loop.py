"""The worker's life: a sign of life, whatever is lost, the next job, and again."""

import logging
import select
import time

from db import hosts, jobs
from db.migrations import version
from models.errors import DatabaseTooNew, DatabaseUnavailable, LinkworthError
from worker import descendants
from worker.carry_out import carry_out
from worker.company import Company
from worker.context import Context
from worker.recovery import end_forgotten, recover

log = logging.getLogger("linkworth.worker")


class Worker:
    """Takes jobs one by one until it is asked to stop.

    Args:
        context: What it works with.
        exit_when_idle_s: Leave after so long without a job; None: stay.
    """

    def __init__(self, context: Context, *, exit_when_idle_s: float | None = None) -> None:
        self._context = context
        self._exit_when_idle_s = exit_when_idle_s
        self._next_recovery = 0.0
        self._next_heartbeat = 0.0
        self._complaint = ""
        self._is_known = False
        self._company = Company(context.host)
        self._told: dict[str, int] | None = None

    def run(self) -> None:
        """Work until asked to stop, or idle for too long.

        Raises:
            DatabaseTooNew: A newer version of the code has migrated the database meanwhile.
        """
        idle_since = time.monotonic()
        while not self._context.stop.is_set:
            try:
                has_worked = self._step()
            except DatabaseTooNew:
                raise
            except DatabaseUnavailable as error:
                self._complain(error)
                has_worked = False
            now = time.monotonic()
            if has_worked:
                idle_since = now
                continue
            if self._exit_when_idle_s is not None and now - idle_since >= self._exit_when_idle_s:
                log.info("nothing to do: leaving")
                return
            select.select([self._context.stop.descriptor], [], [], self._context.timing.poll_s)
        log.info("asked to stop: leaving")

    def _introduce(self) -> None:
        """What comes before the first job."""
        self._context.heartbeat()
        hosts.remember(self._context.engine, self._context.host)
        end_forgotten(self._context)
        self._is_known = True

    def _step(self) -> bool:
        """One look at the queue; whether there was work."""
        context, now = self._context, time.monotonic()
        if not self._is_known:
            self._introduce()
        # reading is cheap; claiming takes the database's write lock
        is_wanted = bool(jobs.list_jobs(context.engine, states=["queued"], limit=1))
        timing = context.timing
        busy = self._company.seen(max_age_s=timing.look_s if is_wanted else timing.idle_look_s)
        if now >= self._next_heartbeat or busy != self._told:
            context.heartbeat(busy_gpus=busy)
            self._told = busy
            self._next_heartbeat = now + context.timing.stale_s / 5
        if now >= self._next_recovery:
            version(context.engine)
            recover(context)
            self._next_recovery = now + context.timing.stale_s / 3
        self._complaint = ""
        if not is_wanted:
            return False
        job = jobs.claim(
            context.engine,
            context.worker_id,
            busy_gpus=busy or (),
            busy_patience_s=timing.busy_patience_s,
        )
        if job is None:
            return False
        self._next_heartbeat = 0.0
        self._company.forget()
        try:
            carry_out(context, job)
        except Exception as error:
            log.exception("job %s", job["id"])
            descendants.end(job["id"], ancestor=context.ancestor)
            self._give_up(job["id"], error)
        return True

    def _give_up(self, job_id: str, error: Exception) -> None:
        """A mistake of ours ends the job, not the worker."""
        reason = f"The worker failed: {type(error).__name__}: {error}"
        try:
            jobs.finish(self._context.engine, job_id, "failed", reason=reason)
        except LinkworthError as second:
            log.error("job %s stays open: %s", job_id, second)

    def _complain(self, error: DatabaseUnavailable) -> None:
        """Once for each cause: the loop comes by twice a second."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.error("%s %s", error, error.detail)
