"""What the ROI page offers beyond reading: sliders, and more rounds or soak hours to queue."""

from typing import Any

import numpy as np
import streamlit as st

from models.assessment import Assessment, quick
from models.decision import payback_quantile
from models.errors import LinkworthError
from models.gain import MAX_LOG_RATIO
from models.purchase import INPUTS
from models.wording import amount, chance, money, months, plural
from pages.new_run_page import submit
from pages.widgets import beside, roi_state, store
from pages.widgets.links import page_link
from pages.widgets.live_job import duration_words
from pages.widgets.roi_answer import FIGURE_PX, SIGNS, plain
from pages.widgets.roi_arms import Known
from pages.widgets.roi_evidence import Pair
from pages.widgets.roi_facts import runnable
from runners.evaluation_serving import ArmPlan, serving_jobs, soak_jobs
from settings import settings

SLIDERS = 4
STEPS = 40
_COMMON = ("device", "model", "model_config_json", "model_name", "load_format", "base_url",
           "vllm_python")  # fmt: skip


def what_if(found: Assessment) -> None:
    """Sliders for the four inputs that matter most; the answer comes at once."""
    st.subheader("What if")
    if not found.swings:
        st.info("Every input is known for sure: there is nothing to slide.")
        return
    names = [swing.name for swing in found.swings[:SLIDERS]]
    key = roi_state.stamp([repr(found.question.case), *names])

    @st.fragment
    def slide() -> None:
        certain: dict[str, float] = {}
        fields = beside.fields(len(names))
        for name in names:
            with fields.cell():
                value = _slider(found, name, key)
            if value is not None:
                certain[name] = value
        _answer(found, certain)

    slide()


def options_of(found: Assessment, name: str) -> list[float | None]:
    """What a slider offers: the whole spread (None), then values from P2 to P98."""
    low, high = found.question.case.quantile(name, np.array([0.02, 0.98]))
    if name == "gain":
        low, high = max(low, -0.9), min(high, float(np.expm1(MAX_LOG_RATIO)))
    grid = [float(f"{value:.3g}") for value in np.linspace(low, high, STEPS + 1)]
    return [None, *dict.fromkeys(grid)]


def _slider(found: Assessment, name: str, key: str) -> float | None:
    """A value for one input; None while it keeps its whole spread."""
    options = options_of(found, name)
    symbol = found.question.symbol

    # a slider's text is markdown, too
    words: dict[float | None, str] = {
        value: "as likely" if value is None else plain(amount(name, value, symbol))
        for value in options
    }
    return st.select_slider(
        INPUTS[name][0],
        options,
        value=None,
        format_func=words.__getitem__,
        key=f"roi-slide-{name}-{key}",
        help="Leftmost: its whole spread, as in the inputs. Else: known for sure.",
    )


def _answer(found: Assessment, certain: dict[str, float]) -> None:
    symbol = found.question.symbol
    outcome, verdict = found.outcome, found.verdict
    if certain:
        outcome, verdict = quick(found.question, certain)
    row = st.container(horizontal=True)  # two a line on a phone
    columns = [row.container(width=FIGURE_PX) for _ in range(4)]
    colour, sign = SIGNS[verdict.word]
    columns[0].markdown(f":small[Verdict]\n\n#### :{colour}[{sign} {verdict.word}]")
    columns[1].metric(
        "Gains money in",
        chance(outcome.p_positive),
        f"{100 * (outcome.p_positive - found.outcome.p_positive):+.0f} points" if certain else None,
    )
    change = outcome.npv[2] - found.outcome.npv[2]
    columns[2].metric(
        "Net present value (median)",
        plain(money(outcome.npv[2], symbol)),
        plain(money(change, symbol)) if certain else None,
    )
    columns[3].metric("Half have paid back by", months(payback_quantile(outcome, 0.5)))
    st.caption(plain(verdict.sentence))


def measure(found: Assessment, pair: Pair | None) -> None:
    """How many more rounds and soak hours would settle it, and a button where that is possible."""
    rounds, hours = found.verdict.more_rounds, found.verdict.more_soak_hours
    if not rounds and hours < 1:
        return
    st.subheader("Settle it by measuring")
    parts = [f"{plural(rounds, 'more round')} an arm"] if rounds else []
    parts += [f"{hours:,.0f} hours under load"] if hours >= 1 else []
    st.markdown(f"**{' and '.join(parts)}** would settle it.")
    try:
        planned = plan(pair, rounds, hours)
    except LinkworthError as error:
        store.show_error(error)
        planned = []
    if not planned:
        st.info(
            "These arms were not measured on this machine, so nothing can be queued from here: "
            "measure both arms yourself."
        )
        page_link("new-run", "Plan an evaluation", kind="evaluation")
        return
    total = sum(job["expected_s"] for job in planned)
    st.caption(f"{plural(len(planned), 'job')} on the arms as measured, {duration_words(total)}.")
    if settings().read_only:
        st.info("This is a demo: it starts nothing.")
    elif st.button("Queue it", key="roi-queue"):
        # another plan is another set of jobs, the same plan clicked again is not
        name = roi_state.stamp([repr(job["spec"]) for job in planned])
        st.session_state["roi-queued"] = submit(f"roi-{name}", planned)
    if st.session_state.get("roi-queued"):
        page_link("new-run", "Watch the jobs", jobs=",".join(st.session_state["roi-queued"]))


def plan(pair: Pair | None, rounds: int, hours: float) -> list[dict[str, Any]]:
    """Jobs that add rounds to both arms, interleaved, and hours to the candidate.

    Args:
        pair: The arms.
        rounds: To add to each arm.
        hours: To add under load.

    Returns:
        Jobs as `runners.evaluation_serving` makes them; empty where an arm was not measured here.

    Raises:
        InvalidSpec: An arm's spec cannot be carried out any more.
    """
    if pair is None or pair.other is None or pair.base.arm.group != pair.other.arm.group:
        return []
    specs = [runnable(item) for item in (pair.base, pair.other)]
    first, second = specs
    if first is None or second is None:
        return []
    jobs: list[dict[str, Any]] = []
    group = pair.base.arm.group
    if rounds:
        jobs = serving_jobs(
            [_plan(item, spec) for item, spec in ((pair.base, first), (pair.other, second))],
            first["workloads"],
            rounds=rounds,
            starts=rounds,
            evaluation_id=group,
            title="More rounds",
            seed=int(first.get("seed", 1000)),
        )
        taken = max(pair.base.last_round(), pair.other.last_round()) + 1
        for job in jobs:
            job["spec"]["round"] += taken
    if hours >= 1:
        load = {**first["workloads"][-1], "scenario": "soak"}
        jobs += soak_jobs(
            [_plan(pair.other, second)],
            load,
            hours=min(hours, 150.0),
            evaluation_id=group,
            title="Sustained load",
            first_order=len(jobs),
        )
    return jobs


def _plan(item: Known, spec: dict[str, Any]) -> ArmPlan:
    fields = {name: spec[name] for name in _COMMON if spec.get(name) is not None}
    return ArmPlan(item.arm.name, spec.get("arm") or {}, fields)
