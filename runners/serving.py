"""Serving benchmark: one arm, one start, every workload once a round, by the real vLLM tools.

    python -m runners.serving --spec S --events E --result R

The tool's own result files are kept beside the result, in the folder ``R.files``.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from models.result import Result
from runners.events import Events
from runners.serving_check import abnormal_inputs, check_outputs
from runners.serving_draft import Draft, new_draft
from runners.serving_host import Fleet, fleet
from runners.serving_outcome import Outcome, load_dims, words_of
from runners.serving_program import serving_program
from runners.serving_rounds import read_outcome
from runners.serving_team import Progress, Setting, Team, work_natively
from runners.serving_watch import Watch
from runners.spec import ServingSpec, Workload

CLIENTS_AT_ONCE = 6  # loaded side by side; each holds some hundred megabytes
WARM_SEED = 1_000_003  # prompts that no measured round repeats


def run(
    spec: ServingSpec, events: Events, *, files: Path | None = None, telemetry: bool = False
) -> Result:
    """Measure one arm: start it, check its outputs, run every workload, check again, end it.

    Args:
        spec: What to measure.
        events: Told of every step.
        files: Folder for the tool's own files.
        telemetry: Whether the samples go into the result; a worker takes its own.
    """
    with tempfile.TemporaryDirectory(prefix="linkworth-serving-") as folder:
        work = Path(folder)
        with fleet(spec, work, events) as servers:
            draft = new_draft("serving", spec, servers, files)
            events.partial = draft.result
            with Watch(servers.uuids, servers.processes()) as watch:
                setting = Setting(
                    servers, work, watch, client_python(spec), spec.workload_time_limit_s
                )
                measure(spec, setting, draft, events)
            draft.machine(watch.rows, is_kept=telemetry)
            servers.check()
    return draft.finished()


def client_python(spec: ServingSpec) -> str | None:
    """The interpreter whose `vllm bench serve` is used; None: Linkworth's own client."""
    if spec.base_url is not None and not (spec.vllm_python and Path(spec.vllm_python).exists()):
        return None
    if spec.base_url is not None and spec.model is None:
        return None  # the tool needs a tokenizer for its prompts, and none is named
    return spec.vllm_python


def measure(spec: ServingSpec, setting: Setting, draft: Draft, events: Events) -> None:
    """All rounds of a spec on servers that are ready; the draft grows."""
    servers = setting.servers
    if spec.output_check:
        check(spec, servers, draft, events, "before")
    if setting.python is None:
        draft.warn(
            "own_client",
            "Measured by Linkworth's own client: vLLM's was not to be had (no vLLM, or no "
            "tokenizer named).",
        )
    if spec.warmup_round:
        warm_up(spec, setting, events)
    steps = spec.rounds * len(spec.workloads)
    for place in range(spec.rounds):
        number = spec.round + place
        one_round(spec, number, setting, draft, events, (place * len(spec.workloads), steps))
    draft.steadiness()
    if spec.output_check:
        check(spec, servers, draft, events, "after")


def check(spec: ServingSpec, servers: Fleet, draft: Draft, events: Events, phase: str) -> None:
    """The fixed prompts, before or after the load; every replica must answer them rightly."""
    events.stage("check", message=f"outputs {phase} the load")
    for place, url in enumerate(servers.base_urls):
        with servers.explained():
            found = check_outputs(url, servers.model, dummy=spec.load_format == "dummy")
        draft.outputs(found, phase, keep=place == 0)


def warm_load(spec: ServingSpec) -> Workload | None:
    """What is thrown away: the heaviest workload, twice as many requests as it has slots."""
    loads = benchmarks(spec)
    if not loads:
        return None
    heavy = max(loads, key=lambda load: load.concurrency or load.num_prompts)
    slots = heavy.concurrency or heavy.num_prompts
    return heavy.model_copy(update={"num_prompts": max(2, min(heavy.num_prompts, 2 * slots))})


def warm_up(spec: ServingSpec, setting: Setting, events: Events) -> None:
    """One discarded round."""
    short = warm_load(spec)
    if short is None:
        return

    def progress(done: int, total: int) -> None:
        events.stage("warm-up", message=f"thrown away: {done} of {total} requests")

    events.stage("warm-up", message="one round that is thrown away: loading the client")
    if setting.python is None:
        work_natively(short, spec.seed + WARM_SEED, setting, 0, progress)
        return
    with Team(short, spec.seed + WARM_SEED, setting, "warm") as team:
        team.prepare()
        team.work(0, progress)


def one_round(
    spec: ServingSpec,
    number: int,
    setting: Setting,
    draft: Draft,
    events: Events,
    progress: tuple[int, int],
) -> None:
    """Every workload once; `progress` says how many of how many steps lie behind."""
    done, steps = progress
    loads = benchmarks(spec)
    size = max(1, CLIENTS_AT_ONCE // len(setting.servers.base_urls))
    for group in (loads[i : i + size] for i in range(0, len(loads), size)):
        with ExitStack() as stack:
            teams: list[Team] = []
            if setting.python is not None:
                events.stage(f"round {number}", done / steps, "loading the clients")
                teams = load_teams(stack, group, spec.seed + number, setting, f"r{number}-{done}")
            for place, load in enumerate(group):
                tell = teller(events, number, load, (done, steps), setting.servers)
                if teams:
                    outcome = teams[place].work(number, tell)
                else:
                    outcome = work_natively(load, spec.seed + number, setting, number, tell)
                take(draft, outcome, setting.servers, events)
                setting.servers.tell(events)
                done += 1
    wrong_questions(spec, number, setting.servers, draft, events, (done, steps))


def benchmarks(spec: ServingSpec) -> list[Workload]:
    """The workloads that a benchmark client carries out."""
    return [load for load in spec.workloads if load.scenario != "abnormal"]


def load_teams(
    stack: ExitStack, loads: Sequence[Workload], seed: int, setting: Setting, tag: str
) -> list[Team]:
    """The clients of several workloads, loaded at the same time, each before its first request."""
    teams = [
        stack.enter_context(Team(load, seed, setting, f"{tag}-{place}"))
        for place, load in enumerate(loads)
    ]
    for team in teams:
        team.prepare()
    return teams


def wrong_questions(
    spec: ServingSpec,
    number: int,
    servers: Fleet,
    draft: Draft,
    events: Events,
    progress: tuple[int, int],
) -> None:
    """The workloads that ask wrongly on purpose."""
    done, steps = progress
    for load in spec.workloads:
        if load.scenario == "abnormal":
            events.stage(f"round {number}", done / steps, "wrong questions on purpose")
            _abnormal(draft, load, number, servers)
            done += 1


def take(draft: Draft, outcome: Outcome, servers: Fleet, events: Events) -> None:
    """Read an outcome into the draft and tell the live view."""
    reading = read_outcome(outcome, version=servers.version)
    draft.result.measurements += reading.measurements
    draft.result.samples += reading.samples
    for notice in reading.warnings:
        draft.warn(notice.code, notice.text)
    draft.suspect(reading.suspect)
    draft.invalid(reading.invalid)
    for part, data in enumerate(outcome.raw):
        load = outcome.workload
        name = f"round{outcome.round}-{load.scenario}-c{load.concurrency or 0}"
        name += f"-{load.input_len}-{load.output_len}-{part}.json"
        draft.keep(name, data)
    if reading.summary:
        events.round(outcome.round, reading.summary)


def teller(
    events: Events, number: int, load: Workload, place: tuple[int, int], servers: Fleet
) -> Progress:
    """What tells the live view how far a workload is, and what the servers log meanwhile."""

    def tell(count: int, total: int) -> None:
        share = (place[0] + count / max(total, 1)) / place[1]
        events.stage(f"round {number}", share, f"{words_of(load)}: {count} of {total} requests")
        servers.tell(events)

    return tell


def _abnormal(draft: Draft, load: Workload, number: int, servers: Fleet) -> None:
    with servers.explained():
        cases = abnormal_inputs(servers.base_urls[0], servers.model, servers.max_len or 0)
    dims = {**load_dims(load, len(servers.base_urls)), "num_prompts": len(cases)}
    good = sum(case.behaved for case in cases)
    for name, value in (("completed", good), ("failed", len(cases) - good)):
        draft.put_round(name, value, "linkworth:abnormal-inputs:1", number, dims)
    for case in cases:
        if not case.behaved:
            draft.warn("abnormal_input", f"{case.name.capitalize()}: {case.what}.")


def main(argv: list[str] | None = None) -> int:
    """Run as a program."""
    return serving_program("serving", run, argv)


if __name__ == "__main__":
    sys.exit(main())
