"""How results become rounds of one run.

Results of the same evaluation, arm and workload are one run. Its rounds are numbered on; a round
keeps the number that the plan gave it while that is free, because arms are compared by the number
of their rounds. A value over the rounds of one result (``round`` null) stays beside the others,
told apart by ``part``.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.nested import flat
from models.result import Artifact, Notice, Result, Validity

_NOT_WORKLOAD = frozenset({"round", "seed", "order", "token"})
# what a program noted of its own rounds, and where it wrote: no condition
_NOTED = frozenset({"gpu_clocks", "layouts", "variables.NCCL_DEBUG_FILE"})
_WORST_FIRST: tuple[Validity, ...] = ("invalid", "suspect", "valid")


@dataclass(frozen=True)
class StoredRound:
    """A round as it stands in the run, with what its own result said of it."""

    round: int | None
    part: int
    validity: Validity
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """Whether rounds may be used, and why not."""

    validity: Validity
    reasons: list[str]

    def doubted(self, reason: str) -> "Verdict":
        """The same with one more reason for doubt."""
        return Verdict(worst([self.validity, "suspect"]), [*self.reasons, reason])


def merge_key(result: Result, spec: Mapping[str, Any]) -> str | None:
    """Evaluation, arm and workload as one short text; None where the run stands alone."""
    if result.evaluation is None:
        return None
    workload = {name: value for name, value in spec.items() if name not in _NOT_WORKLOAD}
    parts = [result.evaluation.id, result.evaluation.arm, result.kind, result.origin, workload]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def number_rounds(result: Result, taken: Iterable[int | None]) -> dict[int | None, int | None]:
    """Number in the result -> number in the run.

    Args:
        result: What came in.
        taken: Numbers that the run has already.
    """
    numbers = {row.round for row in result.measurements} | {row.round for row in result.samples}
    own = sorted(number for number in numbers if number is not None)
    used = {number for number in taken if number is not None}
    if result.evaluation is None:
        own_numbers: dict[int | None, int | None] = {number: number for number in own}
        return {None: None, **own_numbers}
    planned = result.spec.get("round")
    if not own:
        # one round that did not number itself
        wanted = planned if isinstance(planned, int) else 0
        return {None: wanted if wanted not in used else max(used) + 1}
    if len(own) == 1 and isinstance(planned, int):
        wish: dict[int | None, int | None] = {own[0]: planned}
    else:
        wish = {number: number for number in own}
    if used & set(wish.values()):
        first = max(used) + 1
        wish = {number: first + place for place, number in enumerate(own)}
    return {None: None, **wish}


def worst(validities: Iterable[str]) -> Validity:
    """The least trustworthy of several."""
    there = set(validities)
    return next((level for level in _WORST_FIRST if level in there), "valid")


def united_reasons(rounds: Sequence[StoredRound]) -> list[str]:
    """Why a run is not valid; where only some of its rounds are meant, each reason names them."""
    places: dict[str, list[StoredRound]] = {}
    for item in rounds:
        for reason in item.reasons:
            places.setdefault(reason, []).append(item)
    n_parts = len({item.part for item in rounds})
    return [
        reason
        if n_parts == 1 or len({item.part for item in meant}) == n_parts
        else f"{_words(meant)}: {reason}"
        for reason, meant in places.items()
    ]


def united_warnings(first: Sequence[Notice], then: Sequence[Notice]) -> list[Notice]:
    """All warnings, each once."""
    return list({(notice.code, notice.text): notice for notice in (*first, *then)}.values())


def united_artifacts(first: Sequence[Artifact], then: Sequence[Artifact]) -> list[Artifact]:
    """All artifacts, each once."""
    return list({(item.name, item.sha256): item for item in (*first, *then)}.values())


def changed_conditions(
    before: Mapping[str, Any], after: Mapping[str, Any], rounds: Iterable[int | None]
) -> list[Notice]:
    """A warning where a later result of a run names another environment than the first."""
    first, later = flat(before), flat(after)
    names = sorted(name for name in {*first, *later} - _NOTED if first.get(name) != later.get(name))
    if not names:
        return []
    numbers = [number for number in rounds if number is not None]
    where = _numbers(numbers) if numbers else "A later start"
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [
        Notice(
            code="conditions_changed",
            text=f"{where} ran under other conditions than the first: {shown}.",
        )
    ]


def _words(items: Sequence[StoredRound]) -> str:
    numbers = [item.round for item in items if item.round is not None]
    if numbers:
        return _numbers(numbers)
    return f"Start {items[0].part}"


def _numbers(numbers: Sequence[int]) -> str:
    ordered = sorted(set(numbers))
    if len(ordered) == 1:
        return f"Round {ordered[0]}"
    return f"Rounds {', '.join(str(n) for n in ordered[:-1])} and {ordered[-1]}"
