"""Widgets whose value is a code in the URL, whatever their label says."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import streamlit as st

Number = TypeVar("Number", int, float)


def choice(
    key: str,
    label: str,
    codes: Sequence[str],
    default: str,
    words: Mapping[str, str] | None = None,
    *,
    help: str | None = None,
) -> str:
    """A select box; ``?key=code`` sets it, an unknown code is ignored.

    Args:
        key: URL parameter.
        label: For people.
        codes: Identifiers; at least one.
        default: The one that leaves no trace in the URL.
        words: Code -> words for people; the code itself where none stand.
        help: As in st.selectbox.
    """
    asked = st.query_params.get(key)
    start = asked if asked in codes else default
    labels = {code: (words or {}).get(code, code) for code in codes}
    value = st.selectbox(
        label,
        list(codes),
        index=list(codes).index(start),
        format_func=labels.__getitem__,
        key=f"what-if-{key}-{'-'.join(codes) if len(codes) < 5 else len(codes)}",
        help=help,
    )
    _remember(key, value, default)
    return str(value)


def number(
    key: str,
    label: str,
    default: Number,
    low: Number,
    high: Number,
    *,
    help: str | None = None,
) -> Number:
    """A number; ``?key=value`` sets it, one outside the bounds is ignored."""
    kind = type(default)
    start = default
    try:
        asked = kind(st.query_params.get(key, default))
        start = asked if low <= asked <= high else default
    except ValueError:
        start = default
    value = st.number_input(
        label, min_value=low, max_value=high, value=start, key=f"what-if-{key}", help=help
    )
    found = kind(value)
    _remember(key, f"{found:g}" if kind is float else str(found), str(default))
    return found


def unknown_or(
    key: str,
    label: str,
    low: float,
    high: float,
    *,
    help: str | None = None,
) -> float | None:
    """A number that may be unknown: the field is then empty, and no zero stands in for it."""
    start = None
    try:
        asked = float(st.query_params.get(key, "nan"))
        start = asked if low <= asked <= high else None  # NaN is outside
    except ValueError:
        start = None
    value = st.number_input(
        label,
        min_value=low,
        max_value=high,
        value=start,
        key=f"what-if-{key}",
        help=help,
        placeholder="not known",
    )
    _remember(key, None if value is None else f"{value:g}", "")
    return None if value is None else float(value)


def flags(
    key: str,
    label: str,
    words: Mapping[str, str],
    *,
    help: str | None = None,
) -> tuple[str, ...]:
    """Several codes at once; ``?key=code,code`` sets them."""
    asked = [part for part in st.query_params.get(key, "").split(",") if part in words]
    picked = st.multiselect(
        label,
        list(words),
        default=asked,
        format_func=words.__getitem__,
        key=f"what-if-{key}",
        help=help,
    )
    _remember(key, ",".join(picked), "")
    return tuple(picked)


def _remember(key: str, value: str | None, default: str) -> None:
    """Write a value that differs from the default; take back one that does not."""
    if value is None or value == default:
        if key in st.query_params:
            del st.query_params[key]
    elif st.query_params.get(key) != value:
        st.query_params[key] = value
