"""Nested facts as one table."""

from collections.abc import Mapping
from typing import Any


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values of a nested mapping under the path to them, joined by dots; lists stay whole."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found
