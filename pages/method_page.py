"""Method: every metric, formula and warning in plain words."""

from pathlib import Path

import pandas as pd
import streamlit as st

from models.metrics import METRICS
from pages.widgets.downloads import table

TEXTS = Path(__file__).resolve().parents[1] / "docs" / "method"
DIRECTION = {"lower": "lower is better", "higher": "higher is better", "none": "—"}


def topics() -> dict[str, Path]:
    """Topic -> its text; ``metrics`` is the table and has none."""
    return {path.stem: path for path in sorted(TEXTS.glob("*.md"))}


def render() -> None:
    """Choose a topic (?topic=allreduce), read it."""
    found = topics()
    names = ["metrics", *found]
    topic = st.segmented_control(
        "Topic", names, default="metrics", required=True, key="topic", bind="query-params"
    )
    if topic in found:
        st.markdown(found[topic].read_text(encoding="utf-8"))
        return
    frame = pd.DataFrame(
        [
            {
                "metric": row.label,
                "unit": row.unit,
                "better": DIRECTION[row.direction],
                "meaning": row.meaning,
                "name in files": row.name,
            }
            for row in METRICS.values()
        ]
    )
    st.markdown("Every number in Linkworth is one of these. 1 GB is 1e9 bytes.")
    table(frame, "metrics", f"{len(frame)} metrics with unit, direction and meaning", height=600)
