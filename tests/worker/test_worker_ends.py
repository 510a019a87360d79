"""Every way in which a run can end is a job state with a reason, and leaves no process."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from db import jobs, runs
from tests.worker.scripted_context import FAST, at_stage, context_of, ended, spec, working
from worker import descendants
from worker.carry_out import carry_out
from worker.context import Context


def carried_out(context: Context, script: str, **said: Any) -> dict[str, Any]:
    job_id = jobs.enqueue(context.engine, spec(script, **said), title="a test")
    context.heartbeat()
    job = jobs.claim(context.engine, context.worker_id)
    assert job is not None
    assert carry_out(context, job)
    assert descendants.members(job_id) == set()
    return jobs.job(context.engine, job_id)


def test_a_good_run_is_stored_whole(context: Context) -> None:
    job = carried_out(context, "succeed")
    assert (job["state"], job["reason"]) == ("succeeded", "")
    result = runs.load(context.engine, job["run_id"])
    assert [row.value for row in result.find("decode_step")] == [1.5, 2.5, 3.5]
    assert result.title == "a test"
    assert [row["name"] for row in runs.raw(context.engine, job["run_id"])] == ["result.json"]
    assert {"t", "cpu_pct", "load_1min"} <= set(runs.telemetry(context.engine, job["run_id"]))
    assert (job["stage"], job["message"], job["eta_s"]) == ("measuring", "round 2", 0.1)
    rounds = [row for row in jobs.events(context.engine, job["id"]) if row["type"] == "round"]
    assert [row["data"]["round"] for row in rounds] == [0, 1, 2]
    folder = context.folder(job["id"])
    assert folder.log.exists()
    assert not folder.result.exists()


def test_rounds_of_one_arm_become_one_run(context: Context) -> None:
    plan = {"id": "11111111-2222-3333-4444-555555555555", "arm": "link-on"}
    for order in range(2):
        jobs.enqueue(context.engine, spec("succeed", rounds=1), evaluation=plan, order=order)
    context.heartbeat()
    ids = []
    for _ in range(2):
        job = jobs.claim(context.engine, context.worker_id)
        assert job is not None
        carry_out(context, job)
        ids.append(jobs.job(context.engine, job["id"])["run_id"])
    assert ids[0] == ids[1]
    evaluation = runs.load(context.engine, ids[0]).evaluation
    assert evaluation is not None
    assert evaluation.arm == "link-on"


@pytest.mark.parametrize(
    ("script", "said", "state", "reason"),
    [
        ("fail", {}, "failed", r"The ranks disagreed\. Try again\."),
        ("blunder", {}, "failed", r"The measuring program failed: ZeroDivisionError: .*"),
        ("refuse", {}, "failed", r"There is no GPU 7 on this machine\. The GPUs here are: none\."),
        ("time_out", {}, "timed_out", r"The size 8 MB took longer than its 60 s\."),
        ("crash", {}, "failed", r"The program crashed \(SIGSEGV\) at: allocating\."),
        ("quit_early", {}, "failed", r"The program failed with exit code 7\. last words: .*"),
        ("quit_early", {"code": 0}, "failed", r"The program ended, but it wrote no result\."),
        ("quit_early", {"code": 130}, "cancelled", r"The program was ended from outside\."),
        ("garbage", {"text": "{"}, "failed", r"The program ended, but its result is not JSON\."),
        ("garbage", {"text": "{}"}, "failed", r"The program ended, but its result is not usable.*"),
        ("crash_late", {}, "succeeded", r"The program crashed \(SIGABRT\) after .* its result\."),
        ("wrong", {}, "failed", r"2 values were wrong\."),
    ],
)
def test_each_failure_has_its_state_and_reason(
    context: Context, script: str, said: dict[str, Any], state: str, reason: str
) -> None:
    job = carried_out(context, script, **said)
    assert job["state"] == state
    assert re.fullmatch(reason, job["reason"]), job["reason"]


@pytest.mark.parametrize("script", ["wrong", "fail", "time_out"])
def test_a_failed_measurement_is_kept_as_invalid(context: Context, script: str) -> None:
    job = carried_out(context, script)
    result = runs.load(context.engine, job["run_id"])
    assert result.validity == "invalid"
    assert result.reasons == [job["reason"]]
    valid = runs.measurements(context.engine, include_invalid=False)
    assert valid.empty


def test_a_crash_after_the_result_makes_it_suspect(context: Context) -> None:
    job = carried_out(context, "crash_late")
    result = runs.load(context.engine, job["run_id"])
    assert (result.validity, result.reasons) == ("suspect", [job["reason"]])


def test_a_crash_shows_the_last_log_lines(context: Context) -> None:
    job = carried_out(context, "crash")
    assert "about to touch address 0" in job["log_tail"]
    assert "Segmentation fault" in job["log_tail"]  # with the Python stack, by faulthandler
    assert job["run_id"] is None


def test_a_hang_ends_at_the_limit(context: Context) -> None:
    # the program's own alarm
    job = carried_out(context, "hang", limit_s=0.3)
    assert job["state"] == "timed_out"
    assert job["reason"] == (
        "The time limit of 0.3 s ended the run at: all-reduce. "
        "Ask for less at once, or give it more time."
    )


def test_a_runner_deaf_to_sigterm_is_killed_with_its_children(context: Context) -> None:
    impatient = replace(context, timing=replace(FAST, limit_grace_s=4.0))
    job = carried_out(impatient, "stubborn", limit_s=0.3)
    assert job["state"] == "timed_out"
    assert job["reason"] == ("The time limit of 0.3 s ended the run. It stood at: all-reduce 4 KB.")


def left_behind(context: Context, job_id: str) -> bool:
    """Whether the process that the run left behind still does anything."""
    lines = [row["message"] for row in jobs.events(context.engine, job_id)]
    (line,) = [line for line in lines if "left behind" in line]
    try:
        state = Path(f"/proc/{line.split()[-1]}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("said", [{}, {"hang": True, "limit_s": 0.3}])
def test_a_stray_in_another_session_is_ended(context: Context, said: dict[str, Any]) -> None:
    job = carried_out(context, "stray", **said)
    assert job["state"] == ("timed_out" if said else "succeeded")
    assert not left_behind(context, job["id"])


def test_a_stray_without_the_variable_is_ended_with_its_parent(context: Context) -> None:
    job_id = jobs.enqueue(context.engine, spec("stray", bare=True, hang=True))
    with working(context):
        at_stage(context.engine, job_id, "all-reduce")
        jobs.request_cancel(context.engine, job_id)
        ended(context.engine, job_id)
    assert not left_behind(context, job_id)


def test_everything_said_is_kept(context: Context) -> None:
    job = carried_out(context, "talk", lines=3000)
    rows = jobs.events(context.engine, job["id"], limit=10_000)
    lines = [row["message"] for row in rows if row["level"] == "info" and row["type"] == "log"]
    assert lines == [f"line {number}" for number in range(3000)]
    assert [row["message"] for row in rows if row["level"] == "warning"] == ["not JSON"]
    assert job["fraction"] == pytest.approx(2999 / 3000)


def test_a_cancel_leaves_no_process(context: Context) -> None:
    job_id = jobs.enqueue(context.engine, spec("stray", hang=True))
    with working(context):
        at_stage(context.engine, job_id, "all-reduce")
        assert descendants.members(job_id)
        jobs.request_cancel(context.engine, job_id)
        job = ended(context.engine, job_id)
    assert (job["state"], job["reason"]) == ("cancelled", "Cancelled by a person.")
    assert descendants.members(job_id) == set()
    assert runs.count(context.engine) == 0


def test_stopping_the_worker_ends_its_run(context: Context) -> None:
    job_id = jobs.enqueue(context.engine, spec("hang"))
    with working(context):
        at_stage(context.engine, job_id, "all-reduce")
    job = jobs.job(context.engine, job_id)
    assert (job["state"], job["reason"]) == ("lost", "The worker was stopped while this ran.")
    assert descendants.members(job_id) == set()


def test_what_cannot_start_says_so(context: Context) -> None:
    job_id = jobs.enqueue(context.engine, {"kind": "topology"})
    bad_id = jobs.enqueue(context.engine, {"kind": "decode", "model": {}, "tp": 0})
    with working(context):
        assert "no program that measures topology" in ended(context.engine, job_id)["reason"]
        assert "tp:" in ended(context.engine, bad_id)["reason"]


def test_a_missing_interpreter_is_a_failed_job(context: Context, tmp_path: Path) -> None:
    without = context_of(context.engine, tmp_path, python=tmp_path / "no-python", timing=FAST)
    job = carried_out(without, "succeed")
    assert job["state"] == "failed"
    assert "No such file" in job["reason"]
    without.stop.close()
