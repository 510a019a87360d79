"""What the store must be quick at, with 10,000 runs and 1,000,000 samples in it.

Run with ``pytest tests/benchmarks --benchmark-only -o addopts=``; plain test runs skip these.
"""

import hashlib
import os
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert

from db import jobs, migrations, runs
from db.engine import Engine, connect, writing
from db.packing import pack_dims, pack_file, pack_rows, pack_values
from db.schema import Measurement, RawFile, Round, Run, RunFile, Samples, Telemetry
from models.result import Measurement as MeasurementShape
from models.result import Result, Tool, dumps
from models.result import Samples as SamplesShape

N_RUNS, N_SAMPLES = 10_000, 1_000_000
N_MEASUREMENTS = 40  # a run: sizes x modes x statistics
DEFINITION = "linkworth:allreduce-graph:1"


def _run_rows(number: int, begin: datetime) -> dict[str, Any]:
    return {
        "number": number,
        "id": str(uuid.uuid4()),
        "kind": ("allreduce", "decode", "serving")[number % 3],
        "origin": "measured" if number % 2 else "imported",
        "validity": "valid" if number % 7 else "suspect",
        "title": f"Sweep {number}",
        "study": f"study-{number % 50}",
        "tool": "linkworth",
        "tool_version": "0.1.0",
        "host_label": "2 x A GPU",
        "started_at": begin,
        "created_at": begin + timedelta(seconds=number),
        "headline": "6.53 us at 3 KB (graph)",
        "reasons": [] if number % 7 else ["The clock fell."],
        "warnings": [],
        "artifacts": [],
        "said": {},
        "spec": {"kind": "allreduce", "sizes_bytes": [2**k for k in range(9, 27)]},
        "host": {"gpus": [{"index": n, "name": "A GPU", "uuid": f"GPU-{n}"} for n in range(8)]},
        "environment": {"python": "3.11.2", "variables": {"NCCL_DEBUG": "INFO"}},
    }


def _fill(engine: Engine) -> None:
    """Rows as ``store`` writes them, in bulk: ten thousand calls would take minutes."""
    rng = np.random.default_rng(3)
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    telemetry = pack_rows(
        [
            {"t": n / 2, "uuid": "GPU-0", "power_w": 300.0 + n % 7, "sm_clock_mhz": 1980}
            for n in range(120)
        ]
    )
    dims = [
        pack_dims({"bytes": 2**k, "mode": mode})
        for k in range(9, 19)
        for mode in ("graph", "eager")
    ]
    for first in range(1, N_RUNS + 1, 1000):
        numbers = range(first, first + 1000)
        run_rows = [_run_rows(number, begin) for number in numbers]
        place = [{"run_number": number, "part": 0, "round": 0} for number in numbers]
        raw = [os.urandom(3000) for _ in numbers]
        hashes = [hashlib.sha256(data).hexdigest() for data in raw]
        with writing(engine) as connection:
            connection.execute(insert(Run), run_rows)
            connection.execute(
                insert(Round),
                [
                    {**at, "result_id": row["id"], "validity": "valid", "reasons": []}
                    for at, row in zip(place, run_rows, strict=True)
                ],
            )
            connection.execute(
                insert(Measurement),
                [
                    {**at, "metric": "allreduce_latency", "statistic": statistic, "unit": "us",
                     "value": 6.5, "n": 30, "definition": DEFINITION, "dims": text}
                    for at in place
                    for text in dims
                    for statistic in ("median", "p90")
                ],
            )  # fmt: skip
            connection.execute(
                insert(Samples),
                [
                    {**at, "metric": "allreduce_latency", "unit": "us", "dims": text, "count": 5,
                     "data": pack_values(rng.normal(6.5, 0.1, N_SAMPLES // N_RUNS // len(dims)))}
                    for at in place
                    for text in dims
                ],
            )  # fmt: skip
            connection.execute(
                insert(Telemetry),
                [{"run_number": n, "part": 0, "count": 120, "data": telemetry} for n in numbers],
            )
            connection.execute(
                insert(RawFile),
                [
                    {"sha256": sha, "stored_sha256": sha, "size": 3000, "data": pack_file(data)}
                    for sha, data in zip(hashes, raw, strict=True)
                ],
            )
            connection.execute(
                insert(RunFile),
                [
                    {"run_number": number, "sha256": sha, "name": "result.json", "part": 0}
                    for number, sha in zip(numbers, hashes, strict=True)
                ],
            )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "linkworth.sqlite"


@pytest.fixture(scope="module")
def full(path: Path) -> Iterator[Engine]:
    """A store with 10,000 runs, 400,000 measurements and 1,000,000 samples."""
    engine = connect(f"sqlite:///{path}")
    migrations.upgrade(engine)
    _fill(engine)
    yield engine
    engine.dispose()


def _serving_result() -> Result:
    """One serving round: 41,000 gaps between tokens, the first tokens, and their statistics."""
    rng = np.random.default_rng(5)
    dims = {"concurrency": 16}
    return Result(
        kind="serving",
        origin="measured",
        tool=Tool(name="vllm", version="0.33"),
        measurements=[
            MeasurementShape(
                metric="itl", statistic=name, unit="ms", value=10.0, dims=dims,
                definition="vllm:itl:2",
            )
            for name in ("mean", "median", "p90", "p95", "p99", "std")
        ],
        samples=[
            SamplesShape(
                metric="itl", unit="ms", round=0, dims=dims,
                values=np.round(rng.lognormal(2.3, 0.2, 41_000), 4).tolist(),
            )
        ],
    )  # fmt: skip


def _best_ms(benchmark: Any) -> float:
    """The quickest round: what else runs on the machine only ever adds to it."""
    return float(benchmark.stats.stats.min) * 1000


def test_store_a_round_of_41_000_samples(full: Engine, benchmark: Any) -> None:
    def fresh() -> tuple[tuple[Engine, Result], dict[str, Any]]:
        result = _serving_result()
        return (full, result), {"raw": dumps([result]).encode()}

    benchmark.pedantic(runs.store, setup=fresh, rounds=15, warmup_rounds=2)
    assert _best_ms(benchmark) < 100


@pytest.mark.parametrize("n_blocked", [0, 500])
def test_claim(full: Engine, benchmark: Any, n_blocked: int) -> None:
    for job in jobs.list_jobs(full, states=["queued", "running"], limit=10_000):
        jobs.finish(full, job["id"], "cancelled")
    jobs.heartbeat(full, "w", pid=1, host="h1")
    busy = {"kind": "p2p", "device": "cuda", "gpus": [0]}
    for _ in range(n_blocked):
        jobs.enqueue(full, busy)
    for _ in range(120):
        jobs.enqueue(full, {"kind": "topology"})
    claimed = benchmark.pedantic(
        jobs.claim, args=(full, "w"), kwargs={"busy_gpus": ["0"]}, rounds=100, warmup_rounds=3
    )
    assert claimed["kind"] == "topology"
    assert _best_ms(benchmark) < 5


@pytest.mark.parametrize(
    ("read", "limit_ms"),
    [
        (lambda engine: runs.list_runs(engine), 100),
        (lambda engine: runs.list_runs(engine, kinds=["decode"], validities=["suspect"]), 100),
        (lambda engine: runs.list_runs(engine, study="study-7"), 100),
        (lambda engine: runs.list_runs(engine, text="sweep 99"), 150),
        (lambda engine: runs.list_runs(engine, offset=9_500), 100),
        (lambda engine: runs.count(engine, kinds=["decode"]), 50),
        (lambda engine: runs.measurements(engine, metrics=["allreduce_latency"], limit=5_000), 250),
    ],
    ids=["list", "filtered", "study", "text", "last-page", "count", "measurements"],
)
def test_read(full: Engine, benchmark: Any, read: Callable[[Engine], Any], limit_ms: float) -> None:
    benchmark.pedantic(read, args=(full,), rounds=10, warmup_rounds=1)
    assert _best_ms(benchmark) < limit_ms


def test_load_one_of_them(full: Engine, benchmark: Any) -> None:
    run_id = runs.list_runs(full, limit=1, offset=5_000)["id"].iloc[0]
    loaded = benchmark.pedantic(runs.load, args=(full, run_id), rounds=10, warmup_rounds=1)
    assert len(loaded.measurements) == N_MEASUREMENTS
    assert _best_ms(benchmark) < 100


def test_size_of_the_file(full: Engine, path: Path, benchmark: Any) -> None:
    size = benchmark.pedantic(lambda: path.stat().st_size, rounds=1)
    assert runs.count(full) >= N_RUNS
    assert size < 1e9
