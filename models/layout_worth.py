"""What a link is worth to whoever lays a model over the same GPUs as well as each can.

Link off against on, with one layout, answers no purchase: without the link another layout may be
the better one. So the best layout that needs no link is held against the best of all, figure by
figure and load by load. Both are chosen by their mean over the rounds that then compare them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from models.comparison import Comparison, compare
from models.layout_gain import RoundsOf, change_words
from models.layouts import Layout
from models.metrics import metric
from models.rounds import summary

# what is bought: output of all GPUs together, and the time of one answer
FIGURES: tuple[tuple[str, str], ...] = (("output_throughput", "value"), ("tpot", "median"))
_NAMES = {"output_throughput": "output throughput", "tpot": "time per output token"}
Known = Callable[[str, str], bool]


@dataclass(frozen=True)
class Worth:
    """The best layout without the link and the best of all, at one load.

    Attributes:
        figure: Metric and statistic.
        concurrency: Requests at the same time.
        n_gpus: How many GPUs the layouts may use.
        without: Arm that is best without the link.
        best: Arm that is best of all.
        words: Both layouts as a sentence names them, in this order.
        result: Change of the best against the best without; None where they are one arm.
    """

    figure: tuple[str, str]
    concurrency: int
    n_gpus: int
    without: str
    best: str
    words: tuple[str, str]
    result: Comparison | None


def worth(
    layouts: Mapping[str, Layout],
    concurrencies: Iterable[int],
    rounds: RoundsOf,
    *,
    is_paired: bool,
    may_compare: Known | None = None,
) -> list[Worth]:
    """The link's worth at each load, for as many GPUs as the widest linked arm has.

    Args:
        layouts: Arm -> its layout; arms are alike in everything else.
        concurrencies: Where to look.
        rounds: Rounds of an arm's metric and statistic at a concurrency; empty where not measured.
        is_paired: Whether the plan pairs rounds by number and seed.
        may_compare: Whether two arms may be held against each other; a pair that may not gives no
            answer at that load. None: all may.

    Returns:
        By figure, then load: those at which a TP layout with the link was measured, and a use of
        all its GPUs without it.
    """
    linked = {name: one for name, one in layouts.items() if _uses_link(one)}
    if not linked:
        return []
    n_gpus = max(one.n_gpus for one in linked.values())
    place = frozenset().union(*(one.gpus for one in linked.values() if one.n_gpus == n_gpus))
    usable = {
        name: one
        for name, one in layouts.items()
        if one.n_gpus <= n_gpus and (not one.gpus or not place or one.gpus <= place)
    }
    apart = [name for name, one in usable.items() if not _uses_link(one)]
    # half of the GPUs without the link says nothing of what all of them would do
    whole = {name for name in apart if usable[name].n_gpus == n_gpus}
    found = []
    for name, statistic in FIGURES:
        for cap in concurrencies:
            means = {
                arm: mean
                for arm in usable
                if (mean := summary(rounds(arm, name, statistic, cap)).mean) is not None
            }
            if not means.keys() & linked.keys() or not means.keys() & whole:
                continue
            choose = max if metric(name).direction == "higher" else min
            without = choose((arm for arm in apart if arm in means), key=means.__getitem__)
            # of two that are level the one that needs no link
            best = choose([without, *means], key=means.__getitem__)
            result = None
            if best != without:
                if may_compare is not None and not may_compare(without, best):
                    continue
                pair = (rounds(arm, name, statistic, cap) for arm in (without, best))
                result = compare(name, *pair, is_paired=is_paired)
            words = (usable[without].words, usable[best].words)
            found.append(Worth((name, statistic), cap, n_gpus, without, best, words, result))
    return found


def _uses_link(layout: Layout) -> bool:
    return layout.tp > 1 and layout.is_linked


def worth_sentences(found: Sequence[Worth]) -> list[str]:
    """A sentence a figure: the link's worth at each load, and between which layouts.

    Args:
        found: As `worth` gives them.
    """
    said = []
    for name, _ in FIGURES:
        mine = [one for one in found if one.figure[0] == name]
        if not mine:
            continue
        parts = [_part(one, is_first=one is mine[0]) for one in mine]
        said.append(
            f"What the link is worth on {mine[0].n_gpus} GPUs, the best measured layout with it "
            f"against the best without, {_NAMES[name]}: {'; '.join(parts)}."
        )
    return said


def _part(one: Worth, *, is_first: bool) -> str:
    place = f"at {'concurrency ' if is_first else ''}{one.concurrency}"
    if one.result is None or one.result.change_pct is None:
        return f"nothing {place} ({one.words[0]} is best)"
    return f"{change_words(one.result)} {place} ({one.words[1]} against {one.words[0]})"
