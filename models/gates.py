"""Three gates in order: correct, within the service level, worth the money.

A later gate never speaks when an earlier one fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from models.result import Origin, Validity
from models.service import Carried, State
from models.wording import CASES, chance

Word = Literal["Buy", "Not yet", "Don't", "Measure more"]
Outputs = Literal["checked", "not checkable", "not checked"]


@dataclass(frozen=True)
class Thresholds:
    """Where the verdict turns; shown and editable.

    Attributes:
        buy: Probability of a gain in money from which buying is advised.
        dont: Probability at or under which it is advised against.
        rounds: Rounds an arm that a purchase needs.
        soak_hours: Hours under load that the candidate was watched for.
        errors: Share of failed requests that is still tolerated.
    """

    buy: float = 0.8
    dont: float = 0.2
    rounds: int = 3
    soak_hours: float = 24.0
    errors: float = 0.01


@dataclass(frozen=True)
class Gate:
    """One gate.

    Attributes:
        code: correctness, service or money.
        state: passed, failed, not known, not asked (also: an earlier gate failed).
        words: Why.
    """

    code: Literal["correctness", "service", "money"]
    state: State
    words: str


@dataclass(frozen=True)
class ArmFacts:
    """What is known of the candidate's correctness.

    Attributes:
        origin: Where its figures come from.
        validity: Worst of its runs.
        reasons: Why it is not valid.
        completed: Requests that succeeded, None where not known.
        failed: Requests that did not, None where not known.
        outputs: Whether fixed prompts were compared.
    """

    origin: Origin
    validity: Validity = "valid"
    reasons: tuple[str, ...] = ()
    completed: float | None = None
    failed: float | None = None
    outputs: Outputs = "not checked"

    @property
    def error_share(self) -> float | None:
        """Share of requests that failed, None where not known."""
        if self.failed is None or self.completed is None or self.failed + self.completed <= 0:
            return None
        return self.failed / (self.failed + self.completed)


def money_speaks(gates: Sequence[Gate]) -> bool:
    """Whether the earlier gates let the money speak."""
    return not any(gate.state == "failed" for gate in gates[:2])


def correctness(facts: ArmFacts | None, limits: Thresholds) -> Gate:
    """Gate 1: values, outputs and error rate of the candidate.

    Args:
        facts: What is known; None where nobody ran the candidate.
        limits: Tolerated share of errors.
    """
    if facts is None:
        return Gate("correctness", "not known", "Nobody has run the candidate here.")
    if facts.validity == "invalid":
        why = " ".join(facts.reasons) or "Its run is invalid."
        return Gate("correctness", "failed", f"The candidate is invalid: {why}")
    share = facts.error_share
    if share is not None and share > limits.errors:
        return Gate(
            "correctness",
            "failed",
            f"{share:.1%} of the candidate's requests failed; {limits.errors:.1%} is tolerated.",
        )
    if facts.origin not in ("measured", "imported"):
        return Gate(
            "correctness",
            "not known",
            f"The candidate's figures are {facts.origin}: nobody checked values and outputs here.",
        )
    parts = ["No wrong value was seen"]
    parts.append("errors are not counted" if share is None else f"{share:.1%} of requests failed")
    parts.append(
        {
            "checked": "outputs of fixed prompts were checked",
            "not checkable": "outputs are not checkable (dummy weights)",
            "not checked": "outputs were not compared",
        }[facts.outputs]
    )
    words = "; ".join(parts) + "."
    if facts.validity == "suspect":
        words += " Suspect: " + " ".join(facts.reasons)
    # a check that was left out shows nothing; dummy weights at least were finite in every round
    state: State = "not known" if facts.outputs == "not checked" else "passed"
    return Gate("correctness", state, words)


def service(candidate: Carried | None, earlier: Sequence[Gate]) -> Gate:
    """Gate 2: does the candidate carry some load at the service level?"""
    if any(gate.state == "failed" for gate in earlier):
        return Gate("service", "not asked", "An earlier gate failed.")
    if candidate is None:
        return Gate("service", "not known", "No load of the candidate was measured.")
    return Gate("service", candidate.state, candidate.words)


def worth(p_positive: float, earlier: Sequence[Gate], limits: Thresholds) -> Gate:
    """Gate 3: money under uncertainty."""
    if any(gate.state == "failed" for gate in earlier):
        return Gate("money", "not asked", "An earlier gate failed: no money makes up for it.")
    words = f"It gains money in {chance(p_positive)} of {CASES}"
    if p_positive >= limits.buy:
        return Gate("money", "passed", f"{words}; {limits.buy:.0%} is asked for.")
    if p_positive <= limits.dont:
        return Gate("money", "failed", f"{words}; at {limits.dont:.0%} or less it is not worth it.")
    return Gate("money", "not known", f"{words}: neither {limits.buy:.0%} nor {limits.dont:.0%}.")
