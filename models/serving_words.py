"""A serving study in sentences: what the arms differ in, and how sure that is."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from models.layout_gain import changes, sentences
from models.layout_worth import worth, worth_sentences
from models.layouts import alike, questions
from models.metrics import metric
from models.result import Result, Scalar
from models.rounds import Round

# two-sided 95 % points of Student's t for 1 to 30 degrees of freedom (standard table)
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip

Cell = tuple[Scalar, ...]
CELL_DIMS = ("scenario", "concurrency", "input_len", "output_len")


def t_95(df: int) -> float:
    """Two-sided 95 % point of Student's t; 1.96 beyond 30 degrees of freedom."""
    return _T[df - 1] if 1 <= df <= len(_T) else 1.96


def cell_rounds(result: Result, name: str, statistic: str) -> dict[Cell, dict[int, float]]:
    """A metric's value of every round, by cell (scenario, concurrency, lengths)."""
    cells: dict[Cell, dict[int, float]] = defaultdict(dict)
    for row in result.find(name, statistic):
        if row.round is not None and row.value is not None:
            cells[tuple(row.dims.get(dim) for dim in CELL_DIMS)][row.round] = row.value
    return dict(cells)


def cell_widths(result: Result, name: str = "tpot", statistic: str = "median") -> dict[Cell, float]:
    """Full width of each cell's 95 % interval over rounds, in percent of its mean.

    Returns:
        Cells with two rounds or more; the interval is Student's over the rounds' values.
    """
    widths = {}
    for cell, rounds in cell_rounds(result, name, statistic).items():
        values = np.array(list(rounds.values()))
        if values.size >= 2 and values.mean() > 0:
            error = values.std(ddof=1) / np.sqrt(values.size)
            widths[cell] = float(200 * t_95(values.size - 1) * error / values.mean())
    return widths


def paired_change(
    reference: Mapping[int, float], other: Mapping[int, float]
) -> tuple[float, float | None, float | None, int] | None:
    """Change of `other` against `reference` in percent, paired by round, with its 95 % interval.

    Returns:
        Change, low, high, number of pairs; the interval is None below three pairs; None where no
        round is shared.
    """
    shared = sorted(reference.keys() & other.keys())
    if not shared:
        return None
    logs = np.array([np.log(other[r] / reference[r]) for r in shared])
    change = float(np.expm1(logs.mean()) * 100)
    if logs.size < 3:
        return change, None, None, logs.size
    half = t_95(logs.size - 1) * logs.std(ddof=1) / np.sqrt(logs.size)
    low, high = np.expm1([logs.mean() - half, logs.mean() + half]) * 100
    return change, float(low), float(high), logs.size


def study_sentences(results: Sequence[Result]) -> list[str]:
    """What a study found: by layout where its arms ask for that, else against the first arm.

    Args:
        results: One a model and arm, arms of one model sharing an evaluation id.
    """
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.evaluation is not None and result.validity != "invalid":
            groups[result.evaluation.id].append(result)
    out = []
    for arms in groups.values():
        first, *others = arms
        told = _layout_sentences(arms)
        out += told[0]
        for other in others:
            if _arm(other) not in told[1]:
                out += _pair_sentences(first, other)
    widths = [width for result in results for width in cell_widths(result).values()]
    if widths:
        out.append(
            f"Widest 95 % interval of a cell's median TPOT: {max(widths):.1f} % of its mean "
            f"({len(widths)} cells)."
        )
    return out


def _layout_sentences(arms: Sequence[Result]) -> tuple[list[str], set[str]]:
    """What TP, link and kernel give, and the arms that this tells of; nothing of one question."""
    by_name = {_arm(result): result for result in arms}
    layouts = alike({name: result.spec for name, result in by_name.items()})
    asked = questions(layouts)
    if len(asked) < 2:
        return [], set()

    def rounds(arm: str, name: str, statistic: str, cap: int) -> list[Round]:
        cells = cell_rounds(by_name[arm], name, statistic)
        mine = next((values for cell, values in cells.items() if cell[1] == cap), {})
        return [Round(value, number) for number, value in sorted(mine.items())]

    caps = {
        cell[1]
        for result in arms
        for cell in cell_rounds(result, "tpot", "median")
        if isinstance(cell[1], int)
    }
    told = sentences(changes(asked, sorted(caps), rounds, is_paired=True))
    told += worth_sentences(worth(layouts, sorted(caps), rounds, is_paired=True))
    model = arms[0].spec.get("model_name") or "the model"
    return [f"{model}: {text}" for text in told], set(layouts)


def _pair_sentences(first: Result, other: Result) -> list[str]:
    out = []
    names = (_arm(first), _arm(other))
    before = cell_rounds(first, "tpot", "median")
    after = cell_rounds(other, "tpot", "median")
    for cell in sorted(before.keys() & after.keys(), key=lambda cell: (cell[1] or 0, str(cell))):
        parts = []
        for name, statistic in (
            ("tpot", "median"),
            ("ttft", "median"),
            ("output_throughput", "value"),
        ):
            left = cell_rounds(first, name, statistic).get(cell, {})
            right = cell_rounds(other, name, statistic).get(cell, {})
            change = paired_change(left, right)
            if change is not None:
                parts.append(f"{metric(name).label} {_change_words(change)}")
        model = first.spec.get("model_name") or "the model"
        out.append(
            f"{model}, concurrency {cell[1]}: {names[1]} against {names[0]}: {'; '.join(parts)}."
        )
    return out


def _arm(result: Result) -> str:
    return result.evaluation.arm if result.evaluation else "?"


def _change_words(change: tuple[float, float | None, float | None, int]) -> str:
    value, low, high, count = change
    if low is None or high is None:
        return f"{value:+.1f} % (direction only, {count} round{'s' if count > 1 else ''})"
    return f"{value:+.1f} % [{low:+.1f}, {high:+.1f}]"
