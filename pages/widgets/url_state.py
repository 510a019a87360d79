"""Form fields that a link can set and that write themselves back: codes in the URL, never labels.

A field that holds its usual value leaves no trace. What a URL asks for and the field does not offer
is ignored: a link may come from another machine, or from nobody who means well.
"""

from collections.abc import Sequence
from typing import TypeVar

import streamlit as st

Code = TypeVar("Code")
_MOST = 200  # parts of one parameter that are looked at


def asked_one(name: str, codes: Sequence[Code], usual: Code) -> Code:
    """The code that the URL asks for, where it is one of these."""
    return _known(codes).get(st.query_params.get(name, ""), usual)


def asked_some(name: str, codes: Sequence[Code], usual: Sequence[Code]) -> list[Code]:
    """The codes that the URL asks for, in its order; the usual ones where it asks for none."""
    known = _known(codes)
    parts = st.query_params.get(name, "").split(",")[:_MOST]
    found = [known[part] for part in dict.fromkeys(parts) if part in known]
    return found or list(usual)


def asked_number(name: str, low: int, high: int, usual: int) -> int:
    """The whole number that the URL asks for, where it lies within the bounds."""
    try:
        asked = int(st.query_params.get(name, usual))
    except ValueError:
        return usual
    return asked if low <= asked <= high else usual


def keep(name: str, value: object, usual: object) -> None:
    """Write a field's value into the URL, or take it out where it is the usual one."""
    text, plain = _text(value), _text(usual)
    if text == plain or not text:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != text:
        st.query_params[name] = text


def _known(codes: Sequence[Code]) -> dict[str, Code]:
    return {str(code): code for code in codes}


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(str(part) for part in value)
    return str(value)
