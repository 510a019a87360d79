"""The processes of one run as their parent sees them: pipes, deadlines, failures, the end."""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models.errors
from models.errors import RankFailed, RunTimedOut

# importing torch and creating a CUDA context on a cold machine with many GPUs takes this long
START_LIMIT_S = 300.0
# after the first failure the others get this long to say what they saw
_GRACE_S = 2.0
_KILL_WAIT_S = 10.0
_LOG_TAIL = 4000
# how gloo and NCCL say that a peer has gone
_ECHO = re.compile(r"(?i)connection (reset|closed|refused)|by peer|broken pipe|remote worker")

OnMessage = Callable[[int, dict[str, Any]], None]


class _RankState:
    """One rank as its parent sees it."""

    def __init__(self, rank: int, process: subprocess.Popen[bytes], up: int, down: int) -> None:
        self.rank = rank
        self.process = process
        self.up = up
        self.down = down
        self.buffer = b""
        self.result: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.label = "the start of the ranks"
        self.limit_s = START_LIMIT_S
        self.deadline: float | None = time.monotonic() + START_LIMIT_S
        self.ended = False


class Crew:
    """All ranks of one run."""

    def __init__(self, folder: Path, n_ranks: int, on_message: OnMessage | None) -> None:
        self._folder = folder
        self._n_ranks = n_ranks
        self._on_message = on_message
        self._ranks: list[_RankState] = []
        self._survivors: list[tuple[int, int]] | None = None

    def start(self, task: dict[str, Any], environment: dict[str, str], python: str) -> None:
        """Start every rank and hand it its task."""
        for rank in range(self._n_ranks):
            down_read, down_write = os.pipe()
            up_read, up_write = os.pipe()
            command = [
                python,
                "-m",
                "runners.rank_program",
                str(down_read),
                str(up_write),
                str(os.getpid()),
            ]
            own = dict(environment)
            if task["device"] == "cuda":
                # NCCL says which transport it chose only while it sets up: no cost afterwards
                own["NCCL_DEBUG"] = "INFO"
                own["NCCL_DEBUG_SUBSYS"] = "INIT,P2P,SHM,NET,GRAPH,ENV"
                own["NCCL_DEBUG_FILE"] = str(self._folder / f"nccl-{rank}.log")
            try:
                with self._log(rank).open("wb") as log:
                    # same process group: whoever ends the runner's group ends the ranks too
                    process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=own,
                        cwd=self._folder,
                        pass_fds=(down_read, up_write),
                    )
            except BaseException:
                os.close(down_write)
                os.close(up_read)
                raise
            finally:
                os.close(down_read)
                os.close(up_write)
            state = _RankState(rank, process, up_read, down_write)
            self._ranks.append(state)
            self._send(state, {**task, "rank": rank})

    def watch(self, deadline: float, time_limit_s: float) -> list[dict[str, Any]]:
        """Wait for all results; the first failure or passed limit ends it."""
        failed_at: float | None = None
        with selectors.DefaultSelector() as selector:
            for state in self._ranks:
                selector.register(state.up, selectors.EVENT_READ, state)
            while any(not state.ended and state.result is None for state in self._ranks):
                limits = [deadline, *(s.deadline for s in self._ranks if s.deadline is not None)]
                if failed_at is not None:
                    limits.append(failed_at + _GRACE_S)
                wait_s = max(0.0, min(limits) - time.monotonic())
                for key, _ in selector.select(wait_s):
                    state = key.data
                    self._read(state)
                    if state.ended:
                        selector.unregister(state.up)
                if failed_at is None and any(self._failed(state) for state in self._ranks):
                    failed_at = time.monotonic()
                now = time.monotonic()
                if failed_at is not None and now >= failed_at + _GRACE_S:
                    break
                if failed_at is None:
                    self._check_limits(now, deadline, time_limit_s)
        if failed_at is not None:
            self._raise_failure()
        for state in self._ranks:
            # what they had to say is here; end() takes care of one that does not leave
            with contextlib.suppress(subprocess.TimeoutExpired):
                state.process.wait(_GRACE_S)
        return [state.result or {} for state in self._ranks]

    def end(self) -> list[tuple[int, int]]:
        """Kill what still runs; returns the ranks that even SIGKILL did not end."""
        if self._survivors is not None:
            return self._survivors
        for state in self._ranks:
            if state.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    state.process.kill()
        self._survivors = survivors = []
        for state in self._ranks:
            try:
                state.process.wait(_KILL_WAIT_S)
            except subprocess.TimeoutExpired:
                survivors.append((state.rank, state.process.pid))
            for descriptor in (state.up, state.down):
                os.close(descriptor)
        return survivors

    def logs(self) -> str:
        """The end of what each rank wrote to its error stream."""
        parts = []
        for state in self._ranks:
            text = self._log(state.rank).read_text(encoding="utf-8", errors="replace").strip()
            if text:
                parts.append(f"[rank {state.rank}] {text[-_LOG_TAIL:]}")
        return "\n".join(parts)

    def _log(self, rank: int) -> Path:
        return self._folder / f"rank-{rank}.log"

    def _send(self, state: _RankState, message: dict[str, Any]) -> None:
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        # a rank that ended already shows in its report pipe
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(state.down, data) :]

    def _read(self, state: _RankState) -> None:
        chunk = os.read(state.up, 1 << 16)
        if not chunk:
            state.ended = True
            state.deadline = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                state.process.wait(_KILL_WAIT_S)
            return
        *lines, state.buffer = (state.buffer + chunk).split(b"\n")
        for line in lines:
            self._take(state, json.loads(line))

    def _take(self, state: _RankState, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "port":
            for other in self._ranks:
                if other is not state:
                    self._send(other, message)
        elif kind == "begin":
            state.label, state.limit_s = message["label"], message["limit_s"]
            state.deadline = time.monotonic() + state.limit_s
        elif kind == "end":
            state.deadline = None
        elif kind == "result":
            state.result, state.deadline = message["data"], None
        elif kind == "error":
            state.error, state.deadline = message, None
        elif self._on_message is not None:
            self._on_message(state.rank, message["data"])

    @staticmethod
    def _failed(state: _RankState) -> bool:
        return state.error is not None or (state.ended and state.result is None)

    def _check_limits(self, now: float, deadline: float, time_limit_s: float) -> None:
        if now >= deadline:
            raise RunTimedOut(
                f"The time limit of {time_limit_s:g} s ended the run at {self._where()}.",
                "Ask for less at once, or give it more time.",
            )
        late = [s for s in self._ranks if s.deadline is not None and now >= s.deadline]
        if late:
            first = min(late, key=lambda state: state.deadline or 0.0)
            named = ", ".join(str(s.rank) for s in self._ranks if s.label == first.label)
            raise RunTimedOut(
                f"The run hung at {first.label}: not done after {first.limit_s:g} s "
                f"(ranks that stood there: {named}).",
                "Check the link with the peer-to-peer check, or try the same with the link off.",
            )

    def _where(self) -> str:
        return self._ranks[0].label if self._ranks else "the start"

    def _raise_failure(self) -> None:
        # a rank that went down without a word is the cause; what the others say is the echo
        def order(state: _RankState) -> tuple[bool, bool, bool]:
            error = state.error or {}
            is_echo = _ECHO.search(error.get("sentence", "")) is not None
            return state.error is not None, is_echo, not error.get("kind")

        failed = sorted((s for s in self._ranks if self._failed(s)), key=order)
        first = failed[0]
        said = [f"[rank {s.rank}] {s.error['detail']}" for s in failed if s.error is not None]
        detail = "\n".join(said)
        if first.error is None:
            raise RankFailed(
                f"Rank {first.rank} {_how_ended(first.process.poll())} at {first.label}.",
                "The log has what it wrote last.",
                detail,
            )
        kind = getattr(models.errors, first.error["kind"] or "RankFailed", RankFailed)
        raise kind(
            f"Rank {first.rank}, at {first.label}: {first.error['sentence']}",
            first.error["next_step"],
            detail,
        )


def _how_ended(code: int | None) -> str:
    if code is None:
        return "stopped talking"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by signal {-code} ({signal.Signals(-code).name})"
        return f"was ended by signal {-code}"
    return f"ended with exit code {code} and no result"
