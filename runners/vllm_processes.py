"""Marks by which a server's processes are known, and the processor time of the host.

A server shares the runner's process group, so that one signal of the worker reaches everything. To
end only the server, its processes are recognised by a mark in their environment, which children
inherit whatever they do to their parent or group; `vllm_family` finds those that lost it.
"""

import os
import uuid
from pathlib import Path

MARK = "LINKWORTH_SERVER_MARK"


def new_mark() -> str:
    """A value for the mark that no other server has."""
    return uuid.uuid4().hex


def marked(mark: str) -> list[int]:
    """Living processes of ours that carry the mark, this one excepted."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0") and _runs(entry):
                found.append(int(entry.name))
        except OSError:
            continue  # gone meanwhile, or somebody else's
    return found


def host_cpu_seconds() -> tuple[float, float] | None:
    """Busy and total processor time of the whole host so far, seconds; None without /proc."""
    try:
        line = Path("/proc/stat").read_text().split("\n", 1)[0]
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    values = [int(value) for value in line.split()[1:9]]
    idle = values[3] + values[4]
    return (sum(values) - idle) / ticks, sum(values) / ticks


def _runs(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
