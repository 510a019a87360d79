"""Fill a data folder with a lab's history: 10,000 runs and 1,000,000 samples by default.

    python scripts/make_load.py --data-dir local/load
    LINKWORTH_DATA_DIR=local/load make run

For benchmarks, and for whoever wants to see the app with much in it. Results go through the same
call that a worker uses; the queue's history is written in bulk. The same seed makes the same
database. The numbers are invented: never mix them with measured ones.
"""

import argparse
import sys
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from db import bulk, runs  # noqa: E402
from db.engine import Engine, connect  # noqa: E402
from db.migrations import upgrade  # noqa: E402
from db.seed import seed as read_shipped  # noqa: E402
from importers import published  # noqa: E402
from models.result import Result, dumps  # noqa: E402
from scripts.load_lab import telemetry  # noqa: E402
from scripts.load_results import BEGIN, Maker  # noqa: E402

N_RUNS = 10_000
SEED = 20261129
DATABASE = "linkworth.sqlite"
_TELEMETRY_ROWS = 40
_EVENTS = 12
_FILE_EVERY = 10
_AT_ONCE = 100


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True, help="made if it is not there")
    parser.add_argument("--runs", type=int, default=N_RUNS)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(argv)
    path = options.data_dir / DATABASE
    if path.exists():
        print(f"{path} is there already: name another folder, or remove it.", file=sys.stderr)
        return 2
    begun = time.monotonic()
    n_samples = fill(options.data_dir, options.runs, options.seed)
    size = path.stat().st_size / 1e6
    took = time.monotonic() - begun
    print(f"{options.runs} runs, {n_samples} samples, {size:.0f} MB in {took:.0f} s: {path}")
    return 0


def fill(data_dir: Path, n_runs: int = N_RUNS, seed: int = SEED) -> int:
    """Make the database of a data folder; returns how many raw values it holds."""
    data_dir.mkdir(parents=True, exist_ok=True)
    engine = connect(f"sqlite:///{data_dir / DATABASE}")
    bulk.hurry(engine)
    try:
        upgrade(engine)
        read_shipped(engine, ROOT / "data", published.read)
        n_samples = 0
        results = Maker(seed).results(n_runs)
        while batch := list(islice(results, _AT_ONCE)):
            store(engine, batch)
            add_jobs(engine, batch)
            n_samples += sum(len(one.values) for result in batch for one in result.samples)
        # the shipped studies came first
        bulk.backdate_runs(engine, shipped_at=BEGIN - timedelta(days=1))
    finally:
        engine.dispose()
    return n_samples


def store(engine: Engine, results: Sequence[Result]) -> None:
    """As the worker stores what a runner left, or as an import does.

    Every tenth comes with its file: to clean one of secrets takes as long as all the rest.
    """
    for result in results:
        if result.origin == "measured":
            result.telemetry = telemetry(result, _TELEMETRY_ROWS)
    runs.store_all(engine, [result for place, result in enumerate(results) if place % _FILE_EVERY])
    for result in results[::_FILE_EVERY]:
        runs.store(engine, result, raw=dumps([result], indent=None).encode())


def add_jobs(engine: Engine, results: Sequence[Result]) -> None:
    """The jobs that measured these runs, with what they said; every fiftieth brought no run."""
    measured = [result for result in results if result.origin == "measured"]
    bulk.add_past_jobs(
        engine,
        [_job(result, failed=number % 50 == 49) for number, result in enumerate(measured)],
        [[_event(result, place) for place in range(_EVENTS)] for result in measured],
    )


def _job(result: Result, *, failed: bool) -> dict[str, Any]:
    evaluation = result.evaluation
    return {
        "id": str(uuid.uuid5(uuid.UUID(result.id), "job")),
        "token": None,
        "kind": result.kind,
        "title": result.title or result.kind,
        "state": "failed" if failed else "succeeded",
        "reason": "The server did not start: GPU 0 has too little free memory." if failed else "",
        "evaluation_id": evaluation.id if evaluation else None,
        "position": 0,
        "uses_cpu": False,
        "uses_gpus": result.spec.get("gpus") or ["*"],
        "worker_id": "worker-1",
        "created_at": result.started_at,
        "started_at": result.started_at,
        "finished_at": result.finished_at,
        "heartbeat_at": result.finished_at,
        "cancel_requested": False,
        "time_limit_s": 1800.0,
        "run_id": None if failed else result.id,
        "stage": "done",
        "fraction": 1.0,
        "spec": result.spec,
        "evaluation": evaluation.model_dump() if evaluation else None,
        "log_tail": "ready\nmeasuring\ndone",
    }


def _event(result: Result, place: int) -> dict[str, Any]:
    begun = result.started_at.timestamp() if result.started_at else 0.0
    kind = ("stage", "log", "log", "round")[place % 4]
    return {
        "t": begun + 10 * place,
        "type": kind,
        "stage": "measure" if kind == "stage" else None,
        "fraction": place / _EVENTS if kind == "stage" else None,
        "message": f"step {place} of {_EVENTS}",
        "eta_s": None,
        "level": "info",
        "data": {"round": place // 4, "median (us)": 6.5} if kind == "round" else None,
    }


if __name__ == "__main__":
    sys.exit(main())
