"""Matrices between devices as bandwidth tools print them: column numbers, then one row a device.

A cell that is not printed is None. What stands last in a cut text is not trusted.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from importers.pasted import decimals, is_last_line, number

_CORNERS = frozenset({"D\\D", "D/D", "GPU", "CPU"})
_MISSING = frozenset({"N/A", "n/a", "-", "nan"})


@dataclass
class PairMatrix:
    """One matrix with its title; ``values`` has one list a row, None where nothing stands."""

    title: str
    quantity: str
    unit: str | None
    rows: list[int] = field(default_factory=list)
    cols: list[int] = field(default_factory=list)
    values: list[list[float | None]] = field(default_factory=list)
    test: str | None = None
    sum: float | None = None
    p2p: str | None = None
    direction: str | None = None
    side: str | None = None
    is_cut: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the result's spec: the whole matrix as printed."""
        found = asdict(self)
        del found["is_cut"]
        return found

    def forget_zeros(self) -> int:
        """A bandwidth of 0.00 means "not measured"; returns how many cells beside the own were."""
        count = 0
        for i, row in enumerate(self.values):
            for j, value in enumerate(row):
                if value == 0:
                    row[j] = None
                    count += self.rows[i] != self.cols[j]
        return count

    def forget_own(self) -> None:
        """Drop each device's cell with itself."""
        for i, row in enumerate(self.values):
            for j in range(len(row)):
                if self.rows[i] == self.cols[j]:
                    row[j] = None


def columns(line: str) -> tuple[str | None, list[int]] | None:
    """Corner label and column numbers of a header line, or None where it is none."""
    tokens = line.split()
    corner = None
    if tokens and tokens[0] in _CORNERS:
        corner, *tokens = tokens
    if not tokens or not all(re.fullmatch(r"\d{1,4}", token) for token in tokens):
        return None
    found = [int(token) for token in tokens]
    return (corner, found) if found == sorted(set(found)) else None


def read_rows(lines: Sequence[str], at: int, matrix: PairMatrix, *, square: bool) -> int:
    """Read the rows below a header into a matrix whose columns are set.

    Args:
        lines: The cleaned text.
        at: First line below the header.
        matrix: Filled in place.
        square: Whether there is a row for every column; missing ones are then unknown.

    Returns:
        The first line that is no row any more.
    """
    width = len(matrix.cols)
    found: dict[int, list[float | None]] = {}
    while at < len(lines):
        cells = _row(lines[at], width)
        if cells is None or cells[0] in found:
            break
        label, tokens = cells
        values = [number(token) for token in tokens]
        short = len(tokens) < width
        if is_last_line(lines, at) and lines[-1].strip() and _may_be_cut(tokens, short):
            values[-1] = None
            matrix.is_cut = True
        matrix.is_cut |= short
        found[label] = values + [None] * (width - len(values))
        at += 1
    matrix.rows = list(matrix.cols) if square else list(found)
    matrix.is_cut |= any(label not in found for label in matrix.rows)
    matrix.values = [found.get(label, [None] * width) for label in matrix.rows]
    return at


def _row(line: str, width: int) -> tuple[int, list[str]] | None:
    tokens = line.split()
    if len(tokens) < 2 or len(tokens) > width + 1 or not re.fullmatch(r"\d{1,4}", tokens[0]):
        return None
    if not all(number(token) is not None or token in _MISSING for token in tokens[1:]):
        return None
    return int(tokens[0]), tokens[1:]


def _may_be_cut(tokens: Sequence[str], short: bool) -> bool:
    """The last number of the text: cut where cells are missing or it has fewer decimals."""
    printed = [token for token in tokens[:-1] if number(token) is not None]
    return short or any(decimals(tokens[-1]) < decimals(token) for token in printed)
