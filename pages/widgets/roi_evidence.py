"""Baseline and candidate side by side: gain, service level, correctness, soak. Draws nothing."""

import math
from dataclasses import dataclass, field

import numpy as np

from db.engine import Engine
from models.confounds import environment_warning
from models.errors import InvalidSpec
from models.gain import Gain, assumed_around, from_range, from_rounds
from models.gates import ArmFacts
from models.risk import Evidence
from models.service import Carried, carried
from models.serving_slo import Slo
from models.use_cases import UseCase
from pages.widgets.roi_arms import Known, Reader
from pages.widgets.serving_arms import SINGLE, Arm
from pages.widgets.serving_evidence import outputs_words


@dataclass(frozen=True)
class Pair:
    """Baseline and candidate, as far as they were run.

    Attributes:
        base: The baseline.
        other: The candidate; None where nobody ran it.
        carried: What each carries at the service level.
        gain: Speed of the candidate over the baseline's; None where no ratio can be had.
        why_no_gain: The sentence where there is none.
        facts: Of the candidate's correctness.
        seen: Soak evidence of baseline and candidate.
        confounds: What differs besides the link.
        notes: What was assumed on the way, a sentence each.
    """

    base: Known
    other: Known | None
    carried: tuple[Carried, Carried | None]
    gain: Gain | None
    why_no_gain: str = ""
    facts: ArmFacts | None = None
    seen: tuple[Evidence, Evidence] = field(default=(Evidence(), Evidence()))
    confounds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def base_load(self) -> int | None:
        """The load at which the baseline counts: where it keeps the level, else its lowest."""
        first = self.base.loads[0].concurrency if self.base.loads else None
        return self.carried[0].concurrency or first

    @property
    def base_tok_s(self) -> float | None:
        """The baseline's speed there."""
        values = [r.value for r in self.base.rounds(self.base_load) if r.valid]
        return float(np.mean(values)) if values else None


def weigh(
    reader: Reader,
    base: Arm,
    other: Arm | None,
    use: UseCase,
    slo: Slo | None,
    *,
    round_spread: float,
) -> Pair:
    """Everything about a baseline and a candidate.

    Args:
        reader: Of the arms.
        base: The baseline.
        other: The candidate; None where nobody ran it.
        use: Which load counts.
        slo: The service level; None where none is asked for.
        round_spread: Assumed relative spread of a round where rounds cannot show it.
    """
    left = reader.known(base, use, other)
    first = carried(left.loads, use.load, slo)
    if other is None:
        return Pair(left, None, (first, None), None, seen=(left.seen, Evidence()))
    right = reader.known(other, use, base)
    second = carried(right.loads, use.load, slo) if right.loads else None
    half = Pair(left, right, (first, second), None)
    gain, why, notes = _gain(half, right, round_spread)
    return Pair(
        left,
        right,
        (first, second),
        gain,
        why,
        _correctness(reader.engine, left, right),
        (left.seen, right.seen),
        _confounds(left, right),
        notes,
    )


def _gain(
    pair: Pair, other: Known, round_spread: float
) -> tuple[Gain | None, str, tuple[str, ...]]:
    """The candidate's speed at its load over the baseline's at its own."""
    notes: list[str] = []
    if pair.carried[0].state == "failed":
        notes.append(
            "The baseline keeps the service level at no measured load; its lowest load stands in, "
            "which makes the candidate's gain look smaller."
        )
    mine = pair.base_load
    theirs = pair.carried[1].concurrency if pair.carried[1] is not None else None
    if theirs is None or not other.rounds(theirs):
        theirs = mine
    origin = other.arm.origin
    source = f"{other.arm.name} over {pair.base.arm.name}"
    words = f"{source}, concurrency {mine}" + (f" and {theirs}" if theirs != mine else "")
    left, right = pair.base.rounds(mine), other.rounds(theirs)
    is_paired = (
        pair.base.arm.group == other.arm.group != SINGLE and origin == "measured" and mine == theirs
    )
    if left and right:
        try:
            gain = from_rounds(
                left,
                right,
                is_paired=is_paired,
                origin=origin,  # type: ignore[arg-type]
                words=words,
                assumed_spread=round_spread,
            )
        except InvalidSpec as error:
            return None, error.sentence, tuple(notes)
        if theirs != mine:
            notes.append(
                f"At the service level the baseline carries concurrency {mine} and the candidate "
                f"{theirs}: the gain compares these two loads."
            )
        return gain, "", (*notes, *gain.notes)
    printed = _printed(other, pair.base.arm.name, mine)
    if printed is None:
        return None, f"No throughput of both arms is known at concurrency {mine}.", tuple(notes)
    low, high = printed
    notes.append("The author gives a range of change and no absolute values with the link on.")
    if low == high:
        gain = assumed_around(
            math.log1p(low), rounds=1, origin="published", words=words, assumed_spread=round_spread
        )
    else:
        gain = from_range(low, (low + high) / 2, high, origin="published", words=words)
    return gain, "", (*notes, *gain.notes)


def _printed(other: Known, base: str, concurrency: int | None) -> tuple[float, float] | None:
    """A published change of throughput at a load, shares."""
    for load, relative_to, low, high in other.printed:
        if (load, relative_to) == (concurrency, base):
            return low, high
    return None


def _correctness(engine: Engine, base: Known, other: Known) -> ArmFacts:
    outputs, is_wrong = None, False
    if other.arm.origin in ("measured", "imported"):
        outputs, is_wrong = outputs_words(engine, (base.arm, other.arm), [base.facts, other.facts])
    reasons = tuple(dict.fromkeys(text for fact in other.facts for text in fact["reasons"]))
    failed = [load.failed for load in other.loads if load.failed is not None]
    completed = [load.completed for load in other.loads if load.completed is not None]
    codes = {code for fact in other.facts for code, _ in fact["warnings"]}
    state = "checked" if outputs else "not checked"
    if codes & {"dummy_weights", "outputs_not_checked"}:
        state = "not checkable"
    return ArmFacts(
        origin=other.arm.origin,  # type: ignore[arg-type]
        validity="invalid" if is_wrong else other.arm.validity,  # type: ignore[arg-type]
        reasons=(outputs,) if is_wrong and outputs else reasons,
        completed=sum(completed) if completed else None,
        failed=sum(failed) if failed else None,
        outputs=state,  # type: ignore[arg-type]
    )


def _confounds(base: Known, other: Known) -> tuple[str, ...]:
    """What differs between the arms besides the link: the author's words, and what we see."""
    found: dict[str, None] = {}
    for fact in other.facts:
        for code, text in fact["warnings"]:
            if code == "confounds":
                sentences = [part.strip() for part in text.replace(". ", ".\n").split("\n")]
                differing = [s for s in sentences if "change together" in s or "differs" in s]
                found |= dict.fromkeys(differing or sentences[:1])
    if base.facts and other.facts and base.arm.origin == "measured":
        warning = environment_warning(base.facts[0]["environment"], other.facts[0]["environment"])
        if warning is not None:
            found[warning.text] = None
    return tuple(sorted(found, key=lambda text: "change together" not in text))
