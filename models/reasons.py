"""Reasons for and against, what would change the verdict, and how to roll out and back."""

from dataclasses import dataclass

import numpy as np

from models.decision import payback_quantile
from models.economics import is_above_ceiling
from models.gain import Gain
from models.gates import Thresholds, money_speaks
from models.purchase import INPUTS, Purchase
from models.risk import bound_words
from models.sensitivity import utilisation_at
from models.typical import Typical
from models.verdict import MEASURED, Facts, Verdict
from models.wording import CASES, amount, chance, money, plural

SHOWN = 3


@dataclass(frozen=True)
class Context:
    """What reasons are taken from, besides the facts of the rule.

    Attributes:
        case: The purchase.
        typical: Its typical case.
        confounds: What differs between the arms besides the link, or what their author warns of.
        old_figures: Labels of figures older than 90 days.
        warranty: "kept", "lost" or "not known".
        engine: Engine and version that the gain was measured with; empty where not known.
        engine_planned: Version that will run; empty: the same.
        measured_on: Date of the gain, ISO; empty where not known.
    """

    case: Purchase
    typical: Typical
    confounds: tuple[str, ...] = ()
    old_figures: tuple[str, ...] = ()
    warranty: str = "not known"
    engine: str = ""
    engine_planned: str = ""
    measured_on: str = ""

    @property
    def is_outdated(self) -> bool:
        """Whether another engine version will run than the one that was measured."""
        return bool(self.engine_planned) and self.engine_planned != self.engine


Weighted = list[tuple[float, str]]


def strongest(reasons: Weighted) -> list[str]:
    """The three weightiest, in order."""
    ordered = sorted(reasons, key=lambda item: -item[0])
    return [words for _, words in ordered[:SHOWN]]


def reasons_for(facts: Facts, context: Context) -> list[str]:
    """The three strongest reasons for the purchase; fewer where there are fewer."""
    outcome, gain, typical = facts.outcome, facts.gain, context.typical
    symbol = facts.symbol
    found: Weighted = []
    if not money_speaks(facts.gates):
        return [f"A gain of {100 * gain.value:+.1f} % {_told(gain)}."] if gain.value > 0 else []
    if outcome.p_positive > 0.5:
        low, high = outcome.npv[0], outcome.npv[-1]
        found.append(
            (
                outcome.p_positive,
                f"It is worth {money(outcome.npv[2], symbol)} over {context.case.months} months "
                f"(P5 to P95: {money(low, symbol)} to {money(high, symbol)}).",
            )
        )
    month = payback_quantile(outcome, 0.5)
    if month is not None and month <= context.case.months / 2:
        found.append((0.85, f"Half of {CASES} have paid back by month {month}."))
    if gain.kind == "rounds" and float(gain.quantile(np.array([0.025]))[0]) > 0:
        low, high = gain.quantile(np.array([0.025, 0.975]))
        found.append(
            (
                0.9,
                f"The gain of {100 * gain.value:+.1f} % is shown over "
                f"{plural(gain.rounds, 'round')} an arm (95 %: {100 * low:+.1f} to "
                f"{100 * high:+.1f} %).",
            )
        )
    elif gain.value > 0:
        found.append((0.4, f"A gain of {100 * gain.value:+.1f} % {_told(gain)}."))
    if typical.demand_binds and gain.value > 0:
        found.append(
            (0.6, "The machine cannot serve all that is asked for: capacity is worth money.")
        )
    elif typical.minutes_a_day >= 1:
        found.append(
            (
                0.35,
                f"About {plural(round(typical.minutes_a_day), 'minute')} a day less to wait for "
                "the machine.",
            )
        )
    if outcome.parts["energy"] > 0:
        found.append(
            (
                0.2,
                f"It saves {money(outcome.parts['energy'], symbol)} of energy a month.",
            )
        )
    if facts.seen.hours > 0 and not facts.seen.incidents:
        words = f"{facts.seen.hours:,.0f} h under load were watched without an incident."
        found.append((0.5 if facts.seen.hours >= 24 else 0.25, words))
    resale = context.case.medians()["resale"]
    if resale > 0 and context.case.medians()["price"] > 0:
        found.append((0.1, f"It can be sold again for about {100 * resale:.0f} % of its price."))
    return strongest(found)


def _told(gain: Gain) -> str:
    """Who says so."""
    if gain.kind == "point" and gain.origin == "predicted":
        return "is the most that any link could bring"
    if gain.origin in ("predicted", "assumed", "described"):
        return f"is {gain.origin}"
    where = " on somebody else's machine" if gain.origin == "published" else ""
    return f"was seen in {plural(gain.rounds, 'round')} an arm{where}"


def reasons_against(facts: Facts, context: Context, limits: Thresholds) -> list[str]:
    """The three strongest reasons against it; fewer where there are fewer."""
    outcome, gain, typical = facts.outcome, facts.gain, context.typical
    symbol = facts.symbol
    found: Weighted = [(2.0, gate.words) for gate in facts.gates[:2] if gate.state == "failed"]
    if not money_speaks(facts.gates):
        return strongest([*found, (0.9, "No money makes up for a failed gate.")])
    if is_above_ceiling(gain.value, facts.ceiling):
        found.append((1.5, "The gain lies above the ceiling of any link: a measurement is broken."))
    if gain.value <= 0:
        found.append((1.2, f"The candidate is not faster ({100 * gain.value:+.1f} %)."))
    if not typical.demand_binds and context.case.benefit != "waiting":
        found.append(
            (
                1.0,
                f"The baseline is busy {100 * typical.used[0]:.0f} % of the time and serves all "
                "that is asked for, so more capacity earns nothing.",
            )
        )
    if context.case.benefit == "waiting" and context.case.medians()["hour_value"] <= 0:
        found.append((1.0, "No value is given for an hour not waited, so speed brings no money."))
    if outcome.p_positive < 0.5:
        found.append(
            (
                0.95,
                f"It pays {money(outcome.upfront[1], symbol)} for "
                f"{money(outcome.monthly[1], symbol)} a month; {chance(outcome.p_never)} of the "
                "simulated cases never pay back.",
            )
        )
    if gain.origin in MEASURED and 0 < gain.rounds < limits.rounds:
        found.append((0.9, f"The gain rests on {plural(gain.rounds, 'round')} an arm."))
    elif gain.origin == "published":
        count = f"{plural(gain.rounds, 'round')} on somebody else's machine"
        found.append((0.9, f"The gain is published: {count}, not measured here."))
    elif gain.origin not in MEASURED:
        found.append((0.9, f"The gain is {gain.origin}: nobody measured it here."))
    weight = 1.1 if facts.seen.incidents else 0.7
    if facts.seen.hours >= limits.soak_hours and not facts.seen.incidents:
        weight = 0.35
    found.append((weight, f"Stability: {bound_words(facts.seen)}"))
    if context.confounds:
        found.append((0.6, f"Caveat: {context.confounds[0]}"))
    if facts.ceiling is None:
        found.append((0.5, "The share of communication is not known, and with it the ceiling."))
    if context.warranty == "lost":
        found.append((0.55, "The warranty is lost."))
    if context.is_outdated:
        found.append(
            (0.65, f"It was measured with {context.engine}, and {context.engine_planned} will run.")
        )
    if outcome.parts["risk"] < 0:
        found.append(
            (
                0.3,
                f"Added failures cost about {money(-outcome.parts['risk'], symbol)} a month.",
            )
        )
    low = outcome.npv[0]
    if outcome.p_positive >= limits.buy:
        found.append((0.2, f"One draw in twenty is worth less than {money(low, symbol)}."))
    if context.old_figures:
        found.append((0.15, f"Older than 90 days: {', '.join(context.old_figures[:3])}."))
    return strongest(found)


def changes(facts: Facts, verdict: Verdict, context: Context) -> list[str]:
    """What would change the verdict: break-evens, missing evidence, measuring again."""
    found: list[str] = []
    if verdict.missing and verdict.word == "Measure more":
        found.append("Buy still lacks: " + "; ".join(verdict.missing) + ".")
    if verdict.more_rounds:
        found.append(f"{plural(verdict.more_rounds, 'more round')} an arm would settle the gain.")
    if verdict.more_soak_hours >= 1:
        found.append(
            f"{verdict.more_soak_hours:,.0f} more hours under load without an incident would "
            "settle stability."
        )
    if not money_speaks(facts.gates):
        return ["The failed gate: mend what it names, then measure the candidate again."]
    for name in ("price", "demand", "gain", "rate_added"):
        found += _turn(facts, context.case, name)
    if facts.deciding:
        found.append(f"Worth knowing most before deciding: {INPUTS[facts.deciding][0].lower()}.")
    if context.engine:
        when = f" on {context.measured_on}" if context.measured_on else ""
        found.append(f"Measured with {context.engine}{when}: measure again after an upgrade.")
    return found


def _turn(facts: Facts, case: Purchase, name: str) -> list[str]:
    level = facts.break_evens.get(name)
    if level is None:
        return []
    middle = case.medians()[name]
    words = amount(name, level, facts.symbol)
    if name == "demand":
        words += f" (baseline busy {100 * utilisation_at(case, level):.0f} % of the time)"
    now = amount(name, middle, facts.symbol)
    return [f"{INPUTS[name][0]}: breaks even at {words}; now {now}."]


ROLLBACK_STEPS = (
    "Keep the baseline as it is: its flags, driver and container stay ready to start.",
    "Start small: one replica or a tenth of the requests on the candidate for a day.",
    "Watch: failed requests, P99 TTFT and TPOT, temperature and throttling, NVLink or PCIe error "
    "counters, Xid messages, repeated output checks.",
    "Go back at once when outputs differ, a request hangs, error counters rise, or P99 leaves the "
    "service level.",
)


def rollout(facts: Facts, person: str, soak_hours: float) -> list[str]:
    """The list to tick when it is bought: canary, watch list, way back, and who walks it.

    Args:
        facts: Of the verdict.
        person: Who rolls back; empty where nobody is named yet.
        soak_hours: Hours under load before the canary grows.
    """
    who = person.strip() or "nobody is named yet: name somebody"
    steps = list(ROLLBACK_STEPS)
    hours = max(0.0, soak_hours - facts.seen.hours)
    if hours:
        steps.insert(
            1, f"Soak the candidate for {hours:,.0f} more hours before anybody depends on it."
        )
    steps.append(
        "The way back: NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce switch the link off "
        f"without a screwdriver; tried in a drill before it is needed. Who does it: {who}."
    )
    return steps
