"""Two runs' conditions side by side: what differs, what of it matters, and why."""

import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.conditions import Difference, counted, differences, explanations, said
from models.result import Result
from pages.widgets import finding, pcie_load
from pages.widgets.badges import badge
from pages.widgets.downloads import table
from pages.widgets.plain import plain

WEIGHTS = {"high": "known to matter", "some": "may matter", "unknown": "effect not known"}
GROUPS = {"found": "found on the machine", "asked": "asked for"}
MOST_EXPLANATIONS = 4


def title(run: Result) -> str:
    """A run's name for people."""
    return run.title or f"{run.kind} {run.id[:8]}"


def _run(engine: Engine, run_id: str) -> Result:
    """A run with the PCIe link of its GPUs under load, which its telemetry alone tells."""
    run = runs.head(engine, run_id)
    link = _slowest_link(engine, runs.version(engine), run_id)
    return run.model_copy(update={"host": {**link, **run.host}})


@st.cache_data(show_spinner=False, max_entries=200)
def _slowest_link(_engine: Engine, version: str, run_id: str) -> dict[str, int]:
    """Of the GPUs of a run the narrowest and slowest link under load; ``version`` is the runs'."""
    links = list(pcie_load.seen(runs.telemetry(_engine, run_id)).values())
    return {name: min(link[name] for link in links) for name in (links[0] if links else ())}


def render(engine: Engine, left_id: str, right_id: str, *, key: str = "conditions") -> None:
    """Draw the differences of two runs, those that are known to matter first.

    Args:
        engine: The database.
        left_id: One run.
        right_id: The other.
        key: Unique stem of the widget keys.
    """
    left, right = _run(engine, left_id), _run(engine, right_id)
    for column, run in zip(st.columns(2), (left, right), strict=True):
        column.markdown(f"**{plain(title(run))}**  {badge(run.origin, run.validity)}")
    rows = differences(left, right)
    if not rows:
        st.success("No recorded condition differs between these two runs.")
        return
    words = counted(len(rows), sum(row.weight == "high" for row in rows))
    st.caption(f"{words}. What one run does not state may be the same there or not.")
    everything = frame(rows)
    table(
        everything,
        f"conditions-{left_id[:8]}-{right_id[:8]}",
        words,
        key=key,
        # three columns fit a phone; why a condition matters is said below, once for all it holds of
        column_order=["condition", "left", "right"],
        is_wrapped=True,
        file=everything,
    )
    for sentence in reasons(rows):
        finding.say(f"- {sentence}")


def reasons(rows: list[Difference]) -> list[str]:
    """Why conditions matter, as markdown: each reason once with all conditions that it holds of."""
    named: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        named.setdefault((row.why, WEIGHTS[row.weight], GROUPS[row.group]), []).append(row.name)
    return [
        f"**{plain(', '.join(names), 600)}** ({place}, {weight})"
        + (f": {plain(why, 1000)}" if why else ".")
        for (why, weight, place), names in named.items()
    ]


def frame(rows: list[Difference]) -> pd.DataFrame:
    """The differences as a table."""
    return pd.DataFrame(
        {
            "condition": [row.name for row in rows],
            "left": [said(row.left) for row in rows],
            "right": [said(row.right) for row in rows],
            "known": [WEIGHTS[row.weight] for row in rows],
            "why it matters": [row.why for row in rows],
            "where": [GROUPS[row.group] for row in rows],
        }
    )


def offer(engine: Engine, left_id: str, right_id: str) -> list[str]:
    """Differences that may explain unequal results, a sentence each."""
    rows = differences(_run(engine, left_id), _run(engine, right_id))
    return explanations(rows)[:MOST_EXPLANATIONS]


def choose(choices: dict[str, str], default: tuple[str, str], *, key: str) -> tuple[str, str]:
    """Two runs to compare; ``?compare=id,id`` chooses them.

    Args:
        choices: Run id -> words.
        default: What is compared where the URL names nothing.
        key: Unique stem of the widget keys.
    """
    asked = [part for part in st.query_params.get("compare", "").split(",") if part in choices]
    start = (asked[0], asked[1]) if len(asked) == 2 else default
    ids = list(choices)
    picked = [
        str(
            column.selectbox(
                words,
                ids,
                index=ids.index(run_id),
                format_func=choices.__getitem__,
                key=f"{key}-{place}",
            )
        )
        for column, words, place, run_id in zip(
            st.columns(2), ("One run", "The other"), ("left", "right"), start, strict=True
        )
    ]
    if tuple(picked) != default or "compare" in st.query_params:
        st.query_params["compare"] = ",".join(picked)
    return picked[0], picked[1]
