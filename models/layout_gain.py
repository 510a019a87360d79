"""What tensor parallelism, the link and the engine's kernel give a served model, in sentences.

Each figure is a comparison of two arms over rounds (`models.comparison`); changes add up on the
logarithm, so the parts of a change are shares of its logarithm.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.comparison import Comparison, compare
from models.definitions import comparable
from models.layouts import Question, QuestionCode
from models.rounds import Round

# decode, prefill, and what all requests together get
FIGURES: tuple[tuple[str, str], ...] = (
    ("tpot", "median"),
    ("ttft", "median"),
    ("output_throughput", "value"),
)
# the figures that answer each question: of one server's speed a token's time, of GPUs their output
_TOLD: dict[QuestionCode, tuple[str, ...]] = {
    "larger": ("tpot", "ttft", "output_throughput"),
    "replicas": ("output_throughput",),
    "both": ("tpot", "ttft"),
    "link": ("tpot", "ttft"),
    "kernel": ("tpot", "ttft"),
}
_NAMES = {
    "tpot": "time per output token",
    "ttft": "time to first token",
    "output_throughput": "output throughput",
}
_PHASES = {"tpot": "decode", "ttft": "prefill"}
TOUCHING = 1e-9  # of a logarithm: intervals that lie nearer than rounding errors touch
_CLEAR = ("better", "worse", "differs")

RoundsOf = Callable[[str, str, str, int], Sequence[Round]]
DefinitionOf = Callable[[str, str, str, int], str | None]


@dataclass(frozen=True)
class Change:
    """One figure of one question at one concurrency.

    Attributes:
        question: Which two arms.
        figure: Metric and statistic.
        concurrency: Requests at the same time.
        result: The comparison.
    """

    question: Question
    figure: tuple[str, str]
    concurrency: int
    result: Comparison


def changes(
    asked: Sequence[Question],
    concurrencies: Sequence[int],
    rounds: RoundsOf,
    *,
    is_paired: bool,
    definition: DefinitionOf | None = None,
) -> list[Change]:
    """Every figure of every question at every concurrency that both arms have.

    Args:
        asked: The questions.
        concurrencies: Where to look.
        rounds: Rounds of an arm's metric and statistic at a concurrency; empty where not measured.
        is_paired: Whether the plan pairs rounds by number and seed.
        definition: Id of what an arm's figure means; figures of two meanings are not compared.
            None where all arms were measured alike.
    """
    found = []
    for question in asked:
        for name, statistic in FIGURES:
            for cap in concurrencies:
                reference, other = (
                    rounds(arm, name, statistic, cap)
                    for arm in (question.reference, question.other)
                )
                if not reference or not other:
                    continue
                if definition is not None:
                    first, second = (
                        str(definition(arm, name, statistic, cap))
                        for arm in (question.reference, question.other)
                    )
                    if comparable(first, second):
                        continue
                result = compare(name, reference, other, is_paired=is_paired)
                if result.change_pct is not None:
                    found.append(Change(question, (name, statistic), cap, result))
    return found


def sentences(found: Sequence[Change]) -> list[str]:
    """What the changes say: whether TP pays, the parts of the link's gain, each question.

    Args:
        found: As `changes` gives them.
    """
    said = [*verdicts(found), *splits(found)]
    for question in dict.fromkeys(change.question for change in found):
        mine = [change for change in found if change.question == question]
        parts = []
        for name in _TOLD[question.code]:
            told = [change for change in mine if change.figure[0] == name]
            if told:
                parts.append(f"{_NAMES[name]} {_over_concurrency(told)}")
        said.append(f"{question.words}: {'; '.join(parts)}.")
    return said


def verdicts(found: Sequence[Change]) -> list[str]:
    """Whether each larger TP size pays: for the speed of one answer, and for output a GPU.

    Args:
        found: As `changes` gives them.

    Returns:
        A sentence a TP size that both or one of the two was asked of.
    """
    answers = []
    places = {
        "larger": ("tpot", "for the speed of an answer, against {}, it"),
        "replicas": ("output_throughput", "for the output of the same GPUs, against {}, it"),
    }
    others = dict.fromkeys(c.question.other for c in found if c.question.code in places)
    for other in others:
        parts = []
        for code, (name, words) in places.items():
            asked = [c for c in found if (c.question.code, c.question.other) == (code, other)]
            against: dict[str, list[str]] = {}  # what is said -> of which it is said
            for question in dict.fromkeys(change.question for change in asked):
                told = [c for c in asked if c.question == question and c.figure[0] == name]
                if told:
                    against.setdefault(_pays(told), []).append(question.than)
            parts += [f"{words.format(_listed(than))} {said}" for said, than in against.items()]
        if parts:
            question = next(c.question for c in found if c.question.other == other)
            answers.append(f"Does {question.subject} pay here? {_sentence('; '.join(parts))}.")
    return answers


def _pays(told: Sequence[Change]) -> str:
    """At which concurrencies an arm is better, worse, or neither is shown."""
    words = {"better": "pays", "worse": "costs", "same": "changes nothing (2 %)"}
    found: dict[str, list[str]] = {}
    for one in told:
        word = words.get(one.result.verdict, "is not shown either way")
        if one.result.verdict == "direction_only":
            up = (one.result.change_pct or 0) > 0
            word = "looks better" if up == (one.figure[0] == "output_throughput") else "looks worse"
        found.setdefault(word, []).append(str(one.concurrency))
    if len(found) == 1 and len(told) > 1:
        return f"{next(iter(found))} at every concurrency measured"
    first, *others = (f"{word} at {_listed(caps)}" for word, caps in found.items())
    return ", ".join([first.replace(" at ", " at concurrency ", 1), *others])


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _over_concurrency(told: Sequence[Change]) -> str:
    """The change at each concurrency, and whether it moves with it."""
    places = [f"at {one.concurrency}" for one in told]
    places[0] = f"at concurrency {told[0].concurrency}"
    values = ", ".join(
        f"{change_words(one.result)} {place}" for one, place in zip(told, places, strict=True)
    )
    moved = movement(told[0].result, told[-1].result) if len(told) > 1 else ""
    return f"{values}{f' ({moved})' if moved else ''}"


def movement(first: Comparison, last: Comparison) -> str:
    """Whether a change is another one at the highest concurrency than at the lowest.

    Returns:
        A few words; empty where that is not shown, or an interval is missing.
    """
    if None in (first.low_pct, first.high_pct, last.low_pct, last.high_pct):
        return ""
    before, after = _log(first.change_pct), _log(last.change_pct)
    ends = [(_log(one.low_pct), _log(one.high_pct)) for one in (first, last)]
    (low, high), (next_low, next_high) = ends
    if max(next_low - high, low - next_high) < TOUCHING:
        return ""
    if before * after < 0:
        return "it turns round with concurrency"
    return f"the effect {'grows' if abs(after) > abs(before) else 'shrinks'} with concurrency"


def splits(found: Sequence[Change]) -> list[str]:
    """How much of the link's gain is the link itself, and how much the kernel that needs it.

    Args:
        found: As `changes` gives them.

    Returns:
        A sentence for decode and one for prefill of each TP size that has the arms for it.
    """
    by_place = {
        (c.question.code, c.question.reference, c.question.other, c.figure[0], c.concurrency): c
        for c in found
    }
    parts: dict[tuple[str, str], list[str]] = {}
    for (code, apart, full, name, cap), whole in by_place.items():
        if code != "both" or name not in _PHASES:
            continue
        for (second, library, last, *place), kernel in by_place.items():
            link = by_place.get(("link", apart, library, name, cap))
            if (second, last, place) == ("kernel", full, [name, cap]) and link is not None:
                text = split_words(whole.result, link.result, kernel.result)
                where = "at concurrency" if (full, name) not in parts else "at"
                if text:
                    said = f"{whole.result.change_pct:+.1f} % {where} {cap} ({text})"
                    parts.setdefault((full, name), []).append(said)
    both = [change.question for change in found if change.question.code == "both"]
    words = {question.other: question.subject for question in both}
    is_one = len({full for full, _ in parts}) == 1
    # of several sizes each says which it is of: else their sentences look alike
    whose = {full: "" if is_one else f" of {words[full]}" for full, _ in parts}
    return [
        f"Link and kernel{whose[full]} in {_PHASES[name]}, {_NAMES[name]}: {', '.join(told)}."
        for (full, name), told in parts.items()
    ]


def split_words(whole: Comparison, link: Comparison, kernel: Comparison) -> str:
    """The parts of a change, as they stand in brackets; empty where the whole is not shown.

    Args:
        whole: Link off against on.
        link: Link off against on, the library's all-reduce in both.
        kernel: The library's all-reduce against the engine's own, link on.

    The parts are shares of the logarithm of the ratio, on which they add up; rounds are paired one
    by one, so that link and kernel give the whole but for rounding.
    """
    if whole.verdict not in _CLEAR or None in (
        whole.change_pct,
        link.change_pct,
        kernel.change_pct,
    ):
        return ""
    total = _log(whole.change_pct)
    shares = [100 * _log(part.change_pct) / total for part in (link, kernel)]
    named = list(zip(shares, (link, kernel), ("link", "kernel"), strict=True))
    if min(shares) < 0:
        _, part, against = min(named, key=lambda one: one[0])
        _, _, gains = max(named, key=lambda one: one[0])
        return (
            f"all of it the {gains}; the {against} changes it by {part.change_pct:+.1f} %"
            f"{_unsure(part)}"
        )
    return ", ".join(f"{words} {share:.0f} %{_unsure(part)}" for share, part, words in named)


def _unsure(part: Comparison) -> str:
    return ", not shown" if part.verdict == "not_shown" else ""


def change_words(result: Comparison) -> str:
    """A change with its interval, or with what is missing of it."""
    text = f"{result.change_pct:+.1f} %"
    if result.low_pct is None or result.high_pct is None:
        return f"{text} (direction only)"
    text += f" [{result.low_pct:+.1f}, {result.high_pct:+.1f}]"
    if result.verdict == "same":
        return f"{text} (the same within 2 %)"
    return text if result.verdict in _CLEAR else f"{text} (not shown)"


def _log(change_pct: float | None) -> float:
    return math.log1p((change_pct or 0.0) / 100)
