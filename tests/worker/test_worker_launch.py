"""The app starts one worker, however many servers ask for it at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from db import hosts, jobs
from db.engine import Engine
from settings import ROOT, settings
from tests.worker.scripted_context import DEADLINE_S, until
from worker import launch
from worker.host import own_name
from worker.launch import ensure_worker
from worker.main import main


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    for process in launch._started:
        process.terminate()
        process.wait(DEADLINE_S)
    launch._started.clear()


def ask(data_dir: Path) -> int | None:
    return ensure_worker(data_dir=data_dir, database_url=settings().url)


def alive(engine: Engine) -> list[dict[str, object]]:
    return jobs.alive_workers(engine)


def test_one_worker_however_often_it_is_asked_for(engine: Engine, data_dir: Path) -> None:
    pid = ask(data_dir)
    assert pid is not None
    assert ask(data_dir) is None  # also before its first sign of life
    (worker,) = until(lambda: alive(engine), "a sign of life")
    assert worker["pid"] == pid
    assert ask(data_dir) is None
    assert os.getsid(pid) == pid  # the browser's server may go, and its terminal
    (host,) = hosts.list_hosts(engine)
    assert host["id"] == own_name()
    assert "gpus" in host["facts"]


def test_servers_that_start_together_start_one(engine: Engine, data_dir: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from worker.launch import ensure_worker;"
        "print(ensure_worker(data_dir=Path(sys.argv[1]), database_url=sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(data_dir), settings().url]
    both = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = sorted(process.communicate(timeout=DEADLINE_S)[0].strip() for process in both)
    pids = [int(text) for text in said if text != "None"]
    try:
        assert len(pids) == 1, said
        until(lambda: alive(engine), "a sign of life")
        assert [worker["pid"] for worker in alive(engine)] == pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)


def test_a_killed_worker_is_replaced_at_once(engine: Engine, data_dir: Path) -> None:
    first = ask(data_dir)
    assert first is not None
    until(lambda: alive(engine), "a sign of life")
    os.kill(first, signal.SIGKILL)
    launch._started[0].wait(DEADLINE_S)
    second = ask(data_dir)  # its last heartbeat is fresh, but nobody is there
    assert second not in (None, first)


def test_a_worker_started_by_hand_is_enough(engine: Engine, data_dir: Path) -> None:
    jobs.heartbeat(engine, "by-hand", pid=os.getpid(), host=own_name())
    assert ask(data_dir) is None


def test_a_worker_on_another_host_is_enough(engine: Engine, data_dir: Path) -> None:
    jobs.heartbeat(engine, "far", pid=1 << 30, host="another")
    assert ask(data_dir) is None


def test_asking_loads_neither_torch_nor_sqlalchemy() -> None:
    code = "import sys, worker.launch; print({'torch', 'sqlalchemy'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_a_worker_loads_neither_torch_nor_streamlit() -> None:
    code = (
        "import sys, worker.main, db.runs;"
        "print({'torch', 'streamlit', 'altair', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_a_long_log_makes_room(engine: Engine, data_dir: Path) -> None:
    log = data_dir / launch.LOG_NAME
    with log.open("wb") as file:
        file.truncate(launch._LOG_BYTES + 1)
    assert ask(data_dir) is not None
    assert log.stat().st_size < launch._LOG_BYTES
    assert (data_dir / "worker.old.log").stat().st_size > launch._LOG_BYTES


def test_the_program_leaves_when_idle(data_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "worker", "--exit-when-idle", "0", "--name", "brief"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert "worker brief-" in done.stderr
    assert "nothing to do: leaving" in done.stderr


def test_a_worker_makes_room_for_newer_code(engine: Engine, data_dir: Path) -> None:
    assert ask(data_dir) is not None
    until(lambda: alive(engine), "a sign of life")
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    # the code on disk is as old as it was, so the new start refuses
    assert launch._started[0].wait(DEADLINE_S) == 1
    log = (data_dir / launch.LOG_NAME).read_text()
    assert log.index("starting anew") < log.index("written by a newer version")


def test_a_database_of_a_newer_version_is_refused(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        assert main([]) == 1
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert "newer version of Linkworth" in caplog.text
