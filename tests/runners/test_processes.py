"""A cancelled program takes everything of its run with it, also what has lost its parent."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# its child starts a grandchild and ends: an orphan in the run's group, which ignores SIGTERM
PROGRAM = """
import json, subprocess, sys, time
from runners import events

ORPHAN = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " \\
    "print('up', flush=True); time.sleep(600)"
CHILD = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', %r], " \\
    "stdout=subprocess.PIPE, text=True); p.stdout.readline(); print(p.pid, flush=True)" % ORPHAN

def run(spec, told):
    print(subprocess.check_output([sys.executable, "-c", CHILD], text=True).strip(), flush=True)
    time.sleep(600)

sys.exit(events.main_program("topology", run))
"""


def test_a_cancelled_run_leaves_no_orphan(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"kind": "topology"}')
    words = [sys.executable, "-c", PROGRAM, "--spec", str(tmp_path / "spec.json")]
    words += ["--result", str(tmp_path / "result.json"), "--events", str(tmp_path / "events")]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    ) as program:
        try:
            assert program.stdout is not None
            orphan = os.pidfd_open(int(program.stdout.readline()))
            assert not select.select([orphan], [], [], 0)[0], "it lives while the run does"
            program.send_signal(signal.SIGTERM)
            assert program.wait(30) == 130
            assert select.select([orphan], [], [], 10)[0], "it has ended"
            os.close(orphan)
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
