"""Decode runs gathered into cases: one model, load and link on one host, at all its TP sizes."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from db import runs
from db.engine import Engine
from models.architecture import calls_per_step, parameter_count
from models.decode import floor_ms, step_cost
from models.errors import InvalidSpec
from models.scaling import StepTimes
from models.step_interval import Estimate, over_rounds
from pages.widgets.speedup_facts import AllReduce, allreduce_of, architecture_of, run_facts

# what is shown as "wall": an engine launches a graph; where there is none, the loop is eager
WALL_CLOCKS = ("wall_graph", "wall_eager", "wall")


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
    calls: int | None = None
    floor_ms: float | None = None
    copy_gbps: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def wall(self) -> Reading | None:
        """The wall clock that a serving engine would show."""
        return next((self.readings[name] for name in WALL_CLOCKS if name in self.readings), None)

    def reading(self, clock: str) -> Reading | None:
        """``wall`` or ``replay``."""
        return self.wall if clock == "wall" else self.readings.get(clock)

    @property
    def times(self) -> StepTimes:
        """For the decomposition; an invalid run gives nothing."""
        if self.validity == "invalid":
            return StepTimes(self.tp)
        values = {
            name: reading.estimate.value if reading else None
            for name, reading in (
                ("wall_ms", self.wall),
                ("replay_ms", self.readings.get("replay")),
                ("no_allreduce_ms", self.readings.get("replay_no_allreduce")),
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
    def run_ids(self) -> list[str]:
        """Its runs, smallest TP first."""
        return [self.points[tp].run_id for tp in sorted(self.points)]


def build(engine: Engine, only: Sequence[str] = ()) -> list[Case]:
    """All cases that the database holds, published ones last.

    Args:
        engine: The database.
        only: Runs that win over newer ones of the same case.
    """
    steps = runs.measurements(engine, kinds=["decode"], metrics=["decode_step", "copy_bandwidth"])
    if steps.empty:
        return []
    sweeps = runs.measurements(
        engine,
        kinds=["allreduce"],
        metrics=["allreduce_latency", "allreduce_step_cost", "calls_per_step"],
        include_invalid=False,
    )
    copies = steps[steps["metric"] == "copy_bandwidth"].groupby("run_id")["value"].min()
    rows = steps[(steps["metric"] == "decode_step") & steps["statistic"].isin(["median", "value"])]
    rows = rows.assign(link=rows["link"].where(rows["tp"] > 1))
    cases: dict[str, Case] = {}
    # oldest first, so that a newer run of the same case replaces it; asked-for runs come last
    order = {run_id: place for place, run_id in enumerate(rows["run_id"].unique())}
    wanted = sorted(order, key=lambda run_id: (run_id in only, order[run_id]))
    for run_id in wanted:
        own = rows[rows["run_id"] == run_id]
        facts = run_facts(engine, run_id)
        for (batch, kv_len), part in own.groupby(["batch", "kv_len"], dropna=False):
            length = None if pd.isna(kv_len) else int(kv_len)
            _add(cases, part, facts, int(batch), length, copies.get(run_id), engine, sweeps)
    _spread_single_gpu(cases)
    return sorted(cases.values(), key=lambda case: (case.origin == "published", case.label))


def _add(
    cases: dict[str, Case],
    rows: pd.DataFrame,
    facts: dict[str, Any],
    batch: int,
    kv_len: int | None,
    copy_gbps: float | None,
    engine: Engine,
    sweeps: pd.DataFrame,
) -> None:
    first = rows.iloc[0]
    link = first["link"] if isinstance(first["link"], str) else None
    study = first["study"] if isinstance(first["study"], str) else None
    words = [facts["host"], facts["model"], f"batch {batch}"]
    words += [f"KV {kv_len:,}"] if kv_len else []
    words += [f"link {link}"] if link else []
    words += [facts["variant"]] if facts["variant"] else []
    label = " · ".join(words)
    identity = "|".join((label, facts["host_id"], study or "", first["origin"]))
    code = hashlib.sha256(identity.encode()).hexdigest()[:8]
    arch = architecture_of(facts["config"])
    case = cases.setdefault(
        code,
        Case(
            code=code,
            label=label,
            host=facts["host"],
            host_id=facts["host_id"],
            origin=str(first["origin"]),
            study=study,
            model=facts["model"],
            parameters=parameter_count(arch) if arch else None,
            batch=batch,
            kv_len=kv_len,
            link=link,
        ),
    )
    tp = int(first["tp"])
    point = Point(tp, str(first["run_id"]), str(first["validity"]), notes=list(facts["notes"]))
    for clock, part in rows.groupby("clock"):
        values = tuple(float(value) for value in part["value"].dropna())
        if values:
            definition = str(part["definition"].iloc[0])
            point.readings[str(clock)] = Reading(
                str(clock), values, over_rounds(values), definition
            )
    if arch is not None:
        point.calls = calls_per_step(arch, vocab_parallel_embedding=True) if tp > 1 else 0
        if copy_gbps and kv_len:
            width = 4 if facts["dtype"] == "float32" else 2
            try:
                point.floor_ms = floor_ms(step_cost(arch, tp, batch, kv_len, width), copy_gbps)
                point.copy_gbps = copy_gbps
            except InvalidSpec:
                point.floor_ms = None  # not a plain decoder: its bytes are not counted here
    if tp > 1:
        hidden = facts["config"].get("hidden_size")
        width = 4 if facts["dtype"] == "float32" else 2
        size = width * batch * hidden if isinstance(hidden, int) else None
        point.allreduce = allreduce_of(engine, sweeps, case, tp, size)
    case.points[tp] = point


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
    return (plain, case.host_id, case.study) == (other.label, other.host_id, other.study)


def with_runs(cases: Iterable[Case], run_ids: Sequence[str]) -> list[str]:
    """Codes of the cases that hold any of these runs."""
    wanted = set(run_ids)
    return [case.code for case in cases if wanted & set(case.run_ids)]
