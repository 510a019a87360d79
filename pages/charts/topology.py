"""Links between GPUs: a drawn graph and a matrix."""

from collections.abc import Sequence
from itertools import combinations

import altair as alt
import pandas as pd

from models.links import LinkMatrix, checked, is_direct, link_kind, rank
from pages.charts.theme import PALETTE
from pages.charts.topology_drawing import Drawing

QUIET = "#757C87"  # readable on white and on the dark theme's background
# groups of kinds as the matrix colours them; the code stands in every cell as well
GROUPS = {
    "direct link": PALETTE[2],
    "PCIe switch": PALETTE[0],
    "host bridge": PALETTE[4],
    "between bridges or sockets": PALETTE[3],
    "not known": QUIET,
}


def group(code: str | None) -> str:
    """The group that colours a cell."""
    if code is None:
        return "not known"
    if is_direct(code):
        return "direct link"
    if rank(code) >= rank("PXB"):
        return "PCIe switch"
    return "host bridge" if code == "PHB" else "between bridges or sockets"


def graph(made: Drawing) -> alt.LayerChart:
    """The drawing as a chart."""
    nodes = pd.DataFrame(made.nodes, columns=["label", "kind", "x", "y"])
    # another name than the edges' column, or their legend takes the nodes in
    nodes = nodes.rename(columns={"kind": "node"})
    edges = pd.DataFrame(made.edges, columns=["edge", "kind", "x", "y", "order", "links", "what"])
    low, high = float(nodes["y"].min()), float(nodes["y"].max())
    if not edges.empty:
        low = min(low, float(edges["y"].min()))
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-0.7, float(nodes["x"].max()) + 0.7]))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[low - 0.4, high + 0.6]))
    styles = {
        "direct link": (GROUPS["direct link"], [1, 0]),
        "PCIe path": (QUIET, [1, 0]),
        "not known": (PALETTE[3], [4, 4]),
    }
    kinds = [kind for kind in styles if kind in set(edges["kind"])]
    shapes = {"GPU": "square", "PCIe or CPU": "circle", "Direct links": "diamond"}
    sorts = [kind for kind in shapes if kind in set(nodes["node"])]
    lines = (
        alt.Chart(edges)
        .mark_line(strokeCap="round")
        .encode(
            x=x,
            y=y,
            detail=alt.Detail("edge:N"),
            order=alt.Order("order:Q"),
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=kinds, range=[styles[kind][0] for kind in kinds]),
                legend=alt.Legend(title=None, orient="bottom"),
            ),
            strokeDash=alt.StrokeDash(
                "kind:N",
                scale=alt.Scale(domain=kinds, range=[styles[kind][1] for kind in kinds]),
                legend=None,
            ),
            strokeWidth=alt.StrokeWidth(
                "links:Q",
                scale=alt.Scale(domain=[1, 18], range=[1.5, 9], clamp=True),
                legend=None,  # the sentence above the picture has the numbers
            ),
            tooltip=[alt.Tooltip("what:N", title="link")],
        )
    )
    points = (
        alt.Chart(nodes)
        .mark_point(filled=True, opacity=1, size=260, stroke=QUIET, strokeWidth=1)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape(
                "node:N",
                scale=alt.Scale(domain=sorts, range=[shapes[kind] for kind in sorts]),
                legend=None,  # each node has its name beside it
            ),
            color=alt.ColorValue(PALETTE[0]),
            tooltip=[alt.Tooltip("label:N", title="node")],
        )
    )
    # a name stands on the outer side of its node, where no line leaves towards the middle
    left = nodes["x"] < nodes["x"].mean()
    words = [
        alt.Chart(part)
        .mark_text(dx=dx, dy=dy, align=align, fontSize=12, color=QUIET)
        .encode(x=x, y=y, text=alt.Text("label:N"))
        for side, dx, align in ((left, -12, "right"), (~left, 12, "left"))
        for below, dy in ((False, -9), (True, 14))
        if not (part := nodes[side & ((nodes["y"] < 0) == below)]).empty
    ]
    rows = high - low + 1
    layers = [points, *words] if edges.empty else [lines, points, *words]
    return alt.layer(*layers).properties(height=min(130 + 75 * rows, 460), width="container")


def matrix_frame(links: LinkMatrix, names: Sequence[str]) -> pd.DataFrame:
    """One row a cell: both GPUs, the code, its meaning."""
    return pd.DataFrame(
        [
            {
                "GPU": names[i],
                "to": names[j],
                "link": code or "?",
                "kind": "the GPU itself" if code == "X" else group(code),
                "meaning": link_kind(code).meaning,
            }
            for i, row in enumerate(links)
            for j, code in enumerate(row)
        ]
    )


def matrix(frame: pd.DataFrame, names: Sequence[str]) -> alt.LayerChart:
    """The link matrix: colour by group, the code in every cell."""
    shown = frame[frame["link"] != "X"]
    axes = {
        "x": alt.X("to:N", sort=list(names), title=None, axis=alt.Axis(orient="top", labelAngle=0)),
        "y": alt.Y("GPU:N", sort=list(names), title=None),
    }
    cells = (
        alt.Chart(shown)
        .mark_rect(opacity=0.35, stroke=QUIET, strokeWidth=0.5)
        .encode(
            **axes,
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=list(GROUPS), range=list(GROUPS.values())),
                legend=alt.Legend(title=None, orient="bottom", columns=2),
            ),
            tooltip=[
                alt.Tooltip("GPU:N"),
                alt.Tooltip("to:N"),
                alt.Tooltip("link:N"),
                alt.Tooltip("meaning:N"),
            ],
        )
    )
    words = (
        alt.Chart(shown).mark_text(fontSize=12, color=QUIET).encode(**axes, text=alt.Text("link:N"))
    )
    if len(names) > 16:
        words = words.mark_text(fontSize=7, color=QUIET)
    return alt.layer(cells, words).properties(height=_side(len(names)), width="container")


def takeaway(links: LinkMatrix) -> str:
    """What the links say, in a sentence, for those who cannot see the picture."""
    whole = checked(links)
    codes = [whole[i][j] for i, j in combinations(range(len(whole)), 2)]
    if not codes:
        return "One GPU: there is no link."
    counts = {code: codes.count(code) for code in sorted(set(codes), key=rank, reverse=True)}
    parts = [
        f"{count}x {code} ({link_kind(code).label})" if code else f"{count} not known"
        for code, count in counts.items()
    ]
    pairs = "pair" if len(codes) == 1 else "pairs"
    return f"{len(whole)} GPUs, {len(codes)} {pairs}: {', '.join(parts)}."


def _device(name: object, kind: str) -> str:
    """A device as an axis names it: by kind and number, "cpu" and "all" as words."""
    return f"{kind} {name}" if str(name).isdigit() else {"cpu": "CPU"}.get(str(name), str(name))


def pair_heat(frame: pd.DataFrame, unit: str, kind: str = "GPU") -> alt.LayerChart:
    """Measured values a pair: columns from, to, value; the number in every cell."""
    shown = frame.assign(
        **{end: [_device(name, kind) for name in frame[end]] for end in ("from", "to")}
    )
    names = sorted({*shown["from"], *shown["to"]}, key=lambda name: (len(name), name))
    axes = {
        "x": alt.X(
            "to:N", sort=names, title=f"to ({unit})", axis=alt.Axis(orient="top", labelAngle=0)
        ),
        "y": alt.Y("from:N", sort=names, title="from"),
    }
    cells = (
        alt.Chart(shown)
        .mark_rect()
        .encode(
            **axes,
            # the number stands in every cell: a scale beside it would say the same
            color=alt.Color("value:Q", scale=alt.Scale(scheme="blues", zero=True), legend=None),
            tooltip=[
                alt.Tooltip("from:N"),
                alt.Tooltip("to:N"),
                alt.Tooltip("value:Q", title=unit, format=".4g"),
            ],
        )
    )
    # cells hide the theme's background, so the number's colour follows the cell's
    dark = f"datum.value > {0.45 * float(shown['value'].max())}"
    words = (
        alt.Chart(shown)
        .mark_text(fontSize=13)
        .encode(
            **axes,
            text=alt.Text("value:Q", format=".4~g"),
            color=alt.condition(dark, alt.value("#FFFFFF"), alt.value("#1B1F24")),
        )
    )
    return alt.layer(cells, words).properties(height=_side(len(names)), width="container")


def _side(n: int) -> int:
    """Height of a matrix: axis and legend take their part of it."""
    return min(110 + 40 * n, 760)
