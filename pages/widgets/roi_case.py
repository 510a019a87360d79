"""From a state of the ROI page, as its URL holds it, to the question of the model. Draws nothing.

The widgets above the form show exactly these defaults, so a link, a kept scenario and the page
itself mean the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import cast

from models.assessment import Question
from models.prices import Catalogue
from models.purchase import Benefit
from models.result import Origin
from models.serving_slo import Slo
from models.use_cases import USE_CASES, UseCase
from pages.widgets.roi_arms import Reader, arm_words
from pages.widgets.roi_defaults import defaults, old_codes
from pages.widgets.roi_evidence import weigh
from pages.widgets.roi_fields import FIELDS, Default, Values, bounded, changed, parse, read
from pages.widgets.roi_layouts import best_of, pair_of
from pages.widgets.roi_question import Asked, build
from pages.widgets.serving_arms import Arm, Group

HAND, NONE = "hand", "none"
MOST_OTHERS = 3
BENEFITS: tuple[Benefit, ...] = ("tokens", "cloud", "waiting")
TTFT_BOUNDS, TPOT_BOUNDS, SHARE_BOUNDS = (1.0, 600_000.0), (1.0, 10_000.0), (1.0, 100.0)
_OFF = ("off", "tp1", "eager", "baseline", "without")


@dataclass(frozen=True)
class Resolved:
    """A state with everything that it names.

    Attributes:
        asked: Arms, benefit, kind of candidate.
        use: The use.
        slo: The service level; None where none is asked for.
        given: Defaults of the inputs.
        values: The inputs.
        old: Codes of figures older than 90 days that nobody replaced.
    """

    asked: Asked
    use: UseCase
    slo: Slo | None
    given: dict[str, Default]
    values: Values
    old: tuple[str, ...]

    def question(self, catalogue: Catalogue) -> Question:
        """The question.

        Raises:
            InvalidSpec: Inputs do not go together, or a gain is missing.
        """
        return build(self.asked, self.values, catalogue, old=self.old)

    @property
    def names(self) -> tuple[str, str]:
        """Baseline and candidate in words."""
        pair = self.asked.pair
        base = pair.base.arm.name if pair is not None else "baseline"
        if self.asked.candidate == "arm" and pair is not None and pair.other is not None:
            return base, pair.other.arm.name
        return base, "candidate" if self.asked.candidate == HAND else "any link"

    @property
    def subject(self) -> str:
        """What is weighed, one line."""
        pair = self.asked.pair
        base, other = self.names
        if pair is not None:
            base = arm_words(pair.base.arm)
            if self.asked.candidate == "arm" and pair.other is not None:
                other = arm_words(pair.other.arm)
        if self.asked.hand_name and self.asked.candidate == HAND:
            other = self.asked.hand_name
        return f"{other} instead of {base}. {self.use.label}."


def first_source(query: Mapping[str, str], found: Mapping[str, Group]) -> str:
    """Where to start: by hand where another page sent a gain, else the first with two arms."""
    if "gain_low" in query or not found:
        return HAND
    pairs = [code for code, group in found.items() if len(group.arms) > 1]
    return (pairs or list(found))[0]


def usual_pair(reader: Reader, group: Group) -> tuple[str, str]:
    """The pair to start with: as the author compared, else the best layouts, else by names."""
    names = [arm.name for arm in group.arms]
    for arm in group.arms:
        told = [row[1] for row in reader.bare(arm).printed]
        named = [name for name in told if name in names and name != arm.name]
        if named:
            return named[0], arm.name
    found = best_of(reader, group)
    best = pair_of(found, group) if found is not None else None
    if best is not None:
        return best
    off = [name for name in names if any(word in name.lower() for word in _OFF)]
    if off:
        rest = [name for name in names if name != off[0]]
        on = [name for name in rest if "on" in name.lower().replace("-", " ").split()]
        return off[0], (on or rest or [NONE])[0]
    return (names[0], names[1]) if len(names) > 1 else (names[0], NONE)


def usual_candidate(second: str, base: str, group: Group) -> str:
    """The candidate to start with, once the baseline is chosen."""
    names = [arm.name for arm in group.arms if arm.name != base]
    return second if second in (*names, NONE, HAND) else names[0] if names else NONE


def resolve(
    reader: Reader, catalogue: Catalogue, query: Mapping[str, str], today: date
) -> Resolved:
    """Read what a state names; unknown codes and impossible numbers fall back to the defaults.

    Args:
        reader: Of the arms.
        catalogue: With the person's edits.
        query: The state, as the URL holds it.
        today: For the age of figures.
    """
    source = query.get("source", "")
    reader.look_for(source)
    found = reader.groups
    if source not in found and source != HAND:
        source = first_source(query, found)
    use = USE_CASES.get(query.get("use", ""), USE_CASES["online"])
    slo = _slo(use, query)
    base, other, rest, kind = _arms(reader, found.get(source), query)
    spread = parse(FIELDS["spread"], query.get("spread", "")) or 10.0
    pair = None
    if base is not None:
        scatter = spread / 100 if isinstance(spread, float) else 0.1
        pair = weigh(reader, base, other, use, slo, round_spread=scatter)
    benefit = query.get("benefit", "")
    asked = Asked(
        benefit=cast("Benefit", benefit) if benefit in BENEFITS else use.benefit,
        candidate=kind,
        pair=pair,
        hand_origin=_origin(query),
        hand_name=query.get("gain_name", "")[:120],
        others=tuple(reader.known(arm, use, base) for arm in rest[:MOST_OTHERS]),
    )
    given = defaults(reader.engine, catalogue, pair) | _sent(query)
    values = read(query, given)
    mine = set(changed(values, given))
    return Resolved(asked, use, slo, given, values, old_codes(given, mine, today))


def _arms(
    reader: Reader, group: Group | None, query: Mapping[str, str]
) -> tuple[Arm | None, Arm | None, list[Arm], str]:
    """Baseline, candidate, the other arms, and which kind of candidate it is."""
    if group is None:
        return None, None, [], HAND
    by_name = {arm.name: arm for arm in group.arms}
    first, second = usual_pair(reader, group)
    base = query.get("base", first) if query.get("base", first) in by_name else first
    usual = usual_candidate(second, base, group)
    asked = query.get("cand", usual)
    if asked not in (HAND, NONE) and (asked not in by_name or asked == base):
        asked = usual
    kind = asked if asked in (HAND, NONE) else "arm"
    other = by_name.get(asked) if kind == "arm" else None
    rest = [arm for arm in group.arms if arm.name != base and arm is not other]
    return by_name[base], other, rest, kind


def _slo(use: UseCase, query: Mapping[str, str]) -> Slo | None:
    if use.ttft_ms is None or use.tpot_ms is None:
        return None
    return Slo(
        bounded(query.get("ttft_ms"), use.ttft_ms, TTFT_BOUNDS),
        bounded(query.get("tpot_ms"), use.tpot_ms, TPOT_BOUNDS),
        bounded(query.get("share"), 100 * use.share, SHARE_BOUNDS) / 100,
    )


def _origin(query: Mapping[str, str]) -> Origin:
    return "predicted" if query.get("origin") == "predicted" else "assumed"


def _sent(query: Mapping[str, str]) -> dict[str, Default]:
    """The gain that the What-if page sends."""
    ends = [parse(FIELDS["gain"], query.get(name, "")) for name in ("gain_low", "gain_high")]
    numbers = [end[0] for end in ends if isinstance(end, tuple)]
    if len(numbers) != 2 or numbers[0] > numbers[1]:
        return {}
    value = (numbers[0], sum(numbers) / 2, numbers[1])
    return {"gain": Default(value, f"sent by the What-if page ({_origin(query)})")}
