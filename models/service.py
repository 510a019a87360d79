"""The load that an arm carries at a service level.

It is judged by requests where there are any, else by the percentiles that somebody printed.
Nothing is extrapolated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from models.economics import FloatArray
from models.serving_slo import Point, Slo, capacity
from models.use_cases import LoadRule

State = Literal["passed", "failed", "not known", "not asked"]

# statistic -> share of requests at or under it
_SHARE_UNDER = {"median": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True)
class Load:
    """One measured load of an arm.

    Attributes:
        concurrency: Requests in flight.
        tok_s: Mean output throughput over the rounds, None where not known.
        rounds: (TTFT, TPOT) of each round's requests, ms; empty where only percentiles are known.
        ttft: Statistic -> ms (the worst round).
        tpot: Statistic -> ms (the worst round).
        completed: Requests that succeeded, None where not known.
        failed: Requests that did not, None where not known.
    """

    concurrency: int
    tok_s: float | None
    rounds: Sequence[tuple[FloatArray, FloatArray]] = ()
    ttft: Mapping[str, float] = field(default_factory=dict)
    tpot: Mapping[str, float] = field(default_factory=dict)
    completed: float | None = None
    failed: float | None = None


@dataclass(frozen=True)
class Carried:
    """What an arm carries.

    Attributes:
        state: Whether some load meets the level; "not known" where only medians speak for it.
        concurrency: The load that counts, None where none meets the level.
        tok_s: Output throughput there, None where not known.
        words: One sentence.
    """

    state: State
    concurrency: int | None
    tok_s: float | None
    words: str


def judge_load(load: Load, slo: Slo) -> tuple[State, str]:
    """Whether one load meets a level, and how that is known.

    Args:
        load: The load; its requests, if any, are preferred to percentiles.
        slo: The level.

    Returns:
        "passed" or "failed" where requests or a high enough percentile show it; "not known" where
        only a median or mean lies inside the limits. The words start with a small letter.
    """
    if load.rounds:
        found = capacity([Point(load.concurrency, load.rounds, load.tok_s)], slo)
        share = found.shares.get(load.concurrency)
        if share is not None:
            asked = (load.completed or 0.0) + (load.failed or 0.0)
            if asked and load.completed is not None:
                share *= load.completed / asked  # a request that failed met nothing
            state: State = "passed" if share >= slo.share else "failed"
            return state, f"{share:.0%} of requests meet it in the worst round"
    limits = (("TTFT", load.ttft, slo.ttft_ms), ("TPOT", load.tpot, slo.tpot_ms))
    missing = [name for name, figures, _ in limits if not figures]
    if missing:
        return "not known", f"no {' or '.join(missing)} is known"
    lost = 0.0
    for metric, figures, limit in limits:
        for statistic, value in figures.items():
            # a median over the limit: at most half of the requests are good
            over = value > limit
            if over and _SHARE_UNDER.get(statistic, 0.0) <= slo.share:
                return "failed", f"the {statistic} {metric} of {value:,.0f} ms is over {limit:g} ms"
        shown = [
            share
            for statistic, share in _SHARE_UNDER.items()
            if statistic in figures and figures[statistic] <= limit
        ]
        if not shown:
            listed = ", ".join(f"{name} {value:,.0f} ms" for name, value in figures.items())
            if "mean" not in figures:
                return "failed", f"no known {metric} lies inside {limit:g} ms ({listed})"
        lost += 1 - max(shown, default=0.0)
    if lost <= 1 - slo.share + 1e-9:
        return "passed", "its percentiles meet it"
    known = sorted({*load.ttft} | {*load.tpot})
    return "not known", f"met by its {', '.join(known)} only: the share of requests is not known"


def carried(loads: Sequence[Load], rule: LoadRule, slo: Slo | None) -> Carried:
    """The load of an arm that counts, under a level.

    Args:
        loads: Measured loads, any order.
        rule: Which of them counts.
        slo: The level; None where none is asked for.

    Returns:
        What it carries. A load that passes above one that fails does not count.
    """
    known = sorted(loads, key=lambda load: load.concurrency)
    if not known:
        return Carried("not known", None, None, "No load was measured.")
    if rule == "fastest" or slo is None:
        best = known[0] if rule == "lowest" else max(known, key=lambda load: load.tok_s or 0.0)
        words = f"Concurrency {best.concurrency}: {_speed(best)}. No service level was asked for."
        return Carried("not asked", best.concurrency, best.tok_s, words)
    if rule == "lowest":
        known = known[:1]
    level = level_words(slo)
    known = [load for load in known if load.rounds or (load.ttft and load.tpot)]
    if not known:
        words = f"Whether it meets {level} is not known: its TTFT or TPOT is not."
        return Carried("not known", None, None, words)
    best_load: Load | None = None
    best_state: State = "failed"
    reason = ""
    stopped = ""
    for load in known:
        state, words = judge_load(load, slo)
        if state == "failed":
            stopped = f"concurrency {load.concurrency} does not ({words})"
            break
        best_load, best_state, reason = load, state, words
    if best_load is None:
        return Carried("failed", None, None, f"No measured load meets {level}: {stopped}.")
    verb = "meets" if best_state == "passed" else "may meet"
    words = f"Concurrency {best_load.concurrency} {verb} {level} ({reason}): {_speed(best_load)}."
    if stopped:
        words += f" Above it, {stopped}."
    return Carried(best_state, best_load.concurrency, best_load.tok_s, words)


def level_words(slo: Slo) -> str:
    """A service level in words."""
    return f"TTFT {slo.ttft_ms:,.0f} ms and TPOT {slo.tpot_ms:g} ms for {slo.share:.0%} of requests"


def _speed(load: Load) -> str:
    return "throughput not known" if load.tok_s is None else f"{load.tok_s:,.1f} tok/s"
