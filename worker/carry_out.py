"""One job from its claim to its end."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from db import hosts, jobs
from db.claims import resources
from models.errors import DatabaseUnavailable, InvalidSpec, LinkworthError
from runners.spec import parse_spec
from worker import descendants
from worker.context import Context
from worker.descendants import JobProcesses
from worker.keeping import keep
from worker.outcome import Outcome, judge
from worker.process import JobFolder, RunnerProcess
from worker.telemetry import GpuSampler, Telemetry, gpu_names, sample_cpu
from worker.watch import Watch

log = logging.getLogger("linkworth.worker")
_LEFTOVER_GRACE_S = 1.0  # for processes that a runner left behind


def carry_out(context: Context, job: dict[str, Any]) -> bool:
    """Run a claimed job and store how it ended.

    Returns:
        False where the database took nothing: the job stays open.
    """
    folder = context.folder(job["id"])
    try:
        spec, module = _prepared(context, job, folder)
        process = RunnerProcess(context.python, module, job["id"], folder)
    except (LinkworthError, OSError) as error:
        return keep(context, job, Outcome("failed", _sentence(error)))
    log.info("job %s: %s started as process %d", job["id"], module, process.pid)
    limit_s = job["time_limit_s"] or spec.get("time_limit_s") or context.default_time_limit_s
    processes = JobProcesses(job["id"], process.pid, ancestor=context.ancestor)
    watch = Watch(
        context,
        job["id"],
        process,
        processes,
        folder.log,
        limit_s=limit_s + context.timing.limit_grace_s,
    )
    survivors: set[int] = set()
    with processes:
        try:
            _note_start(context, job["id"], process.pid)
            with _telemetry(context, spec) as telemetry:
                watch.live = telemetry.latest if telemetry is not None else None
                watch.until_ended()
        finally:
            survivors = processes.end(grace_s=_LEFTOVER_GRACE_S)
            returncode = process.returncode
            if context.adopts_orphans:
                descendants.collect_adopted()
            watch.last_words()
            process.close()
    log_tail = folder.log_tail()
    outcome = judge(
        returncode,
        folder.result,
        ended=watch.ended,
        log_tail=log_tail,
        where=watch.where,
        limit_s=limit_s,
    )
    log.info("job %s: exit code %s, %s %s", job["id"], returncode, outcome.state, outcome.reason)
    if survivors:
        note_incident(
            context,
            job,
            "survivor",
            f"{len(survivors)} processes of a job survived SIGKILL (first: {min(survivors)}).",
        )
    return keep(
        context,
        job,
        outcome,
        log_tail=log_tail,
        telemetry=telemetry.rows if telemetry is not None else (),
        pids=watch.pids,
    )


def note_incident(context: Context, job: dict[str, Any], kind: str, text: str) -> None:
    """Set the GPUs of a job aside until a person clears them."""
    names, uses_cpu = resources(job["spec"])
    gpus: list[str | None] = [None if name == "*" else name for name in names]
    if uses_cpu:
        gpus = ["cpu"]  # no GPU was part of it: none is set aside
    log.error("incident (%s) on %s: %s", kind, gpus, text)
    try:
        for gpu in gpus:
            hosts.add_incident(
                context.engine,
                host=context.host_id,
                kind=kind,
                text=text,
                gpu=gpu,
                job_id=job["id"],
                boot_id=context.boot_id,
            )
    except DatabaseUnavailable as error:
        log.error("the incident could not be stored: %s %s", error, error.detail)


def _prepared(
    context: Context, job: dict[str, Any], folder: JobFolder
) -> tuple[dict[str, Any], str]:
    """The spec as it goes to the program, and the program."""
    parsed = parse_spec(job["spec"])
    module = context.programs.get(parsed.kind)
    if module is None:
        raise InvalidSpec(
            f"This version has no program that measures {parsed.kind}.", "Update Linkworth."
        )
    spec: dict[str, Any] = parsed.model_dump(mode="json")
    if "vllm_python" in spec and spec["vllm_python"] is None and context.vllm_python is not None:
        spec["vllm_python"] = str(context.vllm_python)
    folder.prepare(spec)
    return spec, module


def _note_start(context: Context, job_id: str, pid: int) -> None:
    try:
        jobs.started(context.engine, job_id, pid=pid, pgid=pid)
    except LinkworthError as error:  # the marker in its environment finds its processes too
        log.warning("job %s: its start is not noted: %s %s", job_id, error, error.detail)


@contextmanager
def _telemetry(context: Context, spec: dict[str, Any]) -> Iterator[Telemetry | None]:
    """Sample what the job uses; a run without telemetry is still a run."""
    names = gpu_names(spec)
    if names is None:
        with Telemetry(sample_cpu, context.telemetry_hz) as telemetry:
            yield telemetry
        return
    try:
        sampler = GpuSampler(list(names))
    except LinkworthError as error:
        log.warning("no telemetry: %s", error)
        yield None
        return
    try:
        with Telemetry(sampler, context.telemetry_hz) as telemetry:
            yield telemetry
    finally:
        sampler.close()


def _sentence(error: LinkworthError | OSError) -> str:
    if isinstance(error, LinkworthError):
        return str(error)
    return f"The measuring program could not be started: {error.strerror or error}."
