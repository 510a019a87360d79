"""Purchases kept by name: save, open, duplicate, compare, delete."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from db import scenarios
from db.engine import Engine
from models.assessment import Assessment
from models.decision import payback_quantile
from models.errors import LinkworthError
from models.wording import chance, money, months
from pages.widgets import roi_state, store
from pages.widgets.downloads import table
from settings import settings

PAGE = "roi"
MAX_COMPARED = 6
MAX_NAME = 80


def save(engine: Engine, name: str, state: dict[str, str]) -> str:
    """Keep a state by name; the same name is replaced.

    Raises:
        InvalidSpec: The name is empty.
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    return scenarios.save(engine, name[:MAX_NAME], PAGE, {"query": state})


def duplicate(engine: Engine, scenario_id: str) -> str:
    """Keep a copy under a name that is free: "name, copy", "name, copy 2" ….

    Raises:
        NotFound: There is no such scenario any more.
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    found = scenarios.load(engine, scenario_id)
    taken = {row["name"] for row in scenarios.list_scenarios(engine, PAGE)}
    stem = f"{found['name'][: MAX_NAME - 10]}, copy"
    name, count = stem, 2
    while name in taken:
        name, count = f"{stem} {count}", count + 1
    return scenarios.save(engine, name, PAGE, found["state"])


def delete(engine: Engine, scenario_id: str) -> None:
    """Remove one.

    Raises:
        NotFound: There is no such scenario any more.
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    scenarios.delete(engine, scenario_id)


def query_of(scenario: dict[str, Any]) -> dict[str, str]:
    """The state that a scenario holds, texts only: it goes into the URL."""
    query = scenario["state"].get("query", {})
    return {str(name): str(value) for name, value in query.items()}


def render(engine: Engine, assess: Callable[[dict[str, str]], Assessment]) -> None:
    """Draw the list and what can be done with it.

    Args:
        engine: The database.
        assess: Works a state out, for the comparison.
    """
    st.subheader("Scenarios")
    rows = scenarios.list_scenarios(engine, PAGE)
    if settings().read_only:
        st.caption("This is a demo: nothing is kept by name. The page's address holds everything.")
    else:
        with st.form("roi-save", clear_on_submit=True):
            left, right = st.columns([4, 1], vertical_alignment="bottom")
            name = left.text_input("Keep this one as", max_chars=MAX_NAME, key="roi-name")
            if right.form_submit_button("Keep"):
                _do(lambda: save(engine, name, roi_state.current()))
    if not rows:
        st.caption("None is kept yet. The page's address, too, holds everything.")
        return
    names = {row["id"]: f"{row['name']} ({row['updated_at']:%Y-%m-%d %H:%M})" for row in rows}
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    chosen = left.selectbox("Kept", list(names), format_func=names.__getitem__, key="roi-kept")
    with right, st.container(horizontal=True):
        if st.button("Open", key="roi-open"):
            _do(lambda: roi_state.put(query_of(scenarios.load(engine, chosen))))
        if not settings().read_only:
            if st.button("Duplicate", key="roi-duplicate"):
                _do(lambda: duplicate(engine, chosen))
            if st.button("Delete", key="roi-delete"):
                _do(lambda: delete(engine, chosen))
    _compare(engine, names, assess)


def _do(action: Callable[[], object]) -> None:
    try:
        action()
    except LinkworthError as error:
        store.show_error(error)
        return
    st.rerun()


def _compare(
    engine: Engine, names: dict[str, str], assess: Callable[[dict[str, str]], Assessment]
) -> None:
    if len(names) < 2:
        return
    picked = st.multiselect(
        "Compare",
        list(names),
        format_func=names.__getitem__,
        max_selections=MAX_COMPARED,
        key="roi-compare",
    )
    if len(picked) < 2:
        return
    lines = []
    for scenario_id in picked:
        try:
            scenario = scenarios.load(engine, scenario_id)
            found = assess(query_of(scenario))
        except LinkworthError as error:
            lines.append({"scenario": names[scenario_id], "verdict": error.sentence})
            continue
        lines.append({"scenario": scenario["name"], **row_of(found)})
    table(
        pd.DataFrame(lines),
        "roi-scenarios",
        f"{len(lines)} scenarios compared",
        key="roi-compared",
    )


def row_of(found: Assessment) -> dict[str, str]:
    """An assessment in one line of a table."""
    symbol, outcome = found.question.symbol, found.outcome
    gain = found.question.case.gain
    return {
        "verdict": found.verdict.word,
        "gain": f"{100 * gain.value:+.1f} % ({gain.origin})",
        "gains money": chance(outcome.p_positive),
        "net value P5": money(outcome.npv[0], symbol),
        "P50": money(outcome.npv[2], symbol),
        "P95": money(outcome.npv[-1], symbol),
        "at the start": money(outcome.upfront[1], symbol),
        "a month": money(outcome.monthly[1], symbol),
        "half paid back": months(payback_quantile(outcome, 0.5), found.question.case.months),
    }
