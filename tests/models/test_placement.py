"""Placement: hand-worked machines, and what must hold for every machine."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import InvalidSpec
from models.gpu_sets import best_ring, custom_all_reduce, gpu_set, words
from models.links import rank
from models.placement import proposals, rank_placements, two_pairs_or_four
from models.placement_search import all_groups

# the published study: 4x RTX 3090 with two NVLink bridges
STUDY = [
    ["X", "PHB", "NV4", "PHB"],
    ["PHB", "X", "PHB", "NV4"],
    ["NV4", "PHB", "X", "PHB"],
    ["PHB", "NV4", "PHB", "X"],
]
CODES = ["NV18", "NV4", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS", None]


def uniform(n: int, code: str) -> list[list[str | None]]:
    return [["X" if i == j else code for j in range(n)] for i in range(n)]


# an eight-GPU hybrid cube mesh: quads of NVLinks, each GPU joined to its twin in the other quad
def cube_mesh() -> list[list[str | None]]:
    links = uniform(8, "SYS")
    singles = [(0, 1), (0, 2), (1, 3), (2, 3), (4, 5), (4, 6), (5, 7), (6, 7)]
    doubles = [(0, 3), (1, 2), (4, 7), (5, 6), (0, 4), (1, 5), (2, 6), (3, 7)]
    for pairs, code in ((singles, "NV1"), (doubles, "NV2")):
        for i, j in pairs:
            links[i][j] = links[j][i] = code
    return links


@st.composite
def machines(draw: st.DrawFn, max_gpus: int = 7) -> list[list[str | None]]:
    n = draw(st.integers(2, max_gpus))
    links: list[list[str | None]] = [["X"] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            links[i][j] = links[j][i] = draw(st.sampled_from(CODES))
    return links


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[list[str | None]], int, int]:
    links = draw(machines())
    tp = draw(st.integers(1, len(links)))
    return links, tp, draw(st.integers(1, len(links) // tp))


def test_two_replicas_of_the_study_take_the_two_nvlink_pairs() -> None:
    ranking = rank_placements(STUDY, 2, 2)
    best = ranking.best
    assert best.gpus == ((0, 2), (1, 3))
    assert best.slowest == "NV4"
    assert best.warnings == ()
    assert [kernel.state for kernel in best.kernels] == ["on", "on"]
    assert best.reasons[0] == (
        "GPUs 0 and 2: NV4 (4 NVLinks); 0 and 1 cross the host bridge (PHB)."
    )
    assert best.environment(1) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,3"}
    assert best.flags(0) == ["--tensor-parallel-size", "2"]
    assert ranking.worst.slowest == "PHB"
    assert ranking.worst.gpus == ((0, 1), (2, 3))
    assert (ranking.is_exact, ranking.n_considered) == (True, 3)


def test_tp4_of_the_study_is_warned_of_in_its_authors_terms() -> None:
    best = rank_placements(STUDY, 4).best
    assert best.slowest == "PHB"
    assert words(best.sets[0]) == "2 of 6 pairs NV4, 4 PHB"
    assert "the slowest link sets the pace" in best.warnings[0]
    assert "cross the host bridge (PHB)" in best.warnings[0]
    assert best.kernels[0].state == "off"
    assert "--disable-custom-all-reduce" in best.flags(0)


def test_two_pairs_against_one_group_of_four_is_always_proposed() -> None:
    shapes = [(one.tp, one.replicas) for one in proposals(STUDY, 1, 1)]
    assert shapes == [(1, 1), (2, 2), (4, 1)]
    assert [(one.tp, one.replicas) for one in proposals(STUDY, 2, 2)] == [(2, 2), (4, 1)]
    assert [(one.tp, one.replicas) for one in proposals(uniform(3, "SYS"), 2, 1)] == [(2, 1)]
    fenced = proposals(STUDY, 2, 1, unavailable=[3])
    assert [(one.tp, one.replicas) for one in fenced] == [(2, 1)]
    pairs, four = proposals(STUDY, 2, 2)
    said = two_pairs_or_four(pairs, four)
    assert "stay on NV4 (4 NVLinks)" in said
    assert "slowest link sets the pace" in said
    even = two_pairs_or_four(*proposals(uniform(4, "NV18"), 2, 2))
    assert "Only a measurement of both decides" in even


def test_a_switched_machine_has_many_equal_placements() -> None:
    ranking = rank_placements(uniform(8, "NV18"), 2)
    assert ranking.best.gpus == ((0, 1),)
    assert ranking.best.n_equal == 28
    assert len(ranking.placements) == 1
    assert ranking.worst == ranking.best


def test_the_cube_mesh_keeps_a_group_of_four_inside_a_quad() -> None:
    best = rank_placements(cube_mesh(), 4, 2).best
    assert best.gpus == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert [kernel.state for kernel in best.kernels] == ["on", "on"]
    whole = rank_placements(cube_mesh(), 8).best
    assert whole.sets[0].slowest == "SYS"
    assert whole.sets[0].ring_slowest == "NV1"
    assert "A ring through them can stay on NV1 or better." in whole.warnings
    assert whole.kernels[0].state == "off"


def test_gpus_keep_their_names_and_busy_ones_are_left_out() -> None:
    best = rank_placements(STUDY, 2, indices=[4, 5, 6, 7], unavailable=[4]).best
    assert best.gpus == ((5, 7),)
    assert best.environment(0)["CUDA_VISIBLE_DEVICES"] == "5,7"
    assert best.reasons == ("GPUs 5 and 7: NV4 (4 NVLinks); 5 and 6 cross the host bridge (PHB).",)


def test_what_the_driver_denies_is_named_as_the_machine_names_it() -> None:
    access = uniform(2, "NS")
    best = rank_placements(uniform(2, "PHB"), 2, p2p=access, indices=[2, 5]).best
    assert best.kernels[0].reason == (
        "The driver grants no peer access between GPUs 2 and 5: NCCL runs."
    )


def test_a_pair_that_a_check_found_broken_is_kept_apart_where_it_can_be() -> None:
    broken = [frozenset((0, 2))]
    best = rank_placements(STUDY, 2, broken=broken).best
    assert best.gpus == ((1, 3),)
    two = rank_placements(STUDY, 2, 2, broken=broken).best
    assert two.slowest == "PHB", "a way through the host is better than wrong data"
    assert not any({0, 2} <= set(group) for group in two.gpus)
    assert "0 and 2 are kept apart, since a check found them broken" in two.reasons[0]
    assert "NCCL_P2P_DISABLE" not in two.environment(0)
    four = rank_placements(STUDY, 4, broken=broken).best
    assert four.environment(0)["NCCL_P2P_DISABLE"] == "1"
    assert four.kernels[0].state == "off"
    assert "between GPUs 0 and 2 broken" in four.kernels[0].reason
    assert "--disable-custom-all-reduce" in four.flags(0)


def test_broken_pairs_are_kept_apart_among_many_gpus_too() -> None:
    links = uniform(10, "SYS")
    for i in range(0, 10, 2):
        links[i][i + 1] = links[i + 1][i] = "NV4"
    best = rank_placements(links, 2, 4, broken=[frozenset((2, 3))]).best
    assert best.gpus == ((0, 1), (4, 5), (6, 7), (8, 9))
    named = [4, 5, 6, 7]
    best = rank_placements(STUDY, 2, indices=named, broken=[frozenset((4, 6)), frozenset((1, 9))])
    assert best.best.gpus == ((5, 7),)


def test_numa_nodes_break_ties_only() -> None:
    links = uniform(4, "SYS")
    assert rank_placements(links, 2, numa=[0, 1, 0, 1]).best.gpus == ((0, 2),)
    links[0][1] = links[1][0] = "PIX"
    best = rank_placements(links, 2, numa=[0, 1, 0, 1]).best
    assert best.gpus == ((0, 1),)
    assert "2 NUMA nodes" in best.warnings[0]


def test_a_link_that_is_not_known_ranks_last_and_is_said() -> None:
    links = [["X", None, "SYS"], [None, "X", "SYS"], ["SYS", "SYS", "X"]]
    assert rank_placements(links, 2).best.gpus == ((0, 2),)
    worst = rank_placements(links, 2).worst
    assert worst.gpus == ((0, 1),)
    assert worst.slowest is None
    assert "not known" in worst.warnings[0]


def test_one_gpu_needs_no_link() -> None:
    best = rank_placements([["X"]], 1).best
    assert best.gpus == ((0,),)
    assert best.slowest == "X"
    assert best.reasons == ("GPU 0: one GPU, no link.",)
    assert best.kernels[0].state == "none"


def test_amd_machines_get_their_own_variable() -> None:
    best = rank_placements(uniform(2, "XGMI"), 2).best
    assert best.environment(0) == {"HIP_VISIBLE_DEVICES": "0,1"}


@pytest.mark.parametrize(("tp", "replicas"), [(0, 1), (1, 0), (3, 2), (5, 1)])
def test_impossible_shapes_are_refused_with_a_sentence(tp: int, replicas: int) -> None:
    with pytest.raises(InvalidSpec):
        rank_placements(STUDY, tp, replicas)


def test_more_than_64_gpus_are_refused() -> None:
    with pytest.raises(InvalidSpec):
        rank_placements(uniform(65, "SYS"), 2)


@pytest.mark.parametrize(
    ("code", "size", "p2p", "state"),
    [
        ("NV4", 2, None, "on"),
        ("NV4", 3, None, "off"),
        ("NV18", 8, None, "on"),
        ("PHB", 2, None, "if_p2p"),
        ("PHB", 2, "OK", "if_p2p"),
        ("PHB", 2, "NS", "off"),
        ("NV4", 2, "NS", "off"),
        ("PHB", 4, "OK", "off"),
        (None, 4, None, "unknown"),
        ("NV4", 1, None, "none"),
    ],
)
def test_vllms_own_all_reduce(code: str | None, size: int, p2p: str | None, state: str) -> None:
    links = uniform(size, code)  # type: ignore[arg-type]
    access = None if p2p is None else uniform(size, p2p)
    found = custom_all_reduce(links, list(range(size)), access)
    assert found.state == state
    assert found.reason


def test_rings_need_not_use_every_pair() -> None:
    assert best_ring(STUDY, [0, 1, 2, 3]) == "PHB"
    ring = uniform(4, "SYS")
    for i, j in ((0, 1), (1, 2), (2, 3), (3, 0)):
        ring[i][j] = ring[j][i] = "PIX"
    assert best_ring(ring, [0, 1, 2, 3]) == "PIX"
    assert best_ring(ring, [0, 1, 2]) == "SYS"
    assert best_ring(ring, [0]) == "X"
    assert best_ring(uniform(11, "SYS"), range(11)) is None


@settings(deadline=None)
@given(machines(max_gpus=6))
def test_the_ring_is_the_best_of_all_rings(links: list[list[str | None]]) -> None:
    n = len(links)
    by_hand = max(
        min(rank(links[a][b]) for a, b in zip(ring, ring[1:] + ring[:1], strict=True))
        for rest in itertools.permutations(range(1, n))
        for ring in [(0, *rest)]
    )
    assert rank(best_ring(links, range(n))) == by_hand


@settings(deadline=None, max_examples=60)
@given(asked())
def test_the_best_placement_is_the_best_of_all(
    case: tuple[list[list[str | None]], int, int],
) -> None:
    links, tp, replicas = case
    ranking = rank_placements(links, tp, replicas)
    every = [
        tuple(sorted(gpu_set(links, group).score for group in groups))
        for groups in all_groups(range(len(links)), tp, replicas)
    ]
    assert ranking.best.score == max(every)
    assert ranking.worst.score == min(every)
    assert ranking.n_considered == len(every)
    assert ranking.best.n_equal == every.count(max(every))
    shown = [one.score for one in ranking.placements]
    assert shown == sorted(set(shown), reverse=True)


@settings(deadline=None, max_examples=60)
@given(asked(), st.randoms(use_true_random=False))
def test_numbering_the_gpus_anew_changes_no_score(
    case: tuple[list[list[str | None]], int, int], source: object
) -> None:
    links, tp, replicas = case
    order = list(range(len(links)))
    source.shuffle(order)  # type: ignore[attr-defined]
    renamed = [[links[i][j] for j in order] for i in order]
    before = rank_placements(links, tp, replicas)
    after = rank_placements(renamed, tp, replicas)
    assert [one.score for one in after.placements] == [one.score for one in before.placements]
    assert [one.n_equal for one in after.placements] == [one.n_equal for one in before.placements]
    assert after.worst.score == before.worst.score


@settings(deadline=None, max_examples=60)
@given(asked(), st.data())
def test_a_better_link_never_lowers_a_score(
    case: tuple[list[list[str | None]], int, int], data: st.DataObject
) -> None:
    links, tp, replicas = case
    i = data.draw(st.integers(0, len(links) - 1))
    j = data.draw(st.integers(0, len(links) - 1).filter(lambda k: k != i))
    better = [code for code in CODES if rank(code) >= rank(links[i][j])]
    improved = [list(row) for row in links]
    improved[i][j] = improved[j][i] = data.draw(st.sampled_from(better))
    for group in itertools.combinations(range(len(links)), tp):
        assert gpu_set(improved, group).score >= gpu_set(links, group).score
    best = rank_placements(links, tp, replicas).best
    assert rank_placements(improved, tp, replicas).best.score >= best.score


@settings(deadline=None, max_examples=40)
@given(asked())
def test_groups_never_share_a_gpu_and_use_only_what_is_free(
    case: tuple[list[list[str | None]], int, int],
) -> None:
    links, tp, replicas = case
    for one in [*rank_placements(links, tp, replicas).placements]:
        flat = [gpu for group in one.gpus for gpu in group]
        assert len(flat) == len(set(flat)) == tp * replicas
        assert set(flat) <= set(range(len(links)))


def islands(n: int, size: int) -> list[list[str | None]]:
    """NVLink inside, sockets between, numbered so that neighbours lie apart."""
    n_islands = n // size
    return [
        ["X" if i == j else "NV18" if i % n_islands == j % n_islands else "SYS" for j in range(n)]
        for i in range(n)
    ]


@pytest.mark.parametrize(
    ("n", "size", "tp", "replicas"),
    [(16, 4, 4, 4), (16, 4, 2, 8), (32, 8, 8, 4), (64, 8, 8, 8), (64, 8, 4, 16), (64, 2, 2, 32)],
)
def test_beyond_eight_gpus_groups_find_their_islands(
    n: int, size: int, tp: int, replicas: int
) -> None:
    ranking = rank_placements(islands(n, size), tp, replicas)
    assert not ranking.is_exact
    assert ranking.n_considered is None
    assert ranking.best.slowest == "NV18"
    assert ranking.worst.slowest == "SYS"
    flat = [gpu for group in ranking.best.gpus for gpu in group]
    assert len(flat) == len(set(flat)) == tp * replicas


def test_pairs_beyond_eight_gpus_are_matched_by_their_slowest_link_exactly() -> None:
    # a greedy choice takes 0-1 first (NV18) and leaves 2 and 3 a SYS link
    links = uniform(10, "SYS")
    for i, j, code in (
        (0, 1, "NV18"),
        (0, 2, "NV4"),
        (1, 3, "NV4"),
        (4, 5, "NV4"),
        (6, 7, "NV4"),
        (8, 9, "NV4"),
    ):
        links[i][j] = links[j][i] = code
    best = rank_placements(links, 2, 5).best
    assert best.gpus == ((0, 2), (1, 3), (4, 5), (6, 7), (8, 9))


def test_a_group_of_all_64_gpus_is_looked_at() -> None:
    ranking = rank_placements(islands(64, 8), 64)
    assert ranking.best.slowest == "SYS"
    assert ranking.best.sets[0].ring_slowest is None
