"""One arm that is weighed: its loads, rounds, requests, hardware and engine. Draws nothing.

An arm is read once and kept as plain values until it gets more rounds: a page that recomputes at
every click must not ask the database for every figure again.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.risk import Evidence
from models.rounds import Round
from models.service import Load
from models.use_cases import UseCase
from pages.widgets.serving_arms import (
    CELL,
    SINGLE,
    Arm,
    Cell,
    Group,
    cell_of,
    facts_of,
    figures,
    groups,
)
from pages.widgets.serving_evidence import soaks_of

STATISTICS = ("median", "mean", "p75", "p90", "p95", "p99", "max")
_KEPT = ("output_throughput", "ttft", "tpot", "completed", "failed", "energy_per_token")
_LONG = "long_output"
Figure = tuple[str, str, Cell]


@dataclass(frozen=True)
class Known:
    """One arm with everything that a decision takes from it.

    Attributes:
        arm: The arm.
        facts: Of its runs: spec, warnings, host, environment.
        rounds_of: Metric, statistic and workload -> rounds.
        printed: Published changes of throughput: concurrency, relative to, low, high (shares).
        seen: Incidents and hours of its sustained loads.
        host: Label of its machine, as the database keeps it.
        finished: Day of its newest run, ISO; empty where not stated.
        cells: Concurrency -> workload that is used.
        loads: The measured loads, lowest first.
    """

    arm: Arm
    facts: list[dict[str, Any]]
    rounds_of: dict[Figure, list[Round]]
    printed: list[tuple[int, str, float, float]]
    seen: Evidence
    host: str
    finished: str
    cells: dict[int, Cell] = field(default_factory=dict)
    loads: tuple[Load, ...] = ()

    def rounds(self, concurrency: int | None) -> list[Round]:
        """Output throughput of each round at a load."""
        cell = self.cells.get(concurrency) if concurrency is not None else None
        return self.rounds_of.get(("output_throughput", "value", cell), []) if cell else []

    def mean(self, metric: str, statistic: str, cell: Cell) -> float | None:
        """Mean over the valid rounds; None where there is none."""
        values = [r.value for r in self.rounds_of.get((metric, statistic, cell), []) if r.valid]
        return float(np.mean(values)) if values else None

    def middle(self, metric: str, concurrency: int | None) -> float | None:
        """Median (else mean) latency at a load, ms, mean over rounds; None where not known."""
        cell = self.cells.get(concurrency) if concurrency is not None else None
        if cell is None:
            return None
        median = self.mean(metric, "median", cell)
        return self.mean(metric, "mean", cell) if median is None else median

    def served(self) -> set[Cell]:
        """Workloads with a throughput."""
        return {key[2] for key in self.rounds_of if key[0] == "output_throughput" and key[2][1]}

    def last_round(self) -> int:
        """Highest number of a round, -1 without one."""
        return max((r.round for several in self.rounds_of.values() for r in several), default=-1)


def arm_words(arm: Arm) -> str:
    """An arm's name with what its title adds."""
    title = arm.title.split(", concurrency")[0].removesuffix(f", {arm.name}")
    return title if title.startswith(arm.name) else f"{arm.name}: {title}"


class Reader:
    """Reads each arm once a rerun of the page.

    Args:
        engine: The database.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # evaluations that can be weighed, by code
        self.groups: dict[str, Group] = {}
        self._arms: dict[str, Known] = {}
        self._add()

    def look_for(self, code: str) -> None:
        """Offer an evaluation too that is too old to be offered, where there is one."""
        if code and code not in self.groups:
            self._add(code)

    def _add(self, *asked: str) -> None:
        for group in groups(self.engine, asked):
            if group.code != SINGLE:
                self.groups.setdefault(group.code, group)

    def bare(self, arm: Arm) -> Known:
        """An arm without its loads: what it has of figures and facts."""
        if arm.code not in self._arms:
            facts = facts_of(self.engine, arm)
            version = tuple(str(fact["version"]) for fact in facts)
            plain = _plain(self.engine, arm.run_ids, version, arm)
            self._arms[arm.code] = Known(
                arm=arm,
                facts=facts,
                rounds_of={
                    key: [Round(*one) for one in several]
                    for key, several in plain["rounds"].items()
                },
                printed=plain["printed"],
                seen=Evidence(*plain["seen"]),
                host=plain["host"],
                finished=plain["finished"],
            )
        return self._arms[arm.code]

    def known(self, arm: Arm, use: UseCase, shared_with: Arm | None = None) -> Known:
        """An arm with the loads that count for a use.

        Args:
            arm: The arm.
            use: Long outputs are looked at for batches only.
            shared_with: Workloads that this arm has too are preferred.
        """
        bare = self.bare(arm)
        mine = bare.served()
        if shared_with is not None:
            mine = mine & self.bare(shared_with).served() or mine
        cells = _cells(mine, use)
        requests = self._requests(bare)
        loads = tuple(_load(bare, cells[n], requests.get(cells[n], [])) for n in sorted(cells))
        return Known(
            bare.arm, bare.facts, bare.rounds_of, bare.printed, bare.seen, bare.host,
            bare.finished, cells, loads,
        )  # fmt: skip

    def _requests(self, item: Known) -> dict[Cell, list[Any]]:
        found: dict[Cell, list[Any]] = {}
        if item.arm.origin == "published":
            return found  # nobody prints single requests
        for run_id, fact in zip(item.arm.run_ids, item.facts, strict=True):
            if fact["kind"] == "soak":
                continue
            for cell, rounds in _requests(self.engine, run_id, str(fact["version"])).items():
                found.setdefault(cell, []).extend(rounds)
        return found


@st.cache_data(show_spinner=False, max_entries=200, hash_funcs={Arm: lambda arm: arm.code})
def _plain(
    _engine: Engine, run_ids: tuple[str, ...], version: tuple[str, ...], arm: Arm
) -> dict[str, Any]:
    """Figures of an arm as plain values: rounds as value, number, start, seed, validity.

    Args:
        _engine: The database.
        run_ids: For the cache.
        version: Rounds of each run: one that grew is read again.
        arm: The arm.
    """
    del run_ids, version
    frame = figures(_engine, arm)
    known = frame[frame["metric"].isin(_KEPT) & frame["value"].notna() & (frame["kind"] != "soak")]
    if "phase" in known:
        known = known[known["phase"].isna()]
    columns = ("metric", "statistic", "cell", "value", "round", "part", "round_validity",
               "definition")  # fmt: skip
    rounds: dict[Figure, list[tuple[Any, ...]]] = {}
    definitions: dict[Figure, str] = {}
    for metric, statistic, cell, value, number, part, validity, definition in zip(
        *(known[name] for name in columns), strict=True
    ):
        key = (metric, statistic, cell)
        if definitions.setdefault(key, definition) != definition:
            continue  # two definitions are two figures
        several = rounds.setdefault(key, [])
        start = int(part) if pd.notna(part) else None
        place = int(number) if pd.notna(number) else len(several)
        several.append((float(value), place, start, None, validity != "invalid"))
    soaks = soaks_of([arm], [frame])
    moments = frame["finished_at"].dropna()
    return {
        "rounds": rounds,
        "printed": _printed(frame),
        "seen": (sum(s.incidents for s in soaks), sum(s.hours for s in soaks)),
        "host": str(frame["host"].iloc[0]) if len(frame) else "",
        "finished": f"{moments.max():%Y-%m-%d}" if len(moments) else "",
    }


def _printed(frame: pd.DataFrame) -> list[tuple[int, str, float, float]]:
    rows = frame[(frame["metric"] == "output_throughput") & (frame["statistic"] == "change_pct")]
    found = []
    for row in rows[["concurrency", "relative_to", "value", "low", "high"]].itertuples():
        low = row.low if pd.notna(row.low) else row.value
        high = row.high if pd.notna(row.high) else row.value
        if pd.notna(low) and pd.notna(high) and pd.notna(row.concurrency):
            found.append((int(row.concurrency), str(row.relative_to), low / 100, high / 100))
    return found


def _cells(served: set[Cell], use: UseCase) -> dict[int, Cell]:
    """One workload a concurrency: the lengths that were measured at most loads."""
    wanted = {None, _LONG} if use.code == "batch" else {None}
    groups: dict[tuple[Any, ...], dict[int, Cell]] = {}
    for cell in sorted(served, key=str):
        if cell[0] in wanted:
            groups.setdefault((cell[0], cell[3], cell[4]), {})[int(cell[1])] = cell
    return max(
        groups.values(),
        key=lambda cells: (next(iter(cells.values()))[0] == _LONG, len(cells)),
        default={},
    )


@st.cache_data(show_spinner=False, max_entries=200)
def _requests(_engine: Engine, run_id: str, version: str) -> dict[Cell, list[Any]]:
    """TTFT and TPOT of the requests of each round, by workload.

    Args:
        _engine: The database.
        run_id: Which run.
        version: Of its rounds, so that a run that grew is read again.
    """
    del version
    parts: dict[tuple[Cell, Any], dict[str, Any]] = {}
    for metric in ("ttft", "tpot"):
        for item in runs.samples(_engine, run_id, metric=metric):
            if item["dims"].get("phase"):
                continue
            row = pd.Series({name: item["dims"].get(name) for name in CELL})
            key = (cell_of(row), (item["round"], item["part"]))
            parts.setdefault(key, {})[metric] = item["values"]
    found: dict[Cell, list[Any]] = {}
    for (cell, _), values in parts.items():
        if "ttft" in values and "tpot" in values:
            found.setdefault(cell, []).append((values["ttft"], values["tpot"]))
    return found


def _load(item: Known, cell: Cell, requests: list[Any]) -> Load:
    return Load(
        concurrency=int(cell[1]),
        tok_s=item.mean("output_throughput", "value", cell),
        rounds=requests,
        ttft=_latencies(item, "ttft", cell),
        tpot=_latencies(item, "tpot", cell),
        completed=_sum(item, "completed", cell),
        failed=_sum(item, "failed", cell),
    )


def _latencies(item: Known, metric: str, cell: Cell) -> dict[str, float]:
    """Statistic -> the worst valid round's."""
    found = {}
    for statistic in STATISTICS:
        values = [r.value for r in item.rounds_of.get((metric, statistic, cell), []) if r.valid]
        if values:
            found[statistic] = max(values)
    return found


def _sum(item: Known, metric: str, cell: Cell) -> float | None:
    rounds = item.rounds_of.get((metric, "value", cell))
    return sum(r.value for r in rounds) if rounds else None
