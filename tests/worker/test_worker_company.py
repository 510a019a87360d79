"""Other programs on the GPUs: a job waits for them, says so, and is suspect where they stay."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from db import hosts, jobs, runs
from db.engine import Engine
from models.errors import RunnerUnavailable
from runners.nvml import RECORDING_VARIABLE, Nvml, RecordedNvml
from settings import settings
from tests.worker.scripted_context import FAST, at_stage, context_of, ended, spec, until, working
from worker import company
from worker.company import Company
from worker.context import Context

GPUS = [{"index": n, "uuid": f"GPU-{n}{n}{n}{n}", "name": "a card"} for n in range(2)]
HOST = {"gpus": GPUS}


def recording(*counts: int) -> dict[str, Any]:
    """A host whose GPUs have so many programs on them."""
    rows = [
        {
            "uuid": gpu["uuid"],
            "index": gpu["index"],
            "power_w": 71.5,
            "processes": [{"pid": 4000 + n, "memory_bytes": None} for n in range(count)],
        }
        for gpu, count in zip(GPUS, counts, strict=True)
    ]
    return {"gpus": GPUS, "samples": [rows]}


class Driver:
    """Opens recordings, one after the other."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self) -> Nvml:
        self.asked += 1
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return RecordedNvml(answer)


def test_programs_are_counted_and_asked_for_at_most_so_often() -> None:
    driver = Driver(recording(1, 0), recording(0, 2))
    seen = Company(HOST, driver)
    assert seen.seen(max_age_s=3600) == {"GPU-0000": 1}
    assert seen.seen(max_age_s=3600) == {"GPU-0000": 1}
    assert driver.asked == 1
    seen.forget()
    assert seen.seen(max_age_s=3600) == {"GPU-1111": 2}


def test_what_cannot_be_known_is_not_nothing(caplog: pytest.LogCaptureFixture) -> None:
    refusing = Driver(RunnerUnavailable("This user may not talk to the NVIDIA driver."))
    assert Company(HOST, refusing).seen(max_age_s=0) is None
    assert "may not talk" in caplog.text
    never = Driver()
    assert Company({"gpus": []}, never).seen(max_age_s=0) is None
    assert never.asked == 0
    silent = recording(0, 0)
    silent["samples"][0][0]["processes"] = None  # a card that does not tell
    assert Company(HOST, Driver(silent)).seen(max_age_s=0) == {}


def test_a_driver_that_never_tells_is_asked_once() -> None:
    mute = recording(0, 0)
    for row in mute["samples"][0]:
        row["processes"] = None
    driver = Driver(mute)
    seen = Company(HOST, driver)
    assert [seen.seen(max_age_s=0) for _ in range(3)] == [None] * 3
    assert driver.asked == 1


def test_a_driver_that_hangs_does_not_hang_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "_ANSWER_LIMIT_S", 0.05)
    wakes = threading.Event()
    asked = []

    def hang() -> Nvml:
        asked.append(1)
        assert wakes.wait(20)
        return RecordedNvml(recording(0, 1))

    seen = Company(HOST, hang)
    assert seen.seen(max_age_s=0) is None
    assert seen.seen(max_age_s=0) is None  # and it is not asked a second time meanwhile
    assert len(asked) == 1
    wakes.set()
    assert seen._asking is not None
    seen._asking.join(20)
    monkeypatch.setattr(company, "_ANSWER_LIMIT_S", 20)
    assert seen.seen(max_age_s=0) == {"GPU-1111": 1}


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What NVML says on this machine; a test may change it."""
    path = tmp_path / "nvml.json"
    path.write_text(json.dumps(recording(1, 0)))
    monkeypatch.setenv(RECORDING_VARIABLE, str(path))
    return path


@pytest.fixture
def gpu_context(engine: Engine) -> Context:
    made = context_of(engine, settings().files_dir)
    return replace(
        made,
        host={**made.host, "gpus": GPUS},
        timing=replace(FAST, look_s=0.05, idle_look_s=0.05),
    )


def gpu_job(engine: Engine, *gpus: int, script: str = "succeed") -> str:
    return jobs.enqueue(
        engine, {**spec(script), "device": "cuda", "gpus": list(gpus), "tp": len(gpus)}
    )


def test_a_job_waits_for_another_program_and_starts_when_it_has_gone(
    gpu_context: Context, driver: Path
) -> None:
    engine = gpu_context.engine
    with working(gpu_context):
        until(lambda: jobs.in_use(engine, gpu_context.host_id), "a look at the GPUs")
        assert jobs.in_use(engine, gpu_context.host_id) == {"GPU-0000": 1}
        held = gpu_job(engine, 0)
        free = gpu_job(engine, 1)
        assert ended(engine, free)["state"] == "succeeded"
        until(lambda: "It starts at" in str(jobs.waiting_for(engine, held)), "the reason")
        assert jobs.job(engine, held)["state"] == "queued"
        draft = driver.with_suffix(".new")
        draft.write_text(json.dumps(recording(0, 0)))
        draft.replace(driver)
        job = ended(engine, held)
    assert job["state"] == "succeeded"
    run = runs.load(engine, job["run_id"])
    assert (run.validity, run.reasons) == ("valid", [])


def test_where_the_other_program_stays_the_run_is_suspect(
    gpu_context: Context, driver: Path
) -> None:
    engine = gpu_context.engine
    impatient = replace(gpu_context, timing=replace(gpu_context.timing, busy_patience_s=0.0))
    with working(impatient):
        job = ended(engine, gpu_job(engine, 0, 1))
    run = runs.load(engine, job["run_id"])
    assert run.validity == "suspect"
    assert run.reasons == ["GPU 0 was in use by another program when the run began."]


def test_a_running_job_tells_how_its_machine_does(gpu_context: Context, driver: Path) -> None:
    engine = gpu_context.engine
    driver.write_text(json.dumps(recording(0, 0)))
    job_id = gpu_job(engine, 1, script="hang")
    with working(gpu_context):
        at_stage(engine, job_id, "all-reduce")
        (row,) = until(lambda: jobs.job(engine, job_id)["live"], "the state of the GPU")
        assert (row["uuid"], row["power_w"]) == ("GPU-1111", 71.5)
        assert "processes" not in row  # other people's programs are their business
        jobs.request_cancel(engine, job_id)
        assert ended(engine, job_id)["live"] is None
    assert hosts.open_incidents(engine) == []
