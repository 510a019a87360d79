"""A lab's database for the benchmarks of pages, and an app server on it.

The database takes a minute or two to make. It is kept in ``local/`` and made anew when what makes
it, or the schema, has changed.
"""

import hashlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from visitor import ROOT, Server, Visitor

from db import runs
from db.engine import connect

KEPT = ROOT / "local" / "benchmarks"
_MAKERS = (
    "scripts/make_load.py",
    "scripts/load_*.py",
    "db/bulk.py",
    "db/schema.py",
    "db/migrations/**/*.py",
)


@pytest.fixture(scope="session")
def load_dir() -> Path:
    """A data folder with 10,000 runs and 1,000,000 samples; nobody writes into it."""
    makers = sorted({path for pattern in _MAKERS for path in ROOT.glob(pattern)})
    content = b"".join(path.read_bytes() for path in makers)
    folder = KEPT / hashlib.sha256(content).hexdigest()[:12]
    if not folder.is_dir():
        shutil.rmtree(KEPT, ignore_errors=True)
        half_done = KEPT / "half-done"
        script = ROOT / "scripts" / "make_load.py"
        subprocess.run([sys.executable, str(script), "--data-dir", str(half_done)], check=True)
        half_done.rename(folder)
    return folder


@pytest.fixture(scope="session")
def named(load_dir: Path) -> dict[str, str]:
    """What links name: the newest measured run of each kind, and codes made of such runs."""
    engine = connect(f"sqlite:///{load_dir / 'linkworth.sqlite'}")
    try:
        newest = {
            kind: list(
                runs.list_runs(engine, kinds=[kind], origins=["measured"], shipped=False)["id"]
            )
            for kind in ("allreduce", "decode", "serving", "topology", "p2p")
        }
        served = runs.heads(engine, newest["serving"])
        shipped = runs.list_runs(engine, kinds=["serving"], origins=["measured"], shipped=True)
    finally:
        engine.dispose()
    planned = [run for run in served.values() if run.evaluation is not None]
    arms = [f"{run.evaluation.id}|{run.evaluation.arm}" for run in planned if run.evaluation]
    start = next(run for run in served.values() if run.host["gpus"][0]["name"] == "NVIDIA H200")
    load = start.spec["workloads"][0]
    lengths = (load[name] for name in ("concurrency", "input_len", "output_len"))
    return {
        **{kind: ids[0] for kind, ids in newest.items()},
        "second_serving": newest["serving"][1],
        "six_allreduce": ",".join(newest["allreduce"][:6]),
        "shipped": str(shipped["id"].iloc[0]),
        "evaluation": arms[0].partition("|")[0],
        "arm": arms[0],
        "old_arm": arms[-1],
        "model": start.spec["model"].removeprefix("Qwen/").removesuffix("-Instruct"),
        "anchor": "-".join((start.id[:8], *(str(length) for length in lengths))),
    }


@pytest.fixture(scope="module")
def server(load_dir: Path) -> Iterator[Server]:
    """An app server that has loaded all its pages and drawn one that needs no data."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with Server(load_dir, port) as started:
        with Visitor(started) as visitor:
            visitor.open("settings")
        started.settle()
        yield started
