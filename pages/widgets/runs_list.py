"""The list of runs with its filters; one chosen row opens, several offer a comparison."""

from typing import Any

import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from pages.widgets import beside
from pages.widgets.badges import plain, plain_validity
from pages.widgets.links import page_link

KINDS = ("allreduce", "collective", "decode", "serving", "engine", "soak", "p2p", "topology")
ORIGINS = ("measured", "imported", "published", "described", "predicted", "assumed")
VALIDITIES = ("valid", "suspect", "invalid")
PAGE_SIZE = 100
OPEN_PX = 215
_PICKED = "runs-picked"


def render(engine: Engine) -> None:
    """Draw filters, list and what may be done with the chosen rows."""
    filters = _filters()
    total = runs.count(engine, **filters)
    if total == 0:
        if any(filters.values()):
            st.info("No run fits these filters. Clear one of them.")
        else:
            st.info("Nothing has run yet and no study is loaded. Start a benchmark first.")
            page_link("new-run", "Start a benchmark")
        return
    last = (total - 1) // PAGE_SIZE + 1
    number = 1
    if last > 1:
        number = int(st.number_input("Page", 1, last, key="page", bind="query-params", width=140))
    frame = runs.list_runs(engine, **filters, limit=PAGE_SIZE, offset=(number - 1) * PAGE_SIZE)
    words = "1 run" if total == 1 else f"{total} runs"
    st.caption(f"{words}. Tick one to open it, several to compare them.")
    actions = st.container()
    key = f"runs-table-{int(st.session_state.get('runs-table-generation', 0))}"
    event = st.dataframe(
        _shown(frame),
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row",
        key=key,
        placeholder="–",
        height=OPEN_PX if _is_linked(key) else "auto",
        alt=f"{words}, newest first",
        column_config={
            "what": st.column_config.TextColumn(width=320),
            "headline": st.column_config.TextColumn(width=250),
            "started": st.column_config.DatetimeColumn("started (UTC)"),
        },
    )
    st.download_button(
        "CSV",
        data=lambda: runs.list_runs(engine, **filters, limit=100_000).to_csv(index=False),
        file_name="linkworth-runs.csv",
        mime="text/csv",
        key="runs-csv",
        on_click="ignore",
        type="tertiary",
        icon=":material/download:",
    )
    picked = _picked(frame, list(event.selection.rows))
    if len(picked) > 1:
        label = f"Compare these {len(picked)} runs"
        if actions.button(label, key="runs-compare", type="primary", icon=":material/compare:"):
            st.query_params.from_dict({"view": "compare", "runs": ",".join(picked)})
            st.rerun()


def _is_linked(key: str) -> bool:
    """Whether a link opened a run: it stands below the list, and should be seen at once.

    Whoever ticks rows is choosing, and keeps the whole list.
    """
    state = st.session_state.get(key) or {}
    return "run" in st.query_params and not state.get("selection", {}).get("rows")


def _filters() -> dict[str, Any]:
    fields = beside.fields()
    return {
        "text": fields.text_input("Search", key="text", bind="query-params") or None,
        "kinds": fields.multiselect("Kind", KINDS, key="kind", bind="query-params") or None,
        "origins": fields.multiselect("Origin", ORIGINS, key="origin", bind="query-params") or None,
        "validities": fields.multiselect(
            "Validity", VALIDITIES, key="validity", bind="query-params"
        )
        or None,
    }


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "what": frame["title"].fillna(frame["kind"]),
            "headline": frame["headline"],
            "origin": frame["origin"].map(plain),
            "validity": frame["validity"].map(plain_validity),
            "kind": frame["kind"],
            "arm": frame["arm"],
            "study": frame["study"],
            "tool": frame["tool"],
            "started": frame["started_at"],
            "id": frame["id"],
        }
    )


def _picked(frame: pd.DataFrame, rows: list[int]) -> list[str]:
    """Ids of the ticked rows, taken when the ticks change.

    A tick is a position, which means another run once a new one lands on top: what was ticked is
    kept by id until the person ticks something else. One tick opens its run in the URL.
    """
    kept = st.session_state.get(_PICKED, {"rows": [], "ids": []})
    if kept["rows"] == rows:
        return list(kept["ids"])
    ids = [str(frame["id"].iloc[row]) for row in rows if row < len(frame)]
    st.session_state[_PICKED] = {"rows": rows, "ids": ids}
    if len(ids) == 1:
        st.query_params["run"] = ids[0]
    else:
        st.query_params.pop("run", None)
    return ids
