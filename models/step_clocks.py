"""The clocks of a decode step: their words, their order, and which of them two steps share.

Wall clocks differ in how much work of the host is in them; a replay has none.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """One clock.

    Attributes:
        code: As stored.
        label: For a sentence or an axis.
        short: For a line in a list.
        explained: For the form that offers it.
    """

    code: str
    label: str
    short: str
    explained: str


# from most work of the host to none
CLOCKS: dict[str, Clock] = {
    clock.code: clock
    for clock in (
        Clock(
            "wall_eager",
            "wall clock, launched piece by piece",
            "eager",
            "wall, eager (each piece launched from Python)",
        ),
        Clock(
            "wall_served",
            "wall clock as an engine drives it",
            "as served",
            "wall, as an engine drives it (layers in a graph, the rest by the host)",
        ),
        Clock(
            "wall_graph",
            "wall clock, one graph a step",
            "graph",
            "wall, one graph a step (the least a host can do)",
        ),
        Clock("wall", "wall clock", "wall", "wall, as an author printed it"),
        Clock("replay", "graph replay", "replay", "graph replay (no host work)"),
        Clock(
            "replay_no_allreduce",
            "graph replay without all-reduces",
            "replay without all-reduce",
            "graph replay without all-reduces",
        ),
    )
}
MEASURED = tuple(code for code in CLOCKS if code != "wall")

# What a step's wall clock is read from, best first: one graph a step is what is left when nothing
# but the launch is the host's; an author's clock is what he says it is.
WALLS = ("wall_graph", "wall_served", "wall_eager", "wall")

# a code in a sentence; one that is an English word too is meant only where a place or unit follows
_LONG = "|".join(sorted((code for code in CLOCKS if "_" in code), key=len, reverse=True))
_SHORT = "|".join(code for code in CLOCKS if "_" not in code)
_TOLD = re.compile(rf"\b(?:(?:{_LONG})\b|(?<!raph )(?:{_SHORT})(?=, batch | \(batch | \(ms\)))")
_OPENS = re.compile(r"(?:^|[.!?] )$")


def words(code: str) -> str:
    """A clock in words; a code that nobody knows as it stands."""
    known = CLOCKS.get(code)
    return known.label if known else code


def in_words(name: str, value: object) -> str:
    """A dimension of a number for people: a clock by its words, others by name and value."""
    return words(str(value)) if name == "clock" else f"{name} {value}"


def told(sentence: str | None) -> str:
    """A runner's remark, reason or heading with its clocks as people call them.

    Args:
        sentence: As stored, codes in it; None is empty.
    """

    def said(found: re.Match[str]) -> str:
        label = words(found[0])
        opens = _OPENS.search(found.string[: found.start()])
        return label[0].upper() + label[1:] if opens else label

    return _TOLD.sub(said, sentence or "")


def wall_of(definitions: Mapping[str, str]) -> str | None:
    """The wall clock of a step.

    Args:
        definitions: Clock -> definition of each clock that was read.
    """
    return next((code for code in WALLS if code in definitions), None)


def common_wall(*steps: Mapping[str, str]) -> str | None:
    """The wall clock that all steps have, read in one and the same way; None where none is.

    Args:
        steps: Clock -> definition, one mapping a step.
    """
    return next((code for code in WALLS if is_common(code, steps)), None)


def is_common(code: str, steps: Iterable[Mapping[str, str]]) -> bool:
    """Whether all steps have a clock, under one definition."""
    found = {definitions.get(code) for definitions in steps}
    return len(found) == 1 and None not in found
