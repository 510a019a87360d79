"""The answer of Link A/B in one sentence, before everything that speaks for and against it."""

from collections.abc import Sequence

from models.metrics import metric
from pages.widgets.serving_arms import Arm, cell_words
from pages.widgets.serving_compare import Row

ORDER = (("output_throughput", "value"), ("ttft", "median"), ("tpot", "median"))
_UP = {"output_throughput": ("higher", "lower")}  # of times: longer and shorter


def arm_words(arm: Arm) -> str:
    """An arm's name, with what its title adds: a letter alone says nothing."""
    first, colon, rest = arm.title.split(",")[0].partition(": ")
    return f"{arm.name} ({rest})" if colon and first == arm.name else arm.name


def headline(arms: tuple[Arm, Arm], rows: Sequence[Row]) -> str:
    """What changed from the reference to the other arm, over all workloads; empty without a figure.

    Args:
        arms: Reference and other arm.
        rows: Their figures.
    """
    parts = []
    used: list[Row] = []
    for name, statistic in ORDER:
        mine = [row for row in rows if (row.metric, row.statistic) == (name, statistic)]
        known = [row for row in mine if row.result and row.result.change_pct is not None]
        if known:
            parts.append(_change(known))
            used += known
    if not parts:
        parts = _printed(rows)
    if not parts:
        return ""
    what = f"{arm_words(arms[1])} instead of {arm_words(arms[0])}: {'; '.join(parts)}."
    return f"{what} {_certainty(used)}".rstrip()


def _change(rows: Sequence[Row]) -> str:
    """The range of a figure's change over the workloads, in words."""
    name = rows[0].metric
    label = _label(name)
    verdicts = {row.result.verdict for row in rows if row.result}
    if verdicts == {"same"}:
        return f"{label} the same within 2 %"
    if verdicts == {"not_shown"}:
        return f"no change of {label} shown"
    changes = [float(row.result.change_pct or 0.0) for row in rows if row.result]
    low, high = min(changes), max(changes)
    up, down = _UP.get(name, ("longer", "shorter"))
    if low > 0:
        words = f"{label} {_span(low, high)} {up}"
    elif high < 0:
        words = f"{label} {_span(-high, -low)} {down}"
    else:
        words = f"{label} {low:+.0f} to {high:+.0f} %"
    unshown = sum(row.result.verdict == "not_shown" for row in rows if row.result)
    return f"{words} (not shown in {unshown} of {len(rows)} workloads)" if unshown else words


def _span(low: float, high: float) -> str:
    """Two percentages as one where they print alike; a digit more where they are small."""
    digits = 0 if high >= 10 else 1
    first, last = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return f"{first} %" if first == last else f"{first} to {last} %"


def _printed(rows: Sequence[Row]) -> list[str]:
    """An author's own changes, a figure each with its workloads."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.printed:
            label = row.label[0].lower() + row.label[1:]
            found.setdefault(label, []).append(f"{row.printed} at {cell_words(row.cell)}")
    return [f"{label} {', '.join(changes)}" for label, changes in found.items()]


def _label(name: str) -> str:
    label = metric(name).label
    return label[0].lower() + label[1:]


def _certainty(rows: Sequence[Row]) -> str:
    results = [row.result for row in rows if row.result is not None]
    if not results:
        return "As its author printed it, without values to check it by."
    if any(result.verdict == "direction_only" for result in results):
        return "The direction counts, not the size: fewer than 3 rounds an arm."
    if all(result.low_pct is not None for result in results):
        return "Each change has a 95 % interval below."
    return ""
