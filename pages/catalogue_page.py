"""Catalogue: prices, cards and failure priors; each figure with source and date, each editable."""

from datetime import UTC, date, datetime
from typing import Any

import pandas as pd
import streamlit as st

from importers.catalogue import shipped_rows
from models.prices import OLD_AFTER_DAYS, age_days
from pages.widgets import catalogue_form, catalogue_store, store
from pages.widgets.downloads import table
from pages.widgets.links import page_link
from pages.widgets.plain import plain

KINDS = {"prices": "Prices", "cards": "Cards", "priors": "Failure priors"}
_UNITS = ("$", "$/GPU-hour", "$/kWh")  # in this order; others follow
_EXPLAINED = {
    "prices": "Where sellers disagree, a range. The ROI page starts from these figures.",
    "cards": "What cards can do at most. GB is 1e9 bytes; link bandwidth is one direction's.",
    "priors": "Sources that count different events are never mixed: a purchase uses one of them.",
}


def render() -> None:
    """Choose a kind; read, edit, add, restore."""
    engine = store.engine()
    told = st.session_state.pop("catalogue-told", None)
    if told:
        st.success(told)
    kind = _kind()
    _, problem = catalogue_store.current(engine)
    if problem:
        st.warning(plain(problem))
    mine = catalogue_store.edits(engine)[kind]
    # damaged edits are left out, and can still be taken back below
    rows = {**shipped_rows(kind), **({} if problem else mine)}
    today = datetime.now(UTC).date()
    st.caption(_EXPLAINED[kind])
    frame = frame_of(kind, rows, set(shipped_rows(kind)), set(mine), today)
    old = int((frame["age (days)"] > OLD_AFTER_DAYS).sum()) if kind != "cards" else 0
    if old:
        st.warning(
            f"{old} of {len(frame)} figures are older than {OLD_AFTER_DAYS} days: check them "
            "before you rely on them."
        )
    table(
        frame,
        f"catalogue-{kind}",
        f"{len(frame)} figures, {len(mine)} of them yours, {old} older than {OLD_AFTER_DAYS} days",
        key=f"catalogue-{kind}",
        height="content",
    )
    catalogue_form.render(engine, kind, rows, mine, today)
    page_link("roi", "Weigh a purchase with these figures")


def _kind() -> str:
    """Which figures; ``?kind=priors`` chooses them, whatever they are called."""
    asked = st.query_params.get("kind")
    kind = st.segmented_control(
        "Figures",
        list(KINDS),
        default=asked if asked in KINDS else "prices",
        format_func=KINDS.__getitem__,
        required=True,
        key="catalogue-kind",
    )
    if kind != "prices" or "kind" in st.query_params:
        st.query_params["kind"] = kind
    return str(kind)


def frame_of(
    kind: str,
    rows: dict[str, dict[str, Any]],
    shipped: set[str],
    mine: set[str],
    today: date,
) -> pd.DataFrame:
    """The figures of a kind as a table for people.

    Args:
        kind: prices, cards or priors.
        rows: Key -> row, edits included.
        shipped: Keys that are shipped.
        mine: Keys that the person edited or added.
        today: For the age.
    """
    lines = []
    for key, row in _in_order(kind, rows):
        day = date.fromisoformat(str(row["date"]))
        state = "yours" if key in mine and key not in shipped else ""
        state = state or ("edited by you" if key in mine else "shipped")
        lines.append(
            {
                **_figures(kind, row),
                "source": row["source"],
                "date": day.isoformat(),
                "age (days)": age_days(day, today),
                "state": state,
                "key": key,
            }
        )
    return pd.DataFrame(lines)


def _in_order(kind: str, rows: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Prices from what is bought to what is paid by the hour; an added one stands among its like.

    How old a figure is stands in a column of its own: as an order it would tear cards apart.
    """
    if kind != "prices":
        return list(rows.items())
    places = {unit: place for place, unit in enumerate(_UNITS)}
    return sorted(rows.items(), key=lambda item: places.get(str(item[1]["unit"]), len(places)))


def _figures(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    if kind == "cards":
        return {
            "card": row["name"],
            "memory (GB)": row["memory_gb"],
            "memory bandwidth (GB/s)": row["memory_bandwidth_gbps"],
            "board power (W)": row["board_power_w"],
            "link": row.get("link") or "none",
            "link, one direction (GB/s)": row.get("link_gbps"),
        }
    ends = {"value": row["value"], "low": row.get("low"), "high": row.get("high")}
    if kind == "priors":
        return {"prior": row["label"], **ends, "unit": "a part and year", "event": row["event"]}
    return {"price": row["label"], **ends, "unit": row["unit"]}
