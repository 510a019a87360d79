"""The study script on the stand-in: it ends, goes on where it stopped, and writes one Bundle."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serving_support import fake_python

from models.result import Bundle

SCRIPT = Path(__file__).parents[2] / "scripts" / "serving_study.py"
sys.path.insert(0, str(SCRIPT.parent))

import serving_course  # noqa: E402
from serving_course import Course  # noqa: E402
from serving_plans import arms_of  # noqa: E402


def command(
    folder: Path, *more: str, fault: str = "", only: str = ""
) -> tuple[list[str], dict[str, str]]:
    words = [sys.executable, str(SCRIPT), "cpu", "--out", str(folder / "small-study.json")]
    words += ["--vllm-python", fake_python(folder, fault, only), "--state", str(folder / "state")]
    words += ["--input-len", "8", "--output-len", "4", "--concurrency", "1", "2"]
    words += ["--prompts-per-slot", "3", *more]
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    return words, env


def study(
    folder: Path, *more: str, fault: str = "", only: str = ""
) -> subprocess.CompletedProcess[str]:
    words, env = command(folder, *more, fault=fault, only=only)
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=env)


def bundle(folder: Path) -> Bundle:
    return Bundle.model_validate_json((folder / "small-study.json").read_text())


def rounds(found: Bundle) -> dict[str, set[int | None]]:
    return {
        result.evaluation.arm: {row.round for row in result.find("tpot", "median")}
        for result in found.results
        if result.evaluation
    }


def test_arms_take_turns_and_a_second_call_goes_on(tmp_path: Path) -> None:
    first = study(tmp_path, "--rounds", "1", "--max-rounds", "1")
    assert first.returncode == 0, first.stderr
    assert rounds(bundle(tmp_path)) == {"tp1": {0}, "tp1-eager": {0}}
    second = study(tmp_path, "--rounds", "2", "--max-rounds", "2")
    assert second.returncode == 0, second.stderr
    assert "round 0" not in second.stdout
    order = [line.split()[1] for line in second.stdout.splitlines() if " round 1:" in line]
    assert order == ["tp1-eager", "tp1"]  # A B, B A
    found = bundle(tmp_path)
    assert rounds(found) == {"tp1": {0, 1}, "tp1-eager": {0, 1}}
    assert found.study is not None
    assert found.study.id == "small-study"
    assert "direction only, 2 rounds" in found.study.summary
    texts = [notice.text for result in found.results for notice in result.warnings]
    assert any("Up at the same time, without work: tp1-eager" in text for text in texts)
    assert "The rounds after round 0 are of a later start." in texts
    assert {result.study for result in found.results} == {"small-study"}
    kept = list((tmp_path / "small-study.files").glob("*--tp1/*.json"))
    assert len(kept) == 4
    assert json.loads(kept[0].read_text())["completed"] > 0
    third = study(tmp_path, "--rounds", "2", "--max-rounds", "2")
    assert "starting" not in third.stdout


def test_rounds_in_which_every_request_fails_end_too(tmp_path: Path) -> None:
    done = study(tmp_path, "--rounds", "1", "--max-rounds", "1", fault="all_fail")
    assert done.returncode == 0, done.stderr
    assert "0 rounds of arms are still to do" in done.stdout
    assert {result.validity for result in bundle(tmp_path).results} == {"invalid"}


def test_a_machine_that_goes_away_leaves_the_rounds_before_it(tmp_path: Path) -> None:
    words, env = command(tmp_path, "--rounds", "3")
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True
    ) as running:
        assert running.stdout is not None
        said = next((line for line in running.stdout if " round 0:" in line), "")
        os.killpg(running.pid, signal.SIGKILL)
    assert "tp1 round 0:" in said
    found = bundle(tmp_path)
    assert rounds(found)["tp1"] == {0}
    assert found.study is not None
    assert found.study.origin == "measured"


def test_too_little_time_begins_nothing(tmp_path: Path) -> None:
    done = study(tmp_path, "--budget-s", "10")
    assert "not begun, 10 s are left" in done.stdout
    assert bundle(tmp_path).results == []


def test_a_server_that_does_not_start_is_told_and_the_rest_is_written(tmp_path: Path) -> None:
    done = study(tmp_path, fault="no_kv")
    assert done.returncode == 3
    assert "needs 1.75 GiB of KV cache" in done.stderr
    assert bundle(tmp_path).results == []


def logs(folder: Path) -> set[str]:
    return {path.parent.name for path in (folder / "small-study.files").glob("*/server-0.log")}


def test_an_arm_that_does_not_start_is_left_out_and_its_log_kept(tmp_path: Path) -> None:
    done = study(tmp_path, "--rounds", "1", fault="no_kv", only="--enforce-eager")
    assert done.returncode == 3
    assert "tiny-test-shape tp1-eager: vLLM stopped before it was ready" in done.stderr
    assert rounds(bundle(tmp_path)) == {"tp1": {0}}
    assert "1 rounds of arms are still to do" in done.stdout
    assert logs(tmp_path) == {"tiny-test-shape--tp1", "tiny-test-shape--tp1-eager"}


def test_an_arm_whose_server_dies_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    # after at most 12 requests that warm up or are sent before a client stands: in round 0
    two = ("--rounds", "2", "--max-rounds", "2")
    done = study(tmp_path, *two, fault="dies_later", only="--enforce-eager")
    assert done.returncode == 3
    assert "the card fell off the bus" in done.stderr
    assert "tp1-eager round 0 failed: vLLM ended while it was being measured" in done.stdout
    assert "tp1-eager is given up" in done.stdout
    assert rounds(bundle(tmp_path)) == {"tp1": {0, 1}}  # no result without a round
    again = study(tmp_path, *two)
    assert again.returncode == 0, again.stderr
    assert rounds(bundle(tmp_path)) == {"tp1": {0, 1}, "tp1-eager": {0, 1}}


def test_a_client_that_fails_is_quoted_and_leaves_no_result(tmp_path: Path) -> None:
    done = study(tmp_path, "--rounds", "1", "--max-rounds", "1", fault="client_fails")
    assert done.returncode == 3
    assert "the tokenizer cannot be read" in done.stderr
    assert bundle(tmp_path).results == []


def test_rounds_of_other_options_are_not_taken_for_the_same(tmp_path: Path) -> None:
    assert study(tmp_path, "--rounds", "1").returncode == 0
    before = (tmp_path / "small-study.json").read_bytes()
    other = study(tmp_path, "--rounds", "2", "--output-len", "5")
    assert other.returncode == 3
    assert "measured with other options (arm, workloads). Repeat those options" in other.stderr
    assert rounds(bundle(tmp_path)) == {"tp1": {0}, "tp1-eager": {0}}
    assert (
        json.loads(before)["results"]
        == json.loads((tmp_path / "small-study.json").read_text())["results"]
    )


def test_no_clients_are_loaded_for_rounds_that_have_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = []
    monkeypatch.setattr(serving_course, "load_clients", lambda *_: loaded.append(1) or {})
    monkeypatch.setattr(serving_course, "warm_clients", lambda *_: {})
    model = SCRIPT.parents[1] / "data/models/tiny-test-shape.json"
    options = argparse.Namespace(
        plan="cpu", only="tp1$", input_len=8, output_len=4, concurrency=[1], prompts_per_slot=3,
        vllm_python="python", state=tmp_path, out=tmp_path / "x.json", rounds=1, max_rounds=1,
        width_pct=5.0, clients_at_once=4, budget_s=100.0,
    )  # fmt: skip
    arms = arms_of(options, model)
    late = Course(options, model, arms, time.monotonic() - 85)  # an unknown round may take 20 s
    assert not late.next_batch(tmp_path)
    assert not loaded
    assert "1 rounds not begun, 15 s left" in capsys.readouterr().out


def test_a_dry_run_shows_the_two_gpu_plan(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), "two-gpu", "--out", str(tmp_path / "x.json"), "--dry-run"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count("tp2-link-off") == 2  # both shapes
    assert done.stdout.count("NCCL_P2P_DISABLE=1") == 2
    assert not (tmp_path / "x.json").exists()
