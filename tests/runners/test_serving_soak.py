"""Sustained load on the stand-in: windows, failures, hangs and changed outputs."""

from pathlib import Path
from typing import Any

import pytest
from serving_support import SHAPE, events, fake_python

from models.errors import InvalidSpec, RunTimedOut, ServerDied
from runners import soak
from runners.serving_check import OutputCheck
from runners.soak import run
from runners.spec import SoakSpec, parse_spec


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def soak_spec(folder: Path, fault: str = "", **changes: Any) -> SoakSpec:
    data: dict[str, Any] = {
        "kind": "soak",
        "device": "cpu",
        "model_config_json": SHAPE,
        "load_format": "dummy",
        "vllm_python": fake_python(folder, fault),
        "arm": {"tp": 1},
        "workload": {"concurrency": 2, "input_len": 8, "output_len": 4, "scenario": "soak"},
        "duration_s": 1.6,
        "window_s": 0.5,
        "check_every_s": 0.7,
        "time_limit_s": 60,
        "request_time_limit_s": 5,
    }
    spec = parse_spec({**data, **changes})
    assert isinstance(spec, SoakSpec)
    return spec


def test_windows_become_rounds_and_the_sums_are_kept(tmp_path: Path) -> None:
    result = run(soak_spec(tmp_path), events(tmp_path), files=tmp_path / "kept")
    assert result.kind == "soak"
    assert result.validity == "valid", result.reasons
    rounds = {row.round for row in result.find("tpot", "median")}
    assert rounds >= {0, 1, 2}
    total = next(row for row in result.find("completed") if row.round is None)
    each = [row.value for row in result.find("completed") if row.round is not None]
    assert total.value == sum(each) > 20
    assert result.find("soak_hours")[0].value == pytest.approx(1.6 / 3600, rel=0.5)
    assert result.find("incidents")[0].value == 0
    assert (tmp_path / "kept" / "server.log").exists()
    phases = {row.dims["phase"] for row in result.samples if row.metric == "output_logprob"}
    assert phases == {"before", "after"}


def test_failures_are_counted_and_make_the_soak_invalid_when_nothing_succeeds(
    tmp_path: Path,
) -> None:
    result = run(soak_spec(tmp_path, "all_fail"), events(tmp_path))
    assert result.validity == "invalid"
    assert any("No request succeeded" in reason for reason in result.reasons)
    assert any("500 no" in reason for reason in result.reasons)


def test_a_server_that_dies_ends_the_soak_with_its_own_reason(tmp_path: Path) -> None:
    sink = events(tmp_path)
    with pytest.raises(ServerDied, match="the card fell off the bus"):
        run(soak_spec(tmp_path, "dies"), sink)
    assert sink.partial is not None
    assert sink.partial.find("soak_hours")  # how long it lasted is kept
    assert [row.value for row in sink.partial.find("incidents")] == [1]


def test_a_hang_is_an_incident(tmp_path: Path) -> None:
    sink = events(tmp_path)
    spec = soak_spec(tmp_path, "hang", duration_s=30, request_time_limit_s=1, window_s=0.3)
    with pytest.raises(RunTimedOut, match="the server hangs"):
        run(spec, sink)
    assert sink.partial is not None
    assert [row.value for row in sink.partial.find("incidents")] == [1]
    assert any(row.value for row in sink.partial.find("timeouts"))


def test_outputs_that_change_under_load_are_an_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([-0.5, -0.5, -2.5, -2.5])

    def changing(*_args: object, **_more: object) -> OutputCheck:
        return OutputCheck(logprobs=[[next(answers, -2.5)] * 3])

    monkeypatch.setattr(soak, "check_outputs", changing)
    result = run(soak_spec(tmp_path), events(tmp_path))
    assert result.validity == "invalid"
    assert any("Outputs changed" in reason for reason in result.reasons)
    assert (result.find("incidents")[0].value or 0) >= 1


def test_outputs_that_changed_at_the_end_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([-0.5, -2.5])  # before and after

    def changing(*_args: object, **_more: object) -> OutputCheck:
        return OutputCheck(logprobs=[[next(answers)] * 3])

    monkeypatch.setattr(soak, "check_outputs", changing)
    result = run(soak_spec(tmp_path, check_every_s=60), events(tmp_path))
    assert any("Outputs changed at the end: " in reason for reason in result.reasons)
    assert [row.value for row in result.find("incidents")] == [1]


def test_replicas_share_the_load_and_are_all_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int | None]] = []
    checked: list[str] = []

    class Noted(soak.Loop):
        def start(self) -> None:
            asked.append((self.base_url, self.workload.concurrency))
            super().start()

    def check(url: str, *_args: object, **_more: object) -> OutputCheck:
        checked.append(url)
        level = -2.5 if checked.count(url) > 1 and url == asked[1][0] else -0.5
        return OutputCheck(logprobs=[[level] * 3])

    monkeypatch.setattr(soak, "Loop", Noted)
    monkeypatch.setattr(soak, "check_outputs", check)
    load = {"concurrency": 3, "input_len": 8, "output_len": 4, "scenario": "soak"}
    spec = soak_spec(
        tmp_path, arm={"tp": 1, "replicas": 2}, workload=load, check_every_s=60, duration_s=0.8
    )
    result = run(spec, events(tmp_path))
    assert [slots for _, slots in asked] == [2, 1]
    assert len(set(checked)) == 2
    assert len(checked) == 4
    assert any("at the end on replica 2" in reason for reason in result.reasons)


def test_a_soak_needs_a_time_limit_longer_than_itself(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="time limit must be longer"):
        soak_spec(tmp_path, duration_s=60, time_limit_s=60)
