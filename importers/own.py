"""Our own exports: one result, an array of results, or a bundle with its study."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from importers.text import refusal
from models.result import SCHEMA_VERSION, Bundle, Result, parse


def looks_like(value: Any) -> bool:
    """Whether a decoded value is one of our exports."""
    if isinstance(value, list):
        return bool(value) and all(_is_result(item) for item in value)
    return _is_result(value) or _is_bundle(value)


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and {"schema", "kind", "origin", "measurements"} <= value.keys()


def _is_bundle(value: Any) -> bool:
    results = value.get("results") if isinstance(value, dict) else None
    return (
        isinstance(results, list)
        and all(_is_result(item) for item in results)
        and (bool(results) or isinstance(value.get("study"), dict))
    )


def read(value: Any) -> Bundle:
    """The results as they were exported: ids, origin and definitions stay.

    Raises:
        UnreadableFile: Made by a newer version, or edited so that it no longer fits.
    """
    if isinstance(value, dict) and _is_bundle(value):
        results = _results(value["results"])
        try:
            return Bundle(
                study=value.get("study"), results=results, warnings=value.get("warnings") or []
            )
        except ValidationError as error:
            raise refusal(
                "malformed", "This is not a Linkworth export: its study or warnings do not fit."
            ) from error
    return Bundle(results=_results(value if isinstance(value, list) else [value]))


def _results(items: Sequence[Mapping[str, Any]]) -> list[Result]:
    for item in items:
        version = item.get("schema")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise refusal(
                "too_new",
                f"This export has shape {version}; this Linkworth knows up to {SCHEMA_VERSION}.",
                "Update Linkworth on this machine.",
            )
    return [parse(item) for item in items]
