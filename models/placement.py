"""Where tensor-parallel groups should go: link matrix in, ranked sets of GPUs with reasons out."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from models.errors import InvalidSpec
from models.gpu_sets import (
    CustomAllReduce,
    GpuSet,
    custom_all_reduce,
    gpu_set,
    gpu_words,
    words,
)
from models.links import LinkMatrix, checked, link_kind, phrase, rank
from models.placement_search import EXACT_LIMIT, all_groups, bad_groups, good_groups

MAX_GPUS = 64


@dataclass(frozen=True)
class Placement:
    """One way to place groups.

    Attributes:
        tp: GPUs a group.
        sets: One a replica, by position in the matrix.
        gpus: The same as GPU indices, what CUDA_VISIBLE_DEVICES takes.
        slowest: Code of the slowest link of all groups; None where one is not known.
        kernels: Whether vLLM's own all-reduce runs, one a replica.
        reasons: Sentences for people, the links of each group and what it avoids.
        warnings: What speaks against it.
        n_equal: How many placements are as good, this one included.
    """

    tp: int
    sets: tuple[GpuSet, ...]
    gpus: tuple[tuple[int, ...], ...]
    slowest: str | None
    kernels: tuple[CustomAllReduce, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    n_equal: int = 1

    @property
    def replicas(self) -> int:
        """How many groups."""
        return len(self.sets)

    @property
    def score(self) -> tuple[tuple[int, ...], ...]:
        """Scores of the groups, the worst first: orders placements of one shape."""
        return tuple(sorted(found.score for found in self.sets))

    def environment(self, replica: int) -> dict[str, str]:
        """Variables that give a replica its GPUs, and keep a broken link off.

        Indices, not UUIDs: vLLM's own all-reduce reads CUDA_VISIBLE_DEVICES as numbers.
        """
        chosen = ",".join(str(gpu) for gpu in self.gpus[replica])
        found = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": chosen}
        if any(code in ("PCIE", "XGMI") for code, _ in self.sets[replica].pairs):
            found = {"HIP_VISIBLE_DEVICES": chosen}
        return found | ({"NCCL_P2P_DISABLE": "1"} if self.sets[replica].broken else {})

    def flags(self, replica: int) -> list[str]:
        """Arguments of ``vllm serve`` for a replica."""
        found = ["--tensor-parallel-size", str(self.tp)]
        if self.kernels[replica].state == "off":
            found.append("--disable-custom-all-reduce")  # says so, and silences the warning
        return found


@dataclass(frozen=True)
class Ranking:
    """Placements of one shape, best first, one for each distinct score.

    Attributes:
        placements: Best first.
        worst: The contrast.
        is_exact: Whether every way was looked at (up to 8 GPUs).
        n_considered: How many ways that were; None with the heuristic.
    """

    placements: tuple[Placement, ...]
    worst: Placement
    is_exact: bool
    n_considered: int | None = None

    @property
    def best(self) -> Placement:
        """The first."""
        return self.placements[0]


def rank_placements(
    links: LinkMatrix,
    tp: int,
    replicas: int = 1,
    *,
    numa: Sequence[int | None] | None = None,
    p2p: LinkMatrix | None = None,
    indices: Sequence[int] | None = None,
    unavailable: Collection[int] = (),
    broken: Collection[frozenset[int]] = (),
    limit: int = 4,
) -> Ranking:
    """Rank the ways to place ``replicas`` groups of ``tp`` GPUs.

    The worst group decides, and in a group the slowest pair of GPUs.

    Args:
        links: Matrix of link codes, shape (n, n); None where nothing is known.
        tp: GPUs a group, from 1.
        replicas: Groups, from 1.
        numa: NUMA node a GPU, shape (n,); breaks ties only.
        p2p: Peer access a pair ("OK", "NS", …), shape (n, n).
        indices: What each GPU is called on its machine, shape (n,); by default 0 to n-1.
        unavailable: Indices that may not be used: busy, or set aside.
        broken: Pairs of indices whose link a check found broken: kept apart where that is possible.
        limit: How many distinct scores to return.

    Raises:
        InvalidSpec: Too few GPUs, more than 64, or sizes below 1.
    """
    names = list(range(len(links))) if indices is None else list(indices)
    usable = [k for k, name in enumerate(names) if name not in unavailable]
    if tp < 1 or replicas < 1:
        raise InvalidSpec("A placement needs at least one GPU a group and one group.")
    if len(names) > MAX_GPUS:
        raise InvalidSpec(f"Placement knows up to {MAX_GPUS} GPUs of one machine.")
    if tp * replicas > len(usable):
        raise InvalidSpec(
            f"{replicas} x TP={tp} needs {tp * replicas} GPUs, and {len(usable)} can be used.",
            "Take a smaller TP size or fewer replicas.",
        )
    matrix = checked(links)
    places = {name: place for place, name in enumerate(names)}
    bad = {frozenset(places[name] for name in pair) for pair in broken if set(pair) <= set(places)}
    is_exact = len(usable) <= EXACT_LIMIT
    known: dict[tuple[int, ...], GpuSet] = {}

    def look(gpus: Sequence[int]) -> GpuSet:
        key = tuple(sorted(gpus))
        if key not in known:
            known[key] = gpu_set(matrix, key, numa, bad)
        return known[key]

    if is_exact:
        ways = list(all_groups(usable, tp, replicas))
    else:
        avoided = _without(matrix, bad)
        ways = [
            good_groups(avoided, usable, tp, replicas),
            bad_groups(avoided, usable, tp, replicas),
        ]

    def scores(groups: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        return sorted(look(group).score for group in groups)

    # worst group first, higher is better; among equals the lowest numbers
    ways.sort(key=lambda way: ([tuple(-part for part in one) for one in scores(way)], way))
    graded = [scores(way) for way in ways]
    firsts = [k for k in range(len(ways)) if k == 0 or graded[k] != graded[k - 1]]
    context = _Context(matrix, p2p, names, usable, bad)

    def made(at: int) -> Placement:
        n_equal = graded.count(graded[at]) if is_exact else 1
        return context.placement(tp, [look(group) for group in ways[at]], n_equal)

    shown = firsts[:limit] if is_exact else firsts[:1]
    return Ranking(
        tuple(made(at) for at in shown),
        made(firsts[-1]),
        is_exact,
        len(ways) if is_exact else None,
    )


def _without(links: LinkMatrix, broken: Collection[frozenset[int]]) -> list[list[str | None]]:
    """The matrix with broken pairs as bad as those that nobody knows."""
    return [
        [None if frozenset((i, j)) in broken else code for j, code in enumerate(row)]
        for i, row in enumerate(links)
    ]


def proposals(
    links: LinkMatrix,
    tp: int,
    replicas: int,
    *,
    numa: Sequence[int | None] | None = None,
    p2p: LinkMatrix | None = None,
    indices: Sequence[int] | None = None,
    unavailable: Collection[int] = (),
    broken: Collection[frozenset[int]] = (),
) -> list[Placement]:
    """The best placement of the shape asked for, and of the shapes that compete with it.

    Where four GPUs can be used, two TP=2 replicas and one TP=4 group are always among them.

    Args:
        links: As in ``rank_placements``, like all others.
        tp: GPUs a group.
        replicas: Groups.
        numa: NUMA nodes.
        p2p: Peer access.
        indices: Names of the GPUs.
        unavailable: GPUs that may not be used.
        broken: Pairs whose link a check found broken.
    """
    names = range(len(links)) if indices is None else indices
    n_usable = sum(name not in unavailable for name in names)
    shapes = [(tp, replicas)]
    if n_usable >= 4:
        shapes += [(2, 2), (4, 1)]
    return [
        rank_placements(
            links,
            size,
            count,
            numa=numa,
            p2p=p2p,
            indices=indices,
            unavailable=unavailable,
            broken=broken,
            limit=1,
        ).best
        for size, count in dict.fromkeys(shapes)
    ]


def two_pairs_or_four(pairs: Placement, four: Placement) -> str:
    """What the links say of two TP=2 replicas against one TP=4 group; a measurement decides.

    Args:
        pairs: Two replicas of TP=2.
        four: One group of TP=4.
    """
    near, far = _code_words(pairs.slowest), _code_words(four.slowest)
    if rank(pairs.slowest) > rank(four.slowest):
        return (
            f"Two TP=2 replicas stay on {near}. One TP=4 group also passes {far}, and the slowest "
            "link sets the pace of the whole group. Unless the model needs four GPUs' memory, "
            "measure the two replicas first."
        )
    return (
        f"Both run over {far}. Two TP=2 replicas hold the weights twice and exchange less a token; "
        "one TP=4 group has more memory for the cache. Only a measurement of both decides."
    )


def _code_words(code: str | None) -> str:
    if code is None:
        return "a link that is not known"
    return f"{code} ({link_kind(code).label})"


@dataclass(frozen=True)
class _Context:
    """The machine that a placement is explained on."""

    matrix: LinkMatrix
    p2p: LinkMatrix | None
    names: Sequence[int]
    usable: Sequence[int]
    broken: Collection[frozenset[int]] = ()

    def placement(self, tp: int, sets: Sequence[GpuSet], n_equal: int) -> Placement:
        slowest = min((found.slowest for found in sets), key=rank)
        reasons = [self._reason(found) for found in sets]
        warnings = [text for found in sets for text in self._warnings(found)]
        return Placement(
            tp=tp,
            sets=tuple(sets),
            gpus=tuple(self._called(found.gpus) for found in sets),
            slowest=slowest,
            kernels=tuple(
                custom_all_reduce(self.matrix, found.gpus, self.p2p, self.names, found.broken)
                for found in sets
            ),
            reasons=tuple(reasons),
            warnings=tuple(warnings),
            n_equal=n_equal,
        )

    def _called(self, gpus: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.names[k] for k in gpus)

    def _reason(self, found: GpuSet) -> str:
        """The links of a set, and the worse link that it avoids."""
        sentence = f"{gpu_words(self._called(found.gpus))}: {words(found)}"
        avoided = [
            (rank(self.matrix[i][j]), i, j)
            for i in found.gpus
            for j in self.usable
            if j not in found.gpus and self.matrix[i][j] is not None
        ]
        if len(found.gpus) > 1 and avoided:
            lowest, i, j = min(avoided)
            if lowest < rank(found.slowest):
                first, second = self._called((i, j))
                sentence += f"; {first} and {second} {phrase(self.matrix[i][j])}"
        apart = [pair for pair in self.broken if len(pair & set(found.gpus)) == 1]
        for pair in sorted(sorted(pair) for pair in apart):
            first, second = self._called(pair)
            sentence += f"; {first} and {second} are kept apart, since a check found them broken"
        return f"{sentence}."

    def _warnings(self, found: GpuSet) -> list[str]:
        who = gpu_words(self._called(found.gpus))
        said: list[str] = []
        if found.slowest is None:
            said.append(f"{who}: a link is not known, so the group is ranked last.")
        elif len(found.pairs) > 1 and found.slowest_pair is not None:
            first, second = self._called(found.slowest_pair)
            said.append(
                f"{who}: the slowest link sets the pace, and {first} and {second} "
                f"{phrase(found.slowest)}."
            )
            ring = found.ring_slowest
            if len(found.gpus) > 3 and ring and rank(ring) > rank(found.slowest):
                said.append(f"A ring through them can stay on {ring} or better.")
        if found.n_numa is not None and found.n_numa > 1:
            said.append(f"{who} sit on {found.n_numa} NUMA nodes: their processes differ in speed.")
        return said
