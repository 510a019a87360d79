"""Link A/B: what changed when the link changed, how sure is it, and what was not measured."""

import streamlit as st

from db import runs
from db.engine import Engine
from pages.widgets import (
    finding,
    finding_report,
    serving_finding,
    serving_headline,
    serving_history,
    serving_layouts,
    serving_loads,
    serving_machine,
    serving_scorecard,
    serving_sections,
    store,
    study_panel,
)
from pages.widgets.badges import badge
from pages.widgets.links import page_link
from pages.widgets.offered import say_what_is_left_out
from pages.widgets.plain import plain
from pages.widgets.serving_arms import KINDS, SINGLE, Arm, Group, figures, groups
from pages.widgets.serving_compare import kept_rows
from pages.widgets.serving_evidence import gather

# arms whose name says so are what the others are held against
_REFERENCE_WORDS = ("off", "tp1", "eager", "baseline", "without")


def render() -> None:
    """Choose two arms; see the answer, warnings, finding, figures, loads, time, scorecard."""
    engine = store.engine()
    found = groups(engine, _asked())
    if sum(len(group.arms) for group in found) < 2:
        st.info(
            "Two served arms are needed: measure an evaluation, or import two results of a "
            "serving benchmark."
        )
        page_link("new-run", "Plan an evaluation", kind="evaluation")
        page_link("runs", "Import results")
        return
    group = _group(found)
    say_what_is_left_out(engine, KINDS, "served runs")
    arms = _arms(engine, group)
    if arms is None:
        return
    with finding.collected() as parts:
        _explain(engine, arms, group)
    run_ids = [run_id for arm in arms for run_id in arm.run_ids]
    finding_report.offer(engine, "Link A/B", parts, run_ids, "serving")
    page_link("method", "How these numbers come about", topic="serving")


def _explain(engine: Engine, arms: tuple[Arm, Arm], group: Group) -> None:
    frames = figures(engine, arms[0]), figures(engine, arms[1])
    is_paired = arms[0].group == arms[1].group != SINGLE and arms[0].origin == "measured"
    rows = kept_rows(engine, runs.version(engine), arms, is_paired=is_paired)
    for column, arm in zip(st.columns(2), arms, strict=True):
        name = serving_headline.arm_words(arm)
        column.markdown(f"**{plain(name)}**  {badge(arm.origin, arm.validity)}")
        if name == arm.name:
            column.caption(plain(arm.title))
    changes = serving_history.changes(engine, arms)
    evidence = gather(engine, arms, frames, rows, [change.words for change in changes])
    is_vetoed = serving_finding.answer(engine, arms, rows, evidence)
    serving_sections.warnings(engine, arms, frames, rows)
    serving_finding.by_workload(engine, arms, rows, evidence, is_vetoed=is_vetoed)
    serving_layouts.render(engine, group)
    serving_sections.comparison(arms, rows, is_vetoed=is_vetoed)
    serving_sections.everything(engine, arms)
    if not is_vetoed:  # wrong answers have no capacity, and a faster arm of them is no gain
        serving_loads.loads(engine, arms)
        serving_loads.batching(engine, arms, rows)
    serving_sections.distributions(engine, arms, frames)
    serving_machine.phases(engine, arms, frames)
    serving_machine.telemetry(engine, arms, frames)
    serving_machine.recomputed(engine, arms)
    serving_scorecard.render(engine, arms, frames, evidence)
    serving_history.render(changes)
    study_panel.render(engine, [arm.study for arm in arms])
    serving_sections.conditions(engine, arms)


def _asked() -> set[str]:
    """Runs and evaluations that the URL names."""
    codes = [st.query_params.get(name, "") for name in ("evaluation", "a", "b")]
    found = {code.partition("|")[0] for code in codes}
    return (found | set(st.query_params.get("runs", "").split(","))) - {""}


def _group(found: list[Group]) -> Group:
    """The evaluation to look at; ``?evaluation=code`` chooses it, ``?runs=id`` finds it."""
    usable = [group for group in found if len(group.arms) > 1]
    everything = [arm for group in found for arm in group.arms]
    usable.append(Group("any", "Any two arms or runs", "", tuple(everything)))
    by_code = {group.code: group for group in usable}
    asked_runs = {part for part in st.query_params.get("runs", "").split(",") if part}
    of_runs = next(
        (
            group.code
            for group in usable
            if any(asked_runs & set(arm.run_ids) for arm in group.arms)
        ),
        None,
    )
    asked = st.query_params.get("evaluation")
    codes = list(by_code)
    start = asked if asked in by_code else of_runs or codes[0]
    chosen = st.selectbox(
        "Evaluation",
        codes,
        index=codes.index(start),
        format_func={code: group.label for code, group in by_code.items()}.__getitem__,
        key="ab-evaluation",
    )
    if chosen != codes[0] or "evaluation" in st.query_params:
        if st.query_params.get("evaluation") != chosen:
            for name in ("a", "b"):
                st.query_params.pop(name, None)
        st.query_params["evaluation"] = chosen
    return by_code[chosen]


def _arms(engine: Engine, group: Group) -> tuple[Arm, Arm] | None:
    """Reference and other arm; ``?a=code&b=code`` chooses them."""
    by_code = {arm.code: arm for arm in group.arms}
    labels = {
        code: f"{arm.name} · {arm.title}" if group.code in ("any", SINGLE) else _label(arm)
        for code, arm in by_code.items()
    }
    first, second = _usual(engine, group)
    codes = list(by_code)
    left, right = st.columns(2)
    picked = []
    for column, name, words, usual in (
        (left, "a", "Reference", first),
        (right, "b", "Compared with it", second),
    ):
        asked = st.query_params.get(name)
        start = asked if asked in by_code else usual
        with column:
            chosen = st.selectbox(
                words,
                codes,
                index=codes.index(start),
                format_func=labels.__getitem__,
                key=f"ab-{name}-{group.code}",
            )
        if chosen != usual or name in st.query_params:
            st.query_params[name] = chosen
        picked.append(by_code[chosen])
    if picked[0].code == picked[1].code:
        st.info("Choose two different arms.")
        return None
    return picked[0], picked[1]


def _label(arm: Arm) -> str:
    title = arm.title.split(",")[0]
    if arm.name in title or title in arm.name:
        return serving_headline.arm_words(arm)
    return f"{arm.name} · {title}"


def _usual(engine: Engine, group: Group) -> tuple[str, str]:
    """The pair to show first: asked for by runs, as the author compared, or by the arms' names."""
    arms = list(group.arms)
    asked = [part for part in st.query_params.get("runs", "").split(",") if part]
    named = [arm.code for run in asked for arm in arms if run in arm.run_ids]
    named = list(dict.fromkeys(named))
    if len(named) > 1:
        return named[0], named[1]
    if group.code not in ("any", SINGLE):
        by_name = {arm.name: arm.code for arm in arms}
        for arm in arms:
            frame = figures(engine, arm)
            told = frame.loc[frame["statistic"] == "change_pct", "relative_to"]
            known = [name for name in told if name in by_name and name != arm.name]
            if known:
                return by_name[known[0]], arm.code
    pair = serving_layouts.link_pair(engine, group)
    if pair is not None and not named:
        return pair
    low = [arm for arm in arms if any(word in arm.name.lower() for word in _REFERENCE_WORDS)]
    first = low[0] if low else arms[0]
    rest = [arm for arm in arms if arm.code != first.code]
    best = next(
        (arm for arm in rest if "on" in arm.name.lower().replace("-", " ").split()), rest[0]
    )
    if named and named[0] != first.code:
        return first.code, named[0]
    return first.code, best.code
