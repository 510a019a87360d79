"""Finding and ending every process of a job, also those that left its process group.

A process belongs to a job when its environment carries the job's id, when it is in the group or
session of the job's runner, or when its parent belongs. A pid alone never says so: pids are used
again.
"""

import ctypes
import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

JOB_VARIABLE = "LINKWORTH_JOB_ID"
_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
_GONE = "ZX"  # a zombie holds nothing but its number
_HARD_LIMIT_S = 5.0  # SIGKILL takes effect at once, or the process hangs inside the kernel


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    group: int
    session: int


def adopt_orphans() -> bool:
    """Become the parent of orphaned descendants, so that none slips out of sight."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def collect_adopted() -> None:
    """Let adopted children that have ended go; call it only while no child is waited for."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def members(job_id: str, leader: int | None = None, *, ancestor: int | None = None) -> set[int]:
    """Processes of a job that are alive.

    Args:
        job_id: What their environment says.
        leader: The runner's pid, which is its group and session too. Counts only while a process
            with the job's id, or a child of ``ancestor``, is in that group: pids are used again.
        ancestor: A worker that works on this job alone: all its descendants belong.
    """
    table = {one.pid: one for one in _processes()}
    marker = f"{JOB_VARIABLE}={job_id}".encode()
    found = {pid for pid in table if _is_marked(pid, marker)}
    if ancestor is not None:
        found |= {pid for pid, one in table.items() if one.parent == ancestor}
    if leader is not None and any(
        leader in (table[pid].group, table[pid].session) for pid in found
    ):
        found |= {pid for pid, one in table.items() if leader in (one.group, one.session)}
    grown = True
    while grown:
        children = {pid for pid, one in table.items() if one.parent in found}
        grown = not children <= found
        found |= children
    return found - {os.getpid()}


def marked_jobs() -> set[str]:
    """Ids of jobs that any process of this machine carries."""
    stem = f"{JOB_VARIABLE}=".encode()
    found = set()
    for one in _processes():
        for entry in _environment(one.pid):
            if entry.startswith(stem):
                found.add(entry.removeprefix(stem).decode(errors="replace"))
    return found


class JobProcesses:
    """The processes of one job, remembered once seen, ended together.

    Args:
        job_id: What their environment says.
        leader: The runner's pid, see ``members``.
        ancestor: A worker that works on this job alone, see ``members``.
    """

    def __init__(
        self, job_id: str, leader: int | None = None, *, ancestor: int | None = None
    ) -> None:
        self._job_id = job_id
        self._leader = leader
        self._ancestor = ancestor
        # handles: as long as one is open, its pid means this process and no later one
        self._alive: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._alive.values():
            os.close(handle)
        self._alive.clear()

    def look(self) -> set[int]:
        """Processes that are alive now, also those that lost every tie since they were seen."""
        for pid, handle in list(self._alive.items()):
            if _has_ended(handle):
                os.close(self._alive.pop(pid))
        fresh = self._members() - self._alive.keys()
        opened: dict[int, int] = {}
        for pid in fresh:
            with suppress(ProcessLookupError):
                opened[pid] = os.pidfd_open(pid)
        # again, now that no pid can change its owner unseen
        still = self._members() if opened else set()
        for pid, handle in opened.items():
            if pid in still:
                self._alive[pid] = handle
            else:
                os.close(handle)
        return set(self._alive)

    def send(self, number: int) -> set[int]:
        """Send a signal to every process of the job; the pids it was sent to."""
        reached = set()
        for pid in self.look():
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._alive[pid], number)
                reached.add(pid)
        return reached

    def end(self, *, grace_s: float = 2.0) -> set[int]:
        """End every process of the job: SIGTERM, then SIGKILL after the grace.

        Returns:
            Processes that survived SIGKILL: something is wrong with the machine.
        """
        if self.send(signal.SIGTERM):
            self._wait(grace_s)
        deadline = time.monotonic() + _HARD_LIMIT_S
        # a process may have started another one meanwhile: look again until nothing is left
        while left := self.send(signal.SIGKILL):
            if time.monotonic() >= deadline:
                return left
            self._wait(deadline - time.monotonic())
        return set()

    def _members(self) -> set[int]:
        return members(self._job_id, self._leader, ancestor=self._ancestor)

    def _wait(self, timeout_s: float) -> None:
        """Until all have ended, or the time is over."""
        deadline = time.monotonic() + timeout_s
        poller = select.poll()
        waiting = set(self._alive.values())
        for handle in waiting:
            poller.register(handle, select.POLLIN)
        while waiting and (rest_s := deadline - time.monotonic()) > 0:
            for handle, _ in poller.poll(rest_s * 1000):
                poller.unregister(handle)
                waiting.discard(handle)


def end(job_id: str, leader: int | None = None, *, ancestor: int | None = None) -> set[int]:
    """End every process of a job that nobody watched; those that survived SIGKILL."""
    with JobProcesses(job_id, leader, ancestor=ancestor) as processes:
        return processes.end()


def _has_ended(handle: int) -> bool:
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(0))


def _processes() -> list[_Process]:
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # behind the command's closing bracket: state, parent, group, session
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in _GONE:
            found.append(_Process(int(entry.name), int(fields[1]), int(fields[2]), int(fields[3])))
    return found


def _is_marked(pid: int, marker: bytes) -> bool:
    return marker in _environment(pid)


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # ended, or another user's
        return []
