"""A server's processes are ended whatever they did to their mark, parent, group or manners."""

import os
import select
import signal
import subprocess
import sys

import pytest

from runners.vllm_family import Family, descendants
from runners.vllm_processes import MARK, marked, new_mark

# a child without the mark, in a session of its own, that ignores the polite request: as an engine
# core is that has given itself a title
CHILD = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
ROOT = f"""
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], env={{}}, start_new_session=True)
print(child.pid, flush=True)
MANNERS
time.sleep(600)
"""
MANNERS = {
    "leaves its children": "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))",
    "ends at once": "",
    "does not listen": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
}


def start(manners: str) -> tuple["subprocess.Popen[bytes]", str, int]:
    """A server's first process, its mark, and its child."""
    mark = new_mark()
    process = subprocess.Popen(
        [sys.executable, "-c", ROOT.replace("MANNERS", manners)],
        stdout=subprocess.PIPE,
        env={**os.environ, MARK: mark},
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.stdout.close()
    return process, mark, child


def ended(handle: int) -> bool:
    found = bool(select.select([handle], [], [], 10)[0])
    os.close(handle)
    return found


@pytest.mark.parametrize("manners", MANNERS)
def test_a_child_without_mark_is_ended_too(manners: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.vllm_family.TERM_S", 0.5)
    process, mark, child = start(MANNERS[manners])
    handle = os.pidfd_open(child)
    assert child not in marked(mark)
    family = Family(process, mark)
    assert family.look() >= {process.pid, child}
    assert family.end() == []
    assert process.returncode is not None
    assert ended(handle)


def test_an_orphan_is_remembered_after_its_server_died() -> None:
    process, mark, child = start("")
    handle = os.pidfd_open(child)
    family = Family(process, mark)
    family.look()
    process.kill()
    process.wait()
    assert family.look() == {child}
    assert family.end() == []
    assert ended(handle)


def test_nobody_else_is_touched() -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    process, mark, _ = start("")
    try:
        family = Family(process, mark)
        assert other.pid not in family.look()
        assert os.getpid() not in family.look()
        family.end()
        assert other.poll() is None
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert descendants({other.pid}) == set()
