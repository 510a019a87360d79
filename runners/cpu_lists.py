"""Lists of processors in words."""

from collections.abc import Iterable


def compact(numbers: Iterable[int]) -> str:
    """Numbers as the kernel writes CPU lists: 0-3,8."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in spans)
