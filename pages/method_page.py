"""Method: every metric, formula and warning in plain words."""

import re
from pathlib import Path

import pandas as pd
import streamlit as st

from models.metrics import METRICS
from pages.widgets.downloads import table

DOCS = Path(__file__).resolve().parents[1] / "docs"
DIRECTION = {"lower": " Lower is better.", "higher": " Higher is better.", "none": ""}
METRICS_TOPIC = "metrics"
# code (stands in links) -> words, in this order; a new text in docs/method comes last
TITLES = {
    METRICS_TOPIC: "Metrics",
    "allreduce": "AllReduce",
    "decode": "Decode step",
    "serving": "Serving",
    "hardware": "Links and placement",
    "statistics": "Statistics",
    "environment": "Conditions",
    "importing": "Importing",
    "prediction": "Prediction",
    "calibration": "Calibration",
    "economics": "Money and risk",
}
_TOPIC = "method-topic"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def topics() -> dict[str, Path]:
    """Topic -> its text; the table of metrics has none."""
    paths = [*DOCS.glob("method/*.md"), DOCS / "calibration.md"]
    found = {path.stem: path for path in sorted(paths) if path.exists()}
    known = [code for code in TITLES if code in found]
    return {code: found[code] for code in [*known, *(set(found) - set(known))]}


def render() -> None:
    """Choose a topic (?topic=allreduce), read it."""
    found = topics()
    topic = _pick([METRICS_TOPIC, *found])
    if topic in found:
        st.markdown(as_page(found[topic].read_text(encoding="utf-8"), set(found)))
        return
    frame = pd.DataFrame(
        [
            {
                "metric": f"{row.label} ({row.unit})" if row.unit else row.label,
                "meaning": f"{row.meaning}{DIRECTION[row.direction]} In files: {row.name}.",
            }
            for row in METRICS.values()
        ]
    )
    columns = ("name", "unit", "direction", "label", "meaning")
    known = [{name: getattr(row, name) for name in columns} for row in METRICS.values()]
    st.markdown(
        "Every number in Linkworth is one of these. 1 GB is 1e9 bytes, KB and MB of a message are "
        "powers of 1,024, us is a microsecond."
    )
    table(
        frame,
        "metrics",
        f"{len(frame)} metrics with unit, direction and meaning",
        is_wrapped=True,
        file=pd.DataFrame(known),
    )


def _title(code: str) -> str:
    return TITLES.get(code, code.capitalize())


def _pick(codes: list[str]) -> str:
    """The topic that the URL names; a click changes the URL first."""
    asked = st.query_params.get("topic")
    st.session_state[_TOPIC] = asked if asked in codes else METRICS_TOPIC
    return str(
        st.segmented_control(
            "Topic",
            codes,
            format_func=_title,
            required=True,
            key=_TOPIC,
            on_change=_to_url,
        )
    )


def _to_url() -> None:
    st.query_params["topic"] = st.session_state[_TOPIC]


def as_page(text: str, known: set[str]) -> str:
    """A text of docs/ as it stands on the page: below the page's heading, its links inside the app.

    Args:
        text: Markdown; links between texts are relative paths.
        known: Topics that a link may lead to; other files become plain words.
    """

    def inside(match: re.Match[str]) -> str:
        words, target = match.groups()
        if target.startswith(("https://", "http://", "#")):
            return match.group(0)
        stem = Path(target.partition("#")[0]).stem
        return f"[{words}](?topic={stem})" if stem in known else words

    return re.sub(r"^(#{1,4}) ", r"#\1 ", _LINK.sub(inside, text), flags=re.MULTILINE)
