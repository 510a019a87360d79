"""Cards that can be bought: what a prediction needs of them, and what a wrong figure looks like.

Vendors print sparse FLOP/s and bidirectional bandwidth in large type; a prediction needs neither.
`problems` finds them by what the silicon can do, so that a mistaken row never ships.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models import prices
from models.errors import InvalidSpec

# Dense bf16 operations a clock of one multiprocessor, FP32 accumulation, and the factor from bf16
# to fp4 that the die allows. Source: the vendor's architecture whitepapers.
_DIES: dict[str, tuple[int, float]] = {
    "ga100": (2048, 1.0),
    "gh100": (4096, 1.0),
    "gb100": (8192, 6.5),
    "ga10x-geforce": (512, 1.0),
    "ga10x-pro": (1024, 1.0),
    "ad10x-geforce": (512, 1.0),
    "ad10x-pro": (1024, 1.0),
    "gb20x-geforce": (512, 8.1),
    "gb20x-pro": (1024, 4.1),
}
# A figure that needs another clock than this is not the dense one.
_CLOCK_HZ = (1.0e9, 2.7e9)
# One direction of one NVLink by generation, bytes/s; cards with four links run them at 14 GB/s.
_NVLINK = {2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}
_NVLINK_BRIDGE = 14.0625e9
_PCIE_X16 = {3: 16e9, 4: 32e9, 5: 64e9, 6: 128e9}
# Slower than any small all-reduce in a graph over NVLink; launching one by one costs more.
SLOWEST_GRAPH_US = 20.0


@dataclass(frozen=True)
class Wire:
    """One link of a card.

    Attributes:
        kind: ``nvlink`` or ``pcie``.
        generation: Of the link.
        count: NVLinks, or PCIe lanes.
        per_direction: Bytes a second one way, all links of the card together.
    """

    kind: str
    generation: int
    count: int
    per_direction: float


@dataclass(frozen=True)
class Card:
    """One card, in the units of a formula.

    Attributes:
        key: Identifier in URLs.
        label: Words for people.
        names: Names under which drivers and tables know it.
        generation: Cards of one generation behave alike: hopper, blackwell, …
        die: Key into the table of dies; only the check of the file uses it.
        is_calibrated: Whether measured steps of this card stand behind the constants.
        bandwidth: Of the memory, bytes/s.
        memory: Bytes.
        multiprocessors: Of the die as sold.
        flops: Precision -> dense FLOP/s.
        wires: Its links, NVLink first.
    """

    key: str
    label: str
    names: tuple[str, ...]
    generation: str
    die: str
    is_calibrated: bool
    bandwidth: float
    memory: float
    multiprocessors: int
    flops: Mapping[str, float]
    wires: tuple[Wire, ...]


def card_of(row: prices.Card) -> Card:
    """A catalogue row as a prediction needs it.

    Args:
        row: The row with its ``facts``: label, names, generation, die, calibrated,
            multiprocessors, dense_tflops, nvlink, pcie, and ``sources`` by name of the fact.

    Returns:
        The card.

    Raises:
        InvalidSpec: A fact is missing, has no source, or is not a positive number.
    """
    facts = row.facts
    sources = facts.get("sources")
    if not isinstance(sources, Mapping):
        raise InvalidSpec(
            f"{row.name} has no facts with sources, so no step can be predicted on it.",
            "Add dense FLOP/s, multiprocessors and links with their sources to the catalogue.",
        )
    for name in ("multiprocessors", "dense_tflops", "nvlink", "pcie"):
        if name in facts and not str(sources.get(name) or "").strip():
            raise InvalidSpec(f"{row.name}: {name} names no source.")
    tflops = facts.get("dense_tflops")
    if not isinstance(tflops, Mapping) or "bf16" not in tflops:
        raise InvalidSpec(f"{row.name}: no dense FLOP/s in bf16 are known.")
    return Card(
        key=row.key,
        label=str(facts.get("label") or row.name),
        names=tuple(str(name) for name in facts.get("names", ())),
        generation=str(facts.get("generation") or row.key),
        die=str(facts.get("die") or ""),
        is_calibrated=facts.get("calibrated") is True,
        bandwidth=1e9 * row.memory_bandwidth_gbps,
        memory=1e9 * row.memory_gb,
        multiprocessors=int(_positive(row.name, facts.get("multiprocessors"))),
        flops={str(name): 1e12 * _positive(row.name, value) for name, value in tflops.items()},
        wires=tuple(
            Wire(
                kind=kind,
                generation=int(_positive(row.name, facts[kind].get("generation"))),
                count=int(_positive(row.name, facts[kind].get(width))),
                per_direction=1e9 * _positive(row.name, facts[kind].get("per_direction_gbps")),
            )
            for kind, width in (("nvlink", "links"), ("pcie", "lanes"))
            if isinstance(facts.get(kind), Mapping)
        ),
    )


def _positive(card: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise InvalidSpec(f"{card}: {str(value)[:40]!r} is not a positive number.")
    return float(value)


def cards_of(rows: Iterable[prices.Card]) -> dict[str, Card]:
    """The cards whose facts suffice for a prediction, by key; the others are left out."""
    found = {}
    for row in rows:
        try:
            found[row.key] = card_of(row)
        except InvalidSpec:
            continue  # a card that a person added with its price only
    return found


def named(cards: Mapping[str, Card], gpu_name: str) -> Card | None:
    """The card that a driver or table calls by this name, or None."""
    wanted = gpu_name.strip().lower()
    for card in cards.values():
        if wanted in {name.lower() for name in (*card.names, card.label, card.key)}:
            return card
    return None


def problems(cards: Iterable[Card]) -> list[str]:
    """What cannot be true of cards: one sentence each, empty where all is well.

    Source: a dense figure follows from multiprocessors, clock and operations a clock; a link's
        figure from its generation and width.
    """
    return [words for card in cards for words in _of_card(card)]


def _of_card(card: Card) -> Iterator[str]:
    if card.die not in _DIES:
        yield f"{card.key}: the die {card.die!r} is not known, so its figures cannot be checked."
        return
    rate, four_bit = _DIES[card.die]
    bf16 = card.flops["bf16"]
    clock = bf16 / (card.multiprocessors * rate)
    if not _CLOCK_HZ[0] <= clock <= _CLOCK_HZ[1]:
        yield (
            f"{card.key}: {bf16 / 1e12:.0f} TFLOP/s in bf16 would need a clock of "
            f"{clock / 1e9:.1f} GHz: sparse, or without FP32 accumulation?"
        )
    for precision, most in (("fp8", 2.1), ("fp4", four_bit)):
        flops = card.flops.get(precision)
        if flops is not None and flops / bf16 > most:
            yield (
                f"{card.key}: {precision} is {flops / bf16:.1f} times bf16, and the die allows "
                f"{most:.1f} times: sparse?"
            )
    for wire in card.wires:
        limit = _wire_limit(wire)
        if limit is None:
            yield f"{card.key}: {wire.kind} generation {wire.generation} is not known."
        elif wire.per_direction > 1.05 * limit:
            yield (
                f"{card.key}: {wire.per_direction / 1e9:.0f} GB/s over {wire.kind}, and "
                f"{wire.count} of generation {wire.generation} carry {limit / 1e9:.0f} GB/s one "
                "way: both directions?"
            )


def _wire_limit(wire: Wire) -> float | None:
    if wire.kind == "nvlink":
        each = _NVLINK.get(wire.generation)
        if wire.generation == 3 and wire.count <= 4:
            each = _NVLINK_BRIDGE
        return None if each is None else each * wire.count
    whole = _PCIE_X16.get(wire.generation)
    return None if whole is None else whole * wire.count / 16


def latency_problems(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with all-reduce latencies that stand in for a link: mode, and size of alpha.

    Args:
        rows: Each with ``name``, ``mode`` and ``alpha_us``; ``through_host`` where the message
            may go through host memory (PCIe), which is slower even in a graph.
    """
    found = []
    for row in rows:
        limit = SLOWEST_GRAPH_US * (2.0 if row.get("through_host") else 1.0)
        if row.get("mode") != "graph":
            found.append(f"{row.get('name')}: the latency was not taken in graph mode.")
        elif float(row["alpha_us"]) > limit:
            found.append(
                f"{row.get('name')}: {row['alpha_us']} us is longer than any small all-reduce in "
                "a graph: launched one by one?"
            )
    return found
