"""JSON as benchmark tools write it: one object, a list, or several objects one after the other."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from importers.text import refusal

MAX_DEPTH = 40  # GuideLLM nests twelve deep

_SPACE = " \t\n\r,"
_START = re.compile(r"\s*(?:\{|\[\s*[\[{])")


@dataclass
class Documents:
    """What a file holds: its values, whether the end is cut, how many were not finite."""

    values: list[Any] = field(default_factory=list)
    truncated: bool = False
    not_finite: int = 0


def looks_like(text: str) -> bool:
    """Whether the text begins as a JSON object or a list of such; "[0]" is a tag of mpirun."""
    return _START.match(text) is not None


def documents(text: str) -> Documents:
    """Decode one JSON value after the other.

    ``NaN`` and ``Infinity`` are no numbers here: they stay floats that no reader takes, so that
    the value counts as missing and only a request rate may be infinite.

    Raises:
        UnreadableFile: The first value is cut, malformed or nested too deeply.
    """
    found = Documents()

    def constant(name: str) -> float:
        found.not_finite += 1
        return float(name)

    decoder = json.JSONDecoder(parse_constant=constant)
    position = _skip(text, 0)
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            if not found.values:
                raise _malformed(text, error) from None
            found.truncated = True
            break
        except RecursionError:
            raise _too_deep() from None
        except ValueError:  # a number of thousands of digits
            raise refusal(
                "malformed", "This JSON file holds a number that no computer can store."
            ) from None
        found.values.append(value)
        position = _skip(text, position)
    for value in found.values:
        _check_depth(value)
    return found


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _malformed(text: str, error: json.JSONDecodeError) -> Exception:
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return refusal(
            "truncated",
            f"This JSON file ends in the middle, in line {error.lineno}.",
            "Copy the whole file; a run that was stopped leaves such a file behind.",
        )
    return refusal(
        "malformed",
        f"This is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg.lower()}.",
        "Import the file as the tool wrote it.",
    )


def _too_deep() -> Exception:
    return refusal("too_deep", f"This JSON file is nested deeper than {MAX_DEPTH} levels.")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for holder in level for item in _containers(holder)]
        if not level:
            return
    raise _too_deep()


def _containers(holder: Any) -> Iterator[Any]:
    items = (
        holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ()
    )
    return (item for item in items if isinstance(item, dict | list))
