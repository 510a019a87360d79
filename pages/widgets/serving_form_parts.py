"""Pieces of the serving forms: a pasted line, engine flags, workloads, repetitions."""

import re
from typing import Any

import streamlit as st

from models.errors import LinkworthError
from pages.widgets import store
from runners import vllm_flags
from runners.serving_paste import Pasted, parse_serve_line
from runners.serving_presets import Preset, load

CONCURRENCIES = [1, 2, 4, 8, 16, 32, 64, 128]
_WHOLE = re.compile(r"-?\d+")


@st.cache_data(show_spinner="Asking vLLM for its version", ttl=600)
def _version(python: str) -> str:
    return vllm_flags.vllm_version(python)


@st.cache_data(show_spinner="Asking vLLM for its flags (once a version)", ttl=3600)
def _known(python: str, version: str) -> dict[str, tuple[bool, tuple[str, ...], bool]]:
    # plain values: a cache must not hold classes that a reload replaces
    del version
    return {
        name: (flag.takes_value, flag.choices, flag.many)
        for name, flag in vllm_flags.probe(python).items()
    }


def vllm_version(python: str) -> str | None:
    """The installed version, or None after saying what is wrong."""
    try:
        return _version(python)
    except LinkworthError as error:
        store.show_error(error)
        return None


def known_flags(python: str) -> dict[str, vllm_flags.Flag] | None:
    """The installed vLLM's flags, or None where it cannot be asked."""
    try:
        rows = _known(python, _version(python))
    except LinkworthError as error:
        store.show_error(error)
        return None
    return {name: vllm_flags.Flag(name, *values) for name, values in rows.items()}


def paste(key: str, python: str) -> Pasted:
    """A pasted `vllm serve` line, taken apart; refused flags are named."""
    with st.expander("Paste a `vllm serve` line"):
        text = st.text_area(
            "Command",
            key=f"{key}-paste",
            placeholder="CUDA_VISIBLE_DEVICES=0,1 vllm serve owner/model --max-model-len 8192",
            help="It is read, never run: flags that may be set here fill the form.",
        )
        if not text.strip():
            return Pasted()
        try:
            pasted = parse_serve_line(text, known_flags(python))
        except LinkworthError as error:
            store.show_error(error)
            return Pasted()
        taken = [f"--{name} {value}" for name, value in pasted.engine_args.items()]
        st.success(
            f"Understood: {pasted.model or 'no model'}, TP={pasted.tp}"
            + (f", {', '.join(taken)}" if taken else "")
        )
        for sentence in pasted.refused:
            st.warning(sentence)
        return pasted


def engine_flags(key: str, python: str, given: dict[str, Any]) -> dict[str, Any]:
    """Flags by name and value; the list is what this vLLM knows and what may be set.

    Args:
        key: Stem of the widget keys.
        python: Interpreter that has vLLM.
        given: Flags of a preset or a pasted line, already there.
    """
    known = known_flags(python) if given and python else None
    if known is not None:
        foreign = sorted(name for name in given if name not in known)
        given = {name: value for name, value in given.items() if name in known}
        if foreign:
            words = ", ".join(f"--{name}" for name in foreign)
            st.warning(f"The installed vLLM has no flag {words}: left out.")
    if given:
        words = ", ".join(f"--{name} {value}" for name, value in given.items())
        st.caption(f"Engine flags: {words}.")
    if not st.toggle("Set engine flags", key=f"{key}-flags"):
        return given
    known = known or known_flags(python)
    names = st.multiselect(
        "Flags",
        vllm_flags.settable(known),
        default=[name for name in given if known is None or name in known],
        key=f"{key}-flag-names",
        help="Flags that load code, open files or carry secrets are not on the list.",
    )
    chosen: dict[str, Any] = {}
    for name in names:
        flag = known.get(name) if known else None
        value = given.get(name)
        if flag is not None and not flag.takes_value:
            chosen[name] = st.toggle(
                f"--{name}", value=value is not False, key=f"{key}-flag-{name}"
            )
        elif flag is not None and flag.choices:
            index = flag.choices.index(str(value)) if str(value) in flag.choices else 0
            chosen[name] = st.selectbox(
                f"--{name}", flag.choices, index=index, key=f"{key}-flag-{name}"
            )
        else:
            text = st.text_input(
                f"--{name}", value="" if value is None else str(value), key=f"{key}-flag-{name}"
            ).strip()
            if text:
                chosen[name] = int(text) if _WHOLE.fullmatch(text) else text
    return chosen


def workloads(
    key: str, *, on_cpu: bool, preset: Preset | None = None, single: bool = False
) -> list[dict[str, Any]]:
    """What every arm is asked to do in a round; empty while nothing is chosen.

    Args:
        key: Stem of the widget keys.
        on_cpu: Small loads are enough there.
        preset: Fills the fields; its workloads beside the sweep become toggles.
        single: One concurrency only (sustained load).
    """
    plain = [row for row in preset.workloads if row["scenario"] in ("online", "single_stream")] if (
        preset
    ) else []  # fmt: skip
    first = plain[0] if plain and not on_cpu else {}
    caps = [row["concurrency"] for row in plain] or [1, 4]
    left, second, third, fourth = st.columns(4)
    if single:
        concurrency = [left.selectbox("Concurrency", CONCURRENCIES, index=2, key=f"{key}-cap")]
    else:
        concurrency = left.multiselect(
            "Concurrency", CONCURRENCIES, default=caps, key=f"{key}-caps"
        )
    inputs = second.number_input(
        "Input (tokens)", 1, 1_000_000, first.get("input_len", 64 if on_cpu else 1024),
        key=f"{key}-in",
    )  # fmt: skip
    outputs = third.number_input(
        "Output (tokens)", 1, 1_000_000, first.get("output_len", 32 if on_cpu else 256),
        key=f"{key}-out",
    )  # fmt: skip
    usual = 6 if on_cpu else _each(plain)
    each = fourth.number_input(
        "Requests a slot",
        1,
        1000,
        usual,
        key=f"{key}-each",
        help="Ten requests for each in flight, so that the last wave weighs little.",
    )
    if not concurrency:
        st.info("Choose at least one concurrency.")
        return []
    exact = {row["concurrency"]: row["num_prompts"] for row in plain}
    untouched = int(each) == usual and not on_cpu
    found = [
        load(
            cap,
            exact.get(cap, cap * int(each)) if untouched else cap * int(each),
            int(inputs),
            int(outputs),
        )
        for cap in sorted(concurrency)
    ]
    return found if single else found + _further(key, preset, int(inputs), int(outputs), int(each))


def _each(plain: list[dict[str, Any]]) -> int:
    ratios = [row["num_prompts"] // row["concurrency"] for row in plain]
    return max(1, min(ratios)) if ratios else 10


def _further(
    key: str, preset: Preset | None, inputs: int, outputs: int, each: int
) -> list[dict[str, Any]]:
    given = {row["scenario"] for row in preset.workloads} if preset else set()
    columns = st.columns(3)
    found = []
    for column, (scenario, words, size) in zip(
        columns,
        (
            ("long_output", "Long output (x 4)", 4 * outputs),
            ("short_output", "Short output (/ 8)", max(1, outputs // 8)),
            ("abnormal", "Wrong inputs", 0),
        ),
        strict=True,
    ):
        if column.toggle(words, value=scenario in given, key=f"{key}-{scenario}"):
            if scenario == "abnormal":
                found.append({"scenario": "abnormal", "concurrency": 1, "num_prompts": 4})
            else:
                found.append(load(4, 4 * each, inputs, size, scenario))
    return found


def repetitions(key: str, rounds: int, starts: int) -> tuple[int, int]:
    """Rounds of each arm, and over how many server starts they are spread."""
    left, right = st.columns(2)
    n_rounds = left.number_input(
        "Rounds of each arm",
        1,
        50,
        rounds,
        key=f"{key}-rounds",
        help="The round is the unit of statistics: below three there is no interval.",
    )
    n_starts = right.number_input(
        "Server starts of each arm",
        1,
        20,
        starts,
        key=f"{key}-starts",
        help="Some servers come up fast or slow and stay so: two starts show it. A start takes a "
        "minute or two.",
    )
    return int(n_rounds), int(n_starts)


def soak_hours(key: str, hours: float) -> float:
    """Hours of sustained load; 0 for none."""
    value = st.number_input(
        "Sustained load (hours)", 0.0, 168.0, float(hours), step=0.5, key=f"{key}-soak",
        help="Errors, timeouts, drift and repeated output checks over time; 0 leaves it out.",
    )  # fmt: skip
    return float(value)
