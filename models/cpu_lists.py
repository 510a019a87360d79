"""Lists of processors as the kernel writes them: in words, and read from what a person types."""

import re
from collections.abc import Iterable

from models.errors import InvalidSpec

MOST_CPUS = 4096


def compact(numbers: Iterable[int]) -> str:
    """Numbers as the kernel writes CPU lists: 0-3,8."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in spans)


def parse(text: str) -> list[int]:
    """Processors of a list such as ``0-3,8``, each once, in rising order.

    Raises:
        InvalidSpec: It is no such list, or names a processor above 4,095.
    """
    found: set[int] = set()
    for part in text.replace(" ", "").split(","):
        match = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if low > high or high >= MOST_CPUS:
            raise InvalidSpec(
                f"{text.strip()[:60]!r} is no list of CPUs.",
                "Write it as 0-3,8: ranges and numbers.",
            )
        found |= set(range(low, high + 1))
    return sorted(found)
