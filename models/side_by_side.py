"""Any runs in one table: rows that mean the same, values side by side, and why some may not.

A dimension that has one value throughout each run is a condition of that run (link on, four
requests at once) and is listed as such; one that varies inside a run (message size) makes rows.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from models import conditions
from models.definitions import caution, comparable, conversion, group_of
from models.metrics import METRICS
from models.result import Measurement, Result, Scalar

_LOAD = "load: "  # how a dimension that holds for a whole run is named among the conditions
_Place = tuple[str, str, tuple[tuple[str, Scalar], ...]]  # metric, statistic, dims
_Cells = dict[_Place, dict[str, "Cell"]]  # place -> group of definitions -> number


@dataclass(frozen=True)
class Cell:
    """One run's number.

    Attributes:
        value: Median over the rounds that have it.
        rounds: How many values that is the median of.
        definition: What the tool means by it; the first one's where rounds differ.
    """

    value: float
    rounds: int
    definition: str


@dataclass(frozen=True)
class Row:
    """One quantity over all runs.

    Attributes:
        metric: Name in the table of metrics.
        statistic: Which statistic of it.
        dims: Dimensions that make this row another than its neighbours.
        cells: One a run, None where the run does not have it.
        reason: Why the numbers may not be compared, or None.
        caution: What to keep in mind where they may, or None.
    """

    metric: str
    statistic: str
    dims: dict[str, Scalar]
    cells: tuple[Cell | None, ...]
    reason: str | None
    caution: str | None

    @property
    def unit(self) -> str:
        """Unit of the numbers."""
        if self.statistic == "change_pct":
            return "%"
        return "" if self.statistic == "speedup" else METRICS[self.metric].unit

    @property
    def meanings(self) -> list[str]:
        """The definitions of its numbers, each once."""
        return list(dict.fromkeys(cell.definition for cell in self.cells if cell is not None))

    @property
    def base(self) -> int:
        """The first run that has the quantity: changes are against it."""
        return next(index for index, cell in enumerate(self.cells) if cell is not None)

    def change_pct(self, run: int) -> float | None:
        """Change of a run against the base run in percent, None where it may not be said."""
        here, there = self.cells[run], self.cells[self.base]
        if self.reason is not None or here is None or there is None or there.value == 0:
            return None
        return (here.value / there.value - 1) * 100


@dataclass(frozen=True)
class Condition:
    """One condition that the runs do not share.

    Attributes:
        name: Its name, parts joined by dots.
        values: What each run says, in words.
        why: Why it matters, empty where that is not known.
    """

    name: str
    values: tuple[str, ...]
    why: str


def rows(results: Sequence[Result]) -> list[Row]:
    """Quantities that at least two of the runs have, in the order of the first run.

    Args:
        results: Two or more runs; invalid ones give no number.
    """
    axes = _axes(results)
    tables = [_cells(result, axes) for result in results]
    found: list[Row] = []
    for place in dict.fromkeys(place for table in tables for place in table):
        by_run = [table.get(place, {}) for table in tables]
        found += _rows_of(place, by_run)
    return found


def _rows_of(place: _Place, by_run: Sequence[Mapping[str, Cell]]) -> list[Row]:
    """One row a meaning that two runs share; a refusal for each run that shares none."""
    metric, statistic, dims = place
    found, covered = [], set()
    for group in dict.fromkeys(group for cells in by_run for group in cells):
        row = tuple(cells.get(group) for cells in by_run)
        runs_here = [index for index, cell in enumerate(row) if cell is not None]
        if len(runs_here) > 1:
            covered |= set(runs_here)
            words = _first(caution, row)
            found.append(Row(metric, statistic, dict(dims), row, None, words))
    alone = [index for index, cells in enumerate(by_run) if cells and index not in covered]
    others = [index for index, cells in enumerate(by_run) if cells]
    for index in alone:
        base = next((other for other in others if other != index), None)
        if base is None or (base in alone and base > index):
            continue
        row = tuple(
            next(iter(cells.values())) if place in (index, base) else None
            for place, cells in enumerate(by_run)
        )
        found.append(Row(metric, statistic, dict(dims), row, _first(comparable, row), None))
    return found


def _first(check: Callable[[str, str], str | None], row: Sequence[Cell | None]) -> str | None:
    """The first thing that a check of definitions has to say about any two cells."""
    present = dict.fromkeys(cell.definition for cell in row if cell is not None)
    return next((words for a, b in combinations(present, 2) if (words := check(a, b))), None)


def _axes(results: Sequence[Result]) -> dict[str, set[str]]:
    """Metric -> dimensions that vary inside at least one run."""
    axes: dict[str, set[str]] = {}
    for result in results:
        seen: dict[tuple[str, str], set[Scalar]] = {}
        for row in result.measurements:
            for name in METRICS[row.metric].dims:
                seen.setdefault((row.metric, name), set()).add(row.dims.get(name))
        for (metric, name), values in seen.items():
            if len(values) > 1:
                axes.setdefault(metric, set()).add(name)
    return axes


def _cells(result: Result, axes: Mapping[str, set[str]]) -> _Cells:
    """A run's numbers; what two tools measured under one word stays apart."""
    if result.validity == "invalid":
        return {}
    grouped: dict[_Place, dict[str, list[Measurement]]] = {}
    for row in result.measurements:
        if row.value is None or row.relative_to is not None:
            continue
        names = sorted(axes.get(row.metric, ()))
        dims = tuple((name, row.dims.get(name)) for name in names if name in row.dims)
        groups = grouped.setdefault((row.metric, row.statistic, dims), {})
        groups.setdefault(group_of(row.definition), []).append(row)
    return {
        place: {
            group: Cell(
                statistics.median(row.value for row in same if row.value is not None),
                len(same),
                same[0].definition,
            )
            for group, same in groups.items()
        }
        for place, groups in grouped.items()
    }


def differing_conditions(results: Sequence[Result]) -> list[Condition]:
    """Conditions that the runs do not share: what was measured, then what is known to matter.

    Args:
        results: Two or more runs.
    """
    pairwise = [conditions.differences(results[0], other) for other in results[1:]]
    differing = [row for differences in pairwise for row in differences]
    found = [
        _condition(name, pairwise)
        for weight in ("high", "some", "unknown")
        for name in dict.fromkeys(row.name for row in differing if row.weight == weight)
    ]
    why = {row.name: row.why for row in found}
    named = [_named(result) for result in results]
    measured = [
        Condition(name, words, why.get(name.removeprefix(_LOAD), ""))
        for name in dict.fromkeys(name for values in named for name in values)
        if len(set(words := tuple(conditions.said(values.get(name)) for values in named))) > 1
    ]
    # what was asked for and what was measured are one row where they say the same
    told = {(row.name.removeprefix(_LOAD), row.values) for row in measured}
    return measured + [row for row in found if (row.name, row.values) not in told]


def _condition(name: str, pairwise: Sequence[Sequence[conditions.Difference]]) -> Condition:
    """One difference over all runs: where a pair does not differ, the first run's value holds."""
    matches = [next((row for row in rows if row.name == name), None) for rows in pairwise]
    known = next(match for match in matches if match is not None)
    values = [known.left, *(known.left if m is None else m.right for m in matches)]
    return Condition(name, tuple(conditions.said(value) for value in values), known.why)


def _named(result: Result) -> dict[str, Any]:
    """What a run is, and the dimensions that hold for all of it."""
    flat: dict[str, Any] = {
        "origin": result.origin,
        "tool": result.tool.name,
        "tool version": result.tool.version,
        "validity": result.validity,
    }
    values: dict[str, set[Scalar]] = {}
    for row in result.measurements:
        for name in METRICS[row.metric].dims:
            if name in row.dims:
                values.setdefault(name, set()).add(row.dims[name])
    flat |= {f"{_LOAD}{name}": found.pop() for name, found in values.items() if len(found) == 1}
    return flat | {f"said by a person: {name}": value for name, value in result.said.items()}


def converted(row: Row, results: Sequence[Result]) -> Iterator[tuple[int, str, float, str]]:
    """Exact conversions that the runs' other numbers allow.

    Yields:
        Run, target definition, converted value, and the formula with when it is exact.
    """
    if row.statistic != "mean":
        return
    for index, cell in enumerate(row.cells):
        if cell is None:
            continue
        for target in _targets(cell.definition, results):
            way = conversion(cell.definition, target)
            needed = _further(results[index]) if way is not None else {}
            if way is None or not all(name in needed for name in way.needs):
                continue
            value = way.apply(cell.value, needed)
            if value is not None:
                yield index, target, value, way.words


def _targets(source: str, results: Sequence[Result]) -> list[str]:
    found = {row.definition for result in results for row in result.measurements}
    return sorted(found - {source})


def _further(result: Result) -> dict[str, float]:
    """Values that conversions want: tokens an answer where all have the same, mean TTFT."""
    further: dict[str, float] = {}
    first = result.find("ttft", "mean")
    if first and first[0].value is not None:
        further["ttft_mean"] = first[0].value
    lens = {row.dims["output_len"] for row in result.measurements if "output_len" in row.dims}
    if len(lens) == 1:
        tokens = lens.pop()
        if isinstance(tokens, int | float):
            further["output_len"] = float(tokens)
    return further
