"""The scorecard of an interconnect evaluation: ten dimensions, each with evidence or a gap.

The dimensions and the check list are those of the published two-card evaluation. Nothing here
gives marks: a dimension has evidence, or it says what was not measured and what would measure it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["shown", "partly", "not measured yet", "fails"]
Fill = Literal[
    "evaluation", "abnormal", "pressure", "long_output", "short_output", "soak", "sweep", "again"
]

DIMENSIONS: tuple[tuple[str, str, str], ...] = (
    ("function", "Functional completeness", "Where it does not work, speed means nothing."),
    ("throughput", "Throughput", "At fixed lengths, the stable value."),
    ("ttft", "Time to first token", "For interactive use P99 counts, not the mean alone."),
    ("tpot", "Time per output token", "What long outputs wait for."),
    ("itl", "Inter-token latency", "Stutter and queueing jitter."),
    ("stability", "Stability", "A short test of few requests cannot replace hours."),
    ("compatibility", "Compatibility", "Upgrades and the way back, tried before they are needed."),
    ("observability", "Observability", "Can a slow link be told from a slow GPU or a queue?"),
    ("cost", "Cost", "Gain over price, labour and risk, not peak throughput."),
    ("fit", "Fit to the work", "Other work looks at other figures."),
)
SOAK_HOURS = 2.0  # less is a test run, not sustained load


@dataclass(frozen=True)
class Finding:
    """One compared figure.

    Attributes:
        metric: Our metric's name.
        statistic: median, mean, p99, value.
        cell: The workload in words.
        words: Change, interval and verdict, or a published range.
        verdict: One of the comparison's words; "published" for a range without values.
    """

    metric: str
    statistic: str
    cell: str
    words: str
    verdict: str


@dataclass(frozen=True)
class Soak:
    """Sustained load on one arm."""

    arm: str
    hours: float
    completed: int
    failed: int
    timeouts: int
    incidents: int


@dataclass(frozen=True)
class Evidence:
    """What is known of a reference arm and another arm.

    Attributes:
        arms: Names: reference, other.
        validity: Arm -> validity; arms that were never run are absent.
        tp: Arm -> tensor-parallel size, where known.
        findings: Compared figures.
        scenarios: Scenarios measured in both arms.
        concurrencies: Measured in both arms.
        outputs: Sentence on the output check; None where none was made.
        outputs_wrong: Whether it failed.
        abnormal: Arm -> (wrong inputs handled, not handled).
        soaks: Sustained loads.
        preemptions: Arm -> preemptions seen under pressure.
        has_phases: Whether both arms state queue, prefill and decode times.
        cause: What makes the slower arm slower, in words.
        has_telemetry: Whether power, clock and throttling were sampled.
        has_load: Whether the load of the host's processors was sampled: all there is without GPUs.
        stacks: Distinct software stacks under which this evaluation ran ("driver 580, vLLM 0.25").
        before_after: One arm under two stacks, a sentence each.
        drill: A rollback drill in words, with its date.
        cost: What the ROI page says, in words.
        energy: Energy per token of both arms, in words.
        failures: Failed requests of both arms together.
    """

    arms: tuple[str, str]
    validity: dict[str, str] = field(default_factory=dict)
    tp: dict[str, int] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    scenarios: frozenset[str] = frozenset()
    concurrencies: frozenset[int] = frozenset()
    outputs: str | None = None
    outputs_wrong: bool = False
    abnormal: dict[str, tuple[int, int]] = field(default_factory=dict)
    soaks: Sequence[Soak] = ()
    preemptions: dict[str, int] = field(default_factory=dict)
    has_phases: bool = False
    cause: str | None = None
    has_telemetry: bool = False
    has_load: bool = False
    stacks: Sequence[str] = ()
    before_after: Sequence[str] = ()
    drill: str | None = None
    cost: str | None = None
    energy: str | None = None
    failures: int | None = None


@dataclass(frozen=True)
class Card:
    """One dimension.

    Attributes:
        code: For URLs and keys.
        title: Words for people.
        reads: How to read it.
        status: shown, partly, not measured yet, fails.
        evidence: Sentences.
        missing: What is not known, sentences.
        fill: Kinds of run that would fill it.
    """

    code: str
    title: str
    reads: str
    status: Status
    evidence: tuple[str, ...]
    missing: tuple[str, ...]
    fill: tuple[Fill, ...] = ()


def scorecard(e: Evidence) -> list[Card]:
    """The ten dimensions in their fixed order."""
    parts = {
        "function": _function(e),
        "throughput": _figures(e, ("output_throughput", "total_token_throughput")),
        "ttft": _figures(e, ("ttft",), tail=True),
        "tpot": _figures(e, ("tpot",)),
        "itl": _figures(e, ("itl",), tail=True),
        "stability": _stability(e),
        "compatibility": _compatibility(e),
        "observability": _observability(e),
        "cost": _cost(e),
        "fit": _fit(e),
    }
    cards = []
    for code, title, reads in DIMENSIONS:
        evidence, missing, fill, fails = parts[code]
        status: Status = "shown"
        if fails:
            status = "fails"
        elif not evidence:
            status = "not measured yet"
        elif missing:
            status = "partly"
        cards.append(Card(code, title, reads, status, tuple(evidence), tuple(missing), tuple(fill)))
    return cards


_Part = tuple[list[str], list[str], list[Fill], bool]


def _function(e: Evidence) -> _Part:
    evidence, missing = [], []
    fill: list[Fill] = []
    fails = e.outputs_wrong
    for arm in e.arms:
        state = e.validity.get(arm)
        size = f" at TP={e.tp[arm]}" if arm in e.tp else ""
        if state is None:
            missing.append(f"{arm} was not run.")
            fill = ["evaluation"]
        elif state == "invalid":
            evidence.append(f"{arm}{size} failed: its figures must not be used.")
            fails = True
        else:
            evidence.append(f"{arm}{size} loaded, generated and ended ({state}).")
    if e.outputs is None:
        missing.append("No output check was made: right answers are assumed, not shown.")
    else:
        evidence.append(e.outputs)
    return evidence, missing, fill, fails


def _figures(e: Evidence, metrics: tuple[str, ...], *, tail: bool = False) -> _Part:
    mine = [row for row in e.findings if row.metric in metrics]
    if mine and e.outputs_wrong:
        return ["Vetoed: outputs are wrong, and a wrong answer has no speed."], [], [], True
    evidence = [f"{cell}: {words}" for cell, words in _by_cell(mine, metrics, tail=tail)]
    missing: list[str] = []
    fill: list[Fill] = []
    if not mine:
        return [], ["No figure of both arms."], ["evaluation"], False
    if all(row.verdict in ("direction_only", "published") for row in mine):
        missing.append("No interval: fewer than three rounds an arm.")
        fill.append("evaluation")
    if tail and not any(row.statistic == "p99" for row in mine):
        missing.append("No P99 of both arms.")
        fill.append("evaluation")
    return evidence, missing, list(dict.fromkeys(fill)), False


def _by_cell(
    rows: Sequence[Finding], metrics: tuple[str, ...], *, tail: bool
) -> Iterator[tuple[str, str]]:
    """Each workload once: its typical figure, of the first metric that has one, and its tail."""
    for cell in dict.fromkeys(row.cell for row in rows):
        here = {(row.metric, row.statistic): row for row in rows if row.cell == cell}
        ranked = [(name, statistic) for name in metrics for statistic in _TYPICAL]
        chosen = [next((here[key] for key in ranked if key in here), None)]
        last = next((here[name, "p99"] for name in metrics if (name, "p99") in here), None)
        if tail or chosen == [None]:
            chosen.append(last)
        told = [row for row in chosen if row is not None] or list(here.values())
        words = (f"{_statistic(row.statistic)}{row.words.removesuffix('.')}" for row in told)
        yield cell, "; ".join(words) + "."


_TYPICAL = ("value", "median", "mean")


def _statistic(name: str) -> str:
    return {"value": "", "median": "median ", "mean": "mean ", "p99": "P99 "}.get(name, f"{name} ")


def _stability(e: Evidence) -> _Part:
    evidence, missing = [], []
    fill: list[Fill] = []
    fails = False
    for arm in e.arms:
        hours = [soak for soak in e.soaks if soak.arm == arm]
        if not hours:
            missing.append(f"No sustained load on {arm}.")
            fill.append("soak")
        for soak in hours:
            evidence.append(
                f"{arm}: {soak.hours:.2g} h, {soak.completed:,} requests, {soak.failed} failed, "
                f"{soak.timeouts} timed out, {soak.incidents} incidents."
            )
            fails = fails or soak.incidents > 0
            if soak.hours < SOAK_HOURS:
                missing.append(f"{arm} was loaded for less than {SOAK_HOURS:g} h.")
                fill.append("soak")
        if arm in e.abnormal:
            good, bad = e.abnormal[arm]
            evidence.append(f"{arm}: {good} of {good + bad} wrong inputs were refused politely.")
            fails = fails or bad > 0
        else:
            missing.append(f"No wrong inputs were tried on {arm}.")
            fill.append("abnormal")
        if arm in e.preemptions:
            evidence.append(f"{arm}: {e.preemptions[arm]} preemptions with short memory.")
        else:
            missing.append(f"No run with short memory on {arm}.")
            fill.append("pressure")
    if e.failures is not None:
        evidence.append(f"Failed requests in all rounds of both arms: {e.failures}.")
    return evidence, missing, list(dict.fromkeys(fill)), fails


def _compatibility(e: Evidence) -> _Part:
    evidence = [f"Ran under: {'; '.join(e.stacks)}."] if e.stacks else []
    evidence += e.before_after
    missing = []
    fill: list[Fill] = []
    if not e.before_after:
        missing.append("The same arms before and after a driver, engine or firmware change.")
        fill.append("again")
    if e.drill:
        evidence.append(f"Rollback drill: {e.drill}.")
    else:
        missing.append("No dated rollback drill is recorded.")
    return evidence, missing, fill, False


def _observability(e: Evidence) -> _Part:
    evidence, missing = [], []
    fill: list[Fill] = []
    if e.has_phases:
        evidence.append("Queue, prefill and decode time of both arms are known.")
    else:
        missing.append("The servers' own phase times.")
        fill.append("evaluation")
    if e.has_telemetry:
        evidence.append("Power, clocks and throttling were sampled beside the rounds.")
    elif e.has_load:
        evidence.append("The load of the host's processors was sampled beside the rounds.")
    else:
        missing.append("Telemetry beside the rounds.")
        fill.append("evaluation")
    if e.cause:
        evidence.append(e.cause)
    return evidence, missing, list(dict.fromkeys(fill)), False


def _cost(e: Evidence) -> _Part:
    evidence = [text for text in (e.cost, e.energy) if text]
    missing = [] if e.cost else ["Price, labour and risk are not entered on the ROI page."]
    return evidence, missing, [], False


_WORK = {
    "single_stream": "one user at a time",
    "online": "several users at a time",
    "long_output": "long outputs",
    "short_output": "short outputs",
}


def _fit(e: Evidence) -> _Part:
    seen = [name for name in _WORK if name in e.scenarios]
    if 1 in e.concurrencies and "single_stream" not in seen:
        seen.append("single_stream")
    if any(load > 1 for load in e.concurrencies) and "online" not in seen:
        seen.append("online")
    evidence = [f"Measured for {', '.join(_WORK[name] for name in seen)}."] if seen else []
    gaps = [name for name in _WORK if name not in seen]
    missing = [f"Not measured for {_WORK[name]}." for name in gaps]
    fill: list[Fill] = []
    for name in gaps:
        if name in ("long_output", "short_output"):
            fill.append("long_output" if name == "long_output" else "short_output")
        else:
            fill.append("sweep")
    return evidence, missing, list(dict.fromkeys(fill)), False
