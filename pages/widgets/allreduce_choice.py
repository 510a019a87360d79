"""What the AllReduce explorer looks at: runs, the message of a step, the curve to explain.

Every choice stands in the page's URL.
"""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from models.allreduce import size_words
from models.architecture import calls_per_step, message_bytes, read_config
from pages.widgets import beside, model_picker
from pages.widgets.badges import plain, plain_validity

BATCHES = [1, 2, 4, 8, 16, 32]
MODES = ["graph", "eager", "exposed", "other"]
START_MESSAGE_BYTES = 3072  # one token of a model with hidden size 1536


@dataclass(frozen=True)
class Step:
    """The all-reduces of one decode step.

    Attributes:
        message_bytes: Bytes of one message.
        calls: Calls a step.
        messages: Messages at each usual batch: columns bytes, batch (words).
        words: Where the two numbers come from.
    """

    message_bytes: int
    calls: int
    messages: pd.DataFrame
    words: str


def asked_runs() -> list[str]:
    """Ids that the URL names."""
    return [name for name in st.query_params.get("runs", "").split(",") if name]


def pick_runs(listed: pd.DataFrame, default: list[str]) -> list[str]:
    """Ids of the runs to show; ``?runs=id,id`` chooses them.

    Args:
        listed: Rows of `db.runs.list_runs`.
        default: What to show where the URL names nothing.
    """
    words = {row.id: _run_words(row) for row in listed.itertuples()}
    asked = [name for name in asked_runs() if name in words]
    chosen: list[str] = st.multiselect(
        "Runs",
        list(words),
        default=asked or default,
        format_func=words.__getitem__,
        key="allreduce-runs",
        help="Measured, imported and published runs may be laid over each other.",
    )
    if chosen != default or "runs" in st.query_params:
        st.query_params["runs"] = ",".join(chosen)
    return chosen


def unknown_runs(listed: pd.DataFrame) -> int:
    """How many runs the URL names that are not among those listed."""
    return len(set(asked_runs()) - set(listed["id"]))


def _run_words(row: object) -> str:
    name = row.title or row.host or row.id[:8]
    moment = row.finished_at if pd.notna(row.finished_at) else None
    when = f" · {moment:%Y-%m-%d %H:%M}" if moment is not None else ""
    state = "" if row.validity == "valid" else f" · {plain_validity(row.validity)}"
    return f"{name}{when} · {plain(row.origin)}{state}"


def pick_modes(points: pd.DataFrame) -> pd.DataFrame:
    """The points of the chosen modes; nothing to choose where there is one mode."""
    mode = points["mode"].where(points["mode"].isin(MODES), "other")
    present = [name for name in MODES if name in set(mode)]
    if len(present) < 2:
        return points
    chosen = st.segmented_control(
        "Modes",
        present,
        default=present,
        selection_mode="multi",
        key="modes",
        bind="query-params",
        help="graph is what an engine pays; eager adds launch cost; exposed has work between "
        "the calls; other: the source does not say.",
    )
    return points[mode.isin(chosen or present)]


def pick_curve(points: pd.DataFrame) -> str:
    """Code of the curve to explain; ``?curve=code`` chooses it."""
    curves = points.drop_duplicates("code").copy()
    curves["sizes"] = curves["code"].map(points.groupby("code").size())
    curves["order"] = curves["mode"].map({"graph": 0, "exposed": 1, "": 2, "eager": 3}).fillna(4)
    curves["bad"] = curves["validity"] == "invalid"
    curves["off"] = curves["link"] == "off"
    by = {"bad": True, "order": True, "off": True, "sizes": False}
    curves = curves.sort_values(list(by), ascending=list(by.values()), kind="stable")
    labels = dict(zip(curves["code"], curves["curve"], strict=True))
    codes = list(labels)
    if len(codes) == 1:
        return codes[0]
    asked = st.query_params.get("curve")
    chosen = st.selectbox(
        "Explain",
        codes,
        index=codes.index(asked) if asked in labels else 0,
        format_func=labels.__getitem__,
        key="allreduce-curve",
    )
    if chosen != codes[0] or "curve" in st.query_params:
        st.query_params["curve"] = chosen
    return str(chosen)


def pick_step() -> Step:
    """The message and the calls of a step: from a model's shape, or entered."""
    model = model_picker.pick("model")
    fields = beside.fields()
    batch = fields.selectbox("Batch (sequences)", BATCHES, key="batch", bind="query-params")
    drafted = fields.number_input(
        "Drafted tokens",
        0,
        16,
        0,
        key="drafted",
        bind="query-params",
        help="With k drafted tokens a step carries batch x (k + 1) tokens.",
    )
    entered = st.number_input(
        "Calls a step (0: from the model)", 0, 10_000, 0, key="calls", bind="query-params"
    )
    split = st.toggle(
        "Split embedding (+1 call)",
        key="embedding",
        bind="query-params",
        help="An embedding split over the vocabulary, as vLLM does, reduces once more a step.",
    )
    tokens = int(batch) * (int(drafted) + 1)
    if model is None:
        size = st.number_input(
            "Message (bytes)", 2, 2**30, START_MESSAGE_BYTES, key="message", bind="query-params"
        )
        calls = int(entered) or 1
        nothing = pd.DataFrame({"bytes": [], "batch": []})
        return Step(int(size), calls, nothing, f"{calls} calls of {size_words(size)}, as entered.")
    name, config = model
    arch = read_config(config)
    counted = calls_per_step(arch, vocab_parallel_embedding=bool(split))
    calls = int(entered) or counted
    size = message_bytes(arch, tokens)
    messages = pd.DataFrame(
        {
            "bytes": [message_bytes(arch, n * (int(drafted) + 1)) for n in BATCHES],
            "batch": [f"batch {n}" for n in BATCHES],
        }
    )
    source = "as entered" if entered else f"from {arch.layers} layers"
    words = (
        f"{name}: {calls} calls a step ({source}) of {size_words(size)} "
        f"({tokens} x {arch.hidden} x 2 bytes)."
    )
    return Step(size, calls, messages, words)
