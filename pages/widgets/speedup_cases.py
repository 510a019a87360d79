"""Decode runs gathered into cases: one model, load and link on one host, at all its TP sizes."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.architecture import calls_per_step
from models.decode import DTYPE_BYTES, floor_ms, step_cost
from models.errors import InvalidSpec
from models.scaling import StepTimes
from models.step_clocks import wall_of
from models.step_interval import Estimate, over_rounds
from pages.widgets.speedup_facts import CPU_HOST, AllReduce, allreduce_of, facts_of, sweeps
from pages.widgets.speedup_names import in_order, tell_apart

MOST_RUNS = 2000  # older ones are found by their id only
# columns that are gone through row by row
_READ = (
    "group", "run_id", "validity", "origin", "study", "tp", "batch", "kv_len", "link", "clock",
    "value", "definition",
)  # fmt: skip
# what is shown as "wall": one graph a step; where there is none, the loop is eager. A step as an
# engine drives it is a clock of its own.
WALL_CLOCKS = ("wall_graph", "wall_eager", "wall")
SERVED = "wall_served"


@dataclass(frozen=True)
class Reading:
    """One clock of one run: its rounds, and what it means.

    Attributes:
        clock: As stored.
        rounds: Step times, one a round, milliseconds.
        estimate: Median and interval.
        definition: How it was measured.
    """

    clock: str
    rounds: tuple[float, ...]
    estimate: Estimate
    definition: str


@dataclass
class Point:
    """A case at one TP size."""

    tp: int
    run_id: str
    validity: str
    readings: dict[str, Reading] = field(default_factory=dict)
    allreduce: AllReduce | None = None
    message_bytes: int | None = None
    calls: int | None = None
    floor_ms: float | None = None
    copy_gbps: float | None = None
    cards: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)

    @property
    def wall(self) -> Reading | None:
        """The wall clock with the least work of the host in it that was read."""
        return next((self.readings[name] for name in WALL_CLOCKS if name in self.readings), None)

    def reading(self, clock: str) -> Reading | None:
        """``wall``, or a clock by its own name."""
        return self.wall if clock == "wall" else self.readings.get(clock)

    @property
    def definitions(self) -> dict[str, str]:
        """Clock -> how it was read."""
        return {name: reading.definition for name, reading in self.readings.items()}

    @property
    def times(self) -> StepTimes:
        """For the decomposition; an invalid run gives nothing."""
        return self.times_in(wall_of(self.definitions))

    def times_in(self, wall: str | None, without: Collection[str] = ()) -> StepTimes:
        """The step with one of its wall clocks.

        Args:
            wall: That clock; None leaves it out.
            without: Clocks that are left out.
        """
        if self.validity == "invalid":
            return StepTimes(self.tp)
        known = {name: reading for name, reading in self.readings.items() if name not in without}
        values = {
            name: known[clock].estimate.value if clock in known else None
            for name, clock in (
                ("wall_ms", wall),
                # beside one graph a step: what an engine does around it
                ("served_ms", SERVED if wall == "wall_graph" else None),
                ("replay_ms", "replay"),
                ("no_allreduce_ms", "replay_no_allreduce"),
            )
        }
        cost = self.allreduce
        return StepTimes(
            self.tp,
            **values,
            calls=(cost.calls if cost and cost.calls else self.calls),
            allreduce_us=cost.latency_us if cost else None,
            allreduce_step_ms=cost.step_ms if cost else None,
        )


@dataclass
class Case:
    """One model, load and link on one host, over its TP sizes.

    Attributes:
        code: Short and stable: stands in links.
        label: For people.
        host: Name of the host for people.
        host_id: Tells hosts apart.
        points: TP size -> newest run there.
    """

    code: str
    label: str
    host: str
    host_id: str
    origin: str
    study: str | None
    model: str
    parameters: int | None
    batch: int
    kv_len: int | None
    link: str | None
    points: dict[int, Point] = field(default_factory=dict)

    @property
    def valid(self) -> dict[int, Point]:
        """Points that may be compared."""
        return {tp: point for tp, point in self.points.items() if point.validity != "invalid"}

    @property
    def is_cpu(self) -> bool:
        """Whether its ranks are CPU processes."""
        return self.host.startswith(CPU_HOST)

    @property
    def run_ids(self) -> list[str]:
        """Its runs, smallest TP first."""
        return [self.points[tp].run_id for tp in sorted(self.points)]


def build(engine: Engine, only: Sequence[str] = ()) -> list[Case]:
    """The cases that the database holds, published ones last; their all-reduces cost nothing yet.

    Args:
        engine: The database.
        only: Runs that win over newer ones of the same case.
    """
    ids = [*_offered(engine), *only]
    steps = runs.measurements(
        engine, run_ids=ids, metrics=["decode_step"], statistics=["median", "value"]
    )
    if steps.empty:
        return []
    steps = steps.assign(
        link=steps["link"].where(steps["tp"] > 1),
        group=steps.groupby(["run_id", "batch", "kv_len"], sort=False, dropna=False).ngroup(),
    )
    heads = runs.heads(engine, steps["run_id"].unique())
    facts = {run_id: facts_of(run) for run_id, run in heads.items()}
    cases: dict[str, Case] = {}
    newest: dict[tuple[str, int], int] = {}
    # oldest first, so that a newer run of the same case replaces it; asked-for runs come last
    first_rows = steps.drop_duplicates("group")[list(_READ)]
    firsts = sorted(first_rows.itertuples(), key=lambda row: row.run_id in only)
    for row in firsts:
        case = _case(row, facts[row.run_id])
        cases.setdefault(case.code, case)
        newest[case.code, int(row.tp)] = row.group
    shown = steps[steps["group"].isin(list(newest.values()))]
    rows: dict[int, list[Any]] = {}
    for row in shown[list(_READ)].itertuples():
        rows.setdefault(row.group, []).append(row)
    copies = runs.measurements(engine, run_ids=shown["run_id"].unique(), metrics=["copy_bandwidth"])
    gbps = copies.groupby("run_id")["value"].min()
    for (code, tp), group in newest.items():
        run_id = rows[group][0].run_id
        point = _point(rows[group], cases[code], facts[run_id], gbps.get(run_id))
        cases[code].points[tp] = point
    _spread_single_gpu(cases)
    tell_apart(list(cases.values()))
    return sorted(cases.values(), key=in_order)


@st.cache_resource(show_spinner=False, max_entries=8)
def kept(_engine: Engine, version: str, only: tuple[str, ...]) -> list[Case]:
    """`build`, kept while the runs are the same: read it, and change nothing in it.

    Args:
        _engine: The database.
        version: Of its runs, see `db.runs.version`.
        only: As for `build`.
    """
    return build(_engine, only)


def with_costs(engine: Engine, version: str, cases: Iterable[Case]) -> list[Case]:
    """Copies of cases whose points above TP=1 know what their all-reduces cost, where measured."""
    costed = []
    for case in cases:
        points = dict(case.points)
        for tp, point in case.points.items():
            if point.message_bytes is not None:
                rows = sweeps(engine, version, case.host_id, case.origin, case.study)
                cost = allreduce_of(rows, case, point.cards, tp, point.message_bytes)
                points[tp] = replace(point, allreduce=cost)
        costed.append(replace(case, points=points))
    return costed


@st.cache_resource(show_spinner=False, max_entries=32)
def kept_with_costs(
    _engine: Engine, version: str, only: tuple[str, ...], codes: tuple[str, ...]
) -> list[Case]:
    """`with_costs` of some of the cases that are `kept`, in the order of their codes."""
    by_code = {case.code: case for case in kept(_engine, version, only)}
    return with_costs(_engine, version, [by_code[code] for code in codes])


def n_left_out(engine: Engine) -> int:
    """How many decode runs are too old to be looked at, unless somebody asks for them by id."""
    return max(0, runs.count(engine, kinds=["decode"], shipped=False) - MOST_RUNS)


def _offered(engine: Engine) -> list[str]:
    own = runs.list_runs(engine, kinds=["decode"], shipped=False, limit=MOST_RUNS)
    return [*own["id"], *runs.list_runs(engine, kinds=["decode"], shipped=True)["id"]]


def _case(first: Any, facts: dict[str, Any]) -> Case:
    """The case that a run's row belongs to, without its points."""
    link = first.link if isinstance(first.link, str) else None
    study = first.study if isinstance(first.study, str) else None
    batch, kv_len = int(first.batch), None if pd.isna(first.kv_len) else int(first.kv_len)
    words = [facts["host"], facts["model"], f"batch {batch}"]
    words += [f"KV {kv_len:,}"] if kv_len else []
    words += [f"link {link}"] if link else []
    words += [facts["variant"]] if facts["variant"] else []
    label = " · ".join(words)
    identity = "|".join((label, facts["host_id"], study or "", first.origin))
    return Case(
        code=hashlib.sha256(identity.encode()).hexdigest()[:8],
        label=label,
        host=facts["host"],
        host_id=facts["host_id"],
        origin=str(first.origin),
        study=study,
        model=facts["model"],
        parameters=facts["parameters"],
        batch=batch,
        kv_len=kv_len,
        link=link,
    )


def _point(
    rows: Sequence[Any], case: Case, facts: dict[str, Any], copy_gbps: float | None
) -> Point:
    """What one run says of a case at its TP size."""
    first = rows[0]
    tp, arch = int(first.tp), facts["architecture"]
    point = Point(tp, str(first.run_id), str(first.validity))
    point.cards, point.notes = facts["cards"], list(facts["notes"])
    by_clock: dict[str, list[Any]] = {}
    for row in rows:
        if isinstance(row.clock, str) and pd.notna(row.value):
            by_clock.setdefault(row.clock, []).append(row)
    for clock, own in by_clock.items():
        values = tuple(float(row.value) for row in own)
        point.readings[clock] = Reading(clock, values, over_rounds(values), str(own[0].definition))
    width = DTYPE_BYTES.get(str(facts["dtype"]), DTYPE_BYTES["bfloat16"])
    if arch is not None:
        point.calls = calls_per_step(arch, vocab_parallel_embedding=True) if tp > 1 else 0
        if copy_gbps and case.kv_len:
            try:
                cost = step_cost(arch, tp, case.batch, case.kv_len, width)
                point.floor_ms = floor_ms(cost, copy_gbps)
                point.copy_gbps = copy_gbps
            except InvalidSpec:
                point.floor_ms = None  # not a plain decoder: its bytes are not counted here
    hidden = facts["config"].get("hidden_size")
    if tp > 1 and isinstance(hidden, int):
        point.message_bytes = width * case.batch * hidden
    return point


def _spread_single_gpu(cases: dict[str, Case]) -> None:
    """Give the single-GPU step to every link arm of its host: one GPU has no link."""
    alone = [case for case in cases.values() if case.link is None and 1 in case.points]
    for case in [case for case in cases.values() if case.link is not None]:
        for other in alone:
            if _same_but_link(case, other):
                case.points.setdefault(1, other.points[1])
    linked = [case for case in cases.values() if case.link is not None]
    for other in alone:
        if set(other.points) == {1} and any(_same_but_link(case, other) for case in linked):
            del cases[other.code]


def _same_but_link(case: Case, other: Case) -> bool:
    plain = case.label.replace(f" · link {case.link}", "") if case.link else case.label
    places = [(each.host_id, each.study, each.origin) for each in (case, other)]
    return plain == other.label and places[0] == places[1]


def with_runs(cases: Iterable[Case], run_ids: Sequence[str]) -> list[str]:
    """Codes of the cases that hold any of these runs."""
    wanted = set(run_ids)
    return [case.code for case in cases if wanted & set(case.run_ids)]
