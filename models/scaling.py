"""Whether tensor parallelism pays: where a step's time goes, speedup, efficiency, ceilings.

Two clocks stand side by side everywhere: wall (what a serving loop sees) and replay (graphs back to
back, no host work). Their difference is the CPU's share. Where a step was also driven as an engine
does, what that adds to one graph a step is the engine's share.
"""

import math
from dataclasses import dataclass
from typing import Literal

from models.errors import InvalidSpec

Basis = Literal["measured", "modelled"]

# What the author of the 3090 study expected of twice the GPUs at single stream; he measured 0.87.
PROMISED_A_DOUBLING = (1.5, 1.8)


@dataclass(frozen=True)
class StepTimes:
    """One arm's decode step at one TP size; what was not measured is None.

    Attributes:
        tp: Tensor-parallel size.
        wall_ms: Step in wall clock, milliseconds.
        replay_ms: Step as graphs replayed back to back.
        no_allreduce_ms: The same with the collectives left out.
        served_ms: Step in wall clock with an engine's work around the graph; beside a ``wall_ms``
            of one graph a step only.
        calls: All-reduces a step.
        allreduce_us: Latency of one of them, microseconds.
        allreduce_step_ms: Their cost a step as an author printed it; else calls x latency.
    """

    tp: int
    wall_ms: float | None = None
    replay_ms: float | None = None
    no_allreduce_ms: float | None = None
    calls: int | None = None
    allreduce_us: float | None = None
    allreduce_step_ms: float | None = None
    served_ms: float | None = None

    @property
    def allreduce_ms(self) -> float | None:
        """Cost of the all-reduces a step if each paid its full latency, milliseconds."""
        if self.tp == 1:
            return 0.0
        if self.allreduce_step_ms is not None:
            return self.allreduce_step_ms
        if self.calls is None or self.allreduce_us is None:
            return None
        return self.calls * self.allreduce_us / 1e3

    @property
    def exposed_ms(self) -> float | None:
        """Exposed communication: replay minus replay without the collectives, milliseconds."""
        if self.tp == 1:
            return 0.0
        if self.replay_ms is None or self.no_allreduce_ms is None:
            return None
        return self.replay_ms - self.no_allreduce_ms

    @property
    def communication(self) -> "Part | None":
        """The step's communication: measured by difference, else what its calls cost alone."""
        if self.exposed_ms is not None:
            return Part("communication", self.exposed_ms, "measured")
        if self.allreduce_ms is not None:
            return Part("communication", self.allreduce_ms, "modelled")
        return None

    @property
    def cpu_ms(self) -> float | None:
        """The CPU's share: wall minus replay, milliseconds."""
        if self.wall_ms is None or self.replay_ms is None:
            return None
        return self.wall_ms - self.replay_ms

    @property
    def engine_ms(self) -> float | None:
        """What an engine does around its graph: served minus one graph a step, milliseconds."""
        if self.served_ms is None or self.wall_ms is None:
            return None
        return self.served_ms - self.wall_ms

    @property
    def whole_ms(self) -> float | None:
        """The step with the most host work that was read: served, else wall, else replay."""
        found = (self.served_ms, self.wall_ms, self.replay_ms)
        return next((value for value in found if value is not None), None)

    def clock_ms(self, clock: str) -> float | None:
        """The step in ``wall``, ``served`` or ``replay`` clock."""
        return {"wall": self.wall_ms, "served": self.served_ms}.get(clock, self.replay_ms)


@dataclass(frozen=True)
class Part:
    """One piece of a step.

    Attributes:
        name: ``compute``, ``communication``, ``residual``, ``cpu`` or ``engine``.
        ms: Its time; a negative piece is impossible as a duration and is flagged.
        basis: Whether it is a difference of measured clocks or comes from the additive model.
    """

    name: str
    ms: float
    basis: Basis

    @property
    def flagged(self) -> bool:
        """Whether the piece is negative: noise, or a model that does not hold."""
        return self.ms < 0


def speedup(reference_ms: float, step_ms: float) -> float:
    """How many times faster than the reference a step is (below 1: slower).

    Raises:
        InvalidSpec: A time is not positive.
    """
    if reference_ms <= 0 or step_ms <= 0:
        raise InvalidSpec("A step time must be positive.")
    return reference_ms / step_ms


def efficiency(value: float, tp: int, reference_tp: int = 1) -> float:
    """Share of the ideal that a speedup reaches: speedup / (tp / reference tp)."""
    if tp < 1 or reference_tp < 1:
        raise InvalidSpec("A tensor-parallel size is at least 1.")
    return value * reference_tp / tp


def promised_band(tp: int, reference_tp: int = 1) -> tuple[float, float]:
    """The speedup that `PROMISED_A_DOUBLING` foresees at ``tp``, to the power of the doublings."""
    doublings = math.log2(tp / reference_tp)
    low, high = PROMISED_A_DOUBLING
    return low**doublings, high**doublings


def decompose(times: StepTimes, single: StepTimes | None = None) -> tuple[Part, ...]:
    """Split a step into compute per shard, exposed communication, residual and CPU exposed.

    Args:
        times: The step to split.
        single: The same model and load on one GPU, for the additive model where no replay without
            all-reduces was measured.

    Returns:
        Parts whose sum is the step as an engine drives it where that is known, else the wall
        clock, else the replay. Measured clocks leave no residual; with the additive model
        (compute = step(1)/tp, communication = calls x latency) the residual is what it fails to
        explain, of either sign. Empty where neither wall nor replay is known, or compute can be
        told in neither way.
    """
    total = times.replay_ms if times.replay_ms is not None else times.wall_ms
    if total is None:
        return ()
    measured = times.tp == 1 or times.exposed_ms is not None
    if measured:
        communication = times.exposed_ms or 0.0
        parts = [Part("compute", total - communication, "measured")]
        if times.tp > 1:
            parts.append(Part("communication", communication, "measured"))
    else:
        alone = None if single is None else single.replay_ms
        if times.replay_ms is None:
            alone = None if single is None else single.wall_ms
        if alone is None or times.allreduce_ms is None:
            return ()
        compute = alone / times.tp
        parts = [
            Part("compute", compute, "modelled"),
            Part("communication", times.allreduce_ms, "modelled"),
            Part("residual", total - compute - times.allreduce_ms, "modelled"),
        ]
    if times.cpu_ms is not None:
        parts.append(Part("cpu", times.cpu_ms, "measured"))
    if times.engine_ms is not None:
        parts.append(Part("engine", times.engine_ms, "measured"))
    return tuple(parts)


@dataclass(frozen=True)
class AdditiveCheck:
    """The additive model step(tp) = step(1)/tp + all-reduces, against what was measured."""

    tp: int
    single_ms: float
    allreduce_ms: float
    measured_ms: float

    @property
    def modelled_ms(self) -> float:
        """What the model says, milliseconds."""
        return self.single_ms / self.tp + self.allreduce_ms

    @property
    def residual_ms(self) -> float:
        """Measured minus modelled: positive where the step is slower than the model."""
        return self.measured_ms - self.modelled_ms


def additive_check(
    single: StepTimes, times: StepTimes, clock: str = "replay"
) -> AdditiveCheck | None:
    """Hold the additive model against a measured step.

    Returns:
        The check, or None where a clock or the all-reduces' cost is not known, or ``times`` is the
        single GPU itself.
    """
    alone, step, cost = single.clock_ms(clock), times.clock_ms(clock), times.allreduce_ms
    if times.tp == 1 or single.tp != 1 or alone is None or step is None or cost is None:
        return None
    return AdditiveCheck(times.tp, alone, cost, step)


def link_ceiling(step_ms: float, communication_ms: float) -> float:
    """What a link without any cost could gain at most: 1 / (1 - f), f the share of communication.

    Returns:
        The ratio, at least 1; infinity where all of the step is communication. A negative share
        (noise) counts as none.

    Raises:
        InvalidSpec: The step is not positive, or the communication is longer than the step.

    Source: Amdahl (1967), with the communication as the part that is sped up.
    """
    if step_ms <= 0 or communication_ms > step_ms:
        raise InvalidSpec("Communication is a part of the step, which is positive.")
    rest = 1 - max(communication_ms, 0.0) / step_ms
    return math.inf if rest == 0 else 1 / rest


def cpu_ceiling(wall_ms: float, replay_ms: float) -> float:
    """What a CPU that costs nothing could gain at most: wall / replay.

    Raises:
        InvalidSpec: A time is not positive.
    """
    return speedup(wall_ms, replay_ms)
