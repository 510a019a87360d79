"""Where a prediction would be a guess: the reasons, and what would make it possible."""

from collections.abc import Collection
from dataclasses import dataclass

from models.architecture import check_tp
from models.errors import LinkworthError, NotPredicted
from models.prediction import (
    Link,
    Setup,
    Workload,
    cache_token_bytes,
    held_bytes,
    message_bytes,
)
from models.prediction_anchor import Anchor, Prediction, distance, predict
from models.prediction_calibration import Calibration

MOST_TP = 8
# Memory that an engine leaves free: a tenth, and 4 GB for graphs, activations and libraries.
USABLE_SHARE, RESERVED_BYTES = 0.9, 4e9
# Above this share of the step, prefill of other requests decides, and it is modelled coarsely.
MOST_INTERFERENCE = 0.5
# The method study held out a dense model of 8 billion weights too; its rows are not shipped.
STUDY_SMALLEST = {"dense": 8.0e9}
# Ways of running an engine that no row of the calibration covers.
MODES = {
    "speculative": "Speculative decoding",
    "data_parallel": "Attention data parallelism",
    "pipeline": "Pipeline parallelism",
    "disaggregated": "Prefill on other GPUs than decode",
    "eager": "Eager mode (no CUDA graphs)",
}


@dataclass(frozen=True)
class Refusal:
    """Why there is no number, or no verdict on it.

    Attributes:
        code: Identifier.
        sentence: The reason.
        next_step: What would make it possible.
        is_final: True: no number. False: the number is shown, without a verdict.
    """

    code: str
    sentence: str
    next_step: str
    is_final: bool = True


@dataclass(frozen=True)
class Answer:
    """A prediction where one can be made, and every reservation about it."""

    prediction: Prediction | None
    refusals: tuple[Refusal, ...]

    @property
    def has_verdict(self) -> bool:
        """Whether the number may be used for a decision."""
        return self.prediction is not None and not self.refusals


def needed_bytes(setup: Setup, work: Workload) -> float:
    """Memory that one GPU needs for weights, a full cache and recurrent states.

    Source: W/tp + B (input + output) x cache a token + state, as the calibration's rows were
        sorted.
    """
    context = work.input_tokens + work.output_tokens
    cache = work.batch * cache_token_bytes(setup, context)
    state = work.batch * setup.load.state_bytes / setup.tp
    return held_bytes(setup) / setup.tp + cache + state


def usable_bytes(setup: Setup) -> float:
    """Memory of one GPU that an engine gives to weights and cache."""
    return USABLE_SHARE * setup.card.memory - RESERVED_BYTES


def answer(
    setup: Setup,
    work: Workload,
    link: Link | None,
    calibration: Calibration,
    anchor: Anchor | None = None,
    modes: Collection[str] = (),
) -> Answer:
    """Predict, or say why not.

    Args:
        setup: What would run.
        work: What it would be asked.
        link: All-reduce latencies in graph mode; may be None on one GPU.
        calibration: Constants and widths.
        anchor: A measured point to start from.
        modes: Keys of `MODES` that the engine would use.

    Returns:
        The prediction where one can be made, and the refusals and reservations.
    """
    found = [*_modes(modes), *_shape(setup), *_memory(setup, work)]
    found += [*_nearness(setup, calibration, anchor), *_link(setup, work, link)]
    if any(refusal.is_final for refusal in found):
        return Answer(None, tuple(found))
    try:
        prediction = predict(setup, work, link, calibration, anchor)
    except NotPredicted as error:  # the anchor's own link
        found.append(Refusal("anchor_link", error.sentence, error.next_step))
        return Answer(None, tuple(found))
    found += [*_doubts(prediction, calibration)]
    return Answer(prediction, tuple(found))


def _modes(modes: Collection[str]) -> list[Refusal]:
    return [
        Refusal(
            mode,
            f"{MODES[mode]} is not predicted: no measured row covers it.",
            "Measure a serving run with it; its gain can go to ROI as it is.",
        )
        for mode in modes
    ]


def _shape(setup: Setup) -> list[Refusal]:
    if setup.tp > MOST_TP:
        return [
            Refusal(
                "tp",
                f"TP={setup.tp} spans more than {MOST_TP} GPUs, and no measured row does.",
                "Predict replicas of a smaller TP size.",
            )
        ]
    try:
        check_tp(setup.load.arch, setup.tp)
    except LinkworthError as error:
        return [Refusal("tp", error.sentence, error.next_step)]
    return []


def _memory(setup: Setup, work: Workload) -> list[Refusal]:
    need, room = needed_bytes(setup, work), usable_bytes(setup)
    if need <= room:
        return []
    return [
        Refusal(
            "memory",
            f"Weights and cache need {need / 1e9:.0f} GB on each of {setup.tp} "
            f"{setup.card.label}, and {max(0.0, room) / 1e9:.0f} GB are usable: "
            "requests would wait, and waiting is not predicted.",
            "More GPUs, fewer bits, shorter lengths or less concurrency.",
        )
    ]


def _nearness(setup: Setup, calibration: Calibration, anchor: Anchor | None) -> list[Refusal]:
    far = distance(anchor, setup)
    sweep = "Measure one serving run of this model on this card, at any TP size, and start from it."
    found = []
    if anchor is not None and far == "nothing_measured":
        what = "the measured point differs in model, precision, or in both card and engine"
        if anchor.setup.expert_parallel != setup.expert_parallel:
            what = "experts are divided by expert on one side and by width on the other"
        found.append(
            Refusal(
                "anchor",
                f"The measured point says nothing about this setup: {what}.",
                "Choose a point of the same model and precision, or predict without one.",
            )
        )
    if not setup.card.is_calibrated and far != "same_system":
        found.append(
            Refusal(
                "card",
                f"No measured serving step of a {setup.card.label} stands behind the constants; "
                "consumer, PCIe and power-capped cards behave differently.",
                sweep,
            )
        )
    elif setup.engine == "sglang" and far == "nothing_measured":
        found.append(
            Refusal(
                "engine",
                "SGLang without a measured point is 20 to 28 % off in the median.",
                sweep,
            )
        )
    return found


def _link(setup: Setup, work: Workload, link: Link | None) -> list[Refusal]:
    if setup.tp == 1:
        return []
    if link is None:
        words = "Several GPUs need a link whose all-reduce latency in graph mode is known."
        return [Refusal("link", words, "Choose a reference or a sweep, or describe the link.")]
    try:
        link.us(setup.tp, message_bytes(setup.load, work.batch))
    except NotPredicted as error:
        return [Refusal("link", error.sentence, error.next_step)]
    return []


def _doubts(found: Prediction, calibration: Calibration) -> list[Refusal]:
    """Reservations: the number is shown, and nothing is decided on it."""
    doubts = []
    share = found.terms.prefill / found.tpot_ms
    if share > MOST_INTERFERENCE:
        doubts.append(
            Refusal(
                "interference",
                f"{100 * share:.0f} % of the step would be prefill of other requests, which is "
                "modelled coarsely.",
                "Shorter inputs, less concurrency, or measure this load.",
                is_final=False,
            )
        )
    low, high = calibration.batches
    work, load = found.work, found.setup.load
    if not low <= work.batch <= high or work.output_tokens < calibration.least_output:
        doubts.append(
            Refusal(
                "load",
                f"Errors were measured for {low} to {high} requests at a time and outputs of at "
                f"least {calibration.least_output} tokens; this load lies outside.",
                "Measure this load once and start from it.",
                is_final=False,
            )
        )
    smallest, largest = calibration.parameters[load.kind]
    smallest = min(smallest, STUDY_SMALLEST.get(load.kind, smallest))
    is_alone = found.distance == "nothing_measured"
    if is_alone and not smallest <= load.total <= 1.5 * largest:
        doubts.append(
            Refusal(
                "size",
                f"Errors were measured on models of {smallest / 1e9:.0f} to {largest / 1e9:.0f} "
                f"billion weights, and this one has {load.total / 1e9:.1f}.",
                "Measure one serving run of this model and start from it.",
                is_final=False,
            )
        )
    if not found.setup.card.is_calibrated:
        doubts.append(
            Refusal(
                "card",
                f"The interval was not checked on a {found.setup.card.label}.",
                "Measure the other TP size as well.",
                is_final=False,
            )
        )
    return doubts


def expert_doubt(kind: str, low: float) -> Refusal | None:
    """Why more GPUs are not advised for a mixture of experts, or None.

    Args:
        kind: dense or moe.
        low: Lower end of the predicted speedup's interval.

    Source: predicted speedups of mixtures of experts are about 7 % too good.
    """
    if kind == "dense" or low > 1.0:
        return None
    return Refusal(
        "experts",
        "Predicted speedups of mixtures of experts come out about 7 % too good, and this interval "
        "holds 1: more GPUs are not advised on it.",
        "Measure both TP sizes.",
        is_final=False,
    )
