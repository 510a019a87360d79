"""A prediction with its interval: from nothing, from one measured point, or for another link."""

from dataclasses import dataclass

from models.errors import NotPredicted
from models.prediction import SKEW, Link, Setup, Terms, Workload, message_bytes, terms
from models.prediction_calibration import WEIGHTS, Calibration, Width

# A predicted change of TPOT by another link is good to this factor (the study's eight cases).
LINK_DELTA = (0.6, 1.4)


@dataclass(frozen=True)
class Anchor:
    """One measured point to start from.

    Attributes:
        setup: What ran.
        work: What it was asked.
        link: The link it ran over, as it really was; None on one GPU.
        tpot_ms: Measured time per output token.
        label: Words for people.
        origin: measured, imported, published or assumed.
    """

    setup: Setup
    work: Workload
    link: Link | None
    tpot_ms: float
    label: str
    origin: str


@dataclass(frozen=True)
class Prediction:
    """A predicted step.

    Attributes:
        setup: What would run.
        work: What it would be asked.
        terms: The parts, scaled so that they add up to `tpot_ms`.
        tpot_ms: Time per output token.
        low_ms: Lower end of the 80 % interval.
        high_ms: Upper end.
        distance: How far the nearest measurement is.
        width: Width of the interval.
    """

    setup: Setup
    work: Workload
    terms: Terms
    tpot_ms: float
    low_ms: float
    high_ms: float
    distance: str
    width: Width

    @property
    def tokens_a_second(self) -> float:
        """Output throughput; reads about 5 % high, since the first token's time is left out."""
        return 1e3 * self.work.batch / self.tpot_ms


@dataclass(frozen=True)
class Ratio:
    """A predicted speedup with its 80 % interval; above 1 is faster."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LinkChange:
    """What another link would do to a measured point.

    Attributes:
        tpot_ms: Predicted TPOT.
        low_ms: Its lower end.
        high_ms: Its upper end.
        delta_ms: Predicted change; negative is faster.
        old_us: One small all-reduce before, microseconds.
        new_us: The same after.
        ceiling: Speedup that a link without any latency would bring.
        prefill_share: Part of the change that is prefill of other requests, 0 to 1.
    """

    tpot_ms: float
    low_ms: float
    high_ms: float
    delta_ms: float
    old_us: float
    new_us: float
    ceiling: float
    prefill_share: float = 0.0

    @property
    def gain(self) -> "Ratio":
        """Old TPOT over new TPOT."""
        old = self.tpot_ms - self.delta_ms
        return Ratio(old / self.tpot_ms, old / self.high_ms, old / self.low_ms)


def distance(anchor: Anchor | None, setup: Setup) -> str:
    """How far a measured point is from what is asked.

    A point of another model or precision, or one where both card and engine differ, says nothing
    that was ever checked: then nothing counts as measured.
    """
    if anchor is None:
        return "nothing_measured"
    at = anchor.setup
    if at.load != setup.load or at.precision != setup.precision:
        return "nothing_measured"
    if at.expert_parallel != setup.expert_parallel:
        return "nothing_measured"
    if at.engine != setup.engine:
        return "other_engine" if at.card.key == setup.card.key else "nothing_measured"
    if at.card.key == setup.card.key:
        return "same_system"
    same = at.card.generation == setup.card.generation
    return "same_generation" if same else "other_generation"


def predict(
    setup: Setup,
    work: Workload,
    link: Link | None,
    calibration: Calibration,
    anchor: Anchor | None = None,
) -> Prediction:
    """Predict a step, from a measured point where there is a near one.

    Args:
        setup: What would run.
        work: What it would be asked.
        link: Latency of an all-reduce in graph mode; may be None on one GPU.
        calibration: Constants and widths.
        anchor: A measured point of the same model and precision.

    Returns:
        The prediction.

    Raises:
        InvalidSpec: As `models.prediction.terms`.
        NotPredicted: As there.

    Source: T = S * (T_r / S_r)^w with S the sum of terms, r the measured point and w by distance.
    """
    found = _model(setup, work, link, calibration)
    far = distance(anchor, setup)
    factor = 1.0
    if anchor is not None and WEIGHTS[far]:
        there = _model(anchor.setup, anchor.work, anchor.link, calibration).tpot_ms
        factor = (anchor.tpot_ms / there) ** WEIGHTS[far]
    width = calibration.widths[setup.load.kind][far]
    tpot = found.tpot_ms * factor
    low, high = width.around(tpot)
    return Prediction(
        setup=setup,
        work=work,
        terms=Terms(
            weights=found.weights * factor,
            cache=found.cache * factor,
            allreduce=found.allreduce * factor,
            fixed=found.fixed * factor,
            prefill=found.prefill * factor,
        ),
        tpot_ms=tpot,
        low_ms=low,
        high_ms=high,
        distance=far,
        width=width,
    )


def _model(setup: Setup, work: Workload, link: Link | None, calibration: Calibration) -> Terms:
    kind = setup.load.kind
    constant = calibration.constant_us(kind, setup.engine, setup.card.generation)
    return terms(setup, work, link, constant)


def speedup(base: Prediction, other: Prediction, calibration: Calibration) -> Ratio:
    """How much faster ``other`` is, with its interval.

    Both share the model's error where card and engine are the same, so the interval is that of
    another TP size on one system; else it is the wider of both.
    """
    kind = other.setup.load.kind
    near = (base.setup.card.key, base.setup.engine) == (other.setup.card.key, other.setup.engine)
    far = "same_system" if near else max(base, other, key=lambda one: one.width.half).distance
    value = base.tpot_ms / other.tpot_ms
    low, high = calibration.widths[kind][far].around(value)
    return Ratio(value, low, high)


def other_link(anchor: Anchor, link: Link) -> LinkChange:
    """What another link would do to a measured point of several GPUs.

    Args:
        anchor: The point, with the link and kernel that it really used.
        link: The other link.

    Returns:
        The change, with a factor of 0.6 to 1.4 on its size.

    Raises:
        NotPredicted: One GPU, or the old link would have taken longer than the whole step.

    Source: only the all-reduces change: skew x calls x difference of latency, and the same for
        the prefill messages of other requests.
    """
    setup, work, old = anchor.setup, anchor.work, anchor.link
    if setup.tp < 2 or old is None:
        raise NotPredicted(
            "One GPU has no link: another link changes nothing.", "Start from a point with TP > 1."
        )
    load, tp = setup.load, setup.tp
    small, large = message_bytes(load, work.batch), message_bytes(load, work.input_tokens)
    old_us, new_us = old.us(tp, small), link.us(tp, small)
    others = (work.batch - 1) / work.output_tokens  # prefills of other requests a step
    paid = load.calls * (SKEW * old_us + others * old.us(tp, large)) / 1e3
    if paid >= anchor.tpot_ms:
        raise NotPredicted(
            f"The old link's all-reduces alone would take {paid:.2f} ms, and the whole step was "
            f"measured at {anchor.tpot_ms:.2f} ms: the latency is not that of this run.",
            "Choose the AllReduce sweep of the same GPUs, link and kernel.",
        )
    change = load.calls * (SKEW * new_us + others * link.us(tp, large)) / 1e3 - paid
    least = anchor.tpot_ms - paid  # without any communication
    ends = sorted(max(least, anchor.tpot_ms + factor * change) for factor in LINK_DELTA)
    value = anchor.tpot_ms + change
    prefill = load.calls * others * (link.us(tp, large) - old.us(tp, large)) / 1e3
    decode = change - prefill
    # of two parts that work against each other neither is a share
    share = prefill / change if prefill * decode >= 0 and change else 0.0
    return LinkChange(
        tpot_ms=value,
        low_ms=ends[0],
        high_ms=ends[1],
        delta_ms=value - anchor.tpot_ms,
        old_us=old_us,
        new_us=new_us,
        ceiling=1.0 / (1.0 - paid / anchor.tpot_ms),
        prefill_share=share,
    )
