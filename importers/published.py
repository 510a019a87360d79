"""Studies that somebody else published, one JSON file each, as studies and results.

Every number of a file becomes a measurement exactly as printed; what we compute from it never
replaces it. What the author leaves out stays absent. The layouts are those of
``data/published/*.json``; ids are derived from the names, so the same file always gives the same
results.
"""

import json
from collections.abc import Callable
from typing import Any

from importers import published_decode, published_serving
from models.errors import UnreadableFile
from models.result import Bundle, Claim, Result, Study

MAX_BYTES = 2_000_000
_STEP = "Published studies lie in data/published; other files come in through the Runs page."

# a key that only one layout has -> its reader
_LAYOUTS: dict[str, Callable[[dict[str, Any]], list[Result]]] = {
    "allreduce_3kb": published_decode.results,
    "configurations": published_serving.configuration_results,
    "gains_when_on": published_serving.interconnect_results,
}

# keys that become measurements, claims, limits or notes; the others are the study's facts
_TOLD_ELSEWHERE = {
    "id",
    "title",
    "source",
    "kind",
    "claims",
    "limits",
    "consistency",
    "confounds",
    "do_not_invent",
}


def is_published(content: Any) -> bool:
    """Whether decoded JSON is a published study of a known layout."""
    return (
        isinstance(content, dict)
        and str(content.get("kind", "")).startswith("published")
        and any(key in content for key in _LAYOUTS)
    )


def read(data: bytes) -> Bundle:
    """Read one published study.

    Args:
        data: The JSON file's bytes.

    Returns:
        The study with its claims, and its results with origin *published*.

    Raises:
        UnreadableFile: Not JSON, or not one of the known layouts, or a table lacks a column.
    """
    try:
        if len(data) > MAX_BYTES:
            raise ValueError("too large")
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(
            "This published study is not JSON.", _STEP, detail=str(error)
        ) from None
    if not is_published(content):
        raise UnreadableFile("This file is not a published study of a known layout.", _STEP)
    layout = next(key for key in _LAYOUTS if key in content)
    try:
        return Bundle(study=_study(content), results=_LAYOUTS[layout](content))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UnreadableFile(
            "A table of this published study lacks a column or holds an impossible value.",
            _STEP,
            detail=repr(error),
        ) from None


def _study(content: dict[str, Any]) -> Study:
    notes = [
        content[key] for key in ("consistency", "confounds", "do_not_invent") if key in content
    ]
    for part in ("model", "workload"):
        note = content.get(part, {}).get("note")
        notes += [note] if note else []
    return Study(
        id=content["id"],
        title=content["title"],
        origin="published",
        source=content["source"],
        summary=f"{content['kind'].capitalize()}. {_words(content)}",
        claims=[Claim(claim=row["claim"], check=row.get("check")) for row in content["claims"]],
        limits=content.get("limits", []),
        notes=notes,
        facts={key: value for key, value in content.items() if key not in _TOLD_ELSEWHERE},
    )


def _words(content: dict[str, Any]) -> str:
    """What the study holds, in one sentence."""
    if "allreduce_3kb" in content:
        hosts = " and ".join(
            f"{host['gpu']} over {host['interconnect']}" for host in content["hosts"].values()
        )
        return f"Decode steps at one and two GPUs, and the cost of a 3 KB all-reduce: {hosts}."
    if "configurations" in content:
        labels = "; ".join(
            f"{name}: {arm['label']}" for name, arm in content["configurations"].items()
        )
        return f"Serving at one and four streams. {labels}."
    return (
        "Serving at one and four streams with the interconnect off, and the gain when it is on, "
        "as ranges only."
    )
