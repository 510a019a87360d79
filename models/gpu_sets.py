"""A set of GPUs that work as one tensor-parallel group: its slowest link, its ring, its kernel.

A group's ranks wait for each other in every layer, so the slowest link sets the pace.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from models.links import LinkMatrix, is_direct, link_kind, rank

# vLLM starts its own all-reduce for these group sizes only
CUSTOM_ALL_REDUCE_SIZES = (2, 4, 6, 8)
_RING_LIMIT = 10  # 2^n subsets are looked at


@dataclass(frozen=True)
class CustomAllReduce:
    """Whether vLLM's own all-reduce kernel will run in a group, and why.

    ``state``: on, off, if_p2p (on where peer-to-peer passes the engine's test), unknown (a link is
    not known), none (one GPU needs no all-reduce).
    """

    state: Literal["on", "off", "if_p2p", "unknown", "none"]
    reason: str


@dataclass(frozen=True)
class GpuSet:
    """GPUs of one group, by position in the link matrix.

    Attributes:
        gpus: Positions, ascending.
        slowest: Code of the slowest pair; "X" for one GPU, None where a pair is not known.
        slowest_pair: That pair; None for one GPU.
        ring_slowest: Slowest edge of the best ring through all; None where it was not sought.
        pairs: Link code -> how many pairs have it, better kinds first.
        n_numa: How many NUMA nodes the GPUs sit on; None where not known.
        broken: Pairs in it that a check found broken, by position.
        score: Orders sets of one size, higher is better.
    """

    gpus: tuple[int, ...]
    slowest: str | None
    slowest_pair: tuple[int, int] | None
    ring_slowest: str | None
    pairs: tuple[tuple[str | None, int], ...]
    n_numa: int | None
    score: tuple[int, ...]
    broken: tuple[tuple[int, int], ...] = ()


def gpu_set(
    links: LinkMatrix,
    gpus: Sequence[int],
    numa: Sequence[int | None] | None = None,
    broken: Collection[frozenset[int]] = (),
) -> GpuSet:
    """Look at one set.

    The score compares, in this order: pairs that a check found broken, the slowest pair, the
    slowest edge of the best ring, all pairs together, NUMA nodes. No better link ever lowers it.

    Args:
        links: Symmetric matrix, shape (n, n), see ``models.links.checked``.
        gpus: Positions, each once.
        numa: NUMA node a GPU, shape (n,).
        broken: Pairs of positions whose link moved wrong data, hung or failed in a check.
    """
    chosen = tuple(sorted(gpus))
    pairs = list(combinations(chosen, 2))
    codes = [links[i][j] for i, j in pairs]
    ranks = [rank(code) for code in codes]
    lowest = min(range(len(pairs)), key=ranks.__getitem__) if pairs else None
    slowest = "X" if lowest is None else codes[lowest]
    ring = best_ring(links, chosen)
    nodes = None if numa is None else [numa[k] for k in chosen]
    n_numa = None if nodes is None or None in nodes else len(set(nodes))
    counted = Counter(codes)
    bad = tuple(pair for pair in pairs if frozenset(pair) in broken)
    return GpuSet(
        gpus=chosen,
        slowest=slowest,
        slowest_pair=None if lowest is None else pairs[lowest],
        ring_slowest=ring,
        pairs=tuple(sorted(counted.items(), key=lambda item: -rank(item[0]))),
        n_numa=n_numa,
        score=(
            -len(bad),
            rank(slowest),
            rank(ring) if ring else rank(slowest),
            sum(ranks),
            -(n_numa or 1),
        ),
        broken=bad,
    )


def best_ring(links: LinkMatrix, gpus: Sequence[int]) -> str | None:
    """Slowest edge of the ring that passes all GPUs over the best links.

    A ring of n GPUs uses n edges, not all n(n-1)/2 pairs: NCCL can leave bad pairs out.

    Args:
        links: Symmetric matrix, shape (n, n).
        gpus: Positions.

    Returns:
        The code; "X" for one GPU; None above 10 GPUs, where it is not sought, or where only a
        pair that is not known closes the ring.
    """
    n = len(gpus)
    if n == 1:
        return "X"
    if n > _RING_LIMIT:
        return None
    codes = {links[i][j] for i, j in combinations(gpus, 2)}
    for code in sorted(codes, key=rank, reverse=True):
        if _has_ring(links, gpus, rank(code)):
            return code
    return None  # not reached: the slowest code always closes a ring


def _has_ring(links: LinkMatrix, gpus: Sequence[int], lowest: int) -> bool:
    """Whether a ring exists whose edges all rank at least ``lowest`` (Held and Karp, 1962)."""
    n = len(gpus)
    near = [
        sum(1 << b for b in range(n) if a != b and rank(links[gpus[a]][gpus[b]]) >= lowest)
        for a in range(n)
    ]
    if n == 2:
        return bool(near[0])
    ends = [0] * (1 << n)  # ends[visited]: where a path from GPU 0 over these may end
    ends[1] = 1
    for visited in range(1, 1 << n, 2):
        for end in range(n):
            if ends[visited] >> end & 1:
                for step in range(1, n):
                    if near[end] >> step & 1 and not visited >> step & 1:
                        ends[visited | 1 << step] |= 1 << step
    return bool(ends[-1] & near[0])


def custom_all_reduce(
    links: LinkMatrix,
    gpus: Sequence[int],
    p2p: LinkMatrix | None = None,
    names: Sequence[int] | None = None,
    broken: Sequence[tuple[int, int]] = (),
) -> CustomAllReduce:
    """Whether vLLM will use its own all-reduce kernel in a group.

    Args:
        links: Symmetric matrix, shape (n, n).
        gpus: Positions.
        p2p: Peer access a pair as the driver states it ("OK", "NS", …), shape (n, n).
        names: What each position is called on its machine, shape (n,); by default its number.
        broken: Pairs among them that a check found broken.

    Source: vLLM, vllm/distributed/device_communicators/custom_all_reduce.py at 00d618a: sizes 2,
    4, 6, 8; more than two GPUs need NVLink between every pair; peer-to-peer must pass its test.
    """
    n = len(gpus)
    pairs = list(combinations(gpus, 2))
    if n == 1:
        return CustomAllReduce("none", "One GPU makes no all-reduce.")
    if n not in CUSTOM_ALL_REDUCE_SIZES:
        return CustomAllReduce("off", f"vLLM has it for 2, 4, 6 or 8 GPUs, not for {n}: NCCL runs.")
    called = list(range(len(links))) if names is None else list(names)
    if broken:
        first, second = (called[k] for k in broken[0])
        return CustomAllReduce(
            "off",
            f"The check found the link between GPUs {first} and {second} broken: keep it off.",
        )
    denied = [
        (i, j) for i, j in pairs if p2p is not None and p2p[i][j] not in ("OK", "X", "U", None)
    ]
    if denied:
        first, second = (called[k] for k in denied[0])
        return CustomAllReduce(
            "off", f"The driver grants no peer access between GPUs {first} and {second}: NCCL runs."
        )
    if all(is_direct(links[i][j]) for i, j in pairs):
        return CustomAllReduce("on", "Every pair has a direct link.")
    if n > 2:
        if any(links[i][j] is None for i, j in pairs) and all(
            links[i][j] is None or is_direct(links[i][j]) for i, j in pairs
        ):
            return CustomAllReduce("unknown", "A link of the group is not known.")
        return CustomAllReduce(
            "off", "More than two GPUs need a direct link between every pair: NCCL runs."
        )
    granted = p2p is not None and p2p[gpus[0]][gpus[1]] == "OK"
    if granted:
        return CustomAllReduce("if_p2p", "The driver grants peer access; the engine tests it.")
    return CustomAllReduce("if_p2p", "It needs peer-to-peer between the two: run the check first.")


def gpu_words(gpus: Sequence[int]) -> str:
    """GPUs as a sentence says them: "GPU 0", "GPUs 0 and 2", "GPUs 0, 1 and 2"."""
    names = [str(gpu) for gpu in gpus]
    if len(names) < 2:
        return f"GPU {''.join(names)}"
    return f"GPUs {', '.join(names[:-1])} and {names[-1]}"


def words(found: GpuSet) -> str:
    """The links of a set: "NV4" or "2 of 6 pairs NV4, 4 PHB"."""
    total = sum(count for _, count in found.pairs)
    if total == 0:
        return "one GPU, no link"
    if len(found.pairs) == 1:
        code = found.pairs[0][0]
        label = link_kind(code).label
        return f"{code} ({label})" if code else "not known"
    first, *others = [(code or "not known", count) for code, count in found.pairs]
    rest = ", ".join(f"{count} {code}" for code, count in others)
    return f"{first[1]} of {total} pairs {first[0]}, {rest}"
