"""The study script, rehearsed on CPU ranks: one file that the database takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from models.result import Bundle

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_rehearsal_writes_a_whole_study(tmp_path):
    out = tmp_path / "rehearsal.json"
    command = [sys.executable, "scripts/decode_study.py", "--cpu", "--out", str(out)]
    command += ["--models", "tiny-test-shape", "--tp", "1", "2", "--links", "on", "--kv", "32"]
    command += ["--batches", "1", "--steps", "5", "--work", str(tmp_path / "work")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150)
    assert ended.returncode == 0, ended.stderr
    bundle = Bundle.model_validate(json.loads(out.read_text()))
    assert bundle.study.id == "rehearsal"
    assert [(result.kind, result.study) for result in bundle.results] == [
        ("decode", "rehearsal"),
        ("decode", "rehearsal"),
        ("allreduce", "rehearsal"),
    ]
    # the sweep measures the very message of the step: one token of 256 elements in bf16
    assert bundle.results[2].find("allreduce_latency", "median", bytes=512)
    assert "floor" in ended.stdout
