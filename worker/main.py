"""The worker as a program: `python -m worker`."""

import argparse
import logging
import os
import select
import signal
import sys
import time
import uuid
from collections.abc import Sequence
from types import FrameType

from db.engine import Engine, connect
from db.migrations import upgrade
from models.errors import DatabaseTooNew, DatabaseUnavailable, LinkworthError
from settings import Settings, settings
from worker import descendants
from worker.context import Context, StopSign
from worker.host import read_host
from worker.launch import hold_lock
from worker.loop import Worker

log = logging.getLogger("linkworth.worker")
# short: the worker must keep hearing its runner while somebody else writes
_BUSY_TIMEOUT_S = 2.0
_PATIENCE_S = 60.0
_PAUSE_S = 2.0
_EXIT_UNAVAILABLE = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Start a worker and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m worker", description=__doc__)
    parser.add_argument("--name", default="worker", help="tells several workers of a host apart")
    parser.add_argument(
        "--exit-when-idle", type=float, metavar="SECONDS", help="leave after so long without a job"
    )
    parser.add_argument(
        "--lock", type=int, metavar="FD", help="held lock that says a worker is there (the app's)"
    )
    arguments = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    if arguments.lock is not None:
        hold_lock(arguments.lock)
    stop = StopSign()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stopper(stop))
    try:
        engine = ready_engine(settings().url, stop)
    except LinkworthError as error:
        log.error("%s %s", error, error.detail)
        return _EXIT_UNAVAILABLE
    context = make_context(settings(), arguments.name, engine, stop)
    log.info("worker %s on host %s", context.worker_id, context.host_id)
    try:
        Worker(context, exit_when_idle_s=arguments.exit_when_idle).run()
    except DatabaseTooNew:
        log.info("a newer Linkworth has taken over: starting anew with its code")
        _start_anew(arguments.lock, sys.argv[1:] if argv is None else argv)
    finally:
        context.engine.dispose()
    return 0


def ready_engine(url: str, stop: StopSign, *, patience_s: float = _PATIENCE_S) -> Engine:
    """The database, migrated; waits for one that is locked or still starting.

    Raises:
        DatabaseUnavailable: It could not be had in time, or a newer version wrote it.
    """
    engine = connect(url, busy_timeout_s=_BUSY_TIMEOUT_S)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            upgrade(engine)
        except DatabaseTooNew:
            raise
        except DatabaseUnavailable as error:
            if time.monotonic() >= deadline or stop.is_set:
                raise
            log.warning("waiting for the database: %s %s", error, error.detail)
            select.select([stop.descriptor], [], [], _PAUSE_S)
        else:
            return engine


def make_context(config: Settings, name: str, engine: Engine, stop: StopSign) -> Context:
    """What a worker of these settings works with."""
    return Context(
        engine=engine,
        worker_id=f"{name}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
        host=read_host(config.runner_python),
        python=config.runner_python,
        files_dir=config.files_dir,
        vllm_python=config.vllm_interpreter(),
        telemetry_hz=config.telemetry_hz,
        default_time_limit_s=config.default_time_limit_s,
        stop=stop,
        adopts_orphans=descendants.adopt_orphans(),
    )


def _start_anew(lock: int | None, arguments: Sequence[str]) -> None:
    """Become the worker that the files on disk hold now: same process, same lock."""
    if lock is not None:
        os.set_inheritable(lock, True)
    command = [sys.executable, "-m", "worker", *arguments]
    os.execv(sys.executable, command)  # noqa: S606 - no shell, our own program


def _stopper(stop: StopSign) -> "signal._HANDLER":
    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    return handle
