"""What a worker works with: its database, its machine, its programs and its patience."""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from db import jobs
from db.claims import BUSY_PATIENCE_S
from db.engine import Engine
from runners.spec import PROGRAMS
from worker.process import JobFolder


class StopSign:
    """Set once, seen by everything that waits on its descriptor."""

    def __init__(self) -> None:
        self.descriptor, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._set = threading.Event()

    def set(self) -> None:
        """Ask the worker to stop; safe in a signal handler."""
        if not self._set.is_set():
            self._set.set()
            os.write(self._writing, b"!")

    @property
    def is_set(self) -> bool:
        """Whether the worker was asked to stop."""
        return self._set.is_set()

    def close(self) -> None:
        """Let the descriptors go."""
        os.close(self.descriptor)
        os.close(self._writing)


@dataclass(frozen=True)
class Timing:
    """How long the worker waits for what, seconds."""

    heartbeat_s: float = 0.5  # also how soon a cancel is seen
    poll_s: float = 0.5  # how soon a queued job is seen
    stale_s: float = 15.0  # silence after which another worker's job is lost
    limit_grace_s: float = 30.0  # beyond the spec's limit: start-up, and the runner's own ending
    end_grace_s: float = 5.0  # between SIGTERM and SIGKILL
    store_patience_s: float = 120.0  # how long a result waits for the database
    busy_patience_s: float = BUSY_PATIENCE_S  # how long a job waits for other programs' GPUs
    look_s: float = 2.0  # how often these are looked for while a job waits
    idle_look_s: float = 15.0  # and while none does, for the pages


@dataclass(frozen=True)
class Context:
    """Everything that carrying out a job needs.

    Attributes:
        engine: The database.
        worker_id: This process, among all workers.
        host: Facts of this machine.
        python: Interpreter of the measuring programs.
        files_dir: Where jobs' files go.
        programs: Kind of a job -> module that carries it out.
        vllm_python: Interpreter that has vLLM, for specs that name none.
        adopts_orphans: Whether every descendant of this process belongs to the job at work.
    """

    engine: Engine
    worker_id: str
    host: Mapping[str, Any]
    python: Path
    files_dir: Path
    programs: Mapping[str, str] = field(default_factory=lambda: PROGRAMS)
    vllm_python: Path | None = None
    telemetry_hz: float = 2.0
    default_time_limit_s: float = 1800.0
    timing: Timing = Timing()
    stop: StopSign = field(default_factory=StopSign)
    adopts_orphans: bool = False

    @property
    def host_id(self) -> str:
        """How the database knows this machine."""
        return str(self.host["hostname"])

    @property
    def boot_id(self) -> str | None:
        """This boot of the machine."""
        return self.host.get("boot_id")

    @property
    def ancestor(self) -> int | None:
        """Process whose descendants all belong to the job at work, where that is so."""
        return os.getpid() if self.adopts_orphans else None

    def heartbeat(
        self,
        job_id: str | None = None,
        *,
        busy_gpus: Mapping[str, int] | None = None,
        live: Sequence[Mapping[str, Any]] | None = None,
    ) -> bool:
        """Say that this worker, and the job at work, are alive; whether the job must end.

        Args:
            job_id: The job at work.
            busy_gpus: GPUs that other programs use, where that was looked for.
            live: The machine's state just now, where there is news.

        Raises:
            DatabaseUnavailable: Nobody heard it.
        """
        return jobs.heartbeat(
            self.engine,
            self.worker_id,
            pid=os.getpid(),
            host=self.host_id,
            boot_id=self.boot_id,
            job_id=job_id,
            busy_gpus=busy_gpus,
            live=live,
        )

    def folder(self, job_id: str) -> JobFolder:
        """Where the files of a job lie."""
        return JobFolder(self.files_dir / "jobs" / job_id)
