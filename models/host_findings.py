"""What is wrong with a host, and what that does to the work: dead links, narrow slots, doubts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from models.links import LinkMatrix, checked, rank


@dataclass(frozen=True)
class Finding:
    """Something about a host that a person should know before measuring.

    Attributes:
        code: For programs, also the code of the warning in a result.
        severity: "problem" costs speed or correctness; "note" explains.
        sentence: What was found.
        meaning: What it does to the measurements or the work.
        next_step: What to try; empty where nothing need be done.
        gpus: Indices of the GPUs that it is about.
    """

    code: str
    severity: Literal["problem", "note"]
    sentence: str
    meaning: str
    next_step: str = ""
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class KnownCard:
    """NVLinks that a card has when every one is connected, and their raw rate per direction."""

    pattern: str
    links: int
    gb_s_per_link: float | None
    source: str


# First match wins. Rates are GB/s per link and direction as the vendor's papers state them; the
# driver prints the raw signalling rate, which lies up to 6 % higher.
CARDS = (
    KnownCard(r"P100.*SXM2", 4, 20.0, "NVIDIA Tesla P100 architecture paper"),
    KnownCard(r"V100.*SXM", 6, 25.0, "NVIDIA V100 datasheet: 300 GB/s both ways"),
    KnownCard(r"A100.*SXM|A100.*PCIE?|A100-PG509", 12, 25.0, "NVIDIA A100 datasheet: 600 GB/s"),
    KnownCard(r"A800", 8, 25.0, "NVIDIA A800 datasheet: 400 GB/s"),
    KnownCard(r"\bA30\b", 4, 25.0, "NVIDIA A30 datasheet: 200 GB/s"),
    KnownCard(r"H800", 8, 25.0, "NVIDIA H800 datasheet: 400 GB/s"),
    KnownCard(r"H100 (PCIe|NVL)", 12, 25.0, "NVIDIA H100 datasheet: 600 GB/s"),
    KnownCard(r"\b(H100|H200|H20|GH200)\b", 18, 25.0, "NVIDIA Hopper datasheets: 900 GB/s"),
    KnownCard(r"\bG?B[23]00\b", 18, 50.0, "NVIDIA Blackwell datasheets: 1.8 TB/s"),
    KnownCard(
        r"RTX 3090|RTX A(6000|5500|5000|4500)\b|\bA40\b", 4, 14.0625, "NVIDIA GA102: 112.5 GB/s"
    ),
    KnownCard(r"TITAN RTX|RTX 2080 Ti|Quadro RTX [68]000", 2, 25.0, "NVIDIA TU102 paper: 100 GB/s"),
    KnownCard(r"RTX 2080\b|Quadro RTX 5000", 1, 25.0, "NVIDIA TU104 paper: 50 GB/s"),
    KnownCard(
        r"RTX (40|50)\d\d|\b(L4|L40S?|L20|T4|A10G?|A2|A16)\b|V100.*PCIE|P100.*PCIE"
        r"|RTX [2-6]000 Ada|RTX PRO [2-6][05]00 Blackwell",
        0,
        None,
        "NVIDIA product pages: no NVLink connector",
    ),
)


def known_card(name: str) -> KnownCard | None:
    """The NVLinks that a card of this name has; None for a card that is not in the table."""
    return next((card for card in CARDS if re.search(card.pattern, name, re.IGNORECASE)), None)


def nvlink_findings(index: int, name: str, facts: Mapping[str, Any]) -> list[Finding]:
    """What a GPU's NVLink status says.

    Args:
        index: The GPU.
        name: Its product name, to know how many links it has.
        facts: ``links_total`` and ``links_active`` (counts, None where not known) and
            ``nvlink_errors`` (counter name -> count).

    Returns:
        Findings: inactive links, fewer links than the card has, counters above zero.
    """
    found: list[Finding] = []
    total, active = facts.get("links_total"), facts.get("links_active")
    card = known_card(name)
    has_links = card is None or card.links > 0
    some_down = total is not None and active is not None and active < total
    all_down = total is None and active == 0
    if (some_down or all_down) and has_links:
        share = f"{total - active} of {total}" if some_down and active else "all"
        found.append(
            Finding(
                "inactive_links",
                "problem",
                f"GPU {index}: {share} NVLinks are inactive.",
                "Data to this GPU take fewer links, or go over PCIe.",
                "Check that the bridge is there and seated (a PCIe card without its bridge shows "
                "the same); on NVSwitch machines check that the fabric manager runs.",
                (index,),
            )
        )
    elif card is not None and total is not None and total < card.links:
        found.append(
            Finding(
                "fewer_links",
                "problem",
                f"GPU {index}: the driver shows {total} NVLinks, a {name} has {card.links}.",
                "The pair runs below what the card can do.",
                "Check the bridge; some boards and cloud machines connect fewer links.",
                (index,),
            )
        )
    errors = {key: count for key, count in (facts.get("nvlink_errors") or {}).items() if count}
    if errors:
        what = ", ".join(f"{key} {count}" for key, count in sorted(errors.items()))
        found.append(
            Finding(
                "nvlink_errors",
                "problem",
                f"GPU {index}: NVLink error counters stand above zero ({what}).",
                "Resent data cost time; counters that rise during a run point to a bad contact.",
                "Read the counters again after a run; if they rise, reseat the bridge.",
                (index,),
            )
        )
    return found


# bytes a second of one PCIe lane and direction, after encoding: PCI-SIG, generations 1 to 6
_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}


def pcie_gb_s(generation: int, width: int) -> float | None:
    """Ceiling of a PCIe slot per direction, 1e9 bytes a second; None for unknown generations."""
    lane = _LANE_GB_S.get(generation)
    return None if lane is None else lane * width


def pcie_findings(
    index: int, facts: Mapping[str, Any], *, under_load: bool = False
) -> list[Finding]:
    """Slots that are narrower or slower than the card and the board could do.

    An idle GPU lowers its PCIe generation to save power, so a low generation is a finding only
    where it was read under load; a narrow width is one always.

    Args:
        index: The GPU.
        facts: ``pcie_width``, ``pcie_width_max``, ``pcie_gen``, ``pcie_gen_max`` (ints or None).
        under_load: Whether the generation was read while data moved.
    """
    found: list[Finding] = []
    width, width_max = facts.get("pcie_width"), facts.get("pcie_width_max")
    gen, gen_max = facts.get("pcie_gen"), facts.get("pcie_gen_max")
    if width and width_max and width < width_max:
        share = f"1/{width_max // width}" if width_max % width == 0 else f"{width}/{width_max}"
        found.append(
            Finding(
                "pcie_width",
                "problem",
                f"GPU {index}: the PCIe slot runs x{width}, the card could run x{width_max}.",
                f"Copies to the host, and to GPUs without NVLink, reach {share} of the rate.",
                "Check the slot, the riser and the board's lane sharing.",
                (index,),
            )
        )
    if gen and gen_max and gen < gen_max:
        found.append(
            Finding(
                "pcie_generation" if under_load else "pcie_idle",
                "problem" if under_load else "note",
                f"GPU {index}: PCIe runs generation {gen}, at most {gen_max} is possible"
                + (" (read under load)." if under_load else " (read while idle)."),
                "Copies over PCIe are slower than they could be."
                if under_load
                else "An idle GPU lowers the generation to save power: only a reading under load "
                "counts.",
                "Check riser and board settings." if under_load else "Run the peer-to-peer check.",
                (index,),
            )
        )
    return found


def disagreements(
    first: LinkMatrix,
    second: LinkMatrix,
    first_name: str,
    second_name: str,
    gpus: Sequence[int] | None = None,
) -> list[Finding]:
    """Pairs for which two sources state different links.

    Args:
        first: Matrix, shape (n, n).
        second: Matrix, shape (m, m).
        first_name: What people call the first source.
        second_name: What people call the second source.
        gpus: Index of each GPU, shape (n,); by default its place.

    Returns:
        One finding a pair that both know and see differently, and one for unequal GPU counts.
    """
    found: list[Finding] = []
    if len(first) != len(second):
        found.append(
            Finding(
                "sources_disagree",
                "problem",
                f"{first_name} sees {len(first)} GPUs, {second_name} sees {len(second)}.",
                "One of them hides GPUs, or a GPU fell off the bus between the two readings.",
                "Read the machine again; if it stays, look for Xid messages in the kernel log.",
            )
        )
        return found
    names = list(range(len(first))) if gpus is None else list(gpus)
    ours, theirs = checked(first), checked(second)
    for i in range(len(ours)):
        for j in range(i + 1, len(ours)):
            there, here = ours[i][j], theirs[i][j]
            if there is None or here is None or rank(there) == rank(here):
                continue
            found.append(
                Finding(
                    "sources_disagree",
                    "problem",
                    f"GPUs {names[i]} and {names[j]}: {first_name} says {there}, {second_name} "
                    f"says {here}.",
                    "The tools number GPUs differently, or a link changed in between.",
                    "Measure this pair with the peer-to-peer check before you rely on either.",
                    (names[i], names[j]),
                )
            )
    return found
