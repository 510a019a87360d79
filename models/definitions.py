"""What each tool means by its words, and which numbers may share an axis.

A definition reads ``tool:quantity:revision``; the revision rises when the tool changed the
meaning. Two definitions share an axis only when they stand in the same group here. Revision 0 says
that the file does not tell which revision wrote it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from models.definition_own import OWN_TABLE
from models.definition_table import TABLE, Definition


@dataclass(frozen=True)
class Conversion:
    """An exact way from one definition's number to another's.

    Attributes:
        source: Definition of the number at hand.
        target: Definition it becomes.
        needs: Names of the further values that ``apply`` wants.
        words: The formula, and when it is exact.
        apply: (value, further values) -> converted value, or None where they do not allow it.
    """

    source: str
    target: str
    needs: tuple[str, ...]
    words: str
    apply: Callable[[float, Mapping[str, float]], float | None]


DEFINITIONS: dict[str, Definition] = {row.id: row for row in (*TABLE, *OWN_TABLE)}


def describe(name: str) -> str:
    """What a definition measures, or its name where this table does not know it."""
    known = DEFINITIONS.get(name)
    return f"{name} ({known.words})" if known else name


def group_of(name: str) -> str:
    """The group in which a definition stands; one that the table does not know stands alone."""
    known = DEFINITIONS.get(name)
    return known.group if known else name


def comparable(first: str, second: str) -> str | None:
    """Why two definitions may not share an axis.

    Args:
        first: A definition's id.
        second: Another one's.

    Returns:
        None where they may; else one sentence that names both meanings.
    """
    if first == second:
        return None
    a, b = DEFINITIONS.get(first), DEFINITIONS.get(second)
    if a is not None and b is not None and a.group == b.group:
        return None
    unknown = [row for row in (a, b) if row is not None and row.id.endswith(":0")]
    hint = " Fill in the engine version of the run that does not state it." if unknown else ""
    return f"Not the same quantity: {describe(first)}; {describe(second)}.{hint}"


def caution(first: str, second: str) -> str | None:
    """What to keep in mind where two definitions share an axis but not the revision."""
    a, b = DEFINITIONS.get(first), DEFINITIONS.get(second)
    if a is None or b is None or first == second or a.group != b.group or a.words == b.words:
        return None
    return f"Nearly the same quantity: {describe(first)}; {describe(second)}."


def vllm_definition(quantity: str, *, chat: bool | None = None, version: str | None = None) -> str:
    """The definition of a number of ``vllm bench serve``.

    Args:
        quantity: ttft, tpot, itl, e2el, or another quantity, which has one revision.
        chat: Whether the chat endpoint was used; None where the file does not say.
        version: vLLM's version such as ``0.33.1``, or None.

    Returns:
        ``vllm:<quantity>:<revision>``; revision 0 where the version decides and is not known.

    Source: vLLM 0.30 (end of stream) and 0.33 (role chunk of the chat endpoint).
    """
    release = _release(version)
    if quantity in ("ttft", "itl"):
        if chat is False:
            return f"vllm:{quantity}:2"
        if release is None:
            return f"vllm:{quantity}:0"
        return f"vllm:{quantity}:{2 if release >= (0, 33) else 1 if chat else 0}"
    if quantity in ("tpot", "e2el"):
        if release is None:
            return f"vllm:{quantity}:0"
        return f"vllm:{quantity}:{2 if release >= (0, 30) else 1}"
    return f"vllm:{quantity}:1"


def _release(version: str | None) -> tuple[int, int] | None:
    parts = (version or "").lstrip("v").split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):
        return None
    return int(parts[0]), int(parts[1])


def _without_first_token(value: float, further: Mapping[str, float]) -> float | None:
    tokens = further["output_len"]
    return (tokens * value - further["ttft_mean"]) / (tokens - 1) if tokens > 1 else None


_CONVERSIONS = (
    Conversion(
        "guidellm:tpot:1",
        "guidellm:itl:1",
        ("output_len", "ttft_mean"),
        "(tokens x value - mean TTFT)/(tokens - 1): exact for means when every answer has the "
        "same number of tokens.",
        _without_first_token,
    ),
)


def conversion(source: str, target: str) -> Conversion | None:
    """The exact conversion between two definitions, or None where there is none.

    A conversion leads to every definition of the target's group.
    """
    for row in _CONVERSIONS:
        if row.source == source and comparable(row.target, target) is None:
            return row
    return None
