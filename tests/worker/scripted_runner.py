"""A runner that does what its spec's ``model`` says, also what no runner should.

``{"script": "succeed", ...}``; started as `python -m tests.worker.scripted_runner`.
"""

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from models.errors import InvalidSpec, LinkworthError, RunTimedOut
from models.result import Measurement, Result, Samples, Tool, utc_now
from runners.events import Events, main_program

FOREVER = [sys.executable, "-c", "import signal; signal.pause()"]
DEAF_FOREVER = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True);"
    "signal.pause()",
]


def a_result(spec: Any, n_rounds: int = 3, **changes: Any) -> Result:
    def measured(number: int) -> Measurement:
        return Measurement(
            metric="decode_step",
            statistic="median",
            unit="ms",
            value=1.5 + number,
            n=30,
            round=number,
            dims={"tp": 1, "batch": 1},
            definition="linkworth:scripted:1",
        )

    return Result(
        kind="decode",
        origin="measured",
        spec=spec.model_dump(mode="json"),
        host={"hostname": "scripted"},
        started_at=utc_now(),
        finished_at=utc_now(),
        tool=Tool(name="linkworth"),
        measurements=[measured(number) for number in range(n_rounds)],
        samples=[
            Samples(metric="decode_step", unit="ms", round=number, values=[1.0, 2.0, 3.0])
            for number in range(n_rounds)
        ],
        **changes,
    )


def result_path() -> Path:
    return Path(sys.argv[sys.argv.index("--result") + 1])


def pause_forever() -> None:
    while True:
        signal.pause()


def succeed(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    for number in range(said.get("rounds", 3)):
        events.stage("measuring", number / 3, f"round {number}", eta_s=0.1)
        time.sleep(said.get("round_s", 0.0))
        events.round(number, {"decode_step_ms": 1.5})
    return a_result(spec, said.get("rounds", 3))


def hang(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    events.stage("all-reduce", 0.4, "4 KB")
    pause_forever()
    raise AssertionError


def stubborn(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    """Ignores SIGTERM and its own alarm, and has a child in the same group that does too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    child = subprocess.Popen(DEAF_FOREVER, stdout=subprocess.PIPE)
    child.stdout.readline()  # type: ignore[union-attr]  # it is deaf from here on
    return hang(spec, events, said)


def stray(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    """Leaves a deaf process behind in a session of its own; ``bare``: without the variables too."""
    child = subprocess.Popen(
        DEAF_FOREVER,
        env={} if said.get("bare") else None,
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    child.stdout.readline()  # type: ignore[union-attr]  # it is deaf from here on
    events.log(f"left behind: {child.pid}")
    if said.get("hang"):
        return hang(spec, events, said)
    child.returncode = 0  # do not warn that it still runs
    return a_result(spec)


def crash(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    events.stage("allocating", 0.1)
    print("about to touch address 0", file=sys.stderr, flush=True)
    ctypes.string_at(0)
    raise AssertionError


def crash_late(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    from runners.events import write_result

    write_result(a_result(spec), result_path())
    os.kill(os.getpid(), signal.SIGABRT)
    raise AssertionError


def quit_early(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    print("last words: nothing works", file=sys.stderr, flush=True)
    os._exit(said.get("code", 7))


def garbage(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    result_path().write_text(said["text"])
    os._exit(0)


def fail(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    raise LinkworthError("The ranks disagreed.", "Try again.")


def refuse(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    raise InvalidSpec("There is no GPU 7 on this machine.", "The GPUs here are: none.")


def blunder(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    return a_result(spec, nonsense=1 / 0)


def time_out(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    events.stage("8 MB", 0.5)
    events.partial = a_result(spec, 1)
    raise RunTimedOut("The size 8 MB took longer than its 60 s.")


def wrong(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    result = a_result(spec)
    count = Measurement(
        metric="wrong_values", unit="", value=2, definition="linkworth:scripted:1", dims={}
    )
    return result.model_copy(update={"measurements": [*result.measurements, count]})


def talk(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    for number in range(said["lines"]):
        events.log(f"line {number}")
        events.stage("talking", number / said["lines"])
    os.write(int(sys.argv[sys.argv.index("--events") + 1].rpartition("/")[2]), b"not JSON\n")
    return a_result(spec)


def wait_for_go(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    """Says that it is ready, and goes on once somebody opens the named pipe for writing."""
    events.stage("ready")
    with Path(said["go"]).open("rb") as go:
        go.read()
    return a_result(spec)


def alone_on(spec: Any, events: Events, said: dict[str, Any]) -> Result:
    """Fails where another run holds the same GPU at the same time."""
    with Path(said["lock"]).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LinkworthError("Two jobs on one GPU at a time.") from None
        time.sleep(0.2)  # the work, during which nobody else may come
        return a_result(spec)


SCRIPTS = {
    one.__name__: one
    for one in (
        succeed, hang, stubborn, stray, crash, crash_late, quit_early, garbage, fail, refuse,
        blunder, time_out, wrong, talk, wait_for_go, alone_on,
    )
}  # fmt: skip


def run(spec: Any, events: Events) -> Result:
    said = spec.model
    return SCRIPTS[said["script"]](spec, events, said)


if __name__ == "__main__":
    sys.exit(main_program("decode", run))
