"""A real decode step whose memory runs out in mid-run: one job fails, the worker lives."""

import json

import pytest

from db import jobs, runs
from db.engine import Engine
from settings import ROOT, settings
from tests.worker.scripted_context import context_of, ended, working

MODEL = json.loads((ROOT / "data" / "models" / "tiny-test-shape.json").read_text())
SPEC = {
    "kind": "decode",
    "device": "cpu",
    "model": MODEL,
    "model_name": "tiny",
    "tp": 2,
    "batches": [1],
    "kv_lens": [16],
    "rounds": 2,
    "steps_per_round": 5,
    "dtype": "float32",
    "time_limit_s": 120,
}


def test_memory_exhausted_in_mid_run_fails_one_job_and_no_worker(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(engine, settings().files_dir, programs={"decode": "runners.decode"})
    try:
        with working(context):
            monkeypatch.setenv("LINKWORTH_TEST_FAULT", "no-memory")
            failed = ended(engine, jobs.enqueue(engine, SPEC))
            monkeypatch.delenv("LINKWORTH_TEST_FAULT")
            after = ended(engine, jobs.enqueue(engine, SPEC))
    finally:
        context.stop.close()
    assert failed["state"] == "failed"
    assert "Memory ran out while the decode step ran; it was to need" in failed["reason"]
    assert "weights + " in failed["reason"]
    assert runs.load(engine, failed["run_id"]).validity == "invalid"
    assert after["state"] == "succeeded", after["reason"]
    assert len(runs.load(engine, after["run_id"]).find("decode_step", "median")) == 2
