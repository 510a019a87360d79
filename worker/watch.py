"""Watching one runner: its events, its time, its cancel button, until it has ended."""

import logging
import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from db import jobs
from models.errors import DatabaseUnavailable, NotFound
from worker.context import Context
from worker.descendants import JobProcesses
from worker.outcome import Ended
from worker.process import RunnerProcess

log = logging.getLogger("linkworth.worker")

_MAX_PENDING = 20_000  # events kept in memory while the database does not answer
_ECHO_LINES_AT_ONCE = 20
_ECHO_LINES = 500  # the whole log is in its file; pages show its last lines
_ECHO_CHARACTERS = 500
_LOOK_EVERY_S = 2.0
_SURVIVAL_S = 5.0
_NEWS_EVERY_S = 1.0
_NEWS = (
    "t", "uuid", "index", "sm_clock_mhz", "power_w", "temperature_c", "utilization_pct",
    "memory_used_bytes", "throttle_reasons", "pcie_gen", "pcie_width", "cpu_pct", "cpu_mhz",
    "load_1min",
)  # fmt: skip


class Watch:
    """One runner under observation.

    Args:
        context: The worker's.
        job_id: The job.
        process: Its runner, just started.
        processes: All processes of the job.
        log_path: Where the runner's output goes.
        limit_s: After how many seconds it is ended.
    """

    def __init__(
        self,
        context: Context,
        job_id: str,
        process: RunnerProcess,
        processes: JobProcesses,
        log_path: Path,
        *,
        limit_s: float,
    ) -> None:
        self._context = context
        self._job_id = job_id
        self._process = process
        self._processes = processes
        self._limit_s = limit_s
        self._pending: list[dict[str, Any]] = []
        self._echo = LogEcho(log_path)
        self._next_look = 0.0
        self._next_news = 0.0
        self.live: Callable[[], list[dict[str, Any]]] | None = None  # telemetry of this moment
        self.pids: set[int] = set()
        self.where = ""
        self.ended: Ended | None = None

    def until_ended(self) -> None:
        """Return when the runner's process is gone, or cannot be ended."""
        timing = self._context.timing
        deadline = time.monotonic() + self._limit_s
        next_tick = kill_at = give_up_at = None
        with selectors.DefaultSelector() as selector:
            for handle in (
                self._process.event_handle,
                self._process.exit_handle,
                self._context.stop.descriptor,
            ):
                selector.register(handle, selectors.EVENT_READ)
            while True:
                now = time.monotonic()
                if next_tick is None or now >= next_tick:
                    self._tick()
                    next_tick = time.monotonic() + timing.heartbeat_s
                if self.ended is None and self._context.stop.is_set:
                    self.ended = "worker_stopped"
                if self.ended is None and now >= deadline:
                    self.ended = "time_limit"
                if self.ended is not None and kill_at is None:
                    self._processes.send(signal.SIGTERM)
                    kill_at = now + timing.end_grace_s
                elif kill_at is not None and give_up_at is None and now >= kill_at:
                    self._processes.send(signal.SIGKILL)
                    give_up_at = now + _SURVIVAL_S
                elif give_up_at is not None and now >= give_up_at:
                    return
                due = [t for t in (next_tick, kill_at or deadline, give_up_at) if t is not None]
                due = [t for t in due if t > now] or [now]
                for key, _ in selector.select(min(due) - now):
                    if key.fd == self._process.exit_handle:
                        return
                    if key.fd == self._process.event_handle:
                        self._hear()
                    # what stays readable for good would wake this loop without end
                    if key.fd != self._process.event_handle or self._process.is_silent:
                        selector.unregister(key.fd)

    def last_words(self) -> None:
        """Take and store what was said up to the end."""
        self._hear()
        self._pending += self._echo.events()
        self._flush()

    def _hear(self) -> None:
        for event in self._process.events():
            previous = self._pending[-1] if self._pending else None
            if event["type"] == "stage":
                self.where = " ".join(part for part in (event["stage"], event["message"]) if part)
                # progress inside a stage: only the latest is of use
                if previous and previous["type"] == "stage" and previous["stage"] == event["stage"]:
                    self._pending.pop()
            self._pending.append(event)
        del self._pending[:-_MAX_PENDING]

    def _tick(self) -> None:
        context = self._context
        self._pending += self._echo.events()
        self._flush()
        if time.monotonic() >= self._next_look:
            self.pids |= self._processes.look()
            self._next_look = time.monotonic() + _LOOK_EVERY_S
        try:
            must_end = context.heartbeat(self._job_id, live=self._news())
            if must_end and self.ended is None:
                job = jobs.job(context.engine, self._job_id)
                is_mine = job["state"] == "running" and job["worker_id"] == context.worker_id
                self.ended = "cancelled" if is_mine else "given_up"
        except NotFound:
            self.ended = self.ended or "given_up"
        except DatabaseUnavailable as error:
            log.warning("no heartbeat: %s %s", error, error.detail)

    def _news(self) -> list[dict[str, Any]] | None:
        """The machine's state, once a second: what a page shows beside the progress."""
        now = time.monotonic()
        if self.live is None or now < self._next_news:
            return None
        self._next_news = now + _NEWS_EVERY_S
        rows = self.live()
        return [{name: row[name] for name in _NEWS if row.get(name) is not None} for row in rows]

    def _flush(self) -> None:
        if not self._pending:
            return
        try:
            jobs.add_events(self._context.engine, self._job_id, self._pending)
        except DatabaseUnavailable as error:
            log.warning("events wait: %s %s", error, error.detail)
        except NotFound:
            self._pending.clear()
        else:
            self._pending.clear()


class LogEcho:
    """Turns new lines of a run's log into events, so that a page can show the last ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._left = _ECHO_LINES

    def events(self) -> list[dict[str, Any]]:
        """The newest of the lines that were added since the last call."""
        if self._left <= 0:
            return []
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                text = file.read()
        except OSError:
            return []
        whole = text.rpartition(b"\n")[0]
        self._position += len(whole) + 1 if whole else 0
        lines = [line.strip() for line in whole.decode("utf-8", "replace").splitlines()]
        lines = [line for line in lines if line][-min(_ECHO_LINES_AT_ONCE, self._left) :]
        self._left -= len(lines)
        return [
            {
                "t": time.time(),
                "type": "log",
                "level": "output",
                "message": line[:_ECHO_CHARACTERS],
            }
            for line in lines
        ]
