"""The forms of the catalogue: edit a figure, add one, restore what is shipped."""

from collections.abc import Callable
from datetime import date
from typing import Any

import streamlit as st

from db.engine import Engine
from importers.catalogue import shipped_rows
from models.errors import InvalidSpec, LinkworthError
from pages.widgets import catalogue_store, store
from pages.widgets.plain import plain
from settings import settings

NEW = ""
_MAX_TEXT = 300
_EMPTY: dict[str, dict[str, Any]] = {
    "prices": {"label": "", "unit": "$", "low": None, "value": 0.0, "high": None},
    "cards": {
        "name": "",
        "memory_gb": 24.0,
        "memory_bandwidth_gbps": 900.0,
        "board_power_w": 300.0,
        "link": "",
        "link_gbps": None,
    },
    "priors": {"label": "", "event": "", "low": None, "value": 0.1, "high": None, "strength": 1.0},
}
_WORDS = {
    "label": "Name",
    "name": "Name",
    "unit": "Unit",
    "event": "What is counted",
    "low": "Low",
    "value": "Value",
    "high": "High",
    "strength": "Worth so many incidents",
    "memory_gb": "Memory (GB)",
    "memory_bandwidth_gbps": "Memory bandwidth (GB/s)",
    "board_power_w": "Board power (W)",
    "link": "GPU-to-GPU link",
    "link_gbps": "Link, one direction (GB/s)",
}


_EMPTY_WORDS = {"link_gbps": "none", "low": "as the value", "high": "as the value"}


def render(
    engine: Engine,
    kind: str,
    rows: dict[str, dict[str, Any]],
    mine: dict[str, dict[str, Any]],
    today: date,
) -> None:
    """Choose a figure to edit or add one; restore the shipped ones.

    Args:
        engine: The database.
        kind: prices, cards or priors.
        rows: All figures, edits included.
        mine: The person's.
        today: No figure is dated later.
    """
    st.subheader("Edit or add")
    if settings().read_only:
        st.info("This is a demo: the catalogue cannot be edited here.")
        return
    labels = {NEW: "Add a new figure"} | {
        key: str(row.get("label") or row.get("name")) for key, row in rows.items()
    }
    asked = st.query_params.get("key", NEW)
    codes = list(labels)
    chosen = st.selectbox(
        "Figure",
        codes,
        index=codes.index(asked) if asked in labels else 0,
        format_func=labels.__getitem__,
        key=f"catalogue-{kind}-figure",
    )
    _form(engine, kind, chosen, rows.get(chosen, _EMPTY[kind]), today)
    _restore(engine, kind, chosen, mine)


def _form(engine: Engine, kind: str, key: str, row: dict[str, Any], today: date) -> None:
    name = f"catalogue-{kind}-{key or 'new'}"
    with st.form(name):
        new_key = key
        if key == NEW:
            new_key = st.text_input(
                "Key",
                key=f"{name}-key",
                max_chars=60,
                help="Small letters, digits and dashes, such as cloud-my-provider-h100.",
            ).strip()
        found = dict(row)
        fields = [field for field in _EMPTY[kind] if field in _WORDS]
        for first in range(0, len(fields), 3):
            for field, column in zip(fields[first : first + 3], st.columns(3), strict=False):
                with column:
                    found[field] = _field(name, field, row)
        left, right = st.columns([3, 1])
        found["source"] = left.text_input(
            "Source (required)",
            value=str(row.get("source", "")),
            max_chars=_MAX_TEXT,
            key=f"{name}-source",
        ).strip()
        day = right.date_input(
            "Date (required)",
            value=date.fromisoformat(str(row["date"])) if row.get("date") else None,
            max_value=today,
            key=f"{name}-date",
        )
        found["date"] = day.isoformat() if isinstance(day, date) else ""
        if st.form_submit_button("Keep", type="primary"):
            is_taken = key == NEW and new_key in shipped_rows(kind)
            _do(
                lambda: _keep(engine, kind, new_key, found, is_taken=is_taken),
                f"{plain(found.get('label') or found.get('name'))} is kept.",
            )


def _keep(engine: Engine, kind: str, key: str, row: dict[str, Any], *, is_taken: bool) -> None:
    if is_taken:
        raise InvalidSpec(f"There is a figure {key!r} already.", "Choose it above to edit it.")
    known = {name: value for name, value in row.items() if value is not None}
    catalogue_store.keep(engine, kind, key, known)


def _field(name: str, field: str, row: dict[str, Any]) -> Any:
    empty = row.get(field, 1.0 if field == "strength" else None)
    key = f"{name}-{field}"
    if field in ("label", "name", "unit", "event", "link"):
        text = st.text_input(_WORDS[field], str(empty or ""), max_chars=_MAX_TEXT, key=key)
        return text.strip()
    return st.number_input(
        _WORDS[field],
        value=None if empty is None else float(empty),
        min_value=0.0,
        format="%.4f" if field in ("low", "value", "high") else "%.2f",
        key=key,
        placeholder=_EMPTY_WORDS.get(field),
    )


def _restore(engine: Engine, kind: str, key: str, mine: dict[str, dict[str, Any]]) -> None:
    if not mine:
        st.caption("Every figure is as shipped.")
        return
    with st.container(horizontal=True):
        if key in mine:
            is_shipped = key in shipped_rows(kind)
            words = "Restore the shipped figure" if is_shipped else "Remove this figure"
            if st.button(words, key=f"catalogue-{kind}-restore"):
                _do(lambda: catalogue_store.restore(engine, kind, key), "Done.")
        if st.button(f"Restore all ({len(mine)} yours)", key=f"catalogue-{kind}-restore-all"):
            _do(lambda: catalogue_store.restore(engine, kind), "All figures are as shipped.")


def _do(action: Callable[[], object], told: str) -> None:
    try:
        action()
    except LinkworthError as error:
        store.show_error(error)
        return
    st.session_state["catalogue-told"] = told
    st.rerun()
