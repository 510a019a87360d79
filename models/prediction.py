"""What one decode step takes on hardware that is not here: a sum of five terms.

The method is a roofline with two fixed efficiencies, the all-reduces read from a table measured in
graph mode, a constant a layer that is fitted per engine, and the prefill work that runs between
decode steps of other requests. More parameters made errors on held-out models worse (see
docs/calibration.md for ours).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from models.catalogue import Card
from models.errors import InvalidSpec
from models.prediction_shape import Load

ENGINES = ("vllm", "trtllm", "sglang")
PRECISIONS = ("bf16", "fp8", "fp4", "int4")

# Shares of the peak that real kernels reach; chosen before fitting, not fitted.
MEMORY_EFFICIENCY = 0.8
COMPUTE_EFFICIENCY = 0.6
# An all-reduce inside a step waits for the slowest rank; back-to-back tables hide that.
SKEW = 1.3
# Bytes of one weight with its scales.
_WEIGHT_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625, "mxfp4": 0.53, "int4": 0.53}
_UNPACKED = 2.0  # embeddings, and what a 4-bit mixture of experts leaves unpacked
_ACTIVATION_BYTES = 2  # of one element of an all-reduce's message


class Link(Protocol):
    """Latency of one all-reduce in graph mode."""

    def us(self, tp: int, message_bytes: float) -> float:
        """Microseconds over ``tp`` GPUs.

        Raises:
            NotPredicted: No latency in graph mode is known for this number of GPUs.
        """
        ...


@dataclass(frozen=True)
class Workload:
    """What is asked of the engine: ``batch`` requests at a time, tokens in, tokens out."""

    batch: int
    input_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if min(self.batch, self.input_tokens, self.output_tokens) < 1:
            raise InvalidSpec("Concurrency, input and output need at least one each.")

    @property
    def context(self) -> float:
        """Mean number of cached tokens a request while it decodes."""
        return self.input_tokens + self.output_tokens / 2


@dataclass(frozen=True)
class Setup:
    """What runs, and on what.

    Attributes:
        load: The model.
        precision: Of the weights: bf16, fp8, fp4 or int4.
        cache_bytes: Bytes of one cached element.
        engine: vllm, trtllm or sglang.
        card: The GPU.
        tp: Tensor-parallel size.
        expert_parallel: Whether experts are divided by expert instead of by width.
    """

    load: Load
    precision: str
    cache_bytes: float
    engine: str
    card: Card
    tp: int
    expert_parallel: bool = False

    @property
    def format(self) -> str:
        """How the weights lie in memory; a model published in mxfp4 stays in it."""
        return (
            "mxfp4" if self.precision == "fp4" and self.load.packed == "mxfp4" else (self.precision)
        )

    @property
    def is_four_bit(self) -> bool:
        """Whether weights have about four bits."""
        return self.precision in ("fp4", "int4")


@dataclass(frozen=True)
class Terms:
    """A step and its parts, milliseconds.

    Attributes:
        weights: Matrix products: reading the weights, or computing, whichever is longer (smooth).
        cache: Reading cached keys and values, and recurrent states.
        allreduce: The all-reduces of the step; 0 on one GPU.
        fixed: What the engine spends a layer on everything else.
        prefill: Prefill of other requests that runs between this request's steps.
    """

    weights: float
    cache: float
    allreduce: float
    fixed: float
    prefill: float

    @property
    def tpot_ms(self) -> float:
        """The sum: time per output token."""
        return self.weights + self.cache + self.allreduce + self.fixed + self.prefill

    def tokens_a_second(self, batch: int) -> float:
        """Output throughput of ``batch`` requests; reads about 5 % high, since TTFT is left out."""
        return 1e3 * batch / self.tpot_ms


def peak_flops(card: Card, precision: str) -> float:
    """Dense FLOP/s of the matrix products at a precision; weight-only formats compute in bf16.

    Raises:
        InvalidSpec: The catalogue holds no bf16 figure for this card.
    """
    own = card.flops.get(precision)
    fallback = card.flops.get("bf16")
    if own is None and fallback is None:
        raise InvalidSpec(f"No dense FLOP/s are known for {card.label}.")
    return float(own if own is not None else fallback or 0.0)


def weight_bytes(setup: Setup, tokens: int) -> float:
    """Bytes of weights that a step of ``tokens`` tokens reads over all GPUs.

    Source: every dense weight once, the experts that the tokens touch, and the vocabulary head.
    """
    load = setup.load
    packed = _WEIGHT_BYTES[setup.format]
    body = _UNPACKED if setup.is_four_bit and load.kind == "moe" else packed
    return load.body * body + load.touched(tokens) * packed + _UNPACKED * load.embedding


def held_bytes(setup: Setup) -> float:
    """Bytes of weights that lie in memory over all GPUs, embeddings included."""
    load = setup.load
    experts = load.arch.experts
    packed = _WEIGHT_BYTES[setup.format]
    body = _UNPACKED if setup.is_four_bit and load.kind == "moe" else packed
    routed = 0 if experts is None else experts.layers * experts.count * load.expert
    copies = 1 if load.arch.tied_embeddings else 2
    return load.body * body + routed * packed + copies * _UNPACKED * load.embedding


def cache_token_bytes(setup: Setup, context: float) -> float:
    """Bytes of cache that a step reads for one request, a GPU, at a context length.

    Source: keys and values of grouped-query attention divide over the GPUs up to one head each;
        a latent cache does not divide. A window or a sparse selection bounds what is read.
    """
    load = setup.load
    arch = load.arch
    share = 1 if arch.latent is not None else min(setup.tp, arch.kv_heads)
    seen = context if load.sparse_tokens is None else min(context, load.sparse_tokens)
    elements = load.full_layers * seen * load.cache_width
    if load.window_layers and arch.sliding_window is not None:
        elements += load.window_layers * min(context, arch.sliding_window) * load.cache_width
    picked = load.full_layers * context * load.index_width  # an index is kept in one byte
    return elements * setup.cache_bytes / share + picked


def message_bytes(load: Load, tokens: float) -> float:
    """Message of one all-reduce: a bf16 hidden vector a token."""
    return _ACTIVATION_BYTES * tokens * load.arch.hidden


def terms(setup: Setup, work: Workload, link: Link | None, us_a_layer: float) -> Terms:
    """Predict the parts of one decode step.

    Args:
        setup: Model, precision, engine, card, TP size.
        work: Concurrency and lengths.
        link: Latency of an all-reduce in graph mode; not asked on one GPU.
        us_a_layer: The engine's constant, microseconds a layer.

    Returns:
        The terms, milliseconds.

    Raises:
        InvalidSpec: The TP size is not positive, or several GPUs have no link.
        NotPredicted: The link knows no latency for this number of GPUs.

    Source: method study "S": T = (T_w^4 + T_c^4)^(1/4) + T_kv + T_ar + T_fix + T_pf.
    """
    load, card, tp, batch = setup.load, setup.card, setup.tp, work.batch
    if tp < 1:
        raise InvalidSpec("The tensor-parallel size is at least 1.")
    if tp > 1 and link is None:
        raise InvalidSpec("Several GPUs need a link between them.")
    bandwidth = card.bandwidth * MEMORY_EFFICIENCY
    compute = peak_flops(card, setup.precision) * COMPUTE_EFFICIENCY
    reading = 1e3 * weight_bytes(setup, batch) / (tp * bandwidth)
    computing = 1e3 * 2 * (load.active + load.embedding) * batch / (tp * compute)
    cache = 1e3 * batch * cache_token_bytes(setup, work.context) / bandwidth
    cache += 1e3 * 2 * batch * load.state_bytes / (tp * bandwidth)
    calls = load.calls if tp > 1 else 0
    reduce_ms = 0.0
    if link is not None and calls:
        reduce_ms = SKEW * calls * link.us(tp, message_bytes(load, batch)) / 1e3
    return Terms(
        weights=(reading**4 + computing**4) ** 0.25,
        cache=cache,
        allreduce=reduce_ms,
        fixed=load.arch.layers * us_a_layer / 1e3,
        prefill=_interference(setup, work, link, compute),
    )


def _interference(setup: Setup, work: Workload, link: Link | None, compute: float) -> float:
    """Prefill of the other requests, spread over this request's output tokens, milliseconds."""
    if work.batch == 1:
        return 0.0
    load, tp, tokens = setup.load, setup.tp, work.input_tokens
    attention = 2.0 * tokens * _seen_in_prefill(load, tokens) * _query_width(load)
    in_bf16 = peak_flops(setup.card, "bf16") * COMPUTE_EFFICIENCY
    one = 1e3 * (2.0 * load.active * tokens / compute + attention / in_bf16) / tp
    if tp > 1 and link is not None:
        one += load.calls * link.us(tp, message_bytes(load, tokens)) / 1e3
    return (work.batch - 1) / work.output_tokens * one


def _query_width(load: Load) -> float:
    """Elements that one token's scores and weighted sum run over, a layer."""
    arch = load.arch
    if arch.latent is not None:
        wide = arch.latent.nope_dim + arch.latent.rope_dim + arch.latent.v_dim
        return arch.heads * wide / 2
    return arch.heads * arch.head_dim


def _seen_in_prefill(load: Load, tokens: int) -> float:
    """Sum over layers of the tokens that causal attention sees, twice the mean."""
    window = load.arch.sliding_window or tokens
    chosen = load.sparse_tokens or tokens
    return load.full_layers * min(tokens, 2 * chosen) + load.window_layers * min(tokens, 2 * window)


def shares(found: Terms) -> Mapping[str, float]:
    """Each term's share of the step, largest first."""
    parts = {
        "weights": found.weights,
        "cache": found.cache,
        "allreduce": found.allreduce,
        "fixed": found.fixed,
        "prefill": found.prefill,
    }
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    return {name: value / found.tpot_ms for name, value in ordered}
