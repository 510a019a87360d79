"""One run of the real `vllm bench serve`: prepared, let go, watched, read.

The tool needs some ten seconds to load and to make its prompts. `prepare` lets it get as far as its
first request and stops the process there; `go` lets it run. So several clients begin together, and
nothing loads while something is measured.
"""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from models.errors import LinkworthError, RunnerUnavailable, RunTimedOut
from runners.vllm_command import Command

_READY = b"Starting initial single prompt test run"
_MAIN = b"Starting main benchmark run"
_PROGRESS = re.compile(rb"(\d+)/(\d+) \[")
PREPARE_LIMIT_S = 240.0
_TAIL_LINES = 30


class BenchClient:
    """A benchmark client; use it in a ``with``, which ends it whatever happens.

    Args:
        command: As `bench_command` builds it, with a result file.
        result: That file.
        total: Requests it will send, for the progress.
        on_main: Called when its warm-up is over and what counts begins.
    """

    def __init__(
        self,
        command: Command,
        result: Path,
        total: int,
        on_main: Callable[[], None] | None = None,
    ) -> None:
        self.command = command
        self.result = result
        self.total = total
        self.done = 0
        self.slipped = False  # it had begun to measure before it was let go
        self._on_main = on_main
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._at_start = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._stopped = False

    def __enter__(self) -> Self:
        variables = {**os.environ, **self.command.variables}
        try:
            self._process = subprocess.Popen(
                list(self.command.arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=variables,
            )
        except OSError as error:
            raise RunnerUnavailable(
                f"The benchmark client cannot be started: {error.strerror}.",
                "Install vLLM with `make vllm`, or name its interpreter in the settings.",
            ) from None
        self._reader = threading.Thread(target=self._read, name="bench-output", daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()  # reaches a stopped process too
            self._process.wait()
            if self._reader is not None:
                self._reader.join(5)
            if self._process.stdout is not None:
                self._process.stdout.close()

    @property
    def pid(self) -> int:
        """Its process."""
        if self._process is None:
            raise RuntimeError("the client was not started")
        return self._process.pid

    def prepare(self, check: Callable[[], None], limit_s: float = PREPARE_LIMIT_S) -> None:
        """Wait until it stands before its first request.

        Args:
            check: Called while waiting; raises when the server has ended.
            limit_s: Longest wait.

        Raises:
            LinkworthError: It ended by itself, or did not get there in time.
        """
        deadline = time.monotonic() + limit_s
        while not self._at_start.wait(0.2):
            check()
            if self._ended() is not None:
                return  # `finish` says why
            if time.monotonic() > deadline:
                raise RunTimedOut(
                    f"The benchmark client was not ready after {limit_s:g} s.",
                    "Give the machine less to do at the same time.",
                    detail=self.tail(),
                )

    def go(self) -> None:
        """Let a prepared client run."""
        if self._stopped and self._ended() is None:
            self._stopped = False
            os.kill(self.pid, signal.SIGCONT)

    def finish(
        self,
        check: Callable[[], None],
        limit_s: float,
        progress: Callable[[int, int], None] | None = None,
    ) -> bytes:
        """Wait for its end and return the bytes of its result file.

        Args:
            check: Called while waiting; raises when the server has ended.
            limit_s: Time limit of this workload.
            progress: Told of requests done and total.

        Raises:
            RunTimedOut: It took too long: a hang of server or client.
            LinkworthError: `check` found the server gone.
            LinkworthError: The tool failed; with its last lines.
        """
        deadline = time.monotonic() + limit_s
        told = -1
        while self._ended() is None:
            check()
            if time.monotonic() > deadline:
                raise RunTimedOut(
                    f"The workload did not end within {limit_s:g} s: {self.done} of {self.total} "
                    "requests were answered.",
                    "Look at the server's log, or give the workload more time.",
                    detail=self.tail(),
                )
            if progress is not None and self.done != told:
                told = self.done
                progress(self.done, self.total)
            time.sleep(0.2)
        code = self._ended()
        if code != 0 or not self.result.exists():
            check()
            raise LinkworthError(
                f"The benchmark client failed: {self._own_words()}",
                "See its last lines in the log.",
                detail=self.tail(),
            )
        return self.result.read_bytes()

    def tail(self) -> str:
        """Its last lines."""
        return "\n".join(self._tail)

    def _own_words(self) -> str:
        for line in reversed(self._tail):
            found = re.match(r"(?:[\w.]+(?:Error|Exception)): (.+)", line.strip())
            if found:
                return found[1][:300]
        return f"exit code {self._ended()}, no result file."

    def _ended(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def _read(self) -> None:
        """Follow its output; a bar is redrawn with carriage returns, so lines end at both."""
        if self._process is None or self._process.stdout is None:
            return
        rest = b""
        while chunk := os.read(self._process.stdout.fileno(), 65536):
            *lines, rest = re.split(rb"[\r\n]", rest + chunk)
            for line in lines:
                self._line(line)
        self._line(rest)
        self._at_start.set()

    def _line(self, line: bytes) -> None:
        if _READY in line and not self._at_start.is_set():
            # discarded warm-up requests follow, so stopping a little late is harmless
            os.kill(self.pid, signal.SIGSTOP)
            self._stopped = True
            self._at_start.set()
        if _MAIN in line:
            # too late to hold it, or a version that does not announce its start
            self.slipped = self._stopped or not self._at_start.is_set()
            self._at_start.set()
            if self._on_main is not None:
                self._on_main()
        found = _PROGRESS.search(line)
        if found is not None:
            if int(found[2]) == self.total:  # the bar of the warm-up has another total
                self.done = int(found[1])
        elif line.strip():
            self._tail.append(line.decode("utf-8", "replace"))


def read_detail(data: bytes) -> dict[str, Any]:
    """The last JSON object of a result file, with NaN refused.

    Raises:
        LinkworthError: It is no JSON object.
    """
    try:
        content = json.loads(data, parse_constant=_no_constant)
    except ValueError as error:
        raise LinkworthError(
            "The benchmark client's result is not readable JSON.", "", detail=str(error)
        ) from None
    if not isinstance(content, dict):
        raise LinkworthError("The benchmark client's result is no JSON object.")
    return content


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no measurement")
