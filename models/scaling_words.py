"""What the numbers of `models.scaling` say, in sentences with their reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.scaling import (
    AdditiveCheck,
    StepTimes,
    cpu_ceiling,
    efficiency,
    link_ceiling,
    speedup,
)
from models.scaling_fits import AGREEMENT, FITS_WITHIN, Agreement, BreakEven, InverseFit

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
        speedup: Step of the reference over step at this size.
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


def splitting_words(tp: int, reference_tp: int = 1) -> str:
    """What tensor parallelism does to the weights, for a sentence."""
    if tp == 2 * reference_tp:
        return "halving the weights" if reference_tp == 1 else "halving each GPU's weights"
    instead = f" instead of {reference_tp}" if reference_tp > 1 else ""
    return f"splitting the weights over {tp} GPUs{instead}"


def ideal_words(gain: float, tp: int, reference_tp: int = 1) -> str:
    """How much of the ideal a speedup reaches, for a sentence."""
    share = efficiency(gain, tp, reference_tp)
    return f"{share * 100:.0f} % of the ideal {tp / reference_tp:.3g}×"


def verdict(
    reference: StepTimes,
    times: StepTimes,
    where: str = "On this host",
    interval: tuple[float, float] | None = None,
) -> Verdict | None:
    """Say whether a TP size pays here and why.

    Args:
        reference: The model on one GPU, or at the smallest TP size that holds it.
        times: The same at a larger TP size.
        where: How the sentence begins.
        interval: 95 % interval of the speedup in that clock; None below three rounds.

    Returns:
        The verdict, in wall clock where both have it, else in replay; None where no clock is
        common to both.
    """
    has_wall = reference.wall_ms is not None and times.wall_ms is not None
    clock = "wall" if has_wall else "replay"
    before, step = reference.clock_ms(clock), times.clock_ms(clock)
    if before is None or step is None or times.tp <= reference.tp:
        return None
    gain = speedup(before, step)
    change = step / before - 1
    reasons = _reasons(reference, times)
    than, against = "", ""
    if reference.tp > 1:  # one GPU is what everybody compares with: it needs no name
        than, against = f" than TP={reference.tp} does", f" against TP={reference.tp}"
    pays: bool | None = None
    if interval is not None and interval[0] <= 1 <= interval[1] and abs(change) >= SAME_WITHIN:
        effect = f"makes no difference to this model{against} that these rounds show"
    elif abs(change) < SAME_WITHIN:
        effect = f"makes no difference to this model{against} (within {SAME_WITHIN:.0%})"
    else:
        pays = change < 0
        # of the step's time: "27 % faster" would not go with the 1.37 times that follow
        word = "shorter" if pays else "longer"
        effect = f"makes this model's step {abs(change) * 100:.0f} % {word}{than}"
    spread = f", 95 % interval {interval[0]:.2f} to {interval[1]:.2f}" if interval else ""
    in_clock = "" if clock == "wall" else " in graph replay"
    head = (
        f"{where} TP={times.tp} {effect}{in_clock} "
        f"({step:.2f} ms a step against {before:.2f} ms, {times_words(gain)}{spread})"
    )
    tail = (
        f": {', '.join(reasons)}."
        if reasons
        else "; the clocks that would say why were not measured."
    )
    return Verdict(head + tail, pays, gain, tuple(reasons))


def _reasons(reference: StepTimes, times: StepTimes) -> list[str]:
    reasons = [*_communication(reference, times)]
    if reference.cpu_ms is not None and times.cpu_ms is not None:
        more = times.cpu_ms - reference.cpu_ms
        if abs(more) < NOTHING_MS:
            reasons.append("the CPU adds nothing")
        elif more > 0:
            reasons.append(f"the CPU adds {more:.2f} ms")
        else:
            reasons.append(f"the CPU's share falls by {-more:.2f} ms")
    if reference.engine_ms is not None and times.engine_ms is not None:
        more = times.engine_ms - reference.engine_ms
        if abs(more) >= NOTHING_MS:
            verb = "adds" if more > 0 else "saves"
            reasons.append(f"an engine's work around the graph {verb} {abs(more):.2f} ms beside it")
    return reasons


def _communication(reference: StepTimes, times: StepTimes) -> list[str]:
    """What smaller shards save and what the all-reduces take, measured or else modelled."""
    split = splitting_words(times.tp, reference.tp)
    here, before = times.exposed_ms, reference.exposed_ms
    if reference.replay_ms is None or times.replay_ms is None:
        return []
    if here is not None and before is not None:
        saved = (reference.replay_ms - before) - (times.replay_ms - here)
        paid = here - before
        said = f"the all-reduces cost {_more(paid, reference.tp)}"
        if paid < 0 and reference.tp == 1:
            said = f"the all-reduces cost nothing that can be measured ({signed_ms(paid)})"
        return [f"{split} {'saves' if saved >= 0 else 'loses'} {abs(saved):.2f} ms", said]
    if times.allreduce_ms is not None and reference.allreduce_ms is not None:
        divided = reference.replay_ms - reference.allreduce_ms
        ideal = divided - divided * reference.tp / times.tp
        paid = times.allreduce_ms - reference.allreduce_ms
        residual = times.replay_ms - (reference.replay_ms - ideal + paid)
        return [
            f"{split} would ideally save {ideal:.2f} ms",
            f"the all-reduces taken alone cost {_more(paid, reference.tp)}",
            f"the two do not explain {signed_ms(residual)} of the step",
        ]
    return []


def _more(paid_ms: float, reference_tp: int) -> str:
    """What the all-reduces cost beside a reference's, which has none on one GPU."""
    if reference_tp == 1:
        return f"{paid_ms:.2f} ms"
    return f"{abs(paid_ms):.2f} ms {'more' if paid_ms >= 0 else 'less'}"


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


def fit_sentence(fit: InverseFit, clock: str) -> str:
    """The curve T = A/tp + C with its residuals, and whether it holds.

    Args:
        fit: The curve.
        clock: The clock of its steps, in words.
    """
    residuals = ", ".join(
        f"TP={tp} {round(value, 2) + 0.0:+.2f}"  # no minus before a zero
        for tp, value in zip(fit.tps, fit.residuals_ms, strict=True)
    )
    said = (
        f"T = A/tp + C in {clock}: A = {fit.shared_ms:.2f} ms divides over the GPUs, "
        f"C = {fit.constant_ms:.2f} ms stays (residuals in ms: {residuals})."
    )
    tp, share = fit.farthest
    if abs(share) > FITS_WITHIN:
        side = "above" if share > 0 else "below"
        return (
            f"{said} The curve does not hold: the step at TP={tp} lies {abs(share) * 100:.0f} % "
            f"{side} it, so no one C stays at every size."
        )
    if fit.constant_ms <= 0:
        return f"{said} These sizes do not show that anything stays."
    return f"{said} On this curve no number of GPUs brings a step below C."


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
    crossings: Sequence[BreakEven],
    speedups: Sequence[float],
    tp: int,
    what: str,
    unit: str = "",
    *,
    reference_tp: int | None = None,
) -> str:
    """Where a TP size starts to pay, from measured points only.

    Args:
        crossings: From `models.scaling.break_even`.
        speedups: All measured speedups.
        tp: The TP size.
        what: The quantity that grows: "model size", "batch".
        unit: Its unit, with a leading blank.
        reference_tp: The TP size that all are compared with, to be named where there are several;
            None leaves it out.
    """
    against = f" against TP={reference_tp}" if reference_tp else ""
    if crossings:
        places = []
        for crossing in crossings:
            side = "above" if crossing.pays_above else "below"
            places.append(
                f"{side} a {what} of about {crossing.at:.2g}{unit} (between the measured "
                f"{crossing.below:.3g} and {crossing.above:.3g})"
            )
        return f"TP={tp}{against} pays {' and '.join(places)}."
    if len(speedups) < 2:
        return one_point_sentence(what, [tp])
    if all(value > 1 for value in speedups):
        return (
            f"TP={tp}{against} pays at every measured {what}; the break-even lies outside what was "
            "measured."
        )
    return f"TP={tp}{against} pays at no measured {what}; the break-even, if any, lies outside."


def one_point_sentence(what: str, tps: Sequence[int]) -> str:
    """Why the break-even of some TP sizes is not known: the quantity was measured at one value."""
    *first, last = [f"TP={tp}" for tp in tps]
    named = f"{', '.join(first)} and {last} start" if first else f"{last} starts"
    return f"One {what} is measured: measure a second to see where {named} to pay."
