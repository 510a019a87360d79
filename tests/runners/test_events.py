"""The frame of every runner program: events, exit codes, results, a reader that is gone."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from models import result as shape
from models.errors import (
    InvalidSpec,
    LinkworthError,
    OutOfMemory,
    RunCancelled,
    RunTimedOut,
    ServerDidNotStart,
)
from models.result import Result, Tool
from runners.events import Events, exit_code_for, main_program, read_spec, write_result
from settings import ROOT

DEADLINE_S = 40.0
SPEC = {"kind": "topology", "time_limit_s": 30}


def a_result(**changes: Any) -> Result:
    return Result(kind="topology", origin="measured", tool=Tool(name="linkworth"), **changes)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def program(tmp_path: Path, run: Any, spec: Any = SPEC, *, kind: str = "topology") -> int:
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    arguments = ["--spec", "spec.json", "--result", "result.json", "--events", "events.jsonl"]
    paths = [text if text.startswith("--") else str(tmp_path / text) for text in arguments]
    return main_program(kind, run, paths)


def stored(tmp_path: Path) -> Result:
    return shape.parse(json.loads((tmp_path / "result.json").read_text()))


def test_every_event_has_every_field(tmp_path: Path) -> None:
    events = Events(str(tmp_path / "events"))
    events.stage("warm-up", 0.25, "until the clock is up", eta_s=12.0)
    events.log("the clock is up")
    events.round(1, {"latency_us": 6.5})
    events.stage("over", 1.7)
    rows = lines_of(tmp_path / "events")
    keys = {"t", "type", "stage", "fraction", "message", "eta_s", "level", "data"}
    assert all(set(row) == keys for row in rows)
    assert [row["type"] for row in rows] == ["stage", "log", "round", "stage"]
    assert (rows[0]["fraction"], rows[0]["eta_s"]) == (0.25, 12.0)
    assert rows[1]["stage"] == "warm-up"  # a log line says where it belongs
    assert rows[2]["data"] == {"round": 1, "latency_us": 6.5}
    assert rows[3]["fraction"] == 1.0
    assert events.where == "over"


def test_values_that_json_does_not_know_become_text(tmp_path: Path) -> None:
    Events(str(tmp_path / "events")).round(0, {"path": tmp_path})
    assert lines_of(tmp_path / "events")[0]["data"]["path"] == str(tmp_path)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (InvalidSpec("."), 2),
        (LinkworthError("."), 3),
        (OutOfMemory("."), 3),
        (ServerDidNotStart("."), 3),
        (ValueError("."), 3),
        (RunTimedOut("."), 4),
        (RunCancelled("."), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(error: BaseException | None, code: int) -> None:
    assert exit_code_for(error) == code


def test_a_good_run(tmp_path: Path) -> None:
    def run(spec: Any, events: Events) -> Result:
        events.stage("reading")
        return a_result(spec=spec.model_dump(mode="json"))

    assert program(tmp_path, run) == 0
    assert stored(tmp_path).spec["kind"] == "topology"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_invalid_result_is_a_failed_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(spec: Any, events: Events) -> Result:
        return a_result(validity="invalid", reasons=["2 values were wrong."])

    assert program(tmp_path, run) == 3
    assert stored(tmp_path).validity == "invalid"
    assert capsys.readouterr().err == "2 values were wrong.\n"


def test_a_failure_leaves_a_result_that_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(spec: Any, events: Events) -> Result:
        raise OutOfMemory("The buffers do not fit.", "Leave the largest size out.")

    assert program(tmp_path, run) == 3
    result = stored(tmp_path)
    assert (result.validity, result.kind, result.origin) == ("invalid", "topology", "measured")
    assert result.reasons == ["The buffers do not fit. Leave the largest size out."]
    assert result.host["kernel"]
    assert result.environment["python"]
    assert result.tool.version == shape.VERSION
    assert result.started_at is not None
    assert capsys.readouterr().err == "The buffers do not fit. Leave the largest size out.\n"


def test_a_mistake_of_ours_is_told_with_its_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(spec: Any, events: Events) -> Result:
        raise ZeroDivisionError("no rounds")

    assert program(tmp_path, run) == 3
    assert stored(tmp_path).reasons == [
        "The measuring program failed: ZeroDivisionError: no rounds"
    ]
    assert "Traceback" in capsys.readouterr().err


def test_the_time_limit_says_where_the_run_stood(tmp_path: Path) -> None:
    def run(spec: Any, events: Events) -> Result:
        events.stage("8 MB")
        select.select([], [], [])
        raise AssertionError

    assert program(tmp_path, run, {"kind": "topology", "time_limit_s": 0.05}) == 4
    (reason,) = stored(tmp_path).reasons
    assert reason.startswith("The time limit of 0.05 s ended the run at: 8 MB.")


def test_finished_rounds_survive_the_end_of_a_run(tmp_path: Path) -> None:
    def run(spec: Any, events: Events) -> Result:
        events.stage("round 2")
        events.partial = a_result(title="one round")
        raise RunTimedOut("Too slow.")

    assert program(tmp_path, run) == 4
    result = stored(tmp_path)
    assert (result.title, result.validity) == ("one round", "invalid")
    assert result.reasons == ["Too slow. It stood at: round 2."]
    assert result.finished_at is not None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ('{"kind": "topology", "gpus": [1]}', "gpus"),
        ('{"kind": "nonsense"}', "There is no benchmark called 'nonsense'"),
        ('{"kind": "allreduce"}', "This program measures topology, and the spec asks for"),
    ],
)
def test_a_spec_that_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / "spec.json").write_text(content)
    with pytest.raises(InvalidSpec):
        read_spec("topology", tmp_path / "spec.json")
    code = main_program(
        "topology",
        lambda spec, events: a_result(),
        ["--spec", str(tmp_path / "spec.json"), "--result", str(tmp_path / "result.json")],
    )
    assert code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1  # one clear line
    assert not (tmp_path / "result.json").exists()


def test_a_spec_found_wrong_while_running_writes_nothing(tmp_path: Path) -> None:
    def run(spec: Any, events: Events) -> Result:
        raise InvalidSpec("There is no GPU 7.")

    assert program(tmp_path, run) == 2
    assert not (tmp_path / "result.json").exists()


def test_events_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").mkdir()
    assert program(tmp_path, lambda spec, events: a_result()) == 2


def test_a_result_that_cannot_be_written_leaves_no_draft(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "result.json").mkdir()
    assert program(tmp_path, lambda spec, events: a_result()) == 3
    assert "result.json" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_result_replaces_an_older_one(tmp_path: Path) -> None:
    for title in ("first", "second"):
        write_result(a_result(title=title), tmp_path / "result.json")
    assert stored(tmp_path).title == "second"


PROGRAM = """
import select, subprocess, sys
from runners.events import main_program
def run(spec, events):
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
    child.stdout.readline()
    try:
        events.log(str(child.pid))
        select.select([], [], [])
    finally:
        print("cleaned up", file=sys.stderr, flush=True)
CHILD = '''
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(1, flush=True)
signal.pause()
'''
sys.exit(main_program("topology", run))
"""
# as a sweep does: one rank goes, the other takes its time, and so the measurement has failed
FRAGILE = """
import subprocess, sys
from models.errors import RankFailed
from runners.events import main_program
PAUSE = "import signal; print(1, flush=True); signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + PAUSE
def run(spec, events):
    ranks = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        for code in (PAUSE, DEAF)
    ]
    for rank in ranks:
        rank.stdout.readline()
    events.log(str(ranks[1].pid))
    ranks[0].wait()
    raise RankFailed("Rank 0 was ended by signal 15.")
sys.exit(main_program("topology", run))
"""


@dataclass
class Started:
    process: "subprocess.Popen[bytes]"
    child: int
    child_handle: int
    reading: int


@pytest.fixture(params=[PROGRAM])
def started(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Started]:
    """A runner in a session of its own, with a deaf child; we hold the other end of its pipe."""
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    reading, writing = os.pipe()
    with (tmp_path / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [
                sys.executable, "-c", request.param, "--spec", str(tmp_path / "spec.json"),
                "--result", str(tmp_path / "result.json"), "--events", f"/dev/fd/{writing}",
            ],
            cwd=ROOT, pass_fds=(writing,), start_new_session=True, stderr=stderr,
        )  # fmt: skip
    os.close(writing)
    said = b""
    while b"\n" not in said:
        chunk = os.read(reading, 4096)
        assert chunk, (tmp_path / "stderr").read_text()
        said += chunk
    child = int(json.loads(said)["message"])
    found = Started(process, child, os.pidfd_open(child), reading)
    yield found
    for handle in (found.child_handle, found.reading):
        with suppress(OSError):
            os.close(handle)
    process.kill()
    process.wait()
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def has_ended(handle: int) -> bool:
    """Whether the process is gone within the deadline."""
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(DEADLINE_S * 1000))


def test_a_runner_whose_reader_is_gone_ends_with_its_children(
    started: Started, tmp_path: Path
) -> None:
    os.close(started.reading)
    assert started.process.wait(DEADLINE_S) == 130
    assert has_ended(started.child_handle)  # deaf to SIGTERM as it was
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("started", [FRAGILE], indirect=True)
def test_what_breaks_while_an_abandoned_runner_ends_is_no_result(
    started: Started, tmp_path: Path
) -> None:
    os.close(started.reading)
    assert started.process.wait(DEADLINE_S) == 130
    assert has_ended(started.child_handle)
    assert not (tmp_path / "result.json").exists()


def test_sigterm_cancels_and_cleans_up(started: Started, tmp_path: Path) -> None:
    started.process.terminate()
    assert started.process.wait(DEADLINE_S) == 130
    assert (tmp_path / "stderr").read_text().splitlines() == [
        "cleaned up",
        "The run was cancelled. Start it again when you like.",
    ]
    assert not (tmp_path / "result.json").exists()


def test_it_runs_where_only_torch_numpy_and_pydantic_are() -> None:
    code = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pandas", "scipy", "psutil", "pynvml", "sqlalchemy",
                                  "streamlit", "platformdirs", "pydantic_settings", "torch"}:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import runners.events, runners.environment, runners.nvml, runners.probe
facts = runners.environment.host_facts()
runners.environment.environment(); runners.environment.process_conditions()
print(facts["gpus"] is not None)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "True", done.stderr
