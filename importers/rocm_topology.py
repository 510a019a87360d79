"""``rocm-smi --showtopo``: three matrices between AMD GPUs, weight, hops and link type."""

import re
from dataclasses import dataclass, field
from itertools import pairwise

_SECTION = re.compile(r"=+ *(Weight|Hops|Link Type) between two GPUs *=+", re.IGNORECASE)
_NUMA = re.compile(r"GPU\[(\d+)\]\s*:\s*\(Topology\) Numa Node:\s*(\d+)\s*$", re.MULTILINE)


@dataclass
class RocmTopology:
    """What the three matrices say; None where a cell is cut."""

    names: list[str]
    links: list[list[str | None]]
    weights: list[list[int | None]] | None
    hops: list[list[int | None]] | None
    numa: list[int | None]
    problems: list[tuple[str, str]] = field(default_factory=list)


def find_rocm(text: str) -> list[RocmTopology]:
    """The topologies of a cleaned text, one a machine; none where it holds no link types."""
    starts: list[int] = []
    seen: set[str] = set()
    for section in _SECTION.finditer(text):
        kind = section[1].lower()
        if kind in seen or not starts:  # printed again: by the next machine
            starts.append(section.start())
            seen.clear()
        seen.add(kind)
    parts = [text[low:high] for low, high in pairwise([*starts, len(text)])]
    return [found for part in parts if (found := _topology(part)) is not None]


def _topology(text: str) -> RocmTopology | None:
    """The topology of one machine, or None where its link types are missing."""
    parts = _SECTION.split(text)
    sections = {parts[k].lower(): _matrix(parts[k + 1]) for k in range(1, len(parts) - 1, 2)}
    kinds = sections.get("link type")
    if kinds is None:
        return None
    names, cells = kinds
    n = len(names)
    links: list[list[str | None]] = [
        [
            "X" if i == j else (code if code in ("PCIE", "XGMI") else None)
            for j, code in enumerate(row)
        ]
        for i, row in enumerate(cells)
    ]
    problems: list[tuple[str, str]] = []
    for i in range(n):
        for j in range(i):
            links[i][j] = links[i][j] or links[j][i]
            links[j][i] = links[j][i] or links[i][j]
            if links[i][j] != links[j][i]:
                problems.append(
                    ("asymmetric", f"{names[j]} and {names[i]}: the two directions differ.")
                )
    if any(code is None for row in cells for code in row):
        problems.append(("truncated", "The link type table is cut."))
    numa: list[int | None] = [None] * n
    for index, node in _NUMA.findall(text):
        if int(index) < n:
            numa[int(index)] = int(node)
    return RocmTopology(
        names,
        links,
        _counts(sections.get("weight"), n),
        _counts(sections.get("hops"), n),
        numa,
        problems,
    )


def _matrix(body: str) -> tuple[list[str], list[list[str | None]]] | None:
    """Names and cells of one section, cells None where a row is missing or short."""
    lines = [line.split() for line in body.split("\n") if line.strip()]
    if not lines or not all(re.fullmatch(r"GPU\d+", name) for name in lines[0]):
        return None
    names = lines[0]
    rows = {line[0]: line[1:] for line in lines[1:] if line[0] in names}
    return names, [
        [(rows.get(name, []) + [None] * len(names))[k] for k in range(len(names))] for name in names
    ]


def _counts(
    section: tuple[list[str], list[list[str | None]]] | None, n: int
) -> list[list[int | None]] | None:
    if section is None or len(section[0]) != n:
        return None
    return [[int(cell) if cell and cell.isdigit() else None for cell in row] for row in section[1]]
