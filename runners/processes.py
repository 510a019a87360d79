"""Ending the processes of one run, from inside it, with nothing but /proc."""

import os
import signal
import time
from pathlib import Path

EXIT_CANCELLED = 130

# how long the processes of a run have to end by themselves once its reader is gone
_FAREWELL_S = 2.0


def end_process_group() -> None:
    """End every process of this run, then this one with exit code 130; never returns."""
    signal_others(signal.SIGTERM)
    deadline = time.monotonic() + _FAREWELL_S
    # no event says that a process which is not our child has ended: look a few times
    while signal_others(0) and time.monotonic() < deadline:
        time.sleep(0.05)
    signal_others(signal.SIGKILL)
    os._exit(EXIT_CANCELLED)


def kill_others() -> list[int]:
    """Kill whatever of this run slipped past its own clean-up: a fork on the way to its program.

    Returns:
        Processes that are still there after two seconds.
    """
    deadline = time.monotonic() + _FAREWELL_S
    # as above: they are nobody's children any more, so there is nothing to wait on
    while (left := signal_others(signal.SIGKILL)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def signal_others(number: int) -> list[int]:
    """Send a signal to this process's descendants, and to its group where it leads one."""
    me, leads = os.getpid(), os.getpgrp() == os.getpid()
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # fields after the command's closing bracket: state, parent, process group
            state, parent, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if state in "ZX":
            continue
        parents[int(entry.name)] = int(parent)
        if leads and int(group) == me:
            found.add(int(entry.name))
    for pid in parents:
        line, seen = pid, set[int]()
        while line in parents and line not in seen and line != me:
            seen.add(line)
            line = parents[line]
        if line == me:
            found |= seen
    found.discard(me)
    reached = []
    for pid in sorted(found):
        try:
            os.kill(pid, number)
            reached.append(pid)
        except (ProcessLookupError, PermissionError):
            continue
    return reached
