"""Which arms there are, and their figures by workload and round. Draws nothing."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from db import runs, studies
from db.engine import Engine
from models.rounds import Round
from pages.widgets.figure_places import places
from pages.widgets.offered import offered

KINDS = ("serving", "engine", "soak")
MOST_RUNS = 5000  # of all evaluations that are offered
SINGLE = "single"  # the group of runs that belong to no evaluation
_ORIGINS = {"measured": 0, "imported": 1, "published": 2}  # in this order
CELL = ("scenario", "concurrency", "request_rate", "input_len", "output_len")
_PLAIN_SCENARIOS = {"", "online", "single_stream"}
_SCENARIO_WORDS = {
    "long_output": "long output",
    "short_output": "short output",
    "abnormal": "wrong inputs",
    "pressure": "short memory",
    "soak": "sustained load",
}

Cell = tuple[Any, ...]


@dataclass(frozen=True)
class Arm:
    """One configuration under test: all its runs.

    Attributes:
        code: Stable, for the URL: evaluation and arm, or a run's id.
        name: As charts call it.
        group: Evaluation, or ``single``.
        origin: Of its runs.
        validity: The worst of its serving runs.
        run_ids: Oldest first.
        title: Of its first run.
        study: Id of its study, or None.
    """

    code: str
    name: str
    group: str
    origin: str
    validity: str
    run_ids: tuple[str, ...]
    title: str
    study: str | None


@dataclass(frozen=True)
class Group:
    """Arms that were planned or published together.

    Attributes:
        code: Evaluation id, or ``single``.
        label: For people.
        origin: Of its arms.
        arms: In the order in which they were made.
    """

    code: str
    label: str
    origin: str
    arms: tuple[Arm, ...] = field(default=())


def groups(engine: Engine, asked: Collection[str] = ()) -> list[Group]:
    """Evaluations, one's own, measured and newest first; at the end the runs that belong to none.

    Of the runs that `offered` offers, and always whole evaluations. Only to be read.

    Args:
        engine: The database.
        asked: Runs and evaluations that a link names, however old.
    """
    titles = {study["id"]: study["title"] for study in studies.list_studies(engine)}
    return _groups(engine, runs.version(engine), tuple(sorted(set(asked))), titles)


@st.cache_resource(show_spinner=False, max_entries=8)
def _groups(
    _engine: Engine, version: str, asked: tuple[str, ...], titles: dict[str, str]
) -> list[Group]:
    listed = _listed(_engine, asked)
    shipped = set(runs.list_runs(_engine, kinds=KINDS, shipped=True)["id"])
    together: dict[str, dict[str, list[Any]]] = {}
    alone: list[Arm] = []
    for row in listed.itertuples():
        if row.evaluation and row.arm:
            together.setdefault(row.evaluation, {}).setdefault(row.arm, []).append(row)
        else:
            alone.append(_arm(row.id, _name(row), SINGLE, [row]))
    found = []
    for code, arms in together.items():
        members = tuple(_arm(f"{code}|{name}", name, code, rows) for name, rows in arms.items())
        first = next(iter(arms.values()))[0]
        label = titles.get(code) or _evaluation_words(first, members, titles)
        found.append(Group(code, label, first.origin, members))
    places = {group.code: place for place, group in enumerate(found)}

    def order(group: Group) -> tuple[bool, int, bool, int]:
        is_shipped, rank = _rank(group, shipped)
        if not is_shipped:
            return False, rank, False, -places[group.code]  # one's own newest first
        # what came with the app in the order in which it came, but what is sure before what is not
        is_unsure = any(arm.validity != "valid" for arm in group.arms)
        return True, rank, is_unsure, places[group.code]

    found.sort(key=order)
    if alone:
        found.append(Group(SINGLE, "Single runs", "", tuple(reversed(alone))))
    return found


def _listed(engine: Engine, asked: tuple[str, ...]) -> pd.DataFrame:
    """Runs oldest first: those that are offered, and what else their evaluations have."""
    newest = offered(engine, KINDS, asked)
    whole = {*asked, *newest["evaluation"].dropna()}
    parts = [newest, runs.list_runs(engine, kinds=KINDS, evaluations=whole, limit=MOST_RUNS)]
    listed = pd.concat([part for part in parts if not part.empty] or parts[:1])
    listed = listed.drop_duplicates("id").sort_values("created_at", ascending=False, kind="stable")
    return listed.iloc[::-1]


def _rank(group: Group, shipped: set[str]) -> tuple[bool, int]:
    """Order of the groups: a study that came with the code leads only where it varies the link."""
    is_shipped = all(run in shipped for arm in group.arms for run in arm.run_ids)
    varies = any("off" in arm.name.lower().replace("-", " ").split() for arm in group.arms)
    if is_shipped and group.origin == "measured" and not varies:
        return True, len(_ORIGINS)
    return is_shipped, _ORIGINS.get(group.origin, len(_ORIGINS))


def _arm(code: str, name: str, group: str, rows: Sequence[Any]) -> Arm:
    serving = [row for row in rows if row.kind != "soak"] or list(rows)
    states = {row.validity for row in serving}
    worst = next(v for v in ("invalid", "suspect", "valid") if v in states)
    return Arm(
        code=code,
        name=name,
        group=group,
        origin=rows[0].origin,
        validity=worst,
        run_ids=tuple(row.id for row in rows),
        title=rows[0].title or name,
        study=rows[0].study,
    )


def _name(row: Any) -> str:
    name = row.title or row.headline or row.kind
    moment = row.finished_at if pd.notna(row.finished_at) else row.created_at
    return f"{name} · {moment:%Y-%m-%d %H:%M}" if pd.notna(moment) else str(name)


def _evaluation_words(first: Any, arms: Sequence[Arm], titles: dict[str, str]) -> str:
    title = str(first.title or "Serving").removesuffix(f", {first.arm}")
    study = f"{titles[first.study]}: " if first.study in titles else ""
    moment = first.created_at
    when = f" · {moment:%Y-%m-%d %H:%M}" if pd.notna(moment) and not study else ""
    return f"{study}{title} ({', '.join(arm.name for arm in arms)}){when}"


@st.cache_data(show_spinner=False, max_entries=400)
def run_facts(_engine: Engine, run_id: str, version: str) -> dict[str, Any]:
    """What a run says beside its figures: warnings, spec, host, environment, rounds' validity.

    Args:
        _engine: The database.
        run_id: Which run.
        version: Of all runs, see `db.runs.version`.
    """
    run = runs.head(_engine, run_id)
    rounds = runs.rounds(_engine, run_id)
    return {
        "id": run_id,
        "kind": run.kind,
        "finished_at": run.finished_at,
        "warnings": [(notice.code, notice.text) for notice in run.warnings],
        "reasons": list(run.reasons),
        "spec": run.spec,
        "host": run.host,
        "environment": run.environment,
        "validity": {
            (int(row.round) if pd.notna(row.round) else None): row.validity
            for row in rounds.itertuples()
        },
        "version": version,
    }


def facts_of(engine: Engine, arm: Arm) -> list[dict[str, Any]]:
    """`run_facts` of every run of an arm."""
    version = runs.version(engine)
    return [run_facts(engine, run_id, version) for run_id in arm.run_ids]


def figures(engine: Engine, arm: Arm) -> pd.DataFrame:
    """All measurements of an arm, with the validity of each round and its cell. Only to be read."""
    return _figures(engine, runs.version(engine), arm.run_ids)


@st.cache_resource(show_spinner=False, max_entries=64)
def _figures(_engine: Engine, version: str, run_ids: tuple[str, ...]) -> pd.DataFrame:
    frame = runs.measurements(_engine, run_ids=run_ids)
    for name in CELL:
        if name not in frame:
            frame[name] = None
    if frame.empty:
        return frame.assign(round_validity=[], cell=[], own_round=[], own_part=[])
    states = {run_id: run_facts(_engine, run_id, version)["validity"] for run_id in run_ids}
    frame["round_validity"] = [
        states[run].get(int(number) if pd.notna(number) else None, validity)
        for run, number, validity in zip(
            frame["run_id"], frame["round"], frame["validity"], strict=True
        )
    ]
    frame["cell"] = [cell_of(row) for row in frame[list(CELL)].itertuples(index=False)]
    return numbered_on(frame)


def numbered_on(frame: pd.DataFrame) -> pd.DataFrame:
    """Rounds and starts of an arm's runs, numbered on from run to run for each workload.

    The store numbers the rounds of one run; an arm that was measured again (other flags beside the
    ones compared, or what was missing) has several runs, whose rounds start at 0 each. Two rounds
    of one number would be taken for one. ``own_round`` and ``own_part`` keep what is stored.
    """
    frame = frame.assign(own_round=frame["round"], own_part=frame["part"])
    served = frame[frame["kind"] != "soak"]
    if served["run_id"].nunique() < 2:
        return frame
    for _, rows in served.groupby(served["cell"].map(str), sort=False):
        rounds: set[int] = set()
        starts = 0
        for _, mine in rows.groupby("run_id", sort=False):
            own = {int(number) for number in mine["own_round"].dropna()}
            shift = max(rounds) + 1 - min(own) if own & rounds else 0
            frame.loc[mine.index, "round"] = mine["own_round"] + shift
            frame.loc[mine.index, "part"] = mine["own_part"] + starts
            rounds |= {number + shift for number in own}
            starts += int(mine["own_part"].max()) + 1 if mine["own_part"].notna().any() else 1
    return frame


def cell_of(row: Any) -> Cell:
    """The workload of a row as a tuple of plain values; what is not known is None."""
    values = []
    for name in CELL:
        value = getattr(row, name)
        if value is None or (isinstance(value, float) and pd.isna(value)):
            values.append(None)
        elif isinstance(value, float) and value == int(value):
            values.append(int(value))
        else:
            values.append(value)
    # "online" and "single_stream" say no more than the concurrency does
    if values[0] in _PLAIN_SCENARIOS:
        values[0] = None
    # no limit on the rate: some rows of one run say so, others leave it out
    if values[2] == "inf":
        values[2] = None
    return tuple(values)


def cell_words(cell: Cell) -> str:
    """A workload as a person says it."""
    scenario, concurrency, rate, inputs, outputs = cell
    parts = [_SCENARIO_WORDS.get(scenario, scenario)] if scenario else []
    parts.append(f"concurrency {concurrency}" if concurrency else "no cap")
    if rate and rate != "inf":
        parts.append(f"{rate:g} requests/s" if not isinstance(rate, str) else f"rate {rate}")
    if inputs or outputs:
        parts.append(f"{inputs or '?'} in, {outputs or '?'} out")
    return ", ".join(parts)


def cell_order(cell: Cell) -> tuple[Any, ...]:
    """Plain workloads first, by concurrency and lengths."""
    scenario, concurrency, _, inputs, outputs = cell
    return (scenario or "", concurrency or 1 << 30, inputs or 0, outputs or 0)


def rounds_of(frame: pd.DataFrame, metric: str, statistic: str, cell: Cell) -> list[Round]:
    """A figure's value of every round of an arm, by one definition."""
    found = places(frame, metric, statistic, cell)
    if not found.size:
        return []
    values, kinds = (frame[name].array.take(found) for name in ("value", "kind"))
    wanted = ~pd.isna(values) & (kinds != "soak")
    if "phase" in frame and metric != "phase_time":
        wanted &= pd.isna(frame["phase"].array.take(found))
    found = found[np.asarray(wanted, dtype=bool)]
    if not found.size:
        return []
    # few columns, and no row as an object
    columns = ("definition", "value", "round", "part", "round_validity")
    rows = list(zip(*(frame[name].array.take(found) for name in columns), strict=True))
    return [
        Round(
            value=float(value),
            round=int(number) if pd.notna(number) else place,
            start=int(part) if pd.notna(part) else None,
            valid=validity != "invalid",
        )
        for place, (_, value, number, part, validity) in enumerate(
            row for row in rows if row[0] == rows[0][0]
        )
    ]


def definition_of(frame: pd.DataFrame, metric: str, statistic: str, cell: Cell) -> str | None:
    """How an arm's figure is defined; None where it has none."""
    found = places(frame, metric, statistic, cell)
    return str(frame["definition"].array[found[0]]) if found.size else None


def shared_cells(left: pd.DataFrame, right: pd.DataFrame) -> list[Cell]:
    """Workloads of both arms, plain ones first."""
    mine = set(left.loc[left["kind"] != "soak", "cell"]) if not left.empty else set()
    other = set(right.loc[right["kind"] != "soak", "cell"]) if not right.empty else set()
    nothing = (None,) * len(CELL)
    return sorted((mine & other) - {nothing}, key=cell_order)
