"""The verdict, by rule: Buy, Not yet, Don't, Measure more; and what would change it.

    Don't         gate 1 or 2 fails, or P(gain in money) <= 0.2 and no single input changes that
    Not yet       P <= 0.2 and one input, somewhere between its P10 and P90, would
    Buy           P >= 0.8, at least 3 measured rounds, a known ceiling above the gain, stability
    Measure more  everything else

A published, predicted, described or assumed gain never yields Buy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from models.decision import Outcome
from models.economics import is_above_ceiling
from models.gain import Gain
from models.gates import Gate, Thresholds, Word
from models.purchase import INPUTS
from models.risk import Evidence
from models.sensitivity import Swing
from models.wording import CASES, amount, chance

MEASURED = ("measured", "imported")


@dataclass(frozen=True)
class Facts:
    """What the rule looks at.

    Attributes:
        gates: The three gates, in order.
        outcome: Of the draws.
        swings: Of the inputs, largest first.
        break_evens: Input -> value at which the typical case is worth 0; None where none is.
        gain: The gain.
        ceiling: Most that any link can multiply speed by; None where not known.
        seen: Incidents and hours of the candidate.
        has_candidate: False where only the link-off arm exists and the gain is its ceiling.
        rounds_needed: Rounds an arm that would decide, where the spread is known.
        soak_needed: Further clean hours that would decide, where failures matter.
        deciding: Input that would be worth knowing most; None where knowing changes nothing.
        symbol: Of the currency.
    """

    gates: tuple[Gate, Gate, Gate]
    outcome: Outcome
    swings: tuple[Swing, ...]
    break_evens: dict[str, float | None]
    gain: Gain
    ceiling: float | None
    seen: Evidence
    has_candidate: bool = True
    rounds_needed: int | None = None
    soak_needed: float | None = None
    deciding: str | None = None
    symbol: str = "$"


@dataclass(frozen=True)
class Verdict:
    """The answer.

    Attributes:
        word: One of the four.
        sentence: Why, in one sentence.
        missing: What Buy still lacks, a phrase each; empty where nothing.
        turning: Input whose break-even would turn Don't into something else, for Not yet.
        more_rounds: Further rounds an arm to measure; 0 where rounds decide nothing.
        more_soak_hours: Further hours to watch; 0 where enough were.
    """

    word: Word
    sentence: str
    missing: tuple[str, ...] = ()
    turning: str | None = None
    more_rounds: int = 0
    more_soak_hours: float = 0.0


def judge(facts: Facts, limits: Thresholds) -> Verdict:
    """Apply the rule.

    Args:
        facts: Gates, draws and evidence.
        limits: Where the verdict turns.

    Returns:
        The verdict.
    """
    failed = next((gate for gate in facts.gates[:2] if gate.state == "failed"), None)
    if failed is not None:
        return Verdict("Don't", failed.words)
    p = facts.outcome.p_positive
    if p <= limits.dont:
        return _not_worth_it(facts, p)
    missing = lacking(facts, limits)
    rounds = _more_rounds(facts, limits)
    hours = max(0.0, limits.soak_hours - facts.seen.hours)
    if facts.soak_needed and facts.deciding == "rate_added":
        hours = max(hours, facts.soak_needed)
    if not facts.has_candidate:
        return Verdict(
            "Measure more",
            f"At its ceiling the link would gain money in {chance(p)} of {CASES}, and nobody has "
            "measured it: try it first.",
            missing=missing,
            more_rounds=rounds,
            more_soak_hours=hours,
        )
    if p >= limits.buy and not missing:
        return Verdict("Buy", f"It gains money in {chance(p)} of {CASES}, and the evidence holds.")
    if p >= limits.buy:
        sentence = f"It gains money in {chance(p)} of {CASES}, but {_and(missing[:2])}."
    else:
        decides = INPUTS[facts.deciding][0].lower() if facts.deciding else "no single input"
        sentence = (
            f"It gains money in {chance(p)} of {CASES}, which settles nothing: {decides} decides."
        )
    return Verdict(
        "Measure more", sentence, missing=missing, more_rounds=rounds, more_soak_hours=hours
    )


def lacking(facts: Facts, limits: Thresholds) -> tuple[str, ...]:
    """What Buy asks for and the evidence does not have, a phrase each."""
    found = []
    gain = facts.gain
    if not facts.has_candidate:
        found.append("the candidate was never run")
    elif gain.origin not in MEASURED:
        found.append(f"the gain is {gain.origin}, not measured here")
    if gain.rounds < limits.rounds:
        n = gain.rounds
        words = "no round" if n == 0 else "one round" if n == 1 else f"{n} rounds"
        verb = "stands" if n < 2 else "stand"
        found.append(f"only {words} an arm {verb} behind it ({limits.rounds} are asked for)")
    if facts.ceiling is None:
        found.append("the ceiling of any link is not known")
    elif is_above_ceiling(gain.value, facts.ceiling):
        found.append("the gain lies above what any link can give, so a measurement is broken")
    if facts.seen.hours < limits.soak_hours:
        hours = facts.seen.hours
        words = "no hour" if hours <= 0 else f"only {hours:,.0f} h"
        found.append(
            f"{words} of sustained load was watched ({limits.soak_hours:,.0f} are asked for)"
        )
    found += [
        f"{'correctness' if gate.code == 'correctness' else 'the service level'} is not shown"
        for gate in facts.gates[:2]
        if gate.state == "not known"
    ]
    return tuple(found)


def _not_worth_it(facts: Facts, p: float) -> Verdict:
    turning = next(
        (
            swing
            for swing in sorted(facts.swings, key=lambda swing: swing.best, reverse=True)
            if swing.best > 0
        ),
        None,
    )
    if turning is None:
        where = " even at its ceiling" if not facts.has_candidate else ""
        return Verdict(
            "Don't",
            f"It gains money in {chance(p)} of {CASES}{where}, and no single input within its "
            "likely range changes that.",
        )
    direction = "above" if turning.npv_high > turning.npv_low else "below"
    level = facts.break_evens.get(turning.name)
    place = "" if level is None else f" {direction} {amount(turning.name, level, facts.symbol)}"
    return Verdict(
        "Not yet",
        f"It gains money in {chance(p)} of {CASES}; {INPUTS[turning.name][0].lower()} alone "
        f"would turn that{place}.",
        turning=turning.name,
    )


def _more_rounds(facts: Facts, limits: Thresholds) -> int:
    """Rounds to add, so that the count suffices and the gain's spread decides."""
    have = facts.gain.rounds if facts.gain.kind in ("rounds", "few_rounds") else 0
    wanted = limits.rounds
    if facts.rounds_needed and limits.dont < facts.outcome.p_positive < limits.buy:
        wanted = max(wanted, facts.rounds_needed)
    measured_here = have if facts.gain.origin in MEASURED else 0
    return max(0, wanted - measured_here)


def _and(phrases: Sequence[str]) -> str:
    return " and ".join(phrases)
