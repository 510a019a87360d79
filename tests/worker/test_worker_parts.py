"""The worker's smaller parts: events read, logs echoed, processes found, hosts and boots known."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from db import hosts, jobs, runs
from tests.worker.scripted_context import context_of, ended, spec, until, working
from worker import descendants, host
from worker.carry_out import carry_out
from worker.context import Context
from worker.descendants import JobProcesses, members
from worker.outcome import judge
from worker.process import LineReader, read_event
from worker.recovery import end_forgotten, recover
from worker.watch import LogEcho

PAUSE = [sys.executable, "-c", "import signal; print(1, flush=True); signal.pause()"]


@pytest.fixture
def marked() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of the job called "a-job", in a session of its own."""
    process = subprocess.Popen(
        PAUSE,
        env={descendants.JOB_VARIABLE: "a-job"},
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_processes_are_known_by_the_jobs_id(marked: "subprocess.Popen[bytes]") -> None:
    assert members("a-job") == {marked.pid}
    assert members("a-jo") == set()  # the whole id, not its beginning
    assert "a-job" in descendants.marked_jobs()


def test_a_pid_alone_is_no_proof(marked: "subprocess.Popen[bytes]") -> None:
    """The number of a group that has passed to somebody else must not be killed."""
    assert members("another-job", marked.pid) == set()
    with JobProcesses("another-job", marked.pid) as processes:
        assert processes.end() == set()
    assert marked.poll() is None


def test_a_process_once_seen_is_not_forgotten(marked: "subprocess.Popen[bytes]") -> None:
    with JobProcesses("a-job") as processes:
        assert processes.look() == {marked.pid}
        processes._job_id = "nothing ties it to the job any more"
        assert processes.look() == {marked.pid}
        assert processes.end(grace_s=5.0) == set()
    assert marked.wait(10) == -signal.SIGTERM


def test_a_stopped_process_is_killed_after_the_grace(marked: "subprocess.Popen[bytes]") -> None:
    os.kill(marked.pid, signal.SIGSTOP)
    with JobProcesses("a-job") as processes:
        assert processes.end(grace_s=0.1) == set()
    assert marked.wait(10) == -signal.SIGKILL


def test_survivors_are_told(
    marked: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descendants, "_HARD_LIMIT_S", 0.1)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda handle, number: None)
    with JobProcesses("a-job") as processes:
        assert processes.end(grace_s=0.0) == {marked.pid}


def test_a_survivor_sets_the_gpus_aside(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobProcesses, "end", lambda self, **more: {4711})
    wish = {**spec("succeed"), "device": "cuda", "gpus": ["GPU-0000", "GPU-1111"], "tp": 2}
    jobs.enqueue(context.engine, wish)
    next_id = jobs.enqueue(context.engine, {**wish, "gpus": ["GPU-1111"], "tp": 1})
    context.heartbeat()
    job = jobs.claim(context.engine, context.worker_id)
    assert job is not None
    carry_out(context, job)
    found = hosts.open_incidents(context.engine, context.host_id)
    assert {row["gpu"] for row in found} == {"GPU-0000", "GPU-1111"}
    assert {row["kind"] for row in found} == {"survivor"}
    assert jobs.claim(context.engine, context.worker_id) is None
    for row in found:
        hosts.clear_incident(context.engine, row["id"])
    claimed = jobs.claim(context.engine, context.worker_id)
    assert claimed is not None
    assert claimed["id"] == next_id


def lost_job(context: Context, wish: dict[str, Any]) -> str:
    """A job whose worker died long ago."""
    job_id = jobs.enqueue(context.engine, wish)
    context.heartbeat()
    assert jobs.claim(context.engine, context.worker_id) is not None
    return job_id


def test_another_boot_is_an_incident(context: Context, marked: "subprocess.Popen[bytes]") -> None:
    job_id = lost_job(context, {**spec("hang"), "device": "cuda", "gpus": [3]})
    jobs.started(context.engine, job_id, pid=marked.pid, pgid=marked.pid)
    later = context_of(
        context.engine, context.files_dir, "later", host={**context.host, "boot_id": "boot-2"}
    )
    until(lambda: recover(later), "the job to be given up")
    (incident,) = hosts.open_incidents(context.engine)
    assert (incident["kind"], incident["gpu"], incident["job_id"]) == ("reboot", "3", job_id)
    assert jobs.job(context.engine, job_id)["state"] == "lost"
    assert marked.poll() is None  # pids of another boot are somebody else's
    later.stop.close()


def test_the_same_boot_is_no_incident(context: Context) -> None:
    job_id = lost_job(context, spec("hang"))
    context.folder(job_id).path.mkdir(parents=True)
    context.folder(job_id).log.write_text("last words\n")
    until(lambda: recover(context), "the job to be given up")
    assert hosts.open_incidents(context.engine) == []
    assert jobs.job(context.engine, job_id)["log_tail"] == "last words"


def test_jobs_of_another_host_are_only_marked(
    context: Context, marked: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = lost_job(context, spec("hang"))
    monkeypatch.setattr(descendants, "members", lambda *found, **more: {marked.pid})
    far = context_of(context.engine, context.files_dir, "far", host={"hostname": "far"})
    until(lambda: recover(far), "the job to be given up")
    assert jobs.job(context.engine, job_id)["state"] == "lost"
    assert hosts.open_incidents(context.engine) == []
    assert marked.poll() is None
    far.stop.close()


def test_processes_of_ended_jobs_are_ended_at_the_start(context: Context) -> None:
    job_id = jobs.enqueue(context.engine, spec("succeed"))
    process = subprocess.Popen(PAUSE, env={descendants.JOB_VARIABLE: job_id})
    until(lambda: members(job_id), "the process")
    end_forgotten(context)
    assert process.poll() is None  # queued: whoever started it may know why
    jobs.request_cancel(context.engine, job_id)
    end_forgotten(context)
    assert process.wait(10) in (-signal.SIGTERM, -signal.SIGKILL)


def test_a_mistake_of_ours_ends_the_job_and_not_the_worker(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    from worker import loop

    real, seen = carry_out, []

    def broken(context: Context, job: dict[str, Any]) -> bool:
        seen.append(job["id"])
        if len(seen) == 1:
            raise ZeroDivisionError("a mistake")
        return real(context, job)

    monkeypatch.setattr(loop, "carry_out", broken)
    first, second = (jobs.enqueue(context.engine, spec("succeed")) for _ in range(2))
    with working(context):
        assert ended(context.engine, second)["state"] == "succeeded"
    job = jobs.job(context.engine, first)
    assert job["state"] == "failed"
    assert job["reason"] == "The worker failed: ZeroDivisionError: a mistake"


def test_a_good_result_counts_even_if_the_cancel_came_last(tmp_path: Path) -> None:
    from models.result import Result, Tool
    from runners.events import write_result

    path = tmp_path / "result.json"
    write_result(Result(kind="decode", origin="measured", tool=Tool(name="linkworth")), path)
    assert judge(0, path, ended="cancelled").state == "succeeded"
    assert judge(130, path, ended="cancelled").result is None
    write_result(Result(kind="decode", origin="published", tool=Tool(name="linkworth")), path)
    outcome = judge(0, path)
    assert (outcome.state, outcome.result) == ("failed", None)
    assert "calls itself published" in outcome.reason


def test_a_program_that_the_worker_ended_does_not_say_why(tmp_path: Path) -> None:
    """Its ranks went down with it: what it says of them is an echo."""
    from models.result import Result, Tool
    from runners.events import write_result

    path = tmp_path / "result.json"
    echo = "Rank 0 was ended by signal 15."
    kept = ["Only 2 of at least 3 rounds: no interval.", echo]
    failed = Result(
        kind="decode",
        origin="measured",
        tool=Tool(name="linkworth"),
        validity="invalid",
        reasons=kept,
    )
    write_result(failed, path)
    outcome = judge(3, path, ended="time_limit", where="4 KB", limit_s=5)
    assert outcome.state == "timed_out"
    assert outcome.reason == "The time limit of 5 s ended the run. It stood at: 4 KB."
    own = judge(4, path)  # it ended itself: what it says last is the reason
    assert (own.state, own.reason) == ("timed_out", echo)


@pytest.mark.parametrize(
    ("returncode", "words"),
    [
        (-9, "was killed (SIGKILL)"),
        (-15, "was ended from outside (SIGTERM)"),
        (-250, "crashed (signal 250)"),
        (None, "could not be ended"),
    ],
)
def test_how_a_program_ended(tmp_path: Path, returncode: int | None, words: str) -> None:
    outcome = judge(returncode, tmp_path / "none", where="8 MB")
    assert outcome.state == "failed"
    assert words in outcome.reason
    assert outcome.reason.endswith(" at: 8 MB.")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"type": "stage", "stage": "x", "fraction": 0.5}', ("stage", "x", 0.5, "")),
        (b'{"type": "stage", "fraction": "half", "stage": 3}', ("stage", "3", None, "")),
        (b'{"type": "stage", "fraction": NaN}', ("stage", "", None, "")),
        (b'{"type": "stage", "fraction": true}', ("stage", "", None, "")),
        (b'{"type": "other"}', ("log", "", None, '{"type": "other"}')),
        (b"[1, 2]", ("log", "", None, "[1, 2]")),
        (b"\xff\xfe", ("log", "", None, "\ufffd\ufffd")),
    ],
)
def test_what_a_runner_says_is_brought_into_shape(line: bytes, expected: tuple[Any, ...]) -> None:
    event = read_event(line)
    assert (event["type"], event["stage"], event["fraction"], event["message"]) == expected
    assert event["t"] > 0
    assert event["data"] is None


def test_lines_come_whole_however_they_are_cut() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    reader = LineReader(reading)
    os.write(writing, b"one\ntw")
    assert reader.read() == [b"one"]
    assert reader.read() == []
    os.write(writing, b"o\n\nlast")
    assert reader.read() == [b"two"]
    os.close(writing)
    assert reader.read() == [b"last"]
    assert reader.at_end
    assert reader.read() == []
    os.close(reading)


def test_the_echo_shows_new_lines_and_ends_some_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    echo = LogEcho(log)
    assert echo.events() == []
    log.write_text("one\ntwo\nhalf")
    assert [row["message"] for row in echo.events()] == ["one", "two"]
    assert echo.events() == []
    with log.open("a") as file:
        file.write(" whole\n" + "".join(f"{number}\n" for number in range(100)))
    assert [row["message"] for row in echo.events()] == [str(number) for number in range(80, 100)]
    for _ in range(100):
        with log.open("a") as file:
            file.write("more\n" * 20)
        echo.events()
    assert echo.events() == []
    log.open("a").close()


def test_a_host_that_cannot_be_read_still_has_a_name(tmp_path: Path) -> None:
    facts = host.read_host(tmp_path / "no-python")
    assert facts["hostname"] == host.own_name()
    assert facts["boot_id"]
    assert facts["gpus"] == []


def test_a_serving_job_gets_the_interpreter_that_has_vllm(context: Context) -> None:
    from worker.carry_out import _prepared

    with_vllm = replace(
        context, programs={"serving": "x"}, vllm_python=Path("/opt/vllm/bin/python")
    )
    wish = {"kind": "serving", "model": "a/model", "arm": {"gpus": [0]}}
    folder = context.folder("j")
    prepared, _ = _prepared(with_vllm, {"spec": wish}, folder)
    assert prepared["vllm_python"] == "/opt/vllm/bin/python"
    chosen = {**wish, "vllm_python": "/mine"}
    assert _prepared(with_vllm, {"spec": chosen}, folder)[0]["vllm_python"] == "/mine"


def test_nothing_of_the_worker_reaches_a_runner(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    from worker.process import _environment

    monkeypatch.setenv("LINKWORTH_DATABASE_URL", "postgresql://me:hush@host/db")
    variables = _environment("j")
    assert "hush" not in str(variables)
    assert variables[descendants.JOB_VARIABLE] == "j"
    assert variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert runs.count(context.engine) == 0
