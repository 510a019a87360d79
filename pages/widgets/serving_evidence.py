"""What is known of two arms, gathered for the scorecard, the causes and the thresholds."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from db import runs, scenarios
from db.engine import Engine
from models.scorecard import Evidence, Soak
from models.scorecard_checks import Threshold, thresholds
from models.serving import output_distance
from models.serving_causes import Breakdown, Cause, compute_ratio, name_cause
from pages.widgets.serving_arms import Arm, Cell, cell_words, facts_of, figures, shared_cells
from pages.widgets.serving_compare import Row, findings_of

DRILL_PAGE = "rollback-drill"
DISTANCE_NATS = 0.25  # mean distance of log-probabilities that two arms may have
_PHASES = ("client", "queue", "prefill", "decode")


def gather(
    engine: Engine,
    arms: tuple[Arm, Arm],
    frames: tuple[pd.DataFrame, pd.DataFrame],
    rows: Sequence[Row],
    before_after: Sequence[str] = (),
) -> Evidence:
    """All evidence on two arms.

    Args:
        engine: The database.
        arms: Reference and other arm.
        frames: Their figures.
        rows: Their comparison.
        before_after: Arms under two software stacks, a sentence each.
    """
    facts = [facts_of(engine, arm) for arm in arms]
    outputs, wrong = outputs_words(engine, arms, facts)
    cells = shared_cells(*frames)
    causes = [kept_causes(engine, runs.version(engine), arms).get(cell) for cell in cells]
    named = [cause for cause in causes if cause and cause.name not in ("unknown",)]
    names = (arms[0].name, arms[1].name)
    return Evidence(
        arms=names,
        validity={arm.name: arm.validity for arm in arms},
        tp={arm.name: tp for arm, fact in zip(arms, facts, strict=True) if (tp := tp_of(fact))},
        findings=findings_of(rows),
        scenarios=frozenset(cell[0] for cell in cells if cell[0]),
        concurrencies=frozenset(int(cell[1]) for cell in cells if cell[1]),
        outputs=outputs,
        outputs_wrong=wrong,
        abnormal=_counts(arms, frames, "abnormal"),
        soaks=soaks_of(arms, frames),
        preemptions=_preemptions(arms, frames),
        has_phases=all(_has(frame, "phase_time") for frame in frames),
        cause=named[-1].words if named else None,
        has_telemetry=all(_has(frame, "sm_clock") or _has(frame, "power") for frame in frames),
        has_load=all(_on_cpu(several) for several in facts)
        and all(_has(frame, "foreign_load") for frame in frames),
        stacks=_stacks(facts),
        before_after=before_after,
        drill=drill_words(engine, arms[0].group),
        cost=_cost_words(engine),
        energy=_energy_words(arms, frames),
        failures=_failures(frames),
    )


def tp_of(facts: Sequence[dict[str, Any]]) -> int | None:
    """Tensor-parallel size of an arm, where its spec states it."""
    for fact in facts:
        arm = fact["spec"].get("arm")
        if isinstance(arm, dict) and arm.get("tp"):
            return int(arm["tp"])
    return None


def _has(frame: pd.DataFrame, metric: str) -> bool:
    return bool((frame["metric"] == metric).any()) if not frame.empty else False


def _counts(
    arms: Sequence[Arm], frames: Sequence[pd.DataFrame], scenario: str
) -> dict[str, tuple[int, int]]:
    found = {}
    for arm, frame in zip(arms, frames, strict=True):
        rows = frame[frame["scenario"] == scenario] if not frame.empty else frame
        good = rows.loc[rows["metric"] == "completed", "value"].sum()
        bad = rows.loc[rows["metric"] == "failed", "value"].sum()
        if len(rows):
            found[arm.name] = (int(good), int(bad))
    return found


def _preemptions(arms: Sequence[Arm], frames: Sequence[pd.DataFrame]) -> dict[str, int]:
    found = {}
    for arm, frame in zip(arms, frames, strict=True):
        if frame.empty:
            continue
        rows = frame[(frame["metric"] == "preemptions") & (frame["scenario"] == "pressure")]
        if len(rows):
            found[arm.name] = int(rows["value"].sum())
    return found


def _failures(frames: Sequence[pd.DataFrame]) -> int | None:
    values = [
        frame.loc[
            (frame["metric"] == "failed")
            & (frame["scenario"] != "abnormal")
            & (frame["kind"] != "soak"),
            "value",
        ]
        for frame in frames
        if not frame.empty
    ]
    known = pd.concat(values) if values else pd.Series(dtype=float)
    return int(known.sum()) if len(known) else None


def soaks_of(arms: Sequence[Arm], frames: Sequence[pd.DataFrame]) -> list[Soak]:
    """Sustained loads of the arms, one a run."""
    found = []
    for arm, frame in zip(arms, frames, strict=True):
        if frame.empty:
            continue
        for _, rows in frame[frame["kind"] == "soak"].groupby("run_id"):
            whole = rows[rows["round"].isna()]

            def total(metric: str, whole: pd.DataFrame = whole) -> float:
                return float(whole.loc[whole["metric"] == metric, "value"].sum())

            found.append(
                Soak(
                    arm.name,
                    total("soak_hours"),
                    int(total("completed")),
                    int(total("failed")),
                    int(total("timeouts")),
                    int(total("incidents")),
                )
            )
    return found


def phases_of(frame: pd.DataFrame, cell: Cell) -> Breakdown:
    """Mean phase times of an arm's workload."""
    wanted = np.flatnonzero((frame["metric"] == "phase_time") & (frame["cell"] == cell))
    values: dict[str, list[float]] = {name: [] for name in _PHASES}
    if wanted.size:
        for name, value in zip(
            *(frame[c].array.take(wanted) for c in ("phase", "value")), strict=True
        ):
            if name in values and pd.notna(value):
                values[name].append(float(value))
    return Breakdown(*(float(np.mean(several)) if several else None for several in values.values()))


def cause_of(
    frames: Sequence[pd.DataFrame], facts: Sequence[Sequence[dict[str, Any]]], cell: Cell
) -> Cause | None:
    """What makes the slower arm slower on a workload; None without phase times of both."""
    parts = [phases_of(frame, cell) for frame in frames]
    if any(part.total <= 0 for part in parts):
        return None
    fast, slow = (0, 1) if parts[0].total <= parts[1].total else (1, 0)
    tp = tp_of(facts[slow]) or 1
    if (tp_of(facts[fast]) or 1) != tp:
        return None  # another split of the work: nothing is broken, so nothing is to be blamed
    ratio = compute_ratio(
        clock_mhz=(_mean(frames[fast], "sm_clock", cell), _mean(frames[slow], "sm_clock", cell)),
        foreign_pct=(
            _mean(frames[fast], "foreign_load", cell),
            _mean(frames[slow], "foreign_load", cell),
        ),
    )
    return name_cause(parts[fast], parts[slow], tp=tp, compute=ratio)


@st.cache_resource(show_spinner=False, max_entries=32)
def kept_causes(_engine: Engine, version: str, arms: tuple[Arm, Arm]) -> dict[Cell, Cause | None]:
    """`cause_of` each workload of two arms, kept while the runs are the same. Only to be read."""
    frames = figures(_engine, arms[0]), figures(_engine, arms[1])
    facts = [facts_of(_engine, arm) for arm in arms]
    return {cell: cause_of(frames, facts, cell) for cell in shared_cells(*frames)}


def _mean(frame: pd.DataFrame, metric: str, cell: Cell) -> float | None:
    rows = frame[(frame["metric"] == metric) & (frame["cell"] == cell)]
    return float(rows["value"].mean()) if len(rows) else None


def outputs_words(
    engine: Engine, arms: tuple[Arm, Arm], facts: Sequence[Sequence[dict[str, Any]]]
) -> tuple[str | None, bool]:
    """What the output checks of both arms say, and whether they failed."""
    broken = [
        reason for several in facts for fact in several for reason in fact["reasons"]
        if reason.startswith("Output check")
    ]  # fmt: skip
    if broken:
        return broken[0], True
    values = [_logprobs(engine, arm) for arm in arms]
    if not all(values):
        return None, False
    codes = {code for several in facts for fact in several for code, _ in fact["warnings"]}
    if "dummy_weights" in codes:
        return "Outputs are finite in both arms; with dummy weights no more can be checked.", False
    shared = sorted(values[0].keys() & values[1].keys())
    found = [output_distance(values[0][key], values[1][key]) for key in shared]
    known = [distance for distance in found if distance is not None]
    if not known:
        return None, False
    worst = max(known)
    if worst > DISTANCE_NATS:
        return (
            f"Outputs differ: the fixed prompts' log-probabilities lie up to {worst:.2f} nats "
            f"apart, more than the {DISTANCE_NATS} allowed. A fast arm with other outputs is no "
            "faster arm.",
            True,
        )
    return f"Outputs agree: fixed prompts lie within {worst:.3f} nats of each other.", False


def _logprobs(engine: Engine, arm: Arm) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for run_id in arm.run_ids:
        for item in runs.samples(engine, run_id, metric="output_logprob"):
            if item["dims"].get("phase") == "before":
                found.setdefault(item["dims"].get("prompt"), item["values"])
    return found


def stack_words(fact: dict[str, Any]) -> str:
    """Driver and engine version of a run, as far as it says so."""
    server = fact["environment"].get("server")
    version = server.get("vllm") if isinstance(server, dict) else None
    version = version or fact["environment"].get("vllm")
    driver = fact["host"].get("driver")
    parts = [f"driver {driver}"] if driver else []
    parts += [f"vLLM {version}"] if version else []
    return ", ".join(parts)


def _on_cpu(facts: Sequence[dict[str, Any]]) -> bool:
    return any(fact["spec"].get("device") == "cpu" for fact in facts)


def _stacks(facts: Sequence[Sequence[dict[str, Any]]]) -> list[str]:
    """Distinct driver and engine versions, of arms that say so."""
    found = (stack_words(fact) for several in facts for fact in several)
    return list(dict.fromkeys(words for words in found if words))


def is_same_arm(left: Sequence[dict[str, Any]], right: Sequence[dict[str, Any]]) -> bool:
    """Whether two arms ask for one and the same configuration: A against A."""
    marks = [{mark for fact in facts if (mark := arm_mark(fact))} for facts in (left, right)]
    return bool(marks[0]) and marks[0] == marks[1]


def arm_mark(fact: dict[str, Any]) -> str:
    """What a serving run asked for, without its load and repetitions; empty where it is unknown."""
    spec = fact["spec"]
    if fact["kind"] != "serving" or not spec.get("arm"):
        return ""
    names = ("device", "model", "model_config_json", "load_format", "arm", "base_url")
    return json.dumps({name: spec.get(name) for name in names}, sort_keys=True, default=str)


def drill_words(engine: Engine, group: str) -> str | None:
    """The latest rollback drill of an evaluation, as it was recorded."""
    for row in scenarios.list_scenarios(engine, DRILL_PAGE):
        state = scenarios.load(engine, row["id"])["state"]
        if state.get("evaluation") == group:
            return f"{state.get('date')}, {state.get('what')}"
    return None


def _cost_words(engine: Engine) -> str | None:
    saved = scenarios.list_scenarios(engine, "roi")
    return f"Entered on the ROI page as “{saved[0]['name']}”." if saved else None


def _energy_words(arms: Sequence[Arm], frames: Sequence[pd.DataFrame]) -> str | None:
    parts = []
    for arm, frame in zip(arms, frames, strict=True):
        rows = frame[frame["metric"] == "energy_per_token"] if not frame.empty else frame
        if len(rows):
            parts.append(f"{arm.name} {rows['value'].mean():.3g} J a token")
    return f"Energy, mean over all workloads: {', '.join(parts)}." if len(parts) == 2 else None


def proposed(frame: pd.DataFrame, telemetry: pd.DataFrame) -> list[Threshold]:
    """Alert thresholds from an arm's sustained load, or else its rounds, and its telemetry."""
    rows = frame[frame["kind"] == "soak"] if (frame["kind"] == "soak").any() else frame
    rows = rows[rows["round"].notna()]
    p99 = rows[rows["statistic"] == "p99"]
    wide = rows[rows["metric"].isin(["completed", "failed"]) & (rows["scenario"] != "abnormal")]
    counted = wide.pivot_table(
        index=["run_id", "round", "concurrency"], columns="metric", values="value", aggfunc="sum"
    )
    failed: list[float] = []
    if {"completed", "failed"} <= set(counted.columns):
        total = counted["completed"] + counted["failed"]
        failed = list(100 * counted.loc[total > 0, "failed"] / total[total > 0])
    busy = telemetry
    if len(busy) and "utilization_pct" in busy:
        busy = busy[busy["utilization_pct"].fillna(0) >= 50]
    return thresholds(
        ttft_p99_ms=list(p99.loc[p99["metric"] == "ttft", "value"]),
        tpot_p99_ms=list(p99.loc[p99["metric"] == "tpot", "value"]),
        failed_pct=failed,
        sm_clock_mhz=_column(busy, "sm_clock_mhz"),
        temperature_c=_column(busy, "temperature_c"),
    )


def _column(frame: pd.DataFrame, name: str) -> list[float]:
    return list(frame[name].dropna()) if name in frame else []


def cells_with_phases(frames: Sequence[pd.DataFrame]) -> list[tuple[Cell, str]]:
    """Workloads of which both arms state phase times, with their words."""
    return [
        (cell, cell_words(cell))
        for cell in shared_cells(*frames)
        if all(phases_of(frame, cell).total > 0 for frame in frames)
    ]
