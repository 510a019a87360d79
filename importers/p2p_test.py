"""p2pBandwidthLatencyTest of the CUDA samples: can GPUs reach each other, how fast, how soon.

The own cell of a bandwidth matrix is local memory, counted as read plus write; it is no link. The
"P2P=Enabled" numbers of a pair without peer access went through the host all the same.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from importers.draft import Draft
from importers.pair_matrix import PairMatrix, columns, read_rows
from importers.pasted import clean, numbered
from models.errors import UnreadableFile
from models.result import Result

TOOL = "p2pBandwidthLatencyTest"

_TITLE = re.compile(
    r"^\s*((?:(Uni|Bi)directional )?P2P=(Enabled|Disabled) (Bandwidth|Latency)"
    r"(?: \(P2P (?:Writes|Reads)\))? Matrix \((GB/s|us)\))"
)
_CONNECTIVITY = re.compile(r"^\s*(P2P Connectivity Matrix)\s*$")
_DEVICE = re.compile(r"^\s*Device: (\d+), (.+?), pciBusID")
_CANNOT = re.compile(r"Device=(\d+) CANNOT Access Peer Device=(\d+)")
_BANNER = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"


def looks_like(text: str) -> bool:
    """Whether a matrix of the CUDA sample stands in the text."""
    return "P2P" in text and any(
        _TITLE.match(line) or _CONNECTIVITY.match(line) for line in clean(text).split("\n")
    )


def read(text: str, name: str = "") -> list[Result]:
    """One result for each run of the program.

    Args:
        text: What was pasted or uploaded.
        name: File name, for the title only.

    Raises:
        UnreadableFile: No matrix was found.
    """
    lines = clean(text).split("\n")
    starts = [k for k, line in enumerate(lines) if _BANNER in line] or [0]
    bounds = [0, *starts[1:], len(lines)]
    found = [
        result
        for low, high in pairwise(bounds)
        if (result := _run(lines[low:high], name)) is not None
    ]
    if not found:
        raise UnreadableFile(
            "There is no matrix of p2pBandwidthLatencyTest in this text.",
            "Paste its whole output, from the connectivity matrix on.",
        )
    return numbered(found, "run")


def _run(lines: Sequence[str], name: str) -> Result | None:
    matrices = _matrices(lines)
    if not matrices:
        return None
    draft = Draft(kind="p2p", tool=TOOL, title=TOOL + (f" ({name})" if name else ""))
    devices = [(int(m[1]), m[2]) for line in lines if (m := _DEVICE.match(line))]
    if devices:
        draft.host = {"gpus": [{"index": index, "name": label} for index, label in devices]}
    draft.spec = {"matrices": [matrix.as_dict() for matrix in matrices]}
    access = _access(matrices, lines)
    for matrix in matrices:
        if matrix.quantity == "bandwidth":
            _put_bandwidth(draft, matrix, access)
        elif matrix.quantity == "latency":
            _put_latency(draft, matrix, access)
    denied = sorted(pair for pair, granted in access.items() if not granted)
    if denied:
        pairs = ", ".join(f"{a} to {b}" for a, b in denied[:8]) + (" …" if denied[8:] else "")
        draft.warn(
            "no_peer_access",
            f"No peer access ({pairs}): the P2P=Enabled numbers of these pairs were taken without "
            "it and went through the host.",
        )
    if any(matrix.is_cut for matrix in matrices):
        draft.suspect("truncated", "The text is cut: rows that are not printed are unknown.")
    result = draft.result()
    connectivity = next((m for m in matrices if m.quantity == "connectivity"), None)
    if connectivity is not None and not connectivity.is_cut:
        result.p2p = [
            ["X" if i == j else _granted(value) for j, value in enumerate(row)]
            for i, row in enumerate(connectivity.values)
        ]
    return result


def _granted(value: float | None) -> str | None:
    return None if value is None else "OK" if value else "NS"


def _matrices(lines: Sequence[str]) -> list[PairMatrix]:
    found: list[PairMatrix] = []
    current: PairMatrix | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        title = _TITLE.match(line)
        if title:
            current = PairMatrix(
                title=title[1],
                quantity=title[4].lower(),
                unit=title[5],
                p2p=title[3].lower(),
                direction=title[2].lower() if title[2] else None,
            )
            continue
        if _CONNECTIVITY.match(line):
            current = PairMatrix(title=line.strip(), quantity="connectivity", unit=None)
            continue
        header = columns(line)
        if header is None or current is None:
            continue
        corner, cols = header
        matrix = PairMatrix(
            title=current.title,
            quantity=current.quantity,
            unit=current.unit,
            cols=cols,
            p2p=current.p2p,
            direction=current.direction,
            side=corner if corner in ("GPU", "CPU") and current.quantity == "latency" else None,
        )
        at = read_rows(lines, at, matrix, square=True)
        if any(value is not None for row in matrix.values for value in row):
            found.append(matrix)
    return found


def _access(matrices: Sequence[PairMatrix], lines: Sequence[str]) -> dict[tuple[int, int], bool]:
    """Pair -> whether the driver grants peer access, where the text says so."""
    access: dict[tuple[int, int], bool] = {}
    for matrix in matrices:
        if matrix.quantity == "connectivity":
            for i, row in zip(matrix.rows, matrix.values, strict=True):
                for j, value in zip(matrix.cols, row, strict=True):
                    if i != j and value is not None:
                        access[i, j] = bool(value)
    for line in lines:
        for match in _CANNOT.finditer(line):
            access[int(match[1]), int(match[2])] = False
    return access


def _put_bandwidth(draft: Draft, matrix: PairMatrix, access: dict[tuple[int, int], bool]) -> None:
    matrix.forget_zeros()
    test = f"{matrix.direction}directional P2P={matrix.p2p}"
    for i, row in zip(matrix.rows, matrix.values, strict=True):
        for j, value in zip(matrix.cols, row, strict=True):
            if i == j:
                if matrix.direction == "uni":
                    draft.put(
                        "copy_bandwidth",
                        value,
                        f"{TOOL}:local-copy:1",
                        dims={"device": i, "test": test},
                    )
                continue
            draft.put(
                "p2p_bandwidth",
                value,
                f"{TOOL}:bandwidth:1",
                dims={
                    "src": i,
                    "dst": j,
                    "direction": "both" if matrix.direction == "bi" else "one",
                    "link": _link(matrix, i, j, access),
                    "test": test,
                },
            )


def _put_latency(draft: Draft, matrix: PairMatrix, access: dict[tuple[int, int], bool]) -> None:
    for i, row in zip(matrix.rows, matrix.values, strict=True):
        for j, value in zip(matrix.cols, row, strict=True):
            if i != j:
                draft.put(
                    "p2p_latency",
                    value,
                    f"{TOOL}:latency-{(matrix.side or 'unstated').lower()}:1",
                    dims={
                        "src": i,
                        "dst": j,
                        "method": matrix.side,
                        "link": _link(matrix, i, j, access),
                        "test": f"latency P2P={matrix.p2p}",
                    },
                )


def _link(matrix: PairMatrix, i: int, j: int, access: dict[tuple[int, int], bool]) -> str | None:
    """On only where peer access was asked for and is there; None where the text does not say."""
    if matrix.p2p == "disabled":
        return "off"
    granted = access.get((i, j))
    return None if granted is None else "on" if granted else "off"
