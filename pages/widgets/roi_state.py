"""The ROI page's choices in the URL, and how a whole state is put there."""

import zlib
from collections.abc import Mapping, Sequence

import streamlit as st

from pages.widgets.roi_fields import FIELDS, bounded

# what stands outside the form, in the order of a link
CHOICES = (
    "source", "base", "cand", "use", "benefit", "ttft_ms", "tpot_ms", "share",
    "gain_low", "gain_high", "origin", "gain_name",
)  # fmt: skip
_GENERATION = "roi-generation"


def generation() -> int:
    """A number that changes when a whole state is put in place: widgets then start anew."""
    return int(st.session_state.get(_GENERATION, 0))


def current() -> dict[str, str]:
    """The whole state as the URL holds it."""
    known = set(CHOICES) | set(FIELDS)
    return {name: st.query_params[name] for name in st.query_params if name in known}


def put(state: Mapping[str, str]) -> None:
    """Replace the whole state: URL and widgets."""
    known = set(CHOICES) | set(FIELDS)
    for name in list(st.query_params):
        if name in known:
            del st.query_params[name]
    for name, value in state.items():
        if name in known:
            st.query_params[name] = value
    st.session_state[_GENERATION] = generation() + 1


def put_inputs(changed: Mapping[str, str]) -> None:
    """Write the form's values that differ from the defaults; the choices stay."""
    for name in list(st.query_params):
        if name in FIELDS and name not in changed:
            del st.query_params[name]
    for name, value in changed.items():
        if st.query_params.get(name) != value:
            st.query_params[name] = value


def remember(name: str, value: str, default: str) -> None:
    """Write a choice that differs from its default; take back one that does not."""
    if value == default:
        if name in st.query_params:
            del st.query_params[name]
    elif st.query_params.get(name) != value:
        st.query_params[name] = value


def choose(
    name: str,
    label: str,
    words: Mapping[str, str],
    default: str,
    *,
    help: str | None = None,
) -> str:
    """A select box whose code stands in the URL; an unknown code is ignored.

    Args:
        name: URL parameter.
        label: For people.
        words: Code -> words.
        default: The code that leaves no trace in the URL.
        help: As in st.selectbox.
    """
    codes = list(words)
    asked = st.query_params.get(name, default)
    start = codes.index(asked if asked in words else default)
    picked = st.selectbox(
        label,
        codes,
        index=start,
        format_func=words.__getitem__,
        key=f"roi-{generation()}-{name}-{stamp(codes)}",
        help=help,
    )
    remember(name, picked, default)
    return str(picked)


def limit(name: str, label: str, default: float, least: float, most: float, help: str) -> float:
    """A number whose value stands in the URL; one outside the bounds is ignored."""
    start = bounded(st.query_params.get(name), default, (least, most))
    value = st.number_input(
        label,
        min_value=float(least),
        max_value=float(most),
        value=float(start),
        step=float(max(1.0, round(default / 20))),
        format="%.0f",
        key=f"roi-{generation()}-{name}-{default:g}",
        help=help,
    )
    remember(name, f"{value:g}", f"{default:g}")
    return float(value)


def stamp(parts: Sequence[str]) -> str:
    """A short text that changes with the parts, the same in every process."""
    return f"{zlib.crc32('|'.join(parts).encode()):x}"
