"""The heuristic beyond eight GPUs: held against every way where that can be tried, then to 64."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.gpu_sets import gpu_set
from models.links import rank
from models.placement import MAX_GPUS, rank_placements
from models.placement_search import all_groups, bad_groups, good_groups

CODES = ["NV18", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS", None]
Matrix = list[list[str | None]]


def filled(n: int, code: object) -> Matrix:
    """A matrix whose pair (i, j), i > j, has the link that ``code(i, j)`` says."""
    links: Matrix = [["X"] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            links[i][j] = links[j][i] = code(i, j)  # type: ignore[operator]
    return links


def shuffled(links: Matrix, seed: int) -> Matrix:
    order = list(range(len(links)))
    random.Random(seed).shuffle(order)
    return [[links[i][j] for j in order] for i in order]


@st.composite
def machines(draw: st.DrawFn, low: int, high: int) -> Matrix:
    n = draw(st.integers(low, high))
    codes = draw(st.lists(st.sampled_from(CODES), min_size=n * n, max_size=n * n))
    return filled(n, lambda i, j: codes[i * n + j])


def slowest(links: Matrix, groups: object) -> int:
    return min(rank(gpu_set(links, group).slowest) for group in groups)  # type: ignore[attr-defined]


@settings(deadline=None, max_examples=60)
@given(machines(2, 7), st.data())
def test_pairs_are_matched_as_well_as_by_trying_every_way(
    links: Matrix, data: st.DataObject
) -> None:
    replicas = data.draw(st.integers(1, len(links) // 2))
    every = [slowest(links, way) for way in all_groups(range(len(links)), 2, replicas)]
    assert slowest(links, good_groups(links, range(len(links)), 2, replicas)) == max(every)


@settings(deadline=None, max_examples=60)
@given(machines(3, 8), st.data())
def test_larger_groups_lie_between_the_best_and_the_worst_of_all_ways(
    links: Matrix, data: st.DataObject
) -> None:
    tp = data.draw(st.integers(3, len(links)))
    replicas = data.draw(st.integers(1, len(links) // tp))
    gpus = range(len(links))
    every = [slowest(links, way) for way in all_groups(gpus, tp, replicas)]
    good, bad = (make(links, gpus, tp, replicas) for make in (good_groups, bad_groups))
    assert min(every) <= slowest(links, good) <= max(every)
    assert slowest(links, bad) <= slowest(links, good)


@settings(deadline=None, max_examples=25)
@given(machines(9, 24), st.data())
def test_any_machine_gives_groups_that_share_no_gpu(links: Matrix, data: st.DataObject) -> None:
    n = len(links)
    tp = data.draw(st.integers(1, n))
    replicas = data.draw(st.integers(1, n // tp))
    ranking = rank_placements(links, tp, replicas)
    for one in (ranking.best, ranking.worst):
        flat = [gpu for group in one.gpus for gpu in group]
        assert len(set(flat)) == len(flat) == tp * replicas
    assert ranking.best.score >= ranking.worst.score


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("n", "island", "tp", "replicas"),
    [(12, 4, 4, 3), (24, 6, 6, 4), (32, 8, 4, 8), (48, 8, 8, 6), (64, 16, 8, 8), (64, 4, 2, 32)],
)
def test_islands_are_found_however_the_gpus_are_numbered(
    n: int, island: int, tp: int, replicas: int, seed: int
) -> None:
    """NVLink inside an island, a switch between two of them, sockets beyond."""

    def code(i: int, j: int) -> str:
        if i // island == j // island:
            return "NV18"
        return "PXB" if i // (2 * island) == j // (2 * island) else "SYS"

    ranking = rank_placements(shuffled(filled(n, code), seed), tp, replicas)
    assert ranking.best.slowest == "NV18"
    assert ranking.worst.slowest == "SYS"
    assert not ranking.is_exact


@pytest.mark.parametrize("seed", range(3))
def test_two_bridged_cards_a_board_of_64_are_all_paired(seed: int) -> None:
    links = shuffled(filled(MAX_GPUS, lambda i, j: "NV4" if i // 2 == j // 2 else "PHB"), seed)
    best = rank_placements(links, 2, MAX_GPUS // 2).best
    assert best.slowest == "NV4"
    assert len(best.gpus) == 32


def test_leaving_gpus_out_of_64_leaves_their_islands_out() -> None:
    links = filled(MAX_GPUS, lambda i, j: "NV18" if i // 8 == j // 8 else "SYS")
    ranking = rank_placements(links, 8, 6, unavailable=[3, 40])
    used = {gpu for group in ranking.best.gpus for gpu in group}
    assert ranking.best.slowest == "NV18"
    assert not used & (set(range(8)) | set(range(40, 48)))
