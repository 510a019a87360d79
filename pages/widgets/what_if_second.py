"""AIConfigurator's figures beside ours, where that tool is installed."""

import json
import subprocess
import sys
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from models.errors import LinkworthError, RunnerUnavailable, RunTimedOut
from pages.widgets import finding, store
from pages.widgets.downloads import table
from pages.widgets.what_if_form import Question
from pages.widgets.what_if_frames import Answers

PROGRAM = Path(__file__).resolve().parents[2] / "scripts" / "second_opinion.py"
TIME_LIMIT_S = 180.0
# card -> the system's name there; other cards have no measured tables in it
SYSTEMS = {
    "a100-sxm": "a100_sxm",
    "h100-sxm": "h100_sxm",
    "h200-sxm": "h200_sxm",
    "b200-sxm": "b200_sxm",
    "b300-sxm": "b300_sxm",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}


def is_installed() -> bool:
    """Whether this interpreter could ask."""
    return find_spec("aiconfigurator") is not None


def request(asked: Question) -> dict[str, Any] | None:
    """The question as the program reads it; None where the tool does not know the card."""
    system = SYSTEMS.get(asked.setup.card.key)
    if system is None or asked.modes:
        return None
    return {
        "config": dict(asked.config),
        "system": system,
        "engine": asked.setup.engine,
        "batch": asked.work.batch,
        "input_tokens": asked.work.input_tokens,
        "output_tokens": asked.work.output_tokens,
        "sizes": list(asked.sizes),
        "is_moe": asked.setup.load.kind == "moe",
        "expert_parallel": asked.setup.expert_parallel,
    }


def ask(question: dict[str, Any]) -> dict[str, Any]:
    """Run the program.

    Raises:
        RunTimedOut: It took too long.
        RunnerUnavailable: It failed, or its answer makes no sense.
    """
    try:
        done = subprocess.run(
            [sys.executable, str(PROGRAM)],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunTimedOut(
            f"AIConfigurator did not answer within {TIME_LIMIT_S:.0f} s.", "Ask for fewer sizes."
        ) from None
    try:
        answer = json.loads(done.stdout)
        if done.returncode == 0 and isinstance(answer["steps"], list):
            return dict(answer)
    except (ValueError, KeyError, TypeError):
        pass  # the sentence below holds for a wrong answer as for none
    raise RunnerUnavailable(
        "AIConfigurator gave no answer.",
        "Our own prediction stands without it; the log has its last words.",
        detail=done.stderr[-2000:],
    )


def render(asked: Question, found: Answers) -> None:
    """A button, then both predictions side by side."""
    finding.heading("A second opinion")
    if not is_installed():
        finding.caption(
            "Where AIConfigurator is installed (`pip install aiconfigurator`, Linux), its figures "
            "stand here beside ours. It composes a step from measured kernels; on held-out rows "
            "both were about equally good, with errors of opposite sign."
        )
        return
    question = request(asked)
    if question is None:
        finding.caption(
            "AIConfigurator has no measured tables for this card, or for this way to run."
        )
        return
    key = json.dumps(question, sort_keys=True)
    kept = st.session_state.get("what-if-second")
    if st.button("Ask AIConfigurator (takes up to a minute)", key="what-if-ask-second"):
        with st.spinner("AIConfigurator reads its tables …"):
            try:
                kept = {"key": key, "answer": ask(question)}
            except LinkworthError as error:
                store.show_error(error)
                return
        st.session_state["what-if-second"] = kept
    if kept is None or kept["key"] != key:
        return
    frame = beside(kept["answer"], found)
    words = f"AIConfigurator {kept['answer']['version']} beside our predictions"
    table(frame.round(2), "second-opinion", words, key="second-opinion")
    finding.caption(f"{words}. Its weights follow the model's config.json, not the choice above.")


def beside(answer: dict[str, Any], found: Answers) -> pd.DataFrame:
    """Both predictions a TP size, with their geometric mean."""
    rows = []
    for step in answer["steps"]:
        own = found.predictions.get(step["tp"])
        theirs = step["tpot_ms"]
        both = own is not None and theirs is not None
        rows.append(
            {
                "TP": step["tp"],
                "ours (ms)": own.tpot_ms if own else None,
                "AIConfigurator (ms)": theirs,
                "geometric mean (ms)": sqrt(own.tpot_ms * theirs) if own and both else None,
                "inside our interval": (
                    ("yes" if own.low_ms <= theirs <= own.high_ms else "no") if own and both else ""
                ),
                "engine version": step["engine_version"],
                "why not": step["why"],
            }
        )
    return pd.DataFrame(rows)
