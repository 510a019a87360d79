"""Two steps of one case held against each other: in a clock that both have, read in one way."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from models.scaling import StepTimes
from models.scaling_ladder import Rung
from models.step_clocks import common_wall, is_common
from models.step_interval import Estimate, speedup_over_rounds
from pages.widgets.speedup_cases import SERVED, Point, Reading


@lru_cache(maxsize=4096)
def gain_of(reference: tuple[float, ...], step: tuple[float, ...]) -> Estimate:
    """`speedup_over_rounds`, worked out once: every redraw compares the same rounds."""
    return speedup_over_rounds(reference, step)


@dataclass(frozen=True)
class Pair:
    """The same model and load at two TP sizes, or on two hosts.

    Attributes:
        alone: The reference's times; clocks that the other lacks, or reads otherwise, are None.
        here: The other's.
        readings: Reference and other in the clock that decides; None where none is common.
    """

    alone: StepTimes
    here: StepTimes
    readings: tuple[Reading, Reading] | None


def common(first: Point, second: Point, clock: str) -> tuple[Reading, Reading] | None:
    """Both readings of a clock where both have it under one definition.

    Args:
        first: One step.
        second: Another.
        clock: ``wall`` (the best wall clock that both have, an engine's apart) or a clock's name.
    """
    steps = first.definitions, second.definitions
    if clock == "wall":
        plain = [{name: own[name] for name in own if name != SERVED} for own in steps]
        code = common_wall(*plain)
    else:
        code = clock if is_common(clock, steps) else None
    return None if code is None else (first.readings[code], second.readings[code])


def paired(alone: Point, here: Point) -> Pair:
    """Hold a step against its reference: wall clock where both have one, else replay."""
    steps = alone.definitions, here.definitions
    wall = common_wall(*steps)
    unlike = [name for name in ("replay", SERVED) if not is_common(name, steps)]
    if "replay" in unlike:
        unlike.append("replay_no_allreduce")  # of the replay that was dropped
    clock = wall or ("replay" if "replay" not in unlike else None)
    return Pair(
        alone.times_in(wall, unlike),
        here.times_in(wall, unlike),
        None if clock is None else (alone.readings[clock], here.readings[clock]),
    )


def ladder(points: Sequence[Point]) -> tuple[str, list[Rung]]:
    """Each TP size against the next smaller one, all in one clock.

    Args:
        points: Of one case, in rising order.

    Returns:
        The clock that all of them have (the best wall clock, else replay) and the steps up; an
        empty code and none where no clock is common to all.
    """
    steps = [point.definitions for point in points]
    clock = common_wall(*steps) or ("replay" if is_common("replay", steps) else "")
    if not clock:
        return "", []
    rungs = []
    for smaller, larger in pairwise(points):
        rounds = smaller.readings[clock].rounds, larger.readings[clock].rounds
        rungs.append(Rung(larger.tp, smaller.tp, gain_of(*rounds)))
    return clock, rungs
