"""What the worker's tests share: short times and the scripted runner as the only program."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from db import jobs
from db.engine import Engine
from settings import ROOT
from worker.context import Context, Timing
from worker.host import own_name
from worker.loop import Worker

PROGRAMS = {"decode": "tests.worker.scripted_runner"}
FAST = Timing(
    heartbeat_s=0.1,
    poll_s=0.05,
    stale_s=1.5,
    limit_grace_s=20.0,
    end_grace_s=0.5,
    store_patience_s=20.0,
)
DEADLINE_S = 40.0  # the machine may be busy; nothing waits this long when all is well
_pause = threading.Event()


def context_of(engine: Engine, folder: Path, name: str = "w1", **changes: Any) -> Context:
    values: dict[str, Any] = {
        "engine": engine,
        "worker_id": name,
        "host": {"hostname": own_name(), "boot_id": "boot-1", "gpus": []},
        "python": Path(sys.executable),
        "files_dir": folder,
        "programs": PROGRAMS,
        "telemetry_hz": 20.0,
        "timing": FAST,
    }
    return Context(**{**values, **changes})


def spec(script: str, *, limit_s: float = 30.0, **said: Any) -> dict[str, Any]:
    return {
        "kind": "decode",
        "device": "cpu",
        "model": {"script": script, **said},
        "time_limit_s": limit_s,
    }


def until(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The condition's first true value; the queue tells nothing by itself, so it is asked."""
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < end, f"waited in vain for: {what}"
        _pause.wait(0.02)
    return value


def ended(engine: Engine, job_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        job = jobs.job(engine, job_id)
        return job if job["state"] in jobs.ENDED else None

    found: dict[str, Any] = until(look, f"the end of job {job_id}")
    return found


def at_stage(engine: Engine, job_id: str, stage: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        job = jobs.job(engine, job_id)
        assert job["state"] not in jobs.ENDED, job["reason"]
        return job if job["stage"] == stage else None

    found: dict[str, Any] = until(look, f"stage {stage}")
    return found


@contextmanager
def working(*contexts: Context) -> Iterator[None]:
    """Workers in threads, until the end of the block."""
    threads = [threading.Thread(target=Worker(context).run) for context in contexts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for context in contexts:
            context.stop.set()
        for thread in threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()


def start_worker() -> "subprocess.Popen[bytes]":
    """A worker in a process of its own; returns once it lives."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.worker.worker_program"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline(), "the worker did not start"
    return process


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
