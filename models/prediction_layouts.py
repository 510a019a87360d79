"""The same GPUs in another layout, and the model size from which on a TP size pays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from models.prediction import Link, Setup, Workload
from models.prediction_anchor import Anchor
from models.prediction_calibration import Calibration
from models.prediction_refusals import Answer, answer, needed_bytes, usable_bytes
from models.prediction_shape import Load


@dataclass(frozen=True)
class Replicas:
    """Several servers of one TP size that share the requests.

    Attributes:
        count: Servers.
        tp: GPUs of each.
        tokens_a_second: All of them together, None where one server cannot be predicted.
        why: The first reason where it is None.
    """

    count: int
    tp: int
    tokens_a_second: float | None
    why: str = ""


def replicas(
    setup: Setup,
    work: Workload,
    link: Link | None,
    calibration: Calibration,
    anchor: Anchor | None = None,
    *,
    tp: int = 1,
) -> Replicas:
    """The GPUs of a setup as servers of a smaller TP size.

    Args:
        setup: What the GPUs would be as one group.
        work: The whole load; requests are dealt out evenly.
        link: All-reduce latencies, for servers of several GPUs.
        calibration: Constants and widths.
        anchor: A measured point to start from.
        tp: GPUs of each server; divides ``setup.tp``.

    Returns:
        Throughput of the servers together.
    """
    count = setup.tp // tp
    one = replace(setup, tp=tp)
    share, more = divmod(work.batch, count)
    total = 0.0
    for batch, servers in ((share + 1, more), (share, count - more)):
        if not batch or not servers:
            continue  # fewer requests than servers: some stand idle
        found = answer(one, replace(work, batch=batch), link, calibration, anchor)
        if found.prediction is None:
            return Replicas(count, tp, None, found.refusals[0].sentence)
        total += servers * found.prediction.tokens_a_second
    return Replicas(count, tp, total)


@dataclass(frozen=True)
class Sized:
    """Predicted speedup of one model size.

    Attributes:
        name: Of the model.
        parameters: Weights.
        speedup: One GPU's TPOT over the group's.
        fits_one: Whether weights and cache fit on one GPU.
    """

    name: str
    parameters: int
    speedup: float
    fits_one: bool


def by_size(
    models: Iterable[tuple[str, Load]],
    setup: Setup,
    work: Workload,
    link: Link | None,
    calibration: Calibration,
) -> list[Sized]:
    """Speedup of a TP size over one GPU, for several dense models on one system.

    Args:
        models: Name and load; mixtures of experts and models that do not divide are left out.
        setup: Card, engine, precision and TP size; its own model is not used.
        work: The load.
        link: All-reduce latencies in graph mode.
        calibration: Constants and widths.

    Returns:
        By size. Memory is left out of account for the speedup and stated beside it.
    """
    found = []
    for name, load in models:
        if load.kind != "dense":
            continue
        roomy = replace(setup.card, memory=1e18)
        group = replace(setup, load=load, card=roomy)
        alone = replace(group, tp=1)
        both = [answer(one, work, link, calibration).prediction for one in (alone, group)]
        first, second = both
        if first is None or second is None:
            continue
        single = replace(alone, card=setup.card)
        found.append(
            Sized(
                name,
                load.total,
                first.tpot_ms / second.tpot_ms,
                needed_bytes(single, work) <= usable_bytes(single),
            )
        )
    return sorted(found, key=lambda row: row.parameters)


def grid(
    setup: Setup,
    works: Sequence[Workload],
    sizes: Sequence[int],
    link: Link | None,
    calibration: Calibration,
    anchor: Anchor | None = None,
) -> list[tuple[int, Workload, Answer]]:
    """Every TP size at every load.

    Args:
        setup: Model, precision, engine and card.
        works: Loads.
        sizes: TP sizes.
        link: All-reduce latencies in graph mode.
        calibration: Constants and widths.
        anchor: A measured point to start from.

    Returns:
        TP size, load, answer; in the order of the arguments.
    """
    return [
        (tp, work, answer(replace(setup, tp=tp), work, link, calibration, anchor))
        for tp in sizes
        for work in works
    ]
