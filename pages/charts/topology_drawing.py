"""Where GPUs, switches, bridges and sockets stand in the drawn graph, and what joins them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from models.links import LinkMatrix, checked, is_direct, nvlinks, phrase

_HUBS = (
    ("PCIe switch", ("PSB", "PIX")),
    ("PCIe switches", ("PXB",)),
    ("Host bridge", ("PHB", "PCIE")),
    ("NUMA node", ("NODE",)),
    ("CPU sockets", ("SYS", "SOC")),
)
_ARC_POINTS = 17
_MAX_ARCS = 150  # more lines than these say nothing


@dataclass
class Drawing:
    """Nodes and edges with places; ``order`` strings the points of a curved edge together."""

    nodes: list[dict[str, object]] = field(default_factory=list)
    edges: list[dict[str, object]] = field(default_factory=list)
    n_hidden: int = 0  # edges beyond what a picture can hold

    def node(self, label: str, kind: str, x: float, y: float) -> None:
        """Add a node."""
        self.nodes.append({"label": label, "kind": kind, "x": x, "y": y})

    def edge(
        self, name: str, kind: str, points: Sequence[tuple[float, float]], links: int, what: str
    ) -> None:
        """Add an edge; ``links`` is its width."""
        self.edges.extend(
            {
                "edge": name,
                "kind": kind,
                "x": x,
                "y": y,
                "order": k,
                "links": links,
                "what": what,
            }
            for k, (x, y) in enumerate(points)
        )


def drawing(
    links: LinkMatrix, names: Sequence[str], numa: Sequence[int | None] | None = None
) -> Drawing:
    """Place GPUs in a row, what joins them over PCIe above, direct links below.

    Args:
        links: Link codes, shape (n, n).
        names: What each GPU is called.
        numa: NUMA node a GPU.
    """
    matrix = checked(links)
    n = len(matrix)
    made = Drawing()
    places = _hubs(made, matrix, numa)
    _direct(made, matrix, names, places)
    for k in range(n):
        made.node(names[k], "GPU", places[k], 0.0)
    return made


def _hubs(
    made: Drawing, matrix: list[list[str | None]], numa: Sequence[int | None] | None
) -> list[float]:
    """Draw switches, bridges and sockets; returns where each GPU stands."""
    n = len(matrix)
    groups = [[k] for k in range(n)]
    levels: list[tuple[str, list[list[int]]]] = []
    for label, codes in _HUBS:
        merged = _merged(matrix, groups, codes, numa if label == "NUMA node" else None)
        levels.append((label, merged))
        groups = merged
    order = [k for whole in groups for k in whole]
    places = [float(order.index(k)) for k in range(n)]
    tops: dict[int, tuple[float, float]] = {k: (places[k], 0.0) for k in range(n)}
    height = 0.0
    for label, level in levels:
        fresh = [whole for whole in level if len({tops[k] for k in whole}) > 1]
        if not fresh:
            continue
        height += 1.0
        for whole in fresh:
            x = sum(places[k] for k in whole) / len(whole)
            name = label
            if label == "NUMA node" and numa and numa[whole[0]] is not None:
                name = f"NUMA node {numa[whole[0]]}"
            for below in sorted({tops[k] for k in whole}):
                made.edge(
                    f"{name}-{x}-{below}", "PCIe path", [(x, height), below], 1, f"over the {name}"
                )
            made.node(name, "PCIe or CPU", x, height)
            for k in whole:
                tops[k] = (x, height)
    return places


def _merged(
    matrix: list[list[str | None]],
    groups: list[list[int]],
    codes: Sequence[str],
    numa: Sequence[int | None] | None,
) -> list[list[int]]:
    """Groups joined where a pair across them has one of these links, or sits on one NUMA node."""
    parts = [list(one) for one in groups]
    joined = True
    while joined:
        joined = False
        for a, b in combinations(range(len(parts)), 2):
            if any(
                matrix[i][j] in codes
                or (numa is not None and numa[i] is not None and numa[i] == numa[j])
                for i in parts[a]
                for j in parts[b]
            ):
                parts[a] = sorted(parts[a] + parts[b])
                del parts[b]
                joined = True
                break
    return parts


def _direct(
    made: Drawing, matrix: list[list[str | None]], names: Sequence[str], places: Sequence[float]
) -> None:
    """Draw NVLinks, thicker by count, and pairs that nobody states."""
    n = len(matrix)
    pairs = list(combinations(range(n), 2))
    codes = {matrix[i][j] for i, j in pairs}
    if n > 2 and len(codes) == 1 and is_direct(next(iter(codes))):
        code = next(iter(codes))
        middle, depth = (n - 1) / 2, -1.0 - n / 24
        for k in range(n):
            made.edge(
                f"direct-{k}",
                "direct link",
                [(places[k], 0.0), (middle, depth)],
                nvlinks(code) or 4,
                f"{names[k]} reaches every other GPU over {code}",
            )
        made.node(f"every pair {code}", "Direct links", middle, depth)
        return
    shown = [(i, j) for i, j in pairs if is_direct(matrix[i][j]) or matrix[i][j] is None]
    made.n_hidden = max(0, len(shown) - _MAX_ARCS)
    for i, j in shown[:_MAX_ARCS]:
        code = matrix[i][j]
        what = f"{names[i]} and {names[j]} {phrase(code)}"
        made.edge(
            f"{names[i]}-{names[j]}",
            "direct link" if code else "not known",
            _arc(places[i], places[j]),
            nvlinks(code) or 1,
            what,
        )


def _arc(start: float, end: float) -> list[tuple[float, float]]:
    """A half ellipse below the row, deeper for GPUs that stand further apart."""
    middle, radius = (start + end) / 2, abs(end - start) / 2
    depth = 0.55 * math.sqrt(2 * radius)
    angles = [math.pi * k / (_ARC_POINTS - 1) for k in range(_ARC_POINTS)]
    return [(middle - radius * math.cos(a), -depth * math.sin(a)) for a in angles]
