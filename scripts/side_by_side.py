"""What the comparisons of two tools share: who begins, the bar, one table, nothing lost on the way.

Needs nothing but Python.
"""

import json
from pathlib import Path

BAR = 0.05
VERDICTS = {True: "within 5 %", False: "MISSES 5 %", None: "no bar here"}


def agrees(ratio: float) -> bool:
    """Whether two figures lie within the bar of each other, the second one being the measure."""
    return abs(ratio - 1) <= BAR


def in_turn(index: int, first: list, second: list) -> list:
    """Who begins changes with each alternation, so that drift cancels."""
    return first + second if index % 2 == 0 else second + first


def gpu_names(text: str) -> list[int | str]:
    """Indices or UUIDs, by comma."""
    return [int(part) if part.isdigit() else part for part in text.split(",") if part]


def cell(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"


def mapped_library(name: str) -> str | None:
    """Path of a shared library that this process has loaded, by a part of its file's name."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if name in path.rpartition("/")[2]:
            return path
    return None


def save(path: Path, report: dict) -> None:
    """Whole or not at all: what was measured before survives whatever happens next."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps(report, indent=1) + "\n")
    draft.replace(path)
