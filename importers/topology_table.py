"""The tables of ``nvidia-smi topo``: which links or peer access stand between which GPUs.

Columns are known by their header and cells by what they hold. Right of the last GPU column nothing
is a link between GPUs, whatever it looks like.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from importers.pasted import is_last_line
from models.links import P2P_MEANINGS

_LINK = r"NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|PSB|X"
_CODES = re.compile(rf"(?:{_LINK})+")
_CODE = re.compile(_LINK)
_P2P = re.compile("X|" + "|".join(P2P_MEANINGS))
_NAME = re.compile(r"(?:GPU ?|Device )\d{1,3}")
_AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_AFFINITY_AT = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|CPU|NUMA", re.IGNORECASE)
_CPUS = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")
# a row that was glued to the line before it: a name with a cell behind it
_GLUED = re.compile(rf"[ \t]+(?=GPU\d{{1,3}}\s+(?:{_P2P.pattern}|{_LINK})(?:\s|$))")


@dataclass
class Table:
    """One matrix as printed: a cell is None where nothing readable stands."""

    line: int  # of the text, at which it starts
    names: list[str]
    cells: list[list[str | None]]
    cpus: list[str | None]
    numa: list[int | None]
    nics: int = 0
    is_p2p: bool = False
    is_piped: bool = False
    problems: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class _Row:
    cells: list[str | None]
    rest: list[str]
    complete: bool
    has_more: bool  # whether anything stood right of the last GPU column


def find_tables(text: str) -> list[Table]:
    """All matrices of a cleaned text, in the order they stand."""
    parts = [(k, part) for k, line in enumerate(text.split("\n")) for part in _unglued(line)]
    lines = [part for _, part in parts]
    tables: list[Table] = []
    at = 0
    while at < len(lines):
        header = _header(lines, at)
        if header is None:
            at += 1
            continue
        stop = next(
            (k for k in range(at + 1, len(lines)) if _header(lines, k) or _is_legend(lines[k])),
            len(lines),
        )
        tables.append(_table(parts[at][0], lines, at, stop, header))
        at = stop
    return tables


@dataclass
class _Header:
    names: list[str]
    nics: int
    affinity: list[str]
    piped: list[str] | None


def _unglued(line: str) -> list[str]:
    return [line] if len(line) < 12 else _GLUED.sub("\n", line).split("\n")


def _is_legend(line: str) -> bool:
    return line.strip().lower().startswith("legend")


def _pipes(line: str) -> list[str] | None:
    """Cells of a line drawn with upright strokes."""
    body = line.strip()
    if body.count("|") < 2:
        return None
    return [cell.strip() for cell in body.strip("|").split("|")]


def _header(lines: Sequence[str], at: int) -> _Header | None:
    """The header that stands here, if rows follow it."""
    line = lines[at]
    piped = _pipes(line)
    if piped is not None:
        columns = piped[1:] if not _NAME.fullmatch(piped[0]) else piped
        names = _leading_names(columns)
        rest = columns[len(names) :]
    else:
        match = re.match(r"\s*((?:GPU\d{1,3}(?=\s|$)\s*)+)", line)
        if match is None:
            return None
        names = match[1].split()
        rest = _labels(line[match.end() :])
        if rest and (_CODES.fullmatch(rest[0]) or _P2P.fullmatch(rest[0])):
            return None  # a row
    if not names or len(set(names)) != len(names) or not _row_follows(lines, at, names):
        return None
    affinity = [label for label in rest if label in _AFFINITY]
    return _Header(names, sum(label not in _AFFINITY for label in rest), affinity, piped)


def _leading_names(columns: Sequence[str]) -> list[str]:
    names: list[str] = []
    for column in columns:
        if not _NAME.fullmatch(column):
            break
        names.append(column)
    return names


def _labels(rest: str) -> list[str]:
    """Columns right of the GPUs: network cards by name, then the affinities."""
    match = _AFFINITY_AT.search(rest)
    cards = rest[: match.start()] if match else rest
    tail = rest[match.start() :] if match else ""
    return cards.split() + [label for label in _AFFINITY if label.lower() in tail.lower()]


def _row_follows(lines: Sequence[str], at: int, names: Sequence[str]) -> bool:
    """Prose may start with GPU0 too; a header has a row with link cells below it."""
    for line in lines[at + 1 : at + 4]:
        piped = _pipes(line)
        tokens = piped if piped is not None else line.split()
        if len(tokens) > 1 and tokens[0] in names:
            return bool(_CODES.fullmatch(tokens[1]) or _P2P.fullmatch(tokens[1]))
    return False


def _table(line: int, lines: Sequence[str], at: int, stop: int, header: _Header) -> Table:
    n = len(header.names)
    problems: list[tuple[str, str]] = []
    rows: dict[str, _Row] = {}
    last = ""
    last_at = at
    for k in range(at + 1, stop):
        piped = _pipes(lines[k])
        name = piped[0] if piped else next(iter(lines[k].split()), "")
        if name not in header.names or name in rows:
            continue
        if piped is not None:
            rows[name] = _piped_row(piped, header, problems)
        else:
            rows[name] = _plain_row(lines[k], header, problems)
        last, last_at = name, k
    is_p2p = _is_p2p(rows.values(), lines[at : stop + 12])  # the legend stands below
    at_end = is_last_line(lines, last_at) and bool(lines[-1].strip())
    if last and at_end:
        _distrust_cut_end(rows, last, n)
    missing = [name for name in header.names if name not in rows or not rows[name].complete]
    if missing:
        problems.append(
            (
                "truncated",
                f"The table is cut: the rows of {', '.join(missing)} are missing or not whole.",
            )
        )
    table = Table(
        line=line,
        names=header.names,
        cells=[rows[name].cells if name in rows else [None] * n for name in header.names],
        cpus=[None] * n,
        numa=[None] * n,
        nics=header.nics,
        is_p2p=is_p2p,
        is_piped=header.piped is not None,
        problems=problems,
    )
    for i, name in enumerate(header.names):
        if name in rows and header.affinity:
            table.cpus[i], table.numa[i] = _affinity(rows[name].rest, header.affinity)
    _check(table)
    return table


def _is_p2p(rows: Iterable[_Row], lines: Sequence[str]) -> bool:
    """Peer access, not links: told by the cells, and for a single GPU by the legend."""
    codes = {code for row in rows for code in row.cells if code and code != "X"}
    if codes:
        return all(_P2P.fullmatch(code) for code in codes)
    return any("Status Ok" in line for line in lines)


def _codes(token: str) -> list[str] | None:
    """Link codes of a token, several where cells ran together; None where it is something else."""
    if _P2P.fullmatch(token):
        return [token]
    return _CODE.findall(token) if _CODES.fullmatch(token) else None


def _piped_row(piped: Sequence[str], header: _Header, problems: list[tuple[str, str]]) -> _Row:
    n = len(header.names)
    cells = [_single(cell, problems) for cell in piped[1 : n + 1]]
    rest = list(piped[n + 1 + header.nics :])
    whole = len(cells) == n and all(piped[1 : n + 1])
    return _Row(cells + [None] * (n - len(cells)), rest, whole, len(piped) > n + 1)


def _single(cell: str, problems: list[tuple[str, str]]) -> str | None:
    codes = _codes(cell)
    if codes and len(codes) == 1:
        return codes[0]
    if cell:
        problems.append(("unknown_link", f"{cell[:20]!r} is no known kind of link; left unknown."))
    return None


def _plain_row(line: str, header: _Header, problems: list[tuple[str, str]]) -> _Row:
    n = len(header.names)
    fields = [part.strip() for part in line.split("\t")]
    if fields and not fields[0]:
        fields = fields[1:]  # a blank before the name
    if len(fields) > n and all(len(part.split()) < 2 for part in fields[: n + 1]):
        cells = [_single(cell, problems) for cell in fields[1 : n + 1]]
        rest = _tab_affinity(fields[n + 1 + header.nics :])
        return _Row(cells, rest, all(fields[1 : n + 1]), any(fields[n + 1 :]))
    return _spaced_row(line, header, problems)


def _tab_affinity(fields: Sequence[str]) -> list[str]:
    """Affinity cells: the first is the CPU list, even where empty; padding tabs stand between."""
    return [fields[0], *(part for part in fields[1:] if part)] if fields else []


def _spaced_row(line: str, header: _Header, problems: list[tuple[str, str]]) -> _Row:
    """Cells told apart by blanks: link codes first, then whatever is left."""
    n = len(header.names)
    tokens = list(re.finditer(r"\S+", line))[1:]
    cells: list[str | None] = []
    used = 0
    ended_at = len(line) - len(line.lstrip())
    for token in tokens:
        codes = _codes(token[0])
        if codes is None:
            looks_like_link = re.fullmatch(r"[A-Z][A-Z0-9]{1,4}", token[0]) and token[0] != "NUMA"
            if len(cells) >= n or not looks_like_link:
                break
            problems.append(("unknown_link", f"{token[0]!r} is no known kind of link."))
        elif len(codes) > 1:
            problems.append(("merged_cells", "Cells of the table run together; they were parted."))
        cells.extend(codes or [None])
        ended_at = token.start()
        used += 1
    rest = [token[0] for token in tokens[used:]]
    if rest and _first_is_missing(rest, tokens[used].start() - ended_at, header.affinity):
        rest.insert(0, "")
    return _Row((cells + [None] * n)[:n], rest, len(cells) >= n, len(cells) > n or bool(rest))


def _first_is_missing(rest: Sequence[str], gap: int, affinity: Sequence[str]) -> bool:
    """Whether the CPU cell is empty: fewer cells than columns and a gap of a whole tab stop."""
    return (
        len(rest) < len(affinity)
        and affinity[0] == "CPU Affinity"
        and not re.search(r"[-,]", rest[0])
        and gap >= 14
    )


def _distrust_cut_end(rows: dict[str, _Row], last: str, n: int) -> None:
    """What stands last in a cut text may be half a word or number: forget it."""
    row = rows[last]
    longest = max(len(other.rest) for other in rows.values())
    if len(rows) == n and row.complete and len(row.rest) >= longest:
        return
    if row.rest:
        row.rest.pop()
    elif not row.has_more:
        known = [k for k, code in enumerate(row.cells) if code is not None]
        if known:
            row.cells[known[-1]] = None
            row.complete = False


def _affinity(rest: Sequence[str], labels: Sequence[str]) -> tuple[str | None, int | None]:
    """CPU list and NUMA node of a row; None where the cell is empty, N/A or not there."""
    cells = dict(zip(labels, rest, strict=False))
    cpus, numa = cells.get("CPU Affinity", ""), cells.get("NUMA Affinity", "")
    return (
        cpus if _CPUS.fullmatch(cpus) else None,
        int(numa) if numa.isdigit() and len(numa) < 6 else None,
    )


def _check(table: Table) -> None:
    """Fill pairs seen in one direction, and say where the table contradicts itself."""
    n = len(table.names)
    cells = table.cells
    for i in range(n):
        if cells[i][i] != "X":
            if cells[i][i] is not None or any(cells[i]):
                table.problems.append(
                    ("diagonal", f"The row of {table.names[i]} has no X where it meets itself.")
                )
            cells[i][i] = "X"
    for i in range(n):
        for j in range(i):
            there, back = cells[i][j], cells[j][i]
            if there and back and there != back:
                pair = f"{table.names[j]} and {table.names[i]}"
                table.problems.append(
                    ("asymmetric", f"{pair}: one direction says {back}, the other {there}.")
                )
            cells[i][j], cells[j][i] = there or back, back or there
