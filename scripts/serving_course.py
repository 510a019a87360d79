"""One model's arms measured in turn: loaded together, one at a time, what fails given up alone."""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from serving_state import draft_of, files_of, rounds_of, save, state_file, stored  # noqa: E402

from models.errors import LinkworthError, ServerDied  # noqa: E402
from models.serving_words import cell_widths  # noqa: E402
from runners.events import Events, write_result  # noqa: E402
from runners.serving_draft import Draft  # noqa: E402
from runners.serving_host import Fleet  # noqa: E402
from runners.serving_interleaved import (  # noqa: E402
    Arm,
    arm_round,
    checked,
    clients_of,
    load_clients,
    open_arms,
    side_by_side,
    stand_by,
    warm_clients,
    warmed_up,
)
from runners.serving_team import Team  # noqa: E402

UNKNOWN_S = 20.0  # a round is begun while so much is left, until one shows how long it takes
MOST_FAILURES = 2  # of an arm whose server lives: a client may fail once

Turn = tuple[int, Arm]
Failures = dict[str, LinkworthError]


class Course:
    """The rounds of one model's arms until all are there or the time is over.

    Args:
        options: Of the study.
        model: Its config.json.
        arms: What is to be measured.
        began: When the study began, on the monotonic clock.
    """

    def __init__(
        self, options: argparse.Namespace, model: Path, arms: Sequence[Arm], began: float
    ) -> None:
        self.lost: Failures = {}
        self._options, self._model, self._began = options, model, began
        self._arms = list(arms)
        self._events = Events(str(options.state / "events.jsonl"))
        self._fleets: dict[str, Fleet] = {}
        self._drafts: dict[str, Draft] = {}
        self._failed = Counter[str]()
        self._longest: dict[str, float] = {}  # seconds of a round, by arm
        self._loading_s = 0.0
        self._is_warm = False

    def run(self) -> Failures:
        """Start, measure, end.

        Returns:
            The arms that were given up, each with its reason; the others were measured.
        """
        with tempfile.TemporaryDirectory(prefix="serving-study-") as folder:
            work = Path(folder)
            self._tell(f"starting {', '.join(arm.name for arm in self._arms)}")
            try:
                with open_arms(self._arms, work, self._events, self.lost) as self._fleets:
                    self._measure(work)
            finally:
                keep_logs(self._options, self._model, self._arms, work)
        return self.lost

    def _up(self) -> list[Arm]:
        return [arm for arm in self._arms if arm.name not in self.lost]

    def _tell(self, what: str) -> None:
        print(f"{self._model.stem}: {what}, {self._elapsed():.0f} s", flush=True)

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _left(self) -> float:
        return float(self._options.budget_s) - self._elapsed()

    def _measure(self, work: Path) -> None:
        arms = self._up()
        if not arms:
            return
        starts = {a.name: self._fleets[a.name].ready_s for a in arms if a.part_of is None}
        self._tell("ready (" + ", ".join(f"{k} {v or 0:.0f} s" for k, v in starts.items()) + ")")
        for arm in arms:
            draft = draft_of(self._options, self._model, arm, self._fleets[arm.name])
            side_by_side(draft, [one.name for one in arms if one is not arm])
            self._drafts[arm.name] = draft
        self._give_up(checked(arms, self._fleets, self._drafts, self._events, "before"))
        self._tell("outputs checked")
        while self.next_batch(work):
            pass
        arms = self._up()
        self._give_up(checked(arms, self._fleets, self._drafts, self._events, "after"))
        for name, draft in self._drafts.items():
            if not rounds_of(draft.result):
                continue  # nothing was measured, so there is no result
            draft.steadiness()
            if name in self.lost:
                draft.warn("arm_given_up", f"Given up before its end: {self.lost[name]}")
            arm = next(one for one in self._arms if one.name == name)
            write_result(draft.finished(), state_file(self._options, self._model, arm))

    def _turns(self) -> list[Turn]:
        every = missing(self._options, self._model, self._arms)
        mine = [(number, arm) for number, arm in every if arm.name not in self.lost]
        return first_turns(mine, self._options.clients_at_once)

    def next_batch(self, work: Path) -> bool:
        """The next rounds, whose clients load together.

        Returns:
            Whether another batch may follow: False where nothing is left to do, or no time.
        """
        turns = self._turns()
        if not turns:
            return False
        quickest = min(self._longest.get(arm.name, UNKNOWN_S) for _, arm in turns)
        if self._left() < self._loading_s + quickest:
            self._tell(f"{len(turns)} rounds not begun, {self._left():.0f} s left")
            return False
        with ExitStack() as stack:
            at = time.monotonic()
            teams = load_clients(stack, turns, self._fleets, work)
            warm: dict[str, Team] = {}
            if not self._is_warm:
                warm = warm_clients(stack, self._up(), self._fleets, work)
            for name, team in warm.items():
                self._stand_by(name, [team])
            for number, arm in turns:
                self._stand_by(arm.name, teams[number, arm.name])
            self._loading_s = time.monotonic() - at
            self._tell(f"clients of {len(turns)} rounds loaded")
            if warm:
                ready = {name: team for name, team in warm.items() if name not in self.lost}
                self._give_up(warmed_up(ready, self._events))
                self._tell("warm")
            self._is_warm = True
            is_over = False
            for number, arm in turns:
                if arm.name in self.lost:
                    continue
                if self._left() < self._longest.get(arm.name, UNKNOWN_S):
                    left = f"{self._left():.0f} s left"
                    self._tell(f"{arm.name} round {number} not begun, {left}")
                    is_over = True  # another arm may be quicker
                    continue
                self._turn(number, arm, teams[number, arm.name])
        return not is_over

    def _stand_by(self, name: str, teams: Sequence[Team]) -> None:
        if name in self.lost:
            return
        try:
            stand_by(teams)
        except LinkworthError as error:
            self._give_up({name: error})

    def _turn(self, number: int, arm: Arm, teams: Sequence[Team]) -> None:
        """One round of one arm, stored."""
        at = time.monotonic()
        draft = self._drafts[arm.name]
        try:
            arm_round(arm, number, self._fleets[arm.name], teams, draft, self._events)
        except LinkworthError as error:
            self._tell(f"{arm.name} round {number} failed: {error}")
            self._note_failure(arm, error)
            return
        took = time.monotonic() - at
        self._longest[arm.name] = took * 1.2  # the next may be slower
        write_result(draft.finished(), state_file(self._options, self._model, arm))
        save(self._options)  # the machine may be gone before the next round ends
        told = {
            row.dims["concurrency"]: round(row.value or 0, 3)
            for row in draft.result.find("tpot", "median")
            if row.round == number
        }
        name = f"{self._model.stem} {arm.name}"
        print(f"{name} round {number}: TPOT {told} ms, {took:.0f} s", flush=True)

    def _note_failure(self, arm: Arm, error: LinkworthError) -> None:
        self._failed[arm.name] += 1
        if isinstance(error, ServerDied) or self._failed[arm.name] >= MOST_FAILURES:
            self._give_up({arm.name: error})

    def _give_up(self, failed: Mapping[str, LinkworthError]) -> None:
        """Leave arms out from now on, and whoever shares a server that is gone."""
        gone = dict(failed)
        for arm in self._up():
            try:
                self._fleets[arm.name].check()
            except ServerDied as error:
                gone.setdefault(arm.name, error)
        for name, error in gone.items():
            self._tell(f"{name} is given up: {error.sentence}")
        self.lost |= gone


def missing(options: argparse.Namespace, model: Path, arms: Sequence[Arm]) -> list[Turn]:
    """(round, arm) still to be measured, rounds interleaved: A B, B A, A B."""
    results = {arm.name: stored(options, model, arm) for arm in arms}
    widest = max(
        (width for r in results.values() if r for width in cell_widths(r).values()), default=0.0
    )
    wanted = options.rounds
    if all(len(rounds_of(r)) >= wanted for r in results.values()) and widest > options.width_pct:
        done = min(len(rounds_of(r)) for r in results.values())
        wanted = min(options.max_rounds, max(wanted, done + 1))
    order = []
    for number in range(wanted):
        for arm in arms if number % 2 == 0 else reversed(arms):
            if number not in rounds_of(results[arm.name]):
                order.append((number, arm))
    return order


def first_turns(turns: Sequence[Turn], limit: int) -> list[Turn]:
    """As many of the next rounds as have clients for, at least one."""
    n_clients, found = 0, []
    for number, arm in turns:
        n_clients += clients_of(arm)
        if found and n_clients > limit:
            break
        found.append((number, arm))
    return found


def keep_logs(options: argparse.Namespace, model: Path, arms: Sequence[Arm], work: Path) -> None:
    """The servers' logs, beside the tool's files: why one came up late or not stands there."""
    for arm in arms:
        for log in (work / arm.name).glob("server-*.log"):
            folder = files_of(options, model, arm)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, folder / log.name)
