"""Starting a worker when none is there; loads nothing heavy, so that pages' server may call it.

A worker that the app starts holds a lock in the data folder as long as it lives: the kernel frees
it however the worker ends, and two servers that start at once cannot start two workers.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from settings import ROOT

LOCK_NAME = "worker.lock"
LOG_NAME = "worker.log"
_LOG_BYTES = 5_000_000

# kept so that workers which ended before us do not stay as zombies
_started: list["subprocess.Popen[bytes]"] = []


def ensure_worker(
    *,
    data_dir: Path,
    database_url: str,
    python: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int | None:
    """Start a worker that outlives this process, unless one is alive.

    Args:
        data_dir: Folder of the lock and the log.
        database_url: The database whose queue it works on.
        python: Interpreter; by default this one.
        environment: Variables of the worker; by default ours.

    Returns:
        The new worker's pid, or None where one was alive.
    """
    for process in _started:
        process.poll()
    data_dir.mkdir(parents=True, exist_ok=True)
    lock = os.open(data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if _is_alive(database_url):
            return None
        process = _start(lock, data_dir, database_url, python, environment)
    finally:
        os.close(lock)  # the lock itself lives on in the worker, which has the same open file
    _started.append(process)
    return process.pid


def hold_lock(descriptor: int) -> None:
    """Keep an inherited lock for this process alone: a runner must not keep it alive."""
    os.set_inheritable(descriptor, False)


def _is_alive(database_url: str) -> bool:
    """Whether a worker that somebody started by hand gives signs of life."""
    from db.engine import connect
    from db.jobs import alive_workers
    from models.errors import DatabaseUnavailable
    from worker.host import own_name

    try:
        engine = connect(database_url)
        try:
            here = own_name()
            # a killed worker's last sign of life is still fresh for a while
            return any(
                row["host"] != here or Path(f"/proc/{row['pid']}").exists()
                for row in alive_workers(engine)
            )
        finally:
            engine.dispose()
    except DatabaseUnavailable:
        return False  # the worker will say what is wrong, in its log


def _start(
    lock: int,
    data_dir: Path,
    database_url: str,
    python: Path | None,
    environment: Mapping[str, str] | None,
) -> "subprocess.Popen[bytes]":
    log = data_dir / LOG_NAME
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_suffix(".old.log"))
    variables = {
        **(os.environ if environment is None else environment),
        "LINKWORTH_DATA_DIR": str(data_dir),
        "LINKWORTH_DATABASE_URL": database_url,
    }
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(python or sys.executable), "-m", "worker", "--lock", str(lock)],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            start_new_session=True,
        )
