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
        summary=f"{_words(content)} {content['kind'].capitalize()}.",
        claims=[Claim(claim=row["claim"], check=row.get("check")) for row in content["claims"]],
        limits=content.get("limits", []),
        notes=notes,
        facts={key: value for key, value in content.items() if key not in _TOLD_ELSEWHERE},
    )


def _words(content: dict[str, Any]) -> str:
    """What the study found, in a sentence or two of its own figures."""
    if "allreduce_3kb" in content:
        return _steps_words(content)
    if "configurations" in content:
        return _arms_words(content)
    return _ranges_words(content)


def _steps_words(content: dict[str, Any]) -> str:
    """A second GPU's effect on a decode step, host by host."""
    parts, small = [], []
    for name, host in content["hosts"].items():
        one, two = (
            next(row for row in content["decode_wall_clock"] if (row["host"], row["tp"]) == at)
            for at in ((name, 1), (name, 2))
        )
        place = f"{host['gpu']} over {host['interconnect']}"
        parts.append(
            f"from {one['step_ms']:g} to {two['step_ms']:g} ms on {place} "
            f"({two['speedup']:g} times as fast)"
        )
        cost = next(row for row in content["allreduce_3kb"] if row["host"] == name)
        small.append(f"{cost['total_us']:g}")
    return (
        f"A second GPU takes the decode step {' and '.join(parts)}. One all-reduce of 3 KB costs "
        f"{' and '.join(small)} us."
    )


def _arms_words(content: dict[str, Any]) -> str:
    """The author's changes of throughput, pair by pair."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in content["derived"]:
        if row["metric"] == "output_tok_s":
            words = f"{row['change_pct']:+g} % at concurrency {row['concurrency']}"
            found.setdefault((row["a"], row["b"]), []).append(words)
    labels = {name: arm["label"] for name, arm in content["configurations"].items()}
    parts = [f"{labels[a]} against {labels[b]}: {', '.join(w)}" for (a, b), w in found.items()]
    return f"Output throughput of {'; '.join(parts)}."


def _ranges_words(content: dict[str, Any]) -> str:
    """Gains that are printed as ranges, beside what batching brings."""
    gains = [row for row in content["gains_when_on"] if row["metric"] == "output_tok_s"]
    link = ", ".join(f"{_span(row)} at concurrency {row['concurrency']}" for row in gains)
    batching = [row for row in content["scaling_claims"] if row["metric"] == "output_tok_s"]
    more = "".join(
        f" From concurrency {row['from_concurrency']} to {row['to_concurrency']} alone it is "
        f"{_span(row)}."
        for row in batching
    )
    return f"With the interconnect on, output throughput is {link}.{more}"


def _span(row: dict[str, Any]) -> str:
    low, high = row["change_pct"]
    return f"{low:+g} %" if low == high else f"{low:+g} to {high:+g} %"
