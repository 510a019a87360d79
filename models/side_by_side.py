"""Any runs in one table: rows that mean the same, values side by side, and why some may not.

A dimension that has one value throughout each run is a condition of that run (link on, four
requests at once) and is listed as such; one that varies inside a run (message size) makes rows.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from models import conditions
from models.definitions import caution, comparable, conversion
from models.metrics import METRICS
from models.result import Measurement, Result, Scalar

_Key = tuple[str, str, tuple[tuple[str, Scalar], ...]]


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

    def change_pct(self, run: int, *, base: int = 0) -> float | None:
        """Change of a run against the base run in percent, None where it may not be said."""
        here, there = self.cells[run], self.cells[base]
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
    keys = list(dict.fromkeys(key for table in tables for key in table))
    found = []
    for key in keys:
        cells = tuple(table.get(key) for table in tables)
        present = [cell.definition for cell in cells if cell is not None]
        if len(present) < 2:
            continue
        pairs = list(combinations(dict.fromkeys(present), 2))
        reasons = [reason for a, b in pairs if (reason := comparable(a, b))]
        cautions = [word for a, b in pairs if (word := caution(a, b))]
        metric, statistic, dims = key
        found.append(
            Row(
                metric,
                statistic,
                dict(dims),
                cells,
                reasons[0] if reasons else None,
                cautions[0] if cautions and not reasons else None,
            )
        )
    return found


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


def _cells(result: Result, axes: Mapping[str, set[str]]) -> dict[_Key, Cell]:
    if result.validity == "invalid":
        return {}
    grouped: dict[_Key, list[Measurement]] = {}
    for row in result.measurements:
        if row.value is None or row.relative_to is not None:
            continue
        names = sorted(axes.get(row.metric, ()))
        dims = tuple((name, row.dims.get(name)) for name in names if name in row.dims)
        grouped.setdefault((row.metric, row.statistic, dims), []).append(row)
    return {
        key: Cell(
            statistics.median(row.value for row in same if row.value is not None),
            len(same),
            same[0].definition,
        )
        for key, same in grouped.items()
    }


def differing_conditions(results: Sequence[Result]) -> list[Condition]:
    """Conditions that the runs do not share: what was measured, then what is known to matter.

    Args:
        results: Two or more runs.
    """
    named = [_named(result) for result in results]
    found = [
        Condition(name, words, "")
        for name in dict.fromkeys(name for values in named for name in values)
        if len(set(words := tuple(conditions.said(values.get(name)) for values in named))) > 1
    ]
    pairwise = [conditions.differences(results[0], other) for other in results[1:]]
    differing = [row for differences in pairwise for row in differences]
    for weight in ("high", "some", "unknown"):
        for name in dict.fromkeys(row.name for row in differing if row.weight == weight):
            found.append(_condition(name, pairwise))
    return found


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
    flat |= {f"load: {name}": found.pop() for name, found in values.items() if len(found) == 1}
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
