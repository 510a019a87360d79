"""The study script on the stand-in: it ends, goes on where it stopped, and writes one Bundle."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from serving_support import fake_python

from models.result import Bundle

SCRIPT = Path(__file__).parents[2] / "scripts" / "serving_study.py"


def command(folder: Path, *more: str, fault: str = "") -> tuple[list[str], dict[str, str]]:
    words = [sys.executable, str(SCRIPT), "cpu", "--out", str(folder / "small-study.json")]
    words += ["--vllm-python", fake_python(folder, fault), "--state", str(folder / "state")]
    words += ["--input-len", "8", "--output-len", "4", "--concurrency", "1", "2"]
    words += ["--prompts-per-slot", "3", *more]
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    return words, env


def study(folder: Path, *more: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    words, env = command(folder, *more, fault=fault)
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


def test_a_dry_run_shows_the_two_gpu_plan(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), "two-gpu", "--out", str(tmp_path / "x.json"), "--dry-run"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count("tp2-link-off") == 2  # both shapes
    assert done.stdout.count("NCCL_P2P_DISABLE=1") == 2
    assert not (tmp_path / "x.json").exists()
