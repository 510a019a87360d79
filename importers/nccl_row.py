"""One data row of an nccl-tests table, read by its header, or by its own shape without one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from importers.draft import spoken_number
from importers.nccl_run import Half, Row

_STATISTICS = {"i_min": "min", "i_max": "max", "i_p99": "p99"}
_HALF = ("algbw", "busbw", "#wrong", "wrong", "error", "i_min", "i_max", "i_p99", "i_cv%")
_FRONT = ("size", "count", "type", "redop", "root")
_TAIL = ("algo", "proto", "nchannels", "timestamp")
_SIZE = re.compile(r"\d{1,18}|\d{1,4}(?:_\d{3}){1,6}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_HALF_WIDTHS = (4, 8)  # time algbw busbw wrong, and four more under -I


@dataclass(frozen=True)
class Columns:
    """The columns that a header names, in order."""

    names: tuple[str, ...]

    @property
    def is_cpu_time(self) -> bool:
        """Whether times are the CPU's."""
        return "cputime" in self.names

    @property
    def is_standard(self) -> bool:
        """Whether the header is the tool's own and not an excerpt of it."""
        return "count" in self.names and "type" in self.names


def columns_of(tokens: Sequence[str]) -> Columns | None:
    """The columns of a header line, or None for any other line."""
    names = [token.lower() for token in tokens]
    if "#wrong" not in names:
        names = [name for name in names if name != "#"]
    known = {*_FRONT, *_HALF, *_TAIL, "time", "cputime"}
    has_time = "time" in names or "cputime" in names
    if "size" not in names or not has_time or "algbw" not in names or "busbw" not in names:
        return None
    return Columns(tuple(names)) if all(name in known for name in names) else None


def row_of(tokens: Sequence[str], columns: Columns) -> Row | None:
    """A row under a known header; None where cells are missing or are no numbers."""
    names = list(columns.names)
    if names[-1] == "timestamp":
        names.pop()
        tokens = tokens[: len(names)] if len(tokens) in (len(names) + 1, len(names) + 2) else tokens
    if len(tokens) != len(names):
        # a table with redop or root cells of another version, or extra columns: its own shape
        return headless_row(tokens) if columns.is_standard else None
    row: Row | None = None
    half: Half | None = None
    for name, token in zip(names, tokens, strict=True):
        if name == "size":
            if not _SIZE.fullmatch(token):
                return None
            row = Row(int(token.replace("_", "")))
        elif row is None:
            return None
        elif name in ("time", "cputime"):
            half = Half()
            if row.out_of_place is None:
                row.out_of_place = half
            else:
                row.in_place = half
            if not _fill(half, "time", token):
                return None
        elif name in _HALF:
            if half is None or not _fill(half, name, token):
                return None
        elif not _front(row, name, token):
            return None
    return row if row is not None and row.out_of_place is not None else None


def headless_row(tokens: Sequence[str]) -> Row | None:
    """A row without a header: size, count, type, perhaps redop and root, then two equal halves."""
    if len(tokens) < 11 or not all(_SIZE.fullmatch(token) for token in tokens[:2]):
        return None
    row = Row(int(tokens[0].replace("_", "")), dtype=tokens[2])
    if not _WORD.fullmatch(tokens[2]):
        return None
    rest = list(tokens[3:])
    if _WORD.fullmatch(rest[0]):
        row.redop = rest.pop(0)
    if len(rest) >= 4 and _WORD.fullmatch(rest[-3]) and _WORD.fullmatch(rest[-2]):
        row.algorithm = rest[-3].lower()
        del rest[-3:]
    elif len(rest) > 2 and re.fullmatch(r"\d{4}-\d\d-\d\d", rest[-2]):
        del rest[-2:]
    if len(rest) - 1 in (2 * width for width in _HALF_WIDTHS):
        if not re.fullmatch(r"-?\d{1,6}", rest[0]):
            return None
        row.root = int(rest.pop(0))
    if len(rest) not in (2 * width for width in _HALF_WIDTHS):
        return None
    middle = len(rest) // 2
    row.out_of_place, row.in_place = _half(rest[:middle]), _half(rest[middle:])
    return row if row.out_of_place is not None and row.in_place is not None else None


def is_cut_row(tokens: Sequence[str]) -> bool:
    """Whether a line can be the beginning of a row: a size, then perhaps a count and a type."""
    if not tokens or not _SIZE.fullmatch(tokens[0]):
        return False
    if len(tokens) > 1 and not _SIZE.fullmatch(tokens[1]):
        return False
    return len(tokens) < 3 or _WORD.fullmatch(tokens[2]) is not None


def _half(tokens: Sequence[str]) -> Half | None:
    half = Half()
    last = "error" if "e" in tokens[3] else "#wrong"
    names = ("time", "algbw", "busbw", last, "i_min", "i_max", "i_p99", "i_cv%")
    for name, token in zip(names, tokens, strict=False):
        if not _fill(half, name, token):
            return None
    return half


def _fill(half: Half, name: str, token: str) -> bool:
    """Put one cell; False where it is neither a number nor N/A."""
    if token.upper() == "N/A":
        return name != "time"
    value = spoken_number(token)
    if value is None or value < 0:
        return False
    if name == "time":
        half.time_us = float(value)
    elif name == "algbw":
        half.algbw = float(value)
    elif name == "busbw":
        half.busbw = float(value)
    elif name in ("#wrong", "wrong"):
        half.wrong = float(value)
    elif name == "error":
        half.error = float(value)
    elif name in _STATISTICS:
        half.extra[_STATISTICS[name]] = float(value)
    return True


def _front(row: Row, name: str, token: str) -> bool:
    if name == "count":
        return _SIZE.fullmatch(token) is not None
    if name == "type":
        row.dtype = token
    elif name == "redop":
        row.redop = token
    elif name == "root":
        if not re.fullmatch(r"-?\d{1,6}", token):
            return False
        row.root = int(token)
    elif name == "algo":
        row.algorithm = token.lower()
    return True
