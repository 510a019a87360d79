"""A vLLM server as a program: started, waited for, watched, ended.

vLLM is never imported here. It is started from an interpreter that the spec names, as a list of
arguments, in this process's group, and ended with everything that it started.
"""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Self

from models.errors import InvalidSpec, RunnerUnavailable, ServerDidNotStart, ServerDied
from models.secrets import scrub_text
from runners import vllm_log, vllm_processes
from runners.events import Events
from runners.spec import ServingSpec, SoakSpec
from runners.vllm_command import HOST, Command
from runners.vllm_family import Family
from runners.vllm_flags import cache_folder
from runners.vllm_model import write_model_folder

POLL_S = 0.25
LOOK_EVERY_S = 1.0  # reading what runs on the machine costs some milliseconds
MOST_LINES_TOLD = 20  # at once; the page shows about as many
LONGEST_LINE = 300
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def interpreter(spec: ServingSpec | SoakSpec) -> str:
    """The interpreter that the spec names.

    Raises:
        RunnerUnavailable: None is named, or it is not there.
    """
    python = spec.vllm_python
    if not python:
        raise RunnerUnavailable(
            "No interpreter with vLLM is known.", "Install vLLM with `make vllm`, then start again."
        )
    if not Path(python).exists():
        raise RunnerUnavailable(
            f"The interpreter for vLLM is not there: {python}.",
            "Install vLLM with `make vllm`, or name its interpreter in the settings.",
        )
    return python


def model_of(spec: ServingSpec | SoakSpec, work: Path) -> str:
    """The folder or id to serve; a built-in shape is written as a folder first.

    The folder's name follows from its content: the engine keeps what it compiled under that name,
    so a second start is faster, and every start of an evaluation is the same.

    Raises:
        InvalidSpec: The shape cannot be served.
    """
    if spec.model_config_json is None:
        if not spec.model:
            raise InvalidSpec("No model is named.", "Choose one.")
        return spec.model
    content = json.dumps(spec.model_config_json, sort_keys=True).encode()
    name = f"shape-{hashlib.sha256(content).hexdigest()[:16]}"
    draft = write_model_folder(work / name, spec.model_config_json)
    final = cache_folder() / "models" / name
    try:
        if not final.exists():
            final.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(draft, own := final.with_name(f"{name}.{uuid.uuid4().hex}"))
            own.rename(final)
        return str(final)
    except OSError:
        return str(final if final.exists() else draft)  # made meanwhile, or nothing may be written


class Server:
    """One `vllm serve`; use it in a ``with``, which ends it whatever happens.

    Args:
        command: As `serve_command` builds it.
        port: Where it will listen.
        log: File that takes its output.
        label: How messages call it.
    """

    def __init__(self, command: Command, port: int, log: Path, label: str = "the server") -> None:
        self.command = command
        self.base_url = f"http://{HOST}:{port}"
        self.log = log
        self.label = label
        self.mark = vllm_processes.new_mark()
        self.ready_s: float | None = None
        self.survivors: list[int] = []
        self.family: Family | None = None
        self._told = 0  # bytes of its log that the live view has had
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        variables = {k: v for k, v in os.environ.items() if k not in self.command.removed}
        variables |= self.command.variables
        variables[vllm_processes.MARK] = self.mark
        with self.log.open("wb") as out:
            try:
                self._process = subprocess.Popen(
                    list(self.command.arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=variables,
                )
            except OSError as error:
                raise RunnerUnavailable(
                    f"The interpreter for vLLM cannot be started: {error.strerror}.",
                    "Install vLLM with `make vllm`, or name its interpreter in the settings.",
                ) from None
        self.family = Family(self._process, self.mark)
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Its first process."""
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process.pid

    def processes(self) -> set[int]:
        """Its processes that live now."""
        return set() if self.family is None else self.family.look()

    def returncode(self) -> int | None:
        """Its exit code, or None while it runs."""
        return None if self._process is None else self._process.poll()

    def wait_ready(self, limit_s: float, events: Events) -> None:
        """Return when the server answers its health check.

        Raises:
            ServerDidNotStart: It ended, with its own reason, or did not answer in time.
        """
        began = time.monotonic()
        shown = ""
        looked = 0.0
        while True:
            self.tell(events)
            if time.monotonic() - looked > LOOK_EVERY_S:
                self.processes()  # remembered from now on, should the first of them end
                looked = time.monotonic()
            if self.returncode() is not None:
                raise self.failure("stopped before it was ready")
            if self.healthy():
                self.ready_s = time.monotonic() - began
                self.processes()
                return
            waited = time.monotonic() - began
            if waited > limit_s:
                raise ServerDidNotStart(
                    f"vLLM was not ready after {limit_s:g} s ({self.label}).",
                    "Give it more time, or look at the last lines of its log.",
                    detail=self.tail(),
                )
            line = vllm_log.plain(self.tail(1))
            if line and line != shown:
                shown = line
                events.stage("start", message=f"{self.label}: {line[:200]}")
            time.sleep(POLL_S)

    def healthy(self, timeout_s: float = 2.0) -> bool:
        """Whether it answers its health check at this moment."""
        try:
            with _OPENER.open(f"{self.base_url}/health", timeout=timeout_s) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def failure(self, happened: str) -> ServerDidNotStart:
        """The error that says why it did not come up, in its own words where the log has them."""
        return ServerDidNotStart(*self._why(happened), detail=self.tail())

    def died(self) -> ServerDied:
        """The error that says why it ended while it was being measured."""
        return ServerDied(*self._why("ended while it was being measured"), detail=self.tail())

    def _why(self, happened: str) -> tuple[str, str]:
        where = "" if self.label == "the server" else f" ({self.label})"
        reason = vllm_log.find_reason(vllm_log.read_log(self.log))
        if reason is None:
            code = self.returncode()
            return (
                f"vLLM {happened}{where}, exit code {code}, without saying why.",
                "See the last lines of its log.",
            )
        return f"vLLM {happened}{where}: {reason.sentence}.", reason.next_step

    def tell(self, events: Events) -> None:
        """Hand the log's new lines to the live view; of many at once the last ones."""
        text, self._told = vllm_log.added(self.log, self._told)
        for line in scrub_text(text).splitlines()[-MOST_LINES_TOLD:]:
            if words := vllm_log.plain(line):
                events.log(f"{self.label}: {words[:LONGEST_LINE]}")

    def tail(self, lines: int = vllm_log.TAIL_LINES) -> str:
        """The last lines of its log, without secrets."""
        return scrub_text(vllm_log.tail(vllm_log.read_log(self.log), lines))

    def facts(self) -> dict[str, str | int | float]:
        """What its log tells of its set-up."""
        return vllm_log.facts(vllm_log.read_log(self.log))

    def end(self) -> None:
        """End it and everything it started; harmless when it has ended already."""
        if self.family is not None:
            self.survivors = self.family.end()
