"""AllReduce sweep: how long one all-reduce takes, for each size, in each mode, on one link arm.

`python -m runners.allreduce --spec S --events E --result R`
"""

import sys
from typing import Any

from models.errors import RunnerUnavailable
from models.result import Result, utc_now
from runners.allreduce_plan import Progress, unit_seconds, units
from runners.allreduce_result import Sweep
from runners.environment import host_facts
from runners.events import Events, main_program
from runners.nvml import open_nvml, resolve
from runners.ranks import run_ranks
from runners.spec import AllReduceSpec

TARGET = "runners.allreduce_rank:measure"


def run(spec: AllReduceSpec, events: Events) -> Result:
    """Measure the latency of all-reduces of many sizes, with their values checked."""
    sweep = Sweep(spec, host_facts(), utc_now())
    _look_for_others(spec, sweep)
    plan = units(spec)
    progress = Progress([unit_seconds(spec, unit) for unit in plan])

    def announce() -> None:
        if progress.n_done < len(plan):
            name = plan[progress.n_done].name(spec.rounds)
            events.stage(name, progress.fraction, eta_s=progress.eta_s)

    def heard(rank: int, message: dict[str, Any]) -> None:
        sweep.take(rank, message)
        if "ready" in message:
            progress.begin()
            announce()
        elif "unit" in message:
            done = plan[progress.n_done]
            progress.advance()
            if progress.n_done == len(plan) or plan[progress.n_done].round != done.round:
                events.round(done.round, sweep.round_summary(done.round))
            announce()
        elif message.get("fault"):
            events.log(f"A fault is injected for a test: {message['fault']}.", "warning")

    events.stage("starting the ranks", 0.0, _words(spec), eta_s=progress.eta_s)
    try:
        ended = run_ranks(
            TARGET,
            {"spec": spec.model_dump(mode="json")},
            n_ranks=spec.n_ranks,
            device=spec.device,
            gpus=spec.gpus,
            link=spec.link,
            time_limit_s=spec.time_limit_s,
            on_message=heard,
        )
    except BaseException:
        events.partial = sweep.result()  # what was measured before stays worth reading
        raise
    for rank, message in enumerate(ended):
        sweep.take(rank, message)
    events.stage("done", 1.0, eta_s=0.0)
    return sweep.result()


def _words(spec: AllReduceSpec) -> str:
    if spec.device == "cpu":
        return f"{spec.n_ranks} CPU ranks over gloo: no GPU link is measured"
    link = f", link {spec.link}" if spec.link else ""
    return f"{spec.n_ranks} GPU{'s' if spec.n_ranks > 1 else ''} over NCCL{link}"


def _look_for_others(spec: AllReduceSpec, sweep: Sweep) -> None:
    """Before our own processes are there: is anybody else on these GPUs?"""
    if spec.device == "cpu":
        return
    try:
        with open_nvml() as nvml:
            uuids = resolve(nvml.gpus(), spec.gpus)
            busy = [row for row in nvml.sample(uuids) if row.get("processes")]
    except RunnerUnavailable:
        return
    for row in busy:
        count = len(row["processes"])
        others = "another process" if count == 1 else f"{count} other processes"
        sweep.warn("gpu_in_use", f"GPU {row['index']} was in use by {others} before the run.")


if __name__ == "__main__":
    sys.exit(main_program("allreduce", run))
