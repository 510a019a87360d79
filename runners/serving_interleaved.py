"""Several arms up at the same time, measured in turn: rounds interleave without a restart.

A start costs a minute or two, so where the arms' memory fits side by side they all stay up and only
one of them works at a time. That the others were up is said in each result.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from models.errors import LinkworthError
from models.result import Notice
from runners.events import Events
from runners.serving import (
    WARM_SEED,
    benchmarks,
    check,
    take,
    teller,
    warm_load,
    wrong_questions,
)
from runners.serving_draft import Draft
from runners.serving_host import Fleet, fleet
from runners.serving_team import Setting, Team, share_of
from runners.serving_watch import Watch
from runners.spec import ServingSpec

TELEMETRY_EVERY = 4  # of two samples a second: a study is kept for good


@dataclass(frozen=True)
class Arm:
    """One arm of a study.

    Attributes:
        name: As the results call it.
        spec: What is started; its workloads are those of a round.
        part_of: Name of the arm whose first server this one uses, instead of a start of its own.
    """

    name: str
    spec: ServingSpec
    part_of: str | None = None


@contextmanager
def open_arms(
    arms: Sequence[Arm], work: Path, events: Events, lost: dict[str, LinkworthError]
) -> Iterator[dict[str, Fleet]]:
    """Start every arm's servers at the same time and wait until all are ready, or have failed.

    Args:
        arms: What to start; those that share a server follow it.
        work: Folder for logs.
        events: Told of every step.
        lost: Takes the arms that did not come up, each with its reason; the others go on.
    """
    own = [arm for arm in arms if arm.part_of is None]
    with ExitStack() as stack, ThreadPoolExecutor(max(1, len(own))) as pool:
        managers = {arm.name: fleet(arm.spec, _folder(work, arm), events) for arm in own}
        entered = {name: pool.submit(one.__enter__) for name, one in managers.items()}
        wait(entered.values())
        fleets: dict[str, Fleet] = {}
        for name, future in entered.items():
            if future.exception() is None:
                fleets[name] = future.result()
                stack.push(managers[name])
        for name, future in entered.items():  # now that those which came up will be ended
            error = future.exception()
            if isinstance(error, LinkworthError):
                lost[name] = error
            elif error is not None:
                raise error
        for arm in arms:
            if arm.part_of in fleets:
                whole = fleets[arm.part_of]
                count = arm.spec.arm.tp * arm.spec.arm.replicas
                fleets[arm.name] = replace(
                    whole,
                    base_urls=whole.base_urls[: arm.spec.arm.replicas],
                    servers=whole.servers[: arm.spec.arm.replicas],
                    uuids=whole.uuids[:count],
                )
            elif arm.part_of is not None:
                lost[arm.name] = lost[arm.part_of]
        yield fleets


def load_clients(
    stack: ExitStack, turns: Sequence[tuple[int, Arm]], fleets: dict[str, Fleet], work: Path
) -> dict[tuple[int, str], list[Team]]:
    """The clients of several rounds, all loading at the same time, while nothing works.

    A client takes half a minute to load on a slow host, so one after the other would cost more than
    the rounds. Loaded ones wait, stopped, and take no processor time.

    Args:
        stack: Ends them.
        turns: Round and arm of each.
        fleets: The servers by arm.
        work: Folder for the tool's result files.

    Returns:
        By round and arm's name, a team a workload. They are ready once `stand_by` returns.
    """
    teams: dict[tuple[int, str], list[Team]] = {}
    for number, arm in turns:
        folder = _folder(work, arm)
        setting = _setting(arm, fleets[arm.name], folder)
        teams[number, arm.name] = [
            stack.enter_context(Team(load, arm.spec.seed + number, setting, f"r{number}-{place}"))
            for place, load in enumerate(benchmarks(arm.spec))
        ]
    return teams


def clients_of(arm: Arm) -> int:
    """Client processes that one round of an arm needs."""
    return sum(
        share_of(load, arm.spec.arm.replicas, part) is not None
        for load in benchmarks(arm.spec)
        for part in range(arm.spec.arm.replicas)
    )


def stand_by(teams: Iterable[Team]) -> None:
    """Wait until every client stands before its first request."""
    for team in teams:
        team.prepare()


def arm_round(
    arm: Arm,
    number: int,
    servers: Fleet,
    teams: Sequence[Team],
    draft: Draft,
    events: Events,
) -> None:
    """One round of one arm, added to its draft.

    Raises:
        LinkworthError: The round failed; the draft is as it was before.
    """
    before = draft.result.model_copy(deep=True)
    try:
        with Watch(servers.uuids, servers.processes()) as watch:
            for place, team in enumerate(teams):
                tell = teller(events, number, team.workload, (place, len(teams)), servers)
                take(draft, team.work(number, tell, watch), servers, events)
            wrong_questions(arm.spec, number, servers, draft, events, (len(teams), len(teams)))
    except LinkworthError:
        draft.result = before  # no part of a round: it may be measured again
        raise
    draft.machine(watch.rows, is_kept=False)
    draft.result.telemetry += thinned(watch.rows)


def warm_clients(
    stack: ExitStack, arms: Sequence[Arm], fleets: dict[str, Fleet], work: Path
) -> dict[str, Team]:
    """The client of the round that every arm throws away, loading beside those that count."""
    teams: dict[str, Team] = {}
    for arm in arms:
        load = warm_load(arm.spec)
        if load is not None:
            setting = _setting(arm, fleets[arm.name], _folder(work, arm))
            team = Team(load, arm.spec.seed + WARM_SEED, setting, "warm")
            teams[arm.name] = stack.enter_context(team)
    return teams


def checked(
    arms: Sequence[Arm],
    fleets: dict[str, Fleet],
    drafts: Mapping[str, Draft],
    events: Events,
    phase: str,
) -> dict[str, LinkworthError]:
    """The fixed prompts to all arms at the same time, ``before`` or ``after`` what is measured.

    Returns:
        The arms whose server did not answer, each with its reason.
    """
    return _at_once(
        {
            arm.name: partial(check, arm.spec, fleets[arm.name], drafts[arm.name], events, phase)
            for arm in arms
        }
    )


def warmed_up(teams: Mapping[str, Team], events: Events) -> dict[str, LinkworthError]:
    """One round of every arm that is thrown away, all at the same time: it is no measurement.

    Returns:
        The arms whose server or client failed, each with its reason.
    """

    def tell(done: int, total: int) -> None:
        events.stage("warm-up", message=f"thrown away: {done} of {total} requests")

    return _at_once({name: partial(team.work, 0, tell) for name, team in teams.items()})


def _at_once(jobs: Mapping[str, Callable[[], object]]) -> dict[str, LinkworthError]:
    """Do all of them at the same time; what is no `LinkworthError` is raised."""
    failed = {}
    with ThreadPoolExecutor(max(1, len(jobs))) as pool:
        for name, done in {name: pool.submit(job) for name, job in jobs.items()}.items():
            try:
                done.result()
            except LinkworthError as error:
                failed[name] = error
    return failed


def _folder(work: Path, arm: Arm) -> Path:
    folder = work / arm.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _setting(arm: Arm, servers: Fleet, work: Path) -> Setting:
    idle = Watch((), ())  # never entered: each round brings its own
    return Setting(servers, work, idle, arm.spec.vllm_python, arm.spec.workload_time_limit_s)


def thinned(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Every fourth moment's GPU rows, without the list of processes."""
    moments: dict[object, list[dict[str, object]]] = {}
    for row in rows:
        if row.get("uuid"):
            kept = {key: value for key, value in row.items() if key not in ("processes", "xids")}
            moments.setdefault(row["t"], []).append(kept)
    return [row for moment in list(moments.values())[::TELEMETRY_EVERY] for row in moment]


def side_by_side(draft: Draft, others: Sequence[str]) -> None:
    """Say in a result which other arms were up, idle, while it was measured."""
    if others:
        notice = Notice(
            code="side_by_side",
            text=f"Up at the same time, without work: {', '.join(sorted(others))}. Their idle "
            "power is part of the energy figures.",
        )
        if notice not in draft.result.warnings:
            draft.result.warnings.append(notice)
