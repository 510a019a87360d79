"""Storing how a job ended: patiently, whole, and never without saying where the file lies."""

import logging
import select
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from db import jobs
from db.probes import best_rates
from models.errors import DatabaseUnavailable, DuplicateFile, NotFound
from models.machine import probe_rates, suspect, telemetry_findings
from models.result import EvaluationRef, Notice, Result
from worker.context import Context
from worker.outcome import Outcome

log = logging.getLogger("linkworth.worker")

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0


def keep(
    context: Context,
    job: Mapping[str, Any],
    outcome: Outcome,
    *,
    log_tail: str = "",
    telemetry: Sequence[dict[str, Any]] = (),
    pids: Collection[int] = (),
) -> bool:
    """Store the result and end the job; wait for a database that does not answer.

    Returns:
        False where nothing could be written: the job stays open, its files stay, and the next
        worker takes it from there.
    """
    deadline = time.monotonic() + context.timing.store_patience_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            run_id = _store(context, job, outcome, telemetry, pids)
            jobs.finish(
                context.engine,
                job["id"],
                outcome.state,
                reason=outcome.reason,
                log_tail=log_tail,
                run_id=run_id,
            )
        except DatabaseUnavailable as error:
            log.warning("job %s waits to be stored: %s %s", job["id"], error, error.detail)
            problem: Exception = error
        except NotFound:
            log.warning("job %s was deleted while it ran", job["id"])
            return True
        except Exception as error:
            # a mistake of ours must cost neither the result nor the worker
            log.exception("job %s could not be stored", job["id"])
            problem = error
            deadline = 0.0
        else:
            if run_id is not None:
                _tidy(context, job["id"])
            return True
        if time.monotonic() >= deadline or context.stop.is_set:
            return _say_where(context, job, outcome, problem, log_tail)
        with suppress(DatabaseUnavailable):  # has just been said
            context.heartbeat(job["id"])
        select.select([context.stop.descriptor], [], [], pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def examined(
    context: Context,
    job: Mapping[str, Any],
    result: Result,
    telemetry: Sequence[dict[str, Any]],
    pids: Collection[int],
) -> Result:
    """The result with its place in the plan, and with what the machine's state says about it."""
    findings = telemetry_findings(telemetry, pids)
    reasons = [*_shared(context, job), *findings.reasons]
    best = best_rates(context.engine, context.host_id)
    for device, rates in probe_rates(result.measurements).items():
        slow = suspect(rates, best.get(device, {}))
        if slow is not None:
            reasons.append(slow)
    new = [reason for reason in reasons if reason not in result.reasons]
    changes: dict[str, Any] = {
        "reasons": [*result.reasons, *new],
        "warnings": [*result.warnings, *_new_warnings(result, findings.warnings)],
    }
    if new and result.validity == "valid":
        changes["validity"] = "suspect"
    if result.title is None and job["title"]:
        changes["title"] = job["title"]
    if result.evaluation is None and job["evaluation"]:
        known = EvaluationRef.model_fields
        plan = {name: value for name, value in job["evaluation"].items() if name in known}
        changes["evaluation"] = EvaluationRef(**{"order": job["order"], **plan})
    return result.model_copy(update=changes)


def _shared(context: Context, job: Mapping[str, Any]) -> list[str]:
    """A sentence for each GPU that another program used when the run began."""
    index = {gpu["uuid"]: gpu["index"] for gpu in context.host.get("gpus") or []}
    return [
        f"GPU {index.get(uuid, uuid)} was in use by another program when the run began."
        for uuid in job.get("shared_gpus") or ()
    ]


def _store(
    context: Context,
    job: Mapping[str, Any],
    outcome: Outcome,
    telemetry: Sequence[dict[str, Any]],
    pids: Collection[int],
) -> str | None:
    if outcome.result is None:
        return None
    # here: loads pandas, which a worker that waits does not need
    from db import runs

    result = examined(context, job, outcome.result, telemetry, pids)
    try:
        return runs.store(
            context.engine,
            result,
            job_id=job["id"],
            raw=outcome.raw,
            raw_name="result.json",
            telemetry=list(telemetry),
        )
    except DuplicateFile as error:
        return error.detail or None


def _say_where(
    context: Context,
    job: Mapping[str, Any],
    outcome: Outcome,
    problem: Exception,
    log_tail: str,
) -> bool:
    """The result is not lost: its file stays, and the job names it."""
    reason, state = outcome.reason, outcome.state
    if outcome.result is not None:
        path = context.folder(job["id"]).result
        state = "failed" if state == "succeeded" else state
        said = getattr(problem, "sentence", f"{type(problem).__name__}: {problem}")
        reason = (
            f"The result could not be stored: {said} It lies at {path}: import it on the page "
            f"Runs once the cause is gone. {reason}"
        ).strip()
    try:
        jobs.finish(context.engine, job["id"], state, reason=reason, log_tail=log_tail)
    except DatabaseUnavailable as error:
        log.error("job %s stays open: %s %s; %s", job["id"], error, error.detail, reason)
        return False
    except NotFound:
        pass
    return True


def _tidy(context: Context, job_id: str) -> None:
    """What the database holds need not lie about; the log stays."""
    folder = context.folder(job_id)
    for path in (folder.result, folder.spec):
        path.unlink(missing_ok=True)


def _new_warnings(result: Result, found: Sequence[Notice]) -> list[Notice]:
    known = {(notice.code, notice.text) for notice in result.warnings}
    return [notice for notice in found if (notice.code, notice.text) not in known]
