"""What the numbers of `models.scaling` say, in sentences with their reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.scaling import AdditiveCheck, StepTimes, cpu_ceiling, link_ceiling, speedup
from models.scaling_fits import AGREEMENT, Agreement, BreakEven

# Changes below this share are called no difference, as in every comparison of the project.
SAME_WITHIN = 0.02
# Milliseconds below which a contribution is said to add nothing.
NOTHING_MS = 0.005


@dataclass(frozen=True)
class Verdict:
    """Whether a TP size pays, and why.

    Attributes:
        sentence: One sentence with its reasons.
        pays: True, False, or None where the difference is within `SAME_WITHIN`.
        speedup: Step on one GPU over step at this size.
        reasons: The reasons alone, one clause each.
    """

    sentence: str
    pays: bool | None
    speedup: float
    reasons: tuple[str, ...]


def times_words(value: float) -> str:
    """A ratio with its sign of multiplication."""
    return f"{value:.2f}×"


def signed_ms(value: float) -> str:
    """Milliseconds with a typographic sign."""
    return f"{'−' if value < 0 else '+'}{abs(value):.2f} ms"


def splitting_words(tp: int) -> str:
    """What tensor parallelism does to the weights, for a sentence."""
    return "halving the weights" if tp == 2 else f"splitting the weights over {tp} GPUs"


def verdict(
    single: StepTimes,
    times: StepTimes,
    where: str = "On this host",
    interval: tuple[float, float] | None = None,
) -> Verdict | None:
    """Say whether a TP size pays here and why.

    Args:
        single: The model on one GPU.
        times: The same at a TP size above 1.
        where: How the sentence begins.
        interval: 95 % interval of the speedup in that clock; None below three rounds.

    Returns:
        The verdict, in wall clock where both have it, else in replay; None where no clock is
        common to both.
    """
    clock = "wall" if single.wall_ms is not None and times.wall_ms is not None else "replay"
    alone, step = single.clock_ms(clock), times.clock_ms(clock)
    if alone is None or step is None or times.tp == 1:
        return None
    gain = speedup(alone, step)
    change = step / alone - 1
    reasons = _reasons(single, times)
    pays: bool | None = None
    if interval is not None and interval[0] <= 1 <= interval[1] and abs(change) >= SAME_WITHIN:
        effect = "makes no difference to this model that these rounds show"
    elif abs(change) < SAME_WITHIN:
        effect = f"makes no difference to this model (within {SAME_WITHIN:.0%})"
    else:
        pays = change < 0
        # of the step's time: "27 % faster" would not go with the 1.37 times that follow
        word = "shorter" if pays else "longer"
        effect = f"makes this model's step {abs(change) * 100:.0f} % {word}"
    spread = f", 95 % interval {interval[0]:.2f} to {interval[1]:.2f}" if interval else ""
    in_clock = "" if clock == "wall" else " in graph replay"
    head = (
        f"{where} TP={times.tp} {effect}{in_clock} "
        f"({step:.2f} ms a step against {alone:.2f} ms, {times_words(gain)}{spread})"
    )
    tail = (
        f": {', '.join(reasons)}."
        if reasons
        else "; the clocks that would say why were not measured."
    )
    return Verdict(head + tail, pays, gain, tuple(reasons))


def _reasons(single: StepTimes, times: StepTimes) -> list[str]:
    reasons = []
    exposed = times.exposed_ms
    if exposed is not None and single.replay_ms is not None and times.no_allreduce_ms is not None:
        saved = single.replay_ms - times.no_allreduce_ms
        verb = "saves" if saved >= 0 else "loses"
        reasons.append(f"{splitting_words(times.tp)} {verb} {abs(saved):.2f} ms")
        reasons.append(
            f"the all-reduces cost {exposed:.2f} ms"
            if exposed >= 0
            else f"the all-reduces cost nothing that can be measured ({signed_ms(exposed)})"
        )
    elif (
        times.allreduce_ms is not None
        and single.replay_ms is not None
        and times.replay_ms is not None
    ):
        ideal = single.replay_ms - single.replay_ms / times.tp
        residual = times.replay_ms - single.replay_ms / times.tp - times.allreduce_ms
        reasons.append(f"{splitting_words(times.tp)} would ideally save {ideal:.2f} ms")
        reasons.append(f"the all-reduces taken alone cost {times.allreduce_ms:.2f} ms")
        reasons.append(f"the two do not explain {signed_ms(residual)} of the step")
    if single.cpu_ms is not None and times.cpu_ms is not None:
        more = times.cpu_ms - single.cpu_ms
        if abs(more) < NOTHING_MS:
            reasons.append("the CPU adds nothing")
        elif more > 0:
            reasons.append(f"the CPU adds {more:.2f} ms")
        else:
            reasons.append(f"the CPU's share falls by {-more:.2f} ms")
    if single.engine_ms is not None and times.engine_ms is not None:
        more = times.engine_ms - single.engine_ms
        if abs(more) >= NOTHING_MS:
            verb = "adds" if more > 0 else "saves"
            reasons.append(f"an engine's work around the graph {verb} {abs(more):.2f} ms beside it")
    return reasons


def additive_sentence(check: AdditiveCheck) -> str:
    """The additive model against the measurement, with its residual and what that means."""
    said = (
        f"Additive model at TP={check.tp}: {check.single_ms:.2f} / {check.tp} + "
        f"{check.allreduce_ms:.2f} = {check.modelled_ms:.2f} ms; "
        f"measured {check.measured_ms:.2f} ms; residual {signed_ms(check.residual_ms)}."
    )
    if abs(check.residual_ms) <= SAME_WITHIN * check.measured_ms:
        return f"{said} The model holds here."
    if check.residual_ms < 0:
        return (
            f"{said} The step is faster than the model: the all-reduces cannot all cost inside the "
            "step what they cost alone."
        )
    return (
        f"{said} The step is slower than the model: the shards take longer than their share of "
        "the work, or the all-reduces cost more inside the step than alone."
    )


def agreement_sentence(agreement: Agreement, calls: int, allreduce_us: float) -> str:
    """Exposed communication by difference beside calls x latency, or what stays unexplained."""
    said = (
        f"By difference the all-reduces cost {agreement.exposed_ms:.3f} ms a step; {calls} calls × "
        f"{allreduce_us:.1f} us give {agreement.product_ms:.3f} ms (ratio {agreement.ratio:.2f})."
    )
    gap = agreement.unexplained_ms
    if gap is None:
        return f"{said} They agree within {AGREEMENT:.0%}."
    return f"{said} *Unexplained*: {signed_ms(gap)}."


def ceiling_sentence(times: StepTimes) -> str | None:
    """The ceiling of a faster CPU beside the ceiling of a better link, where they are known."""
    words = []
    if times.wall_ms is not None and times.replay_ms is not None:
        gain = cpu_ceiling(times.wall_ms, times.replay_ms)
        words.append(f"a CPU that costs nothing would give at most {times_words(gain)}")
    total = times.wall_ms if times.wall_ms is not None else times.replay_ms
    part = times.communication
    if times.tp > 1 and total is not None and part is not None and part.ms <= total:
        gain = link_ceiling(total, part.ms)
        words.append(f"a link that costs nothing at most {times_words(gain)}")
        if part.basis == "modelled":
            words[-1] += " (if the all-reduces cost inside the step what they cost alone)"
    if not words:
        return None
    return f"At TP={times.tp}, {', '.join(words)}."


def break_even_sentence(
    crossings: Sequence[BreakEven], speedups: Sequence[float], tp: int, what: str, unit: str = ""
) -> str:
    """Where a TP size starts to pay, from measured points only.

    Args:
        crossings: From `models.scaling.break_even`.
        speedups: All measured speedups.
        tp: The TP size.
        what: The quantity that grows: "model size", "batch".
        unit: Its unit, with a leading blank.
    """
    if crossings:
        places = []
        for crossing in crossings:
            side = "above" if crossing.pays_above else "below"
            places.append(
                f"{side} a {what} of about {crossing.at:.2g}{unit} (between the measured "
                f"{crossing.below:.3g} and {crossing.above:.3g})"
            )
        return f"TP={tp} pays {' and '.join(places)}."
    if len(speedups) < 2:
        return f"One {what} is measured: measure a second to see where TP={tp} starts to pay."
    if all(value > 1 for value in speedups):
        return (
            f"TP={tp} pays at every measured {what}; the break-even lies outside what was measured."
        )
    return f"TP={tp} pays at no measured {what}; the break-even, if any, lies outside."
