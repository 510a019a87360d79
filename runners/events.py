"""What every runner program shares: events while it works, one result at the end, clear exit codes.

Nothing but the standard library, pydantic and our models is needed here, so that the same program
runs under the worker and by hand on a bare GPU machine.
"""

import argparse
import faulthandler
import json
import os
import re
import select
import signal
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from models.errors import InvalidSpec, LinkworthError, RunCancelled, RunTimedOut
from models.result import VERSION, Result, Tool, dump, utc_now
from models.secrets import scrub_text
from runners import environment
from runners.processes import EXIT_CANCELLED, end_process_group, kill_others
from runners.spec import Spec, parse_spec

EXIT_OK = 0
EXIT_SPEC = 2
EXIT_FAILED = 3
EXIT_TIME_LIMIT = 4

_STDERR = 2
_CANCELLING = (signal.SIGTERM, signal.SIGINT)


class Events:
    """JSON lines that say how far a runner is.

    Args:
        path: ``-`` for the error stream, a file, or ``/dev/fd/N`` (the worker's pipe). A pipe is
            watched: when its reader is gone, the whole process group ends with exit code 130.
    """

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._stage = ""
        self._is_abandoned = False
        self.partial: Result | None = None  # what is to be kept if the rest of the run fails
        descriptor = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", path)
        if path == "-":
            self._fd = _STDERR
        elif descriptor:
            self._fd = int(descriptor[1])
            # ranks must not hold the pipe open: the worker reads its end as the runner's end
            os.set_inheritable(self._fd, False)
        else:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if path != "-" and stat.S_ISFIFO(os.fstat(self._fd).st_mode):
            threading.Thread(target=self._watch, name="event-pipe", daemon=True).start()

    def stage(
        self,
        name: str,
        fraction: float | None = None,
        message: str = "",
        eta_s: float | None = None,
    ) -> None:
        """Say what the run does now, how much is done (0 to 1) and how long the rest takes."""
        self._stage = name
        self._write("stage", fraction=fraction, message=message, eta_s=eta_s)

    def log(self, message: str, level: str = "info") -> None:
        """Add one line for people: ``debug``, ``info``, ``warning`` or ``error``."""
        self._write("log", message=message, level=level)

    def round(self, index: int, summary: dict[str, object]) -> None:
        """Hand over a finished round for the live view; ``summary`` holds plain JSON values."""
        self._write("round", message=f"round {index}", data={"round": index, **summary})

    def stand_still_if_abandoned(self) -> None:
        """Wait for the end of this process where its reader is gone.

        Its ranks and servers are being ended then, and what breaks for that is no result.
        """
        if self._is_abandoned:
            threading.Event().wait()

    @property
    def where(self) -> str:
        """The stage last announced, for the sentence of a run that was ended."""
        return self._stage

    def _write(
        self,
        kind: str,
        *,
        fraction: float | None = None,
        message: str = "",
        eta_s: float | None = None,
        level: str = "info",
        data: dict[str, object] | None = None,
    ) -> None:
        event = {
            "t": time.time(),
            "type": kind,
            "stage": self._stage,
            "fraction": None if fraction is None else min(max(fraction, 0.0), 1.0),
            "message": message,
            "eta_s": eta_s,
            "level": level,
            "data": data,
        }
        line = json.dumps(event, default=str).encode() + b"\n"
        try:
            with self._lock:
                while line:
                    line = line[os.write(self._fd, line) :]
        except BrokenPipeError:
            end_process_group()

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(self._fd, 0)  # no event asked for: only "the other end is gone" wakes it
        while True:
            for _, event in poller.poll():
                if event & (select.POLLERR | select.POLLHUP):
                    self._is_abandoned = True
                    end_process_group()
                if event & select.POLLNVAL:
                    return  # closed by ourselves


def exit_code_for(error: BaseException | None) -> int:
    """The exit code that an outcome has: 0, 2 spec, 3 failed, 4 time limit, 130 cancelled."""
    if error is None:
        return EXIT_OK
    if isinstance(error, InvalidSpec):
        return EXIT_SPEC
    if isinstance(error, RunTimedOut):
        return EXIT_TIME_LIMIT
    if isinstance(error, RunCancelled | KeyboardInterrupt):
        return EXIT_CANCELLED
    return EXIT_FAILED


def write_result(result: Result, path: Path) -> None:
    """Write the result so that a reader sees all of it or nothing."""
    text = json.dumps(dump(result), allow_nan=False)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read_spec(kind: str, path: Path) -> Spec:
    """The spec in a file, which must be of this program's kind.

    Raises:
        InvalidSpec: The file is missing, no JSON, of another kind, or asks for what cannot be.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSpec(
            f"The spec {path.name} cannot be read: {error}.", "Give a JSON file with --spec."
        ) from None
    spec = parse_spec(data)
    if spec.kind != kind:
        raise InvalidSpec(
            f"This program measures {kind}, and the spec asks for {spec.kind}.",
            f"Start runners.{spec.kind} instead.",
        )
    return spec


def failed_result(spec: Spec, error: BaseException, events: Events, started_at: datetime) -> Result:
    """What is known of a run that failed: its conditions, its reason, the rounds that were kept."""
    if isinstance(error, LinkworthError):
        reason = str(error)
    else:
        reason = f"The measuring program failed: {type(error).__name__}: {error}"
    if events.where and isinstance(error, RunTimedOut) and events.where not in reason:
        reason += f" It stood at: {events.where}."
    if events.partial is not None:
        kept = events.partial
        return kept.model_copy(
            update={
                "validity": "invalid",
                "reasons": [*kept.reasons, reason],
                "finished_at": utc_now(),
            }
        )
    return Result(
        kind=spec.kind,
        origin="measured",
        validity="invalid",
        reasons=[reason],
        spec=spec.model_dump(mode="json"),
        host=environment.host_facts(),
        environment=environment.environment(),
        started_at=started_at,
        finished_at=utc_now(),
        tool=Tool(name="linkworth", version=VERSION),
    )


def main_program(
    kind: str, run: Callable[[Any, Events], Result], argv: list[str] | None = None
) -> int:
    """Carry one run out from the command line and return its exit code.

    Args:
        kind: The benchmark, as specs name it.
        run: Takes the spec and the events; returns the result or raises a LinkworthError.
        argv: Arguments, by default those of the process.
    """
    parser = argparse.ArgumentParser(prog=f"python -m runners.{kind}", description=run.__doc__)
    parser.add_argument("--spec", required=True, type=Path, help="JSON file: what to measure")
    parser.add_argument("--result", required=True, type=Path, help="where the result JSON goes")
    parser.add_argument("--events", default="-", help="file or /dev/fd/N; - is the error stream")
    arguments = parser.parse_args(argv)
    if not faulthandler.is_enabled():
        faulthandler.enable(_STDERR)  # a crash in native code leaves its Python stack in the log
    started_at = utc_now()
    try:
        spec = read_spec(kind, arguments.spec)
    except InvalidSpec as error:
        _say(error)
        return EXIT_SPEC
    try:
        events = Events(arguments.events)
    except OSError as error:
        _say(InvalidSpec(f"Events cannot be written to {arguments.events}: {error.strerror}."))
        return EXIT_SPEC
    try:
        with _cancellable():
            try:
                with _time_limit(spec, events):
                    result = run(spec, events)
            except (InvalidSpec, RunCancelled):
                raise
            except Exception as error:
                events.stand_still_if_abandoned()
                if not isinstance(error, LinkworthError):
                    traceback.print_exc()
                write_result(failed_result(spec, error, events, started_at), arguments.result)
                raise
            write_result(result, arguments.result)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, LinkworthError) and not isinstance(error, InvalidSpec):
            # what was seen last, a server's log for example; the sentence stays the last line
            sys.stderr.writelines(f"{line}\n" for line in scrub_text(error.detail).splitlines())
        _say(error)
        if isinstance(error, RunCancelled) and argv is None:  # as a program: nothing else is here
            kill_others()
        return exit_code_for(error)
    if result.validity == "invalid":
        _say(LinkworthError(" ".join(result.reasons)))
        return EXIT_FAILED
    return EXIT_OK


@contextmanager
def _cancellable() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into RunCancelled."""

    def cancelled(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # once: the clean-up must not be interrupted
        raise RunCancelled("The run was cancelled.", "Start it again when you like.")

    before = {number: signal.signal(number, cancelled) for number in _CANCELLING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _time_limit(spec: Spec, events: Events) -> Iterator[None]:
    """Raise RunTimedOut in the main thread when the spec's time is over."""

    def timed_out(number: int, frame: FrameType | None) -> None:
        where = f" at: {events.where}" if events.where else ""
        raise RunTimedOut(
            f"The time limit of {spec.time_limit_s:g} s ended the run{where}.",
            "Ask for less at once, or give it more time.",
        )

    before = signal.signal(signal.SIGALRM, timed_out)
    signal.setitimer(signal.ITIMER_REAL, spec.time_limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _say(error: BaseException, stream: TextIO | None = None) -> None:
    """One clear line on the error stream."""
    text = str(error) or type(error).__name__
    print(" ".join(text.split()), file=stream or sys.stderr, flush=True)
