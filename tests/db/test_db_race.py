"""Eight processes and a hundred jobs; and processes that are killed while they store."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from db import jobs, runs
from db.engine import reading
from db.schema import Measurement, RawFile, Round, RunFile, Samples

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
N_PROCESSES, N_JOBS = 8, 100


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, str(HERE / script), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_eight_processes_race_for_a_hundred_jobs(url, engine):
    chance = random.Random(7)
    specs = [
        {"kind": "p2p", "device": "cuda", "gpus": [chance.randrange(3)]}
        if n % 3 == 0
        else {"kind": "topology"}
        for n in range(N_JOBS)
    ]
    ids = [jobs.enqueue(engine, spec) for spec in specs]
    processes = [start("claimer.py", url, f"w{n}") for n in range(N_PROCESSES)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * N_PROCESSES
    held = [json.loads(line) for output in outputs for line in output.splitlines()]
    assert sorted(job["id"] for job in held) == sorted(ids)  # each once
    assert jobs.counts(engine)["succeeded"] == N_JOBS
    by_gpu = defaultdict(list)
    for job in held:
        for gpu in job["spec"].get("gpus", []):
            by_gpu[gpu].append((job["begin"], job["end"]))
    assert len(by_gpu) == 3
    for spans in by_gpu.values():
        spans.sort()
        assert all(end < begin for (_, end), (begin, _) in pairwise(spans))


@pytest.mark.parametrize("n_kills", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_a_process_killed_while_it_stores_leaves_whole_runs_only(url, engine, n_kills):
    chance = random.Random(n_kills)
    for _ in range(n_kills):
        process = start("storer.py", url)
        for _ in range(chance.randrange(1, 4)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
    n_runs = runs.count(engine)
    assert n_runs >= n_kills
    with reading(engine) as connection:
        for table, per_run in (
            (Round, 1),
            (Measurement, 1),
            (Samples, 20),
            (RunFile, 1),
            (RawFile, 1),
        ):
            assert connection.execute(select(func.count()).select_from(table)).scalar() == (
                n_runs * per_run
            )
        if engine.dialect.name == "sqlite":
            assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"
    for run_id in runs.list_runs(engine)["id"]:
        assert len(runs.load(engine, run_id).samples) == 20
