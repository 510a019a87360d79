"""Speedup: does TP help this model here, where does a step's time go, when does it start to pay?"""

from collections import Counter

import streamlit as st

from db import runs
from pages.widgets import (
    finding,
    finding_report,
    speedup_checks,
    speedup_promise,
    speedup_sections,
    speedup_verdicts,
    store,
    study_panel,
    url_state,
)
from pages.widgets.links import page_link
from pages.widgets.speedup_cases import (
    MOST_RUNS,
    Case,
    kept,
    kept_with_costs,
    n_left_out,
    with_runs,
)
from pages.widgets.speedup_frames import CLOCKS, clocks_of
from pages.widgets.speedup_names import choices

MANY = 6  # as many colours as the palette has
AT_FIRST = 4


def render() -> None:
    """Choose cases; see verdicts, steps, speedups, parts, checks, hosts, break-even."""
    engine = store.engine()
    asked_runs = [part for part in st.query_params.get("runs", "").split(",") if part]
    these = engine, runs.version(engine), tuple(asked_runs)
    cases = kept(*these)
    if not cases:
        st.info(
            "No decode step was measured or imported yet, and no study is loaded. Start a "
            "decode-step test: two CPU ranks are enough to see how it works."
        )
        page_link("new-run", "Start a decode-step test", kind="decode")
        speedup_promise.render(engine)
        return
    if left_out := n_left_out(engine):
        st.caption(
            f"The newest {MOST_RUNS:,} decode runs are looked at, {left_out:,} older ones are not; "
            "open one of those from the page Runs."
        )
    codes = _pick(cases, with_runs(cases, asked_runs)[:MANY])
    chosen = kept_with_costs(*these, tuple(codes))
    if not chosen:
        st.info("Choose at least one case.")
        return
    with finding.collected() as parts:
        speedup_verdicts.verdicts(chosen)
        clock = _clock(chosen)  # the verdicts do not depend on it
        speedup_sections.speedup(chosen, clock)
        speedup_sections.step_times(chosen)
        speedup_sections.parts(chosen)
        speedup_checks.render(chosen)
        speedup_sections.hosts(engine, chosen)
        speedup_sections.pays(cases, chosen, clock)
    speedup_promise.render(engine)
    speedup_sections.conditions(engine, chosen)
    study_panel.render(engine, [case.study for case in chosen])
    run_ids = [run_id for case in chosen for run_id in case.run_ids]
    finding_report.offer(engine, "Speedup", parts, run_ids, "decode")
    page_link("method", "How these numbers come about", topic="decode")


def _default(cases: list[Case]) -> list[str]:
    """What was measured or imported here; else what came with the code, measured ones first.

    Of one's own the newest evaluation comes first. Of the measured studies it is the one that
    compares most, its smallest batches first.
    """
    came = set(runs.list_runs(store.engine(), kinds=["decode"], shipped=True)["id"])
    of_mine = [case for case in cases if not came & set(case.run_ids)]
    newest = _newest_evaluation()
    own = [case.code for case in sorted(of_mine, key=lambda case: not newest & set(case.run_ids))]
    compared = [case for case in cases if len(case.points) > 1 and case.origin == "measured"]
    most = Counter(case.study for case in compared).most_common(1)
    of_one = [case for case in compared if case.study == most[0][0]]
    measured = [case.code for case in sorted(of_one, key=lambda case: case.batch)]
    return (own or measured or [case.code for case in cases])[:AT_FIRST]


def _newest_evaluation() -> set[str]:
    """The runs of the evaluation that the newest run from here belongs to; empty for none."""
    engine = store.engine()
    newest = runs.list_runs(engine, kinds=["decode"], shipped=False, limit=1)["evaluation"]
    plans = list(newest.dropna())
    return set(runs.list_runs(engine, evaluations=plans)["id"]) if plans else set()


def _clock(cases: list[Case]) -> str:
    """The clock of the speedups: one that these cases were read in, as ``?clock=`` says."""
    words = clocks_of(cases) or CLOCKS
    codes = list(words)
    if st.session_state.get("clock") not in codes:  # other cases are chosen now
        st.session_state.pop("clock", None)
    clock = st.segmented_control(
        "Clock for speedups",
        codes,
        default=url_state.asked_one("clock", codes, codes[0]),
        format_func=words.__getitem__,
        required=True,
        key="clock",
        help="Wall clock: one graph a step, the least that a host can do. As an engine drives it: "
        "with its work around the graph. Graph replay leaves the host out; the difference is the "
        "CPU's share.",
    )
    url_state.keep("clock", clock, codes[0])
    return str(clock)


def _pick(cases: list[Case], of_runs: list[str]) -> list[str]:
    """Codes of the cases to show: as ``?cases=code,code`` says, else those of ``?runs=id,id``."""
    by_code = {case.code: case for case in cases}
    default = _default(cases)
    asked = [code for code in st.query_params.get("cases", "").split(",") if code in by_code]
    picked: list[str] = st.multiselect(
        "Cases",
        list(by_code),
        default=asked or of_runs or default,
        format_func=dict(zip(by_code, choices(cases), strict=True)).__getitem__,
        max_selections=MANY,
        key="speedup-cases",
        help="One model, load and link on one host. Measured and published ones may be laid side "
        "by side.",
    )
    if picked != default or "cases" in st.query_params:
        st.query_params["cases"] = ",".join(picked)
    return picked
