"""Decode steps of a plain decoder at one TP size: `python -m runners.decode --spec S --result R`.

The published finding that this repeats: wall clock minus graph replay is the CPU's share of a step,
replay minus replay without the all-reduces is the communication's, and both are measured here.
"""

import os
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from models.cpu_lists import compact
from models.errors import InvalidSpec, LinkworthError
from models.result import Result, utc_now
from runners.decode_plan import need_of
from runners.decode_result import assemble
from runners.events import Events, main_program
from runners.nvml import open_nvml, resolve
from runners.ranks import run_ranks
from runners.spec import DecodeSpec


def run(spec: DecodeSpec, events: Events) -> Result:
    """Measure decode steps in wall clock and as replayed graphs, with and without all-reduces."""
    need_of(spec)  # refuses here what each rank would refuse once it has loaded torch
    started_at = utc_now()
    uuids = _uuids(spec)
    telemetry: list[dict[str, Any]] = []
    events.stage("Starting the ranks", 0.0)

    def heard(rank: int, message: dict[str, Any]) -> None:
        if "summary" in message:
            telemetry.extend(_sample(uuids))  # the next round is on its way: clocks under load
            events.round(message["round"], message["summary"])
        else:
            events.stage(message["stage"], message["fraction"])

    telemetry.extend(_sample(uuids))
    with _pinned(spec.cpu_affinity):
        ranks = run_ranks(
            "runners.decode_rank:measure",
            {"spec": spec.model_dump(mode="json")},
            n_ranks=spec.tp,
            device=spec.device,
            gpus=uuids or spec.gpus,
            link=spec.link if spec.tp > 1 else None,
            time_limit_s=spec.time_limit_s,
            on_message=heard,
            variables=_variables(spec),
        )
    events.stage("Done", 1.0)
    return assemble(spec, ranks, uuids, telemetry).model_copy(
        update={"started_at": started_at, "finished_at": utc_now()}
    )


def _uuids(spec: DecodeSpec) -> list[str]:
    """The GPUs' UUIDs in rank order; empty where no driver tells them."""
    try:
        with open_nvml() as nvml:
            return resolve(nvml.gpus(), spec.gpus)
    except InvalidSpec:
        raise
    except LinkworthError:
        return []


def _sample(uuids: Collection[str]) -> list[dict[str, Any]]:
    if not uuids:
        return []
    try:
        with open_nvml() as nvml:
            now = time.time()
            return [{"t": now, **row} for row in nvml.sample(uuids)]
    except LinkworthError:
        return []


def _variables(spec: DecodeSpec) -> dict[str, str]:
    chosen = {
        "OMP_NUM_THREADS": spec.omp_num_threads,
        "CUDA_DEVICE_MAX_CONNECTIONS": spec.cuda_device_max_connections,
    }
    return {name: str(value) for name, value in chosen.items() if value is not None}


@contextmanager
def _pinned(cpus: list[int] | None) -> Iterator[None]:
    """Ranks started inside inherit these CPUs.

    Raises:
        InvalidSpec: This process may not use one of them.
    """
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    foreign = set(cpus) - before
    if foreign:
        raise InvalidSpec(
            f"The CPUs {compact(foreign)} are not there, or not allowed here.",
            f"Pick from {compact(before)}.",
        )
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    sys.exit(main_program("decode", run))
