"""One runner program: started in a session of its own, heard through a pipe."""

import fcntl
import json
import math
import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from settings import ROOT
from worker.descendants import JOB_VARIABLE

_PIPE_BYTES = 1 << 20  # a slow moment of the database must not make the runner wait
_READ_BYTES = 1 << 16
_LINE_BYTES = 1 << 20
_TAIL_BYTES = 16_000
_TAIL_LINES = 60
_MESSAGE_CHARACTERS = 2000
# passed on to a runner; the others are the worker's own business (a database password, say).
# A fault on purpose leaves its warning in every result that it touched.
_KEPT_VARIABLES = frozenset({"LINKWORTH_NVML_RECORDING", "LINKWORTH_TEST_FAULT"})


@dataclass
class JobFolder:
    """Where a job's files lie, inside the data folder."""

    path: Path

    @property
    def spec(self) -> Path:
        """What the runner is asked to do."""
        return self.path / "spec.json"

    @property
    def result(self) -> Path:
        """What it measured; complete as soon as it is there."""
        return self.path / "result.json"

    @property
    def log(self) -> Path:
        """What it and its processes wrote."""
        return self.path / "log.txt"

    def prepare(self, spec: Mapping[str, Any]) -> None:
        """Make the folder and write the spec."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.result.unlink(missing_ok=True)
        self.spec.write_text(json.dumps(spec), encoding="utf-8")

    def log_tail(self) -> str:
        """The last lines that the run wrote."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-_TAIL_LINES:])


@dataclass
class LineReader:
    """Splits what comes from a descriptor into whole lines; cut where one never ends."""

    descriptor: int
    at_end: bool = False
    _rest: bytes = field(default=b"", repr=False)

    def read(self) -> list[bytes]:
        """Lines that are there now; never waits."""
        chunks = [self._rest]
        while not self.at_end:
            try:
                chunk = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                break
            self.at_end = not chunk
            chunks.append(chunk)
            if sum(map(len, chunks)) > _LINE_BYTES:
                break
        *lines, self._rest = b"".join(chunks).split(b"\n")
        if (self.at_end and self._rest) or len(self._rest) > _LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        return [line for line in lines if line.strip()]


class RunnerProcess:
    """A started runner.

    Args:
        python: Interpreter that has what the program needs.
        module: The program, started as ``python -m module``.
        job_id: Stands in the environment of all its processes.
        folder: Where spec, result and log lie.
    """

    def __init__(self, python: Path, module: str, job_id: str, folder: JobFolder) -> None:
        reading, writing = os.pipe()
        try:
            with suppress(OSError):  # more than an ordinary user may ask for
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            os.set_blocking(reading, False)
            command = [
                str(python),
                "-m",
                module,
                "--spec",
                str(folder.spec),
                "--events",
                f"/dev/fd/{writing}",
                "--result",
                str(folder.result),
            ]
            with folder.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=_environment(job_id),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(writing,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._events = LineReader(reading)
        self.pid = self._process.pid
        self.exit_handle = os.pidfd_open(self.pid)  # readable once the process has ended

    @property
    def event_handle(self) -> int:
        """Readable when the runner says something."""
        return self._events.descriptor

    @property
    def is_silent(self) -> bool:
        """Whether the runner has closed its events."""
        return self._events.at_end

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def events(self) -> list[dict[str, Any]]:
        """What the runner said since the last call."""
        return [read_event(line) for line in self._events.read()]

    def close(self) -> None:
        """Let the handles go; a runner that still listens ends itself now."""
        os.close(self._events.descriptor)
        os.close(self.exit_handle)


def read_event(line: bytes) -> dict[str, Any]:
    """One event with every field in its type; a line that is none is kept as a log line."""
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict) or event.get("type") not in ("stage", "log", "round"):
        text = line.decode("utf-8", "replace")
        event = {"type": "log", "level": "warning", "message": text}
    data = event.get("data")
    return {
        "t": _number(event.get("t")) or time.time(),
        "type": event["type"],
        "stage": str(event.get("stage") or "")[:_MESSAGE_CHARACTERS],
        "fraction": _number(event.get("fraction")),
        "message": str(event.get("message") or "")[:_MESSAGE_CHARACTERS],
        "eta_s": _number(event.get("eta_s")),
        "level": str(event.get("level") or "info")[:20],
        "data": data if isinstance(data, dict) else None,
    }


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _environment(job_id: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LINKWORTH_") or name in _KEPT_VARIABLES
    }
    return {
        **kept,
        JOB_VARIABLE: job_id,
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        # programs that rename themselves would overwrite the job's id with their new name
        "SPT_NOENV": "1",
    }
