"""Which GPUs form which group: every way up to 8 GPUs, a stated heuristic beyond.

The heuristic: pairs are matched exactly by their slowest link (NetworkX, maximum weight matching on
the graph of links at least that good); larger groups grow greedily in the same graphs, GPUs with
the fewest good links first; then single GPUs are swapped while that helps.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import cast

from models.links import LinkMatrix, rank

EXACT_LIMIT = 8
_PASSES = 6  # swaps settle in two or three rounds

Groups = tuple[tuple[int, ...], ...]
Ranks = Sequence[Sequence[int]]


def all_groups(gpus: Sequence[int], tp: int, replicas: int) -> Iterator[Groups]:
    """Every way to choose disjoint groups, each once, groups in order of their first GPU."""
    if replicas == 0:
        yield ()
        return
    free = sorted(gpus)
    for at in range(len(free) - tp * replicas + 1):
        first, rest = free[at], free[at + 1 :]
        for others in combinations(rest, tp - 1):
            left = [gpu for gpu in rest if gpu not in others]
            for more in all_groups(left, tp, replicas - 1):
                yield ((first, *others), *more)


def good_groups(links: LinkMatrix, gpus: Sequence[int], tp: int, replicas: int) -> Groups:
    """A good choice of groups among many GPUs; not proven to be the best, except for pairs.

    Args:
        links: Symmetric matrix, shape (n, n).
        gpus: Positions that may be used.
        tp: GPUs a group.
        replicas: Groups; tp * replicas positions must be there.
    """
    if tp == 1:
        return tuple((gpu,) for gpu in sorted(gpus)[:replicas])
    ranks = [[rank(code) for code in row] for row in links]
    grades = sorted({ranks[i][j] for i, j in combinations(gpus, 2)}, reverse=True)
    found: list[list[int]] = []
    for lowest in grades:
        found = (
            _matched(ranks, gpus, replicas, lowest)
            if tp == 2
            else _grown(ranks, gpus, tp, replicas, lowest)
        )
        if len(found) == replicas:
            break
    return _settled(_swapped(found, gpus, ranks))


def bad_groups(links: LinkMatrix, gpus: Sequence[int], tp: int, replicas: int) -> Groups:
    """A choice that meets the worst links first: the contrast to a good one."""
    free = set(gpus)
    found: list[list[int]] = []
    for _ in range(replicas):
        if tp == 1:
            group = [min(free)]
        else:
            pairs = list(combinations(sorted(free), 2))
            low, high = min(pairs, key=lambda pair: rank(links[pair[0]][pair[1]]))
            group = [low, high]
        while len(group) < tp:
            rest = sorted(free - set(group))
            group.append(min(rest, key=lambda gpu: sum(rank(links[gpu][k]) for k in group)))
        found.append(group)
        free -= set(group)
    return _settled(found)


def _settled(groups: Sequence[Sequence[int]]) -> Groups:
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _matched(ranks: Ranks, gpus: Sequence[int], replicas: int, lowest: int) -> list[list[int]]:
    """Pairs over links at least this good: as many as possible, the better ones first."""
    import networkx as nx  # only here: measuring machines need not have it

    graph: nx.Graph[int] = nx.Graph()
    graph.add_weighted_edges_from(
        (i, j, ranks[i][j]) for i, j in combinations(gpus, 2) if ranks[i][j] >= lowest
    )
    matching = cast("set[tuple[int, int]]", nx.max_weight_matching(graph, maxcardinality=True))
    pairs = [sorted(pair) for pair in matching]
    pairs.sort(key=lambda pair: (-ranks[pair[0]][pair[1]], pair))
    return pairs[:replicas]


def _grown(
    ranks: Ranks, gpus: Sequence[int], tp: int, replicas: int, lowest: int
) -> list[list[int]]:
    """Groups whose pairs all rank at least ``lowest``, grown from GPUs that are hard to place."""
    near = {i: {j for j in gpus if j != i and ranks[i][j] >= lowest} for i in gpus}
    free, given_up = set(gpus), set[int]()
    found: list[list[int]] = []
    while len(found) < replicas and free - given_up:
        seed = min(free - given_up, key=lambda gpu: (len(near[gpu] & free), gpu))
        group, choice = [seed], near[seed] & free
        while len(group) < tp and choice:
            best = min(choice, key=lambda gpu: _wanted(ranks, group, len(near[gpu] & choice), gpu))
            group.append(best)
            choice = choice & near[best]
        if len(group) == tp:
            found.append(group)
            free -= set(group)
        else:
            given_up.add(seed)
    return found


def _wanted(ranks: Ranks, group: Sequence[int], n_left: int, gpu: int) -> tuple[int, int, int]:
    """Orders candidates: better links to the group first, then more choice afterwards."""
    return -sum(ranks[gpu][other] for other in group), -n_left, gpu


def _swapped(groups: list[list[int]], gpus: Sequence[int], ranks: Ranks) -> list[list[int]]:
    """Exchange single GPUs between groups, or with unused ones, while the worst group gains."""
    used = {gpu for group in groups for gpu in group}
    pools = [list(group) for group in groups]
    spare = sorted(set(gpus) - used)
    for _ in range(_PASSES):
        changed = False
        for a, group in enumerate(pools):
            for other in pools[a + 1 :]:
                changed |= _try_swaps(group, other, ranks, is_spare=False)
            changed |= _try_swaps(group, spare, ranks, is_spare=True)
        if not changed:
            break
    return pools


def _try_swaps(group: list[int], other: list[int], ranks: Ranks, *, is_spare: bool) -> bool:
    changed = False
    now = _scores(group, other, ranks, is_spare=is_spare)
    for k in range(len(group)):
        for m in range(len(other)):
            group[k], other[m] = other[m], group[k]
            then = _scores(group, other, ranks, is_spare=is_spare)
            if then > now:
                now, changed = then, True
            else:
                group[k], other[m] = other[m], group[k]
    return changed


def _scores(
    group: Sequence[int], other: Sequence[int], ranks: Ranks, *, is_spare: bool
) -> list[tuple[int, int]]:
    """Slowest pair and sum of the two groups, the worse group first; unused GPUs have none."""
    if is_spare:
        return [_score(group, ranks)]
    return sorted((_score(group, ranks), _score(other, ranks)))


def _score(group: Sequence[int], ranks: Ranks) -> tuple[int, int]:
    values = [ranks[i][j] for i, j in combinations(group, 2)]
    return min(values), sum(values)
