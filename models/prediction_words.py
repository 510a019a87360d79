"""Predictions in sentences."""

from collections.abc import Sequence

from models.prediction import shares
from models.prediction_anchor import LinkChange, Prediction, Ratio
from models.prediction_calibration import DISTANCE_WORDS
from models.scaling_fits import break_even

_TERMS = {
    "weights": "reading the weights and computing with them",
    "cache": "reading the KV cache",
    "allreduce": "the all-reduces",
    "fixed": "the engine's fixed cost a layer",
    "prefill": "prefill of other requests",
}
# Two layouts whose throughput differs by less are the same to a prediction.
SAME_WITHIN = 0.05
# A change that rests so much on other requests' prefill says so.
MUCH_PREFILL = 1 / 3


def step_sentence(found: Prediction) -> str:
    """TPOT with its interval, and how far the nearest measurement is."""
    sure = "" if found.width.is_calibrated else " (the method study's width: not calibrated)"
    return (
        f"TP={found.setup.tp}: {found.tpot_ms:.2f} ms a token "
        f"(80 % interval {found.low_ms:.2f} to {found.high_ms:.2f}), "
        f"{found.tokens_a_second:,.0f} tok/s; {DISTANCE_WORDS[found.distance]}{sure}."
    )


def dominant_sentence(found: Prediction) -> str:
    """Which two terms make up most of the step."""
    parts = [f"{_TERMS[name]} {100 * share:.0f} %" for name, share in shares(found.terms).items()]
    return f"At TP={found.setup.tp}, of the step: {parts[0]}, {parts[1]}."


def speedup_sentence(tp: int, gain: Ratio) -> str:
    """Whether a TP size pays against one GPU."""
    interval = f"(80 % interval {gain.low:.2f} to {gain.high:.2f})"
    if gain.low > 1.0:
        return f"TP={tp} would make a token {gain.value:.2f} times as fast as one GPU {interval}."
    if gain.high < 1.0:
        return f"TP={tp} would be slower than one GPU: {gain.value:.2f} times its speed {interval}."
    return (
        f"TP={tp} against one GPU: {gain.value:.2f} times its speed {interval}. The interval holds "
        "1: a gain is not shown."
    )


def replicas_sentence(count: int, ratio: float) -> str:
    """Throughput of one group against as many servers of one GPU."""
    if ratio > 1 + SAME_WITHIN:
        return f"Its throughput would be {ratio:.2f} times that of {count} replicas."
    if ratio < 1 - SAME_WITHIN:
        return (
            f"{count} replicas of one GPU would bring more throughput: the group reaches "
            f"{100 * ratio:.0f} % of theirs."
        )
    return f"{count} replicas of one GPU would bring about the same throughput."


def link_sentence(change: LinkChange) -> str:
    """What another link would do, with its ceiling."""
    gain = change.gain
    verb = "shorter" if change.delta_ms < 0 else "longer"
    return (
        f"One small all-reduce would take {change.new_us:.1f} instead of {change.old_us:.1f} us, "
        f"and a token {abs(change.delta_ms):.2f} ms {verb}: {change.tpot_ms:.2f} ms "
        f"({change.low_ms:.2f} to {change.high_ms:.2f}), {gain.value:.2f} times the speed "
        f"({gain.low:.2f} to {gain.high:.2f}). No link could bring more than "
        f"{change.ceiling:.2f} times.{_prefill_words(change.prefill_share)}"
    )


def _prefill_words(share: float) -> str:
    """What a change rests on that is mostly other requests' prefill."""
    if share < MUCH_PREFILL:
        return ""
    return (
        f" {100 * share:.0f} % of this change is prefill of other requests, taken to come one at a "
        "time; requests that start together pay less of it, and the link is worth less to them."
    )


def sizes_sentence(tp: int, billions: Sequence[float], speedups: Sequence[float]) -> str:
    """From which model size on a TP size would pay.

    Args:
        tp: The TP size.
        billions: Parameters of each model, 1e9.
        speedups: Predicted speedup of each over one GPU.
    """
    crossings = break_even(billions, speedups)
    if crossings:
        places = " and ".join(
            f"{'above' if one.pays_above else 'below'} about {one.at:.2g} billion parameters"
            for one in crossings
        )
        return f"TP={tp} would be faster than one GPU {places}."
    always = all(value > 1 for value in speedups)
    return (
        f"TP={tp} would be {'faster' if always else 'slower'} than one GPU for every size from "
        f"{min(billions):.2g} to {max(billions):.2g} billion parameters."
    )
