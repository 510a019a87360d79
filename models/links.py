"""Link kinds between GPUs: their order and what each means.

The words are those of ``nvidia-smi topo -m``; PCIE and XGMI are AMD's. A kind says which way the
data take, never how fast it is: two pairs behind a host bridge have differed twofold.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from models.errors import InvalidSpec

LinkMatrix = Sequence[Sequence[str | None]]

_NVLINK = re.compile(r"NV(\d{1,3})")


@dataclass(frozen=True)
class LinkKind:
    """One kind of link: its code, its place in the order, and words for people."""

    code: str
    rank: int
    label: str
    meaning: str


_SELF = LinkKind("X", 1000, "the GPU itself", "The GPU itself.")
# better kinds have higher ranks; NVLinks stand above all of these, more links higher
_TABLE = (
    LinkKind(
        "XGMI",
        100,
        "Infinity Fabric",
        "AMD's direct link between GPUs; the table does not say how many lanes.",
    ),
    LinkKind("PSB", 60, "one switch on the board", "A PCIe switch on one board that holds both."),
    LinkKind(
        "PIX", 50, "one PCIe switch", "At most one PCIe bridge lies between: no CPU takes part."
    ),
    LinkKind(
        "PXB", 40, "several PCIe switches", "Several PCIe bridges lie between, but no host bridge."
    ),
    LinkKind(
        "PHB",
        30,
        "host bridge",
        "Data pass a PCIe host bridge, in most machines the CPU itself.",
    ),
    LinkKind(
        "NODE",
        20,
        "between host bridges",
        "Data cross from one PCIe host bridge to another inside one NUMA node.",
    ),
    LinkKind(
        "PCIE", 15, "PCIe, path not stated", "Over PCIe; the tool does not say past which bridges."
    ),
    LinkKind("SYS", 10, "between sockets", "Data cross the interconnect between CPU sockets."),
    LinkKind("SOC", 10, "between sockets", "Old name of SYS: data cross between CPU sockets."),
)
_KINDS = {kind.code: kind for kind in _TABLE}
UNKNOWN = LinkKind("?", 0, "not known", "The source does not state this pair.")

_PHRASES = {
    "XGMI": "have a direct Infinity Fabric link",
    "PSB": "share a switch on one board",
    "PIX": "share one PCIe switch",
    "PXB": "lie behind several PCIe switches",
    "PHB": "cross the host bridge",
    "NODE": "cross between host bridges",
    "PCIE": "meet over PCIe",
    "SYS": "cross between CPU sockets",
    "SOC": "cross between CPU sockets",
}

P2P_MEANINGS = {
    "OK": "the driver grants peer access",
    "CNS": "the chipset does not support peer access",
    "GNS": "the GPU does not support peer access",
    "TNS": "this topology does not support peer access",
    "NS": "peer access is not supported",
    "DR": "peer access is switched off by a registry key",
    "U": "the driver does not know",
}


def link_kind(code: str | None) -> LinkKind:
    """What a cell of a link matrix means.

    Args:
        code: "NV4", "PIX", … as printed; None for a pair that no source states.

    Returns:
        The kind; its rank orders kinds, higher is better, unknown is 0.

    Raises:
        InvalidSpec: The code is no link kind.
    """
    if code is None:
        return UNKNOWN
    if code == "X":
        return _SELF
    if code in _KINDS:
        return _KINDS[code]
    n_links = nvlinks(code)
    if n_links:
        plural = "" if n_links == 1 else "s"
        return LinkKind(
            code,
            200 + n_links,
            f"{n_links} NVLink{plural}",
            f"A bonded set of {n_links} NVLink{plural} between the two, or to an NVLink switch.",
        )
    raise InvalidSpec(
        f"{code!r} is no kind of link.",
        f"The kinds are NV1, NV2, …, {', '.join(_KINDS)} and X for the GPU itself.",
    )


def is_link(code: str) -> bool:
    """Whether a text is a link kind's code."""
    return code == "X" or code in _KINDS or bool(nvlinks(code))


def phrase(code: str | None) -> str:
    """What two GPUs with this link do, to be read after their numbers."""
    if code is None:
        return "are joined in a way that no source states"
    n_links = nvlinks(code)
    if n_links:
        return f"share {code} ({link_kind(code).label})"
    return f"{_PHRASES[code]} ({code})"


def is_direct(code: str | None) -> bool:
    """Whether the link joins GPUs without PCIe: NVLink or Infinity Fabric."""
    return nvlinks(code) > 0 or code == "XGMI"


def nvlinks(code: str | None) -> int:
    """How many NVLinks a code names; 0 for every other kind (a count, not an unknown)."""
    match = _NVLINK.fullmatch(code or "")
    return int(match[1]) if match else 0


@lru_cache(maxsize=256)
def rank(code: str | None) -> int:
    """Place of a kind in the order, higher is better; unknown is 0."""
    return link_kind(code).rank


def worse(first: str | None, second: str | None) -> str | None:
    """The worse of two codes, an unknown one being the worst."""
    return first if rank(first) <= rank(second) else second


def checked(links: LinkMatrix) -> list[list[str | None]]:
    """The matrix made symmetric, the worse direction counting where the two disagree.

    A pair seen in one direction only is known.

    Args:
        links: Square matrix, shape (n, n), of codes; None where nothing is stated.

    Returns:
        Symmetric matrix, shape (n, n), "X" on the diagonal.

    Raises:
        InvalidSpec: The matrix is not square, or a cell is no link kind.
    """
    n = len(links)
    if any(len(row) != n for row in links):
        raise InvalidSpec("The link matrix is not square.", "Give one row and one column a GPU.")
    whole: list[list[str | None]] = [["X"] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            there, back = links[i][j], links[j][i]
            code = worse(there, back) if there and back else there or back
            link_kind(code)
            whole[i][j] = whole[j][i] = code
    return whole


def is_complete(links: LinkMatrix) -> bool:
    """Whether every pair is known from at least one direction."""
    return all(code is not None for row in checked(links) for code in row)
