"""All processes of one server, known once seen, whatever they do to their name, parent or group.

A server's programs are found in two ways. Each carries a mark in its environment; but a program
that gives itself a title (as vLLM's engine core and workers do) writes over the memory from which
the system reads the environment, and the mark is gone. Each is also a descendant of the server's
first process; but only while that one lives. So they are looked for while it lives, and then
remembered by handles that mean this process and no later one with its number.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from runners.vllm_processes import marked

TERM_S = 15.0
KILL_S = 10.0
LOOK_S = 0.05


class Family:
    """The processes of one server.

    Args:
        process: Its first process, a child of this one.
        mark: What the environment of its programs carries.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", mark: str) -> None:
        self._process = process
        self._mark = mark
        self._handles: dict[int, int] = {}

    def look(self) -> set[int]:
        """Those that live now, also those that have lost every tie since they were seen."""
        for pid, handle in list(self._handles.items()):
            if select.select([handle], [], [], 0)[0]:  # readable: it has ended
                os.close(self._handles.pop(pid))
        found = set(self._handles) | set(marked(self._mark))
        if self._process.poll() is None:
            found.add(self._process.pid)
        for pid in descendants(found) - self._handles.keys() - {os.getpid()}:
            with suppress(OSError):
                self._handles[pid] = os.pidfd_open(pid)
        return set(self._handles)

    def end(self) -> list[int]:
        """Ask the first process to end, then kill whatever is left.

        Returns:
            Processes that survived SIGKILL: their GPUs cannot be trusted any more.
        """
        self.look()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + TERM_S
            while self._process.poll() is None:
                self.look()  # what it starts while it ends is its own too
                if time.monotonic() > deadline:
                    self._process.kill()
                    break
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(LOOK_S)
        deadline = time.monotonic() + KILL_S
        try:
            # a killed process takes a moment to go, and no event tells of another's child
            while left := self.look():
                for pid in left:
                    with suppress(OSError):
                        signal.pidfd_send_signal(self._handles[pid], signal.SIGKILL)
                if time.monotonic() > deadline:
                    return sorted(left)
                time.sleep(LOOK_S)
        finally:
            self._close()
        self._process.wait()
        return []

    def _close(self) -> None:
        while self._handles:
            os.close(self._handles.popitem()[1])


def descendants(roots: Collection[int]) -> set[int]:
    """These processes and all that came from them, as far as their parents live."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] not in "ZX":
                parents[int(entry.name)] = int(fields[1])
    found = {pid for pid in roots if pid in parents}
    grown = True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in found}
        grown = not children <= found
        found |= children
    return found
