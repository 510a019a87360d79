"""Everything that the ROI page shows, from one purchase and its evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from models import gates
from models.alternatives import Alternative, Change, side_by_side
from models.decision import DRAWS, SEED, Outcome, decide, value_of_knowing
from models.gates import ArmFacts, Gate, Thresholds
from models.purchase import INPUTS, Purchase, pinned
from models.reasons import Context, changes, reasons_against, reasons_for, rollout
from models.remarks import remarks
from models.result import Notice
from models.risk import Evidence
from models.sensitivity import (
    Swing,
    break_even,
    rounds_to_decide,
    soak_hours_to_decide,
    tornado,
)
from models.service import Carried
from models.typical import Typical, typical
from models.verdict import Facts, Verdict, judge

BREAK_EVENS = ("price", "demand", "gain", "rate_added")


@dataclass(frozen=True)
class Question:
    """What is asked, and on which evidence.

    Attributes:
        case: The purchase.
        thresholds: Where the verdict turns.
        candidate: What is known of the candidate's correctness; None where nobody ran it.
        carried: Load of baseline and candidate at the service level; None where not measured.
        ceiling: Most that any link can multiply speed by; None where not known.
        seen: Incidents and hours of the candidate.
        has_candidate: False where only the link-off arm exists.
        box_price: Of the machine the upgrade goes into, for the cost of tokens; 0 leaves it out.
        box_resale: Share of it that comes back.
        confounds: What differs between the arms besides the link.
        old_figures: Labels of figures older than 90 days.
        warranty: "kept", "lost" or "not known".
        engine: Engine and version of the gain.
        engine_planned: What will run; empty: the same.
        measured_on: Date of the gain.
        person: Who rolls back.
        others: Alternatives.
        symbol: Of the currency.
        seed: Of the generator.
        draws: How many.
    """

    case: Purchase
    thresholds: Thresholds = field(default_factory=Thresholds)
    candidate: ArmFacts | None = None
    carried: tuple[Carried | None, Carried | None] = (None, None)
    ceiling: float | None = None
    seen: Evidence = field(default_factory=Evidence)
    has_candidate: bool = True
    box_price: float = 0.0
    box_resale: float = 0.0
    confounds: tuple[str, ...] = ()
    old_figures: tuple[str, ...] = ()
    warranty: str = "not known"
    engine: str = ""
    engine_planned: str = ""
    measured_on: str = ""
    person: str = ""
    others: tuple[Change, ...] = ()
    symbol: str = "$"
    seed: int = SEED
    draws: int = DRAWS


@dataclass(frozen=True)
class Assessment:
    """The answer with all that stands behind it.

    Attributes:
        question: What was asked.
        outcome: Of the draws.
        typical: At the medians.
        swings: Tornado, largest first.
        break_evens: Input -> value at which the typical case is worth 0, None where none is.
        gates: The three gates.
        facts: What the rule looked at.
        verdict: The verdict.
        reasons_for: Up to three.
        reasons_against: Up to three.
        changes: What would change it.
        rollout: The list to tick.
        alternatives: Side by side.
        remarks: Inputs at which a figure stops to exist.
        knowing: Value of perfect information, in all and by input.
    """

    question: Question
    outcome: Outcome
    typical: Typical
    swings: tuple[Swing, ...]
    break_evens: dict[str, float | None]
    gates: tuple[Gate, Gate, Gate]
    facts: Facts
    verdict: Verdict
    reasons_for: list[str]
    reasons_against: list[str]
    changes: list[str]
    rollout: list[str]
    alternatives: list[Alternative]
    remarks: list[Notice]
    knowing: tuple[float, dict[str, float]]


def assess(question: Question, *, with_alternatives: bool = True) -> Assessment:
    """Work everything out.

    Args:
        question: The purchase and its evidence.
        with_alternatives: False leaves the alternatives out, for a quick answer.

    Returns:
        The assessment.
    """
    case, limits = question.case, question.thresholds
    outcome = decide(case, question.draws, question.seed)
    swings = tuple(tornado(case))
    levels = {name: break_even(case, name) for name in BREAK_EVENS}
    knowing = value_of_knowing(outcome)
    facts = weigh(question, outcome, swings, levels, knowing[1])
    verdict = judge(facts, limits)
    found = typical(case, question.box_price, question.box_resale)
    context = Context(
        case=case,
        typical=found,
        confounds=question.confounds,
        old_figures=question.old_figures,
        warranty=question.warranty,
        engine=question.engine,
        engine_planned=question.engine_planned,
        measured_on=question.measured_on,
    )
    return Assessment(
        question=question,
        outcome=outcome,
        typical=found,
        swings=swings,
        break_evens=levels,
        gates=facts.gates,
        facts=facts,
        verdict=verdict,
        reasons_for=reasons_for(facts, context),
        reasons_against=reasons_against(facts, context, limits),
        changes=changes(facts, verdict, context),
        rollout=rollout(facts, question.person, limits.soak_hours),
        alternatives=side_by_side(case, outcome, question.others, question.seed)
        if with_alternatives
        else [],
        remarks=remarks(case, found, question.seen),
        knowing=knowing,
    )


def weigh(
    question: Question,
    outcome: Outcome,
    swings: Sequence[Swing],
    levels: dict[str, float | None],
    knowing: Mapping[str, float],
) -> Facts:
    """Gates and needs for evidence, as the rule looks at them."""
    limits, gain = question.thresholds, question.case.gain
    first = gates.correctness(question.candidate, limits)
    second = gates.service(question.carried[1], [first])
    third = gates.worth(outcome.p_positive, [first, second], limits)
    return Facts(
        gates=(first, second, third),
        outcome=outcome,
        swings=tuple(swings),
        break_evens=levels,
        gain=gain,
        ceiling=question.ceiling,
        seen=question.seen,
        has_candidate=question.has_candidate,
        rounds_needed=rounds_to_decide(gain, levels["gain"], low=limits.dont, high=limits.buy),
        soak_needed=soak_hours_to_decide(levels["rate_added"], question.seen.hours),
        deciding=_deciding(knowing, swings),
        symbol=question.symbol,
    )


def _deciding(knowing: Mapping[str, float], swings: Sequence[Swing]) -> str | None:
    """The input most worth knowing; where knowing is worth nothing, one whose swing crosses 0."""
    best = max(knowing, key=lambda name: knowing[name], default=None)
    if best is not None and knowing[best] > 0 and best in INPUTS:
        return best
    crossing = [swing for swing in swings if swing.npv_low * swing.npv_high < 0]
    return crossing[0].name if crossing else None


def quick(question: Question, certain: Mapping[str, float]) -> tuple[Outcome, Verdict]:
    """The answer with some inputs known for sure, as a slider asks for it.

    Args:
        question: The purchase and its evidence.
        certain: Input -> value.

    Returns:
        Outcome and verdict; a known gain keeps its origin and its rounds.
    """
    asked = replace(question, case=pinned(question.case, certain))
    outcome = decide(asked.case, asked.draws, asked.seed)
    levels = {name: break_even(asked.case, name) for name in BREAK_EVENS}
    facts = weigh(asked, outcome, tornado(asked.case), levels, {})
    return outcome, judge(facts, asked.thresholds)
