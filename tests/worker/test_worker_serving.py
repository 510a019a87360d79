"""Served models through the worker: each fault ends in a state with the server's own reason."""

from pathlib import Path
from typing import Any

import pytest

from db import jobs, runs
from tests.runners.serving_support import serving_spec
from tests.worker.scripted_context import context_of
from worker import descendants
from worker.carry_out import carry_out
from worker.context import PROGRAMS, Context


@pytest.fixture
def context(engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = context_of(engine, tmp_path / "jobs", programs=PROGRAMS)
    yield made
    made.stop.close()


def carried_out(context: Context, folder: Path, fault: str, **changes: Any) -> dict[str, Any]:
    spec = serving_spec(folder, fault, **changes).model_dump(mode="json")
    job_id = jobs.enqueue(context.engine, spec, title="served")
    context.heartbeat()
    job = jobs.claim(context.engine, context.worker_id)
    assert job is not None
    carry_out(context, job)
    assert descendants.members(job_id) == set()
    return jobs.job(context.engine, job_id)


LONG = {"concurrency": 2, "num_prompts": 40, "input_len": 8, "output_len": 20}


@pytest.mark.parametrize(
    ("fault", "changes", "state", "reason", "logged"),
    [
        ("bad_flag", {}, "failed", "does not know --no-such-flag", "unrecognized arguments"),
        ("too_long", {}, "failed", "99,999 tokens was asked for", "User-specified max_model_len"),
        ("no_kv", {}, "failed", "needs 1.75 GiB of KV cache", "Engine core initialization failed"),
        ("dies", {"workloads": [LONG]}, "failed", "the card fell off the bus", "RuntimeError"),
        ("all_fail", {}, "failed", "no request succeeded", ""),
        ("nan", {}, "failed", "not JSON compliant", ""),
        ("hang", {"workload_time_limit_s": 1.5}, "timed_out", "of 6 requests were answered", ""),
    ],
)
def test_the_servers_own_reason_reaches_the_job(
    context: Context, tmp_path: Path, fault: str, changes: dict[str, Any], state: str, reason: str,
    logged: str,
) -> None:  # fmt: skip
    job = carried_out(context, tmp_path, fault, **changes)
    assert job["state"] == state, job["reason"]
    assert reason in job["reason"]
    assert logged in job["log_tail"]
    if job["run_id"] is not None:  # kept, and never to be used
        assert runs.load(context.engine, job["run_id"]).validity == "invalid"


def test_the_live_view_has_progress_rounds_and_the_servers_log(
    context: Context, tmp_path: Path
) -> None:
    job = carried_out(context, tmp_path, "")
    assert job["state"] == "succeeded", job["reason"]
    told = jobs.events(context.engine, job["id"])
    by_type: dict[str, list[str]] = {}
    for row in told:
        by_type.setdefault(row["type"], []).append(row["message"] or "")
    assert any("CPU KV cache size" in text for text in by_type["log"])
    assert any("of 6 requests" in text for text in by_type["stage"])
    (round_,) = [row["data"] for row in told if row["type"] == "round"]
    assert round_["failed"] == 0
    assert round_["output_tok_s"] > 0
    assert len(runs.telemetry(context.engine, job["run_id"]))
