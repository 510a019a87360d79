"""The choices outside the form: evidence and arms; use, service level, benefit."""

from collections.abc import Mapping

import streamlit as st

from models.use_cases import USE_CASES, UseCase
from pages.widgets import beside, roi_state
from pages.widgets.badges import plain
from pages.widgets.roi_arms import Reader, arm_words
from pages.widgets.roi_case import (
    BENEFITS,
    HAND,
    NONE,
    SHARE_BOUNDS,
    TPOT_BOUNDS,
    TTFT_BOUNDS,
    first_source,
    usual_candidate,
    usual_pair,
)
from pages.widgets.roi_layouts import best_of, pair_of, pair_words
from pages.widgets.serving_arms import Arm, Group
from pages.widgets.serving_loads import LIMIT_HELP

_BENEFIT_WORDS: Mapping[str, str] = {
    "tokens": "more tokens to sell or use",
    "cloud": "less rented in the cloud",
    "waiting": "less time waited",
}
_METRIC_WORDS: Mapping[str, str] = {
    "tpot": "TPOT",
    "ttft": "TTFT",
    "kv_cache_tokens": "memory left for context",
    "failed": "errors",
    "output_throughput": "throughput",
    "queue_time": "queue time",
}


def evidence(reader: Reader) -> None:
    """Draw what is weighed, an evaluation and two of its arms; each choice stands in the URL."""
    query = roi_state.current()
    reader.look_for(query.get("source", ""))
    found = reader.groups
    labels = {code: f"{group.label} · {plain(group.origin)}" for code, group in found.items()}
    labels[HAND] = f"No evaluation: everything by hand · {plain('assumed')}"
    source = roi_state.choose("source", "Evidence", labels, first_source(query, found))
    if source in found:
        _arms(reader, found[source])


def level() -> None:
    """Draw what is asked of it: use, service level, what a gain brings."""
    uses = {code: use.label for code, use in USE_CASES.items()}
    use = USE_CASES[roi_state.choose("use", "Use", uses, "online")]
    _limits(use)
    words = ", then ".join(_figure(metric, statistic) for metric, statistic in use.decides)
    st.caption(f"Decided by {words}. {use.also}")


def _arms(reader: Reader, group: Group) -> None:
    first, second = usual_pair(reader, group)
    labels = {arm.name: _label(arm) for arm in group.arms}
    left, right = st.columns(2)
    with left:
        base = roi_state.choose("base", "Baseline", labels, first)
    rest = {name: words for name, words in labels.items() if name != base}
    rest[HAND] = f"A gain entered by hand · {plain('assumed')}"
    rest[NONE] = "None yet: what could any link bring?"
    with right:
        other = roi_state.choose("cand", "Candidate", rest, usual_candidate(second, base, group))
    found = best_of(reader, group)
    if found is not None and (base, other) == pair_of(found, group):
        st.caption(pair_words(found))


def _label(arm: Arm) -> str:
    invalid = " · ✗ invalid" if arm.validity == "invalid" else ""
    return f"{arm_words(arm)} · {plain(arm.origin)}{invalid}"


def _limits(use: UseCase) -> None:
    """Service level, where the use has one, and benefit."""
    if use.ttft_ms is not None and use.tpot_ms is not None:
        fields = beside.fields()
        with fields.cell():
            roi_state.limit(
                "ttft_ms", "TTFT limit (ms)", use.ttft_ms, *TTFT_BOUNDS, help=LIMIT_HELP["ttft"]
            )
        with fields.cell():
            roi_state.limit(
                "tpot_ms", "TPOT limit (ms)", use.tpot_ms, *TPOT_BOUNDS, help=LIMIT_HELP["tpot"]
            )
        with fields.cell():
            roi_state.limit(
                "share",
                "Requests within (%)",
                100 * use.share,
                *SHARE_BOUNDS,
                help=LIMIT_HELP["share"],
            )
    benefits = {code: _BENEFIT_WORDS[code] for code in BENEFITS}
    roi_state.choose("benefit", "What a gain brings", benefits, use.benefit)


def _figure(metric: str, statistic: str) -> str:
    return f"{'P99 ' if statistic == 'p99' else ''}{_METRIC_WORDS[metric]}"
