"""Bytes and operations of one decode step, its floor in time, and the memory it needs.

A decode step reads every weight once and every cached key and value once, so at small batches its
floor is bytes over memory bandwidth.
"""

from dataclasses import dataclass

from models.architecture import calls_per_step, check_tp
from models.errors import InvalidSpec, OutOfMemory
from models.shape import Architecture

# Families that are attention, gated MLP and RMSNorm, nothing else: what the runner can build.
PLAIN_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")

# Bytes of one weight, activation and cached element.
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}

# Context, libraries, communicator buffers and captured graphs of one process, beside the model.
RESERVE_BYTES = {"cuda": 2_000_000_000, "cpu": 300_000_000}

# Positions go round within this many after the KV length, so that a table of them stays small.
POSITION_SPAN = 1024
# Positions that a page of a cache holds; what paged caches use by default.
PAGE = 16


@dataclass(frozen=True)
class StepCost:
    """What one rank does in one decode step.

    Attributes:
        weight_bytes: Weights read, bytes.
        kv_bytes: Cached keys and values read, bytes.
        flops: Floating point operations of the matrix products and the attention.
        calls: All-reduces, the vocabulary-parallel embedding's included; 0 on one GPU.
    """

    weight_bytes: int
    kv_bytes: int
    flops: int
    calls: int

    @property
    def bytes_read(self) -> int:
        """All bytes that must come from memory."""
        return self.weight_bytes + self.kv_bytes


@dataclass(frozen=True)
class MemoryNeed:
    """Memory that one GPU (or one CPU rank) needs, bytes."""

    weights: int
    kv_cache: int
    activations: int
    reserve: int

    @property
    def total(self) -> int:
        """The sum."""
        return self.weights + self.kv_cache + self.activations + self.reserve

    @property
    def words(self) -> str:
        """The sum and its terms."""
        terms = (
            ("weights", self.weights),
            ("key-value cache", self.kv_cache),
            ("activations", self.activations),
            ("reserve for libraries and graphs", self.reserve),
        )
        listed = " + ".join(f"{memory_words(value)} {name}" for name, value in terms)
        return f"{memory_words(self.total)} = {listed}"


def memory_words(n_bytes: float) -> str:
    """Bytes in GB (1e9 bytes) or MB, with as many digits as a person needs."""
    value = n_bytes / 1e9
    if value >= 100:
        return f"{value:.0f} GB"
    return f"{value:.1f} GB" if value >= 1 else f"{n_bytes / 1e6:.3g} MB"


def check_plain(arch: Architecture) -> None:
    """Refuse a model that the decode runner cannot build as it is.

    Raises:
        InvalidSpec: Says which part of the model is not a plain dense decoder.
    """
    what = None
    if arch.experts is not None:
        what = "has a mixture of experts"
    elif arch.latent is not None:
        what = "has latent attention"
    elif arch.attention_layers != arch.layers:
        what = "has layers without a key-value cache"
    elif arch.weight_bits is not None:
        what = "is quantised"
    elif not arch.gated_mlp:
        what = "has an MLP without a gate"
    elif arch.model_type not in PLAIN_FAMILIES:
        what = f"is of the family {arch.model_type or 'none'!r}"
    if what is not None:
        raise InvalidSpec(
            f"This model {what}; the decode step is built for plain dense decoders only "
            f"({', '.join(PLAIN_FAMILIES)}).",
            "Pick a built-in model of a similar size, or benchmark this one in serving.",
        )
    if arch.head_dim % 2:
        raise InvalidSpec(f"A head of {arch.head_dim} elements cannot be rotated in pairs.")


def check_decode(arch: Architecture, tp: int, kv_len: int, batch: int = 1) -> None:
    """Refuse a decode step that cannot exist.

    Raises:
        InvalidSpec: The model is not plain, does not divide by ``tp``, or ``kv_len`` or ``batch``
            lies outside what the model allows.
    """
    check_plain(arch)
    check_tp(arch, tp)
    if batch < 1 or kv_len < 1:
        raise InvalidSpec("A decode step needs at least one sequence and one position.")
    if arch.max_positions is not None and kv_len > arch.max_positions:
        raise InvalidSpec(
            f"A context of {kv_len:,} tokens is longer than the model's {arch.max_positions:,}.",
            "Pick a shorter KV length.",
        )
    if arch.sliding_window is not None and kv_len > arch.sliding_window:
        raise InvalidSpec(
            f"This model looks back {arch.sliding_window:,} tokens at most, and the KV length is "
            f"{kv_len:,}.",
            "Pick a KV length inside the window.",
        )


def kv_heads_a_rank(arch: Architecture, tp: int) -> int:
    """Key-value heads of one rank: its share, or one copy where there are fewer than ranks."""
    return max(1, arch.kv_heads // tp)


def vocab_rows_a_rank(arch: Architecture, tp: int) -> int:
    """Rows of the vocabulary that one rank holds, the last rank's padding included."""
    return -(-arch.vocab // tp)


def _layer_weights(arch: Architecture, tp: int) -> int:
    q_width = arch.heads // tp * arch.head_dim
    kv_width = 2 * kv_heads_a_rank(arch, tp) * arch.head_dim
    count = arch.hidden * (q_width + kv_width) + q_width * arch.hidden
    count += 3 * arch.hidden * (arch.intermediate // tp) + 2 * arch.hidden
    if arch.qkv_bias:
        count += q_width + kv_width
    if arch.qk_norm:
        count += 2 * arch.head_dim
    return count


def step_cost(
    arch: Architecture, tp: int, batch: int, kv_len: int, dtype_bytes: int = 2
) -> StepCost:
    """Count what one rank does in one decode step of a plain decoder.

    Args:
        arch: The model.
        tp: Tensor-parallel size.
        batch: Sequences, one new token each.
        kv_len: Positions that the new token attends to, itself included.
        dtype_bytes: Bytes of one weight and of one cached element.

    Returns:
        The counts; embedding rows looked up are left out (batch x hidden, nothing beside the rest).

    Raises:
        InvalidSpec: As `check_decode`.

    Source: one read of every weight and every cached element; 2 operations a weight and token, and
        4 x heads x head_dim a cached position (scores, then the weighted sum).
    """
    check_decode(arch, tp, kv_len, batch)
    head = vocab_rows_a_rank(arch, tp) * arch.hidden
    weights = arch.layers * _layer_weights(arch, tp) + arch.hidden + head
    cached = 2 * arch.layers * batch * kv_len * kv_heads_a_rank(arch, tp) * arch.head_dim
    attention = 4 * arch.layers * batch * kv_len * (arch.heads // tp) * arch.head_dim
    calls = 0 if tp == 1 else calls_per_step(arch, vocab_parallel_embedding=True)
    return StepCost(
        weight_bytes=weights * dtype_bytes,
        kv_bytes=cached * dtype_bytes,
        flops=2 * batch * weights + attention,
        calls=calls,
    )


def floor_ms(
    cost: StepCost, copy_bandwidth_gbps: float, matmul_tflops: float | None = None
) -> float:
    """Time below which one rank cannot do a step.

    Args:
        cost: What the rank does.
        copy_bandwidth_gbps: Measured copy bandwidth, 1e9 bytes read plus written a second.
        matmul_tflops: Measured rate of a large matrix product, 1e12 operations a second, if known.

    Returns:
        The larger of bytes over bandwidth and operations over rate, milliseconds. A copy writes
        half of its bytes and a step writes next to none, so a step may come out a few per cent
        under the floor of its bytes.

    Raises:
        InvalidSpec: A rate is not positive.

    Source: the roofline model (Williams, Waterman, Patterson 2009).
    """
    if copy_bandwidth_gbps <= 0 or (matmul_tflops is not None and matmul_tflops <= 0):
        raise InvalidSpec("A bandwidth or rate must be positive.")
    from_bytes = cost.bytes_read / copy_bandwidth_gbps / 1e6
    from_flops = 0.0 if matmul_tflops is None else cost.flops / matmul_tflops / 1e9
    return max(from_bytes, from_flops)


def pages_for(positions: int) -> int:
    """Pages that hold so many positions of one sequence."""
    return -(-positions // PAGE)


def memory_need(
    arch: Architecture,
    tp: int,
    batch: int,
    kv_len: int,
    *,
    dtype_bytes: int = 2,
    device: str = "cuda",
    paged: bool = False,
) -> MemoryNeed:
    """Memory of one rank, computed before anything is built.

    Args:
        arch: The model.
        tp: Tensor-parallel size.
        batch: Largest batch of the run.
        kv_len: Longest KV length of the run.
        dtype_bytes: Bytes of one weight, activation and cached element.
        device: ``cuda`` or ``cpu``; decides the reserve.
        paged: Whether a paged cache for the longest sequences stands beside the step's own.

    Returns:
        The terms. Weights are drawn whole before they are cut to the rank's share, so the largest
        matrix stands among the activations.

    Raises:
        InvalidSpec: As `check_decode`.
    """
    cost = step_cost(arch, tp, batch, kv_len, dtype_bytes)
    embedding = vocab_rows_a_rank(arch, tp) * arch.hidden * dtype_bytes
    held = cost.weight_bytes + (0 if arch.tied_embeddings else embedding)
    widest = max(arch.vocab, arch.intermediate) * arch.hidden * dtype_bytes
    positions = kv_len + (PAGE * pages_for(kv_len - 1 + POSITION_SPAN) if paged else 0)
    a_token = 8 * arch.hidden + 3 * arch.intermediate + 4 * vocab_rows_a_rank(arch, tp)
    return MemoryNeed(
        weights=held,
        kv_cache=cost.kv_bytes // kv_len * positions,
        activations=batch * a_token * dtype_bytes + widest,
        reserve=RESERVE_BYTES[device],
    )


def check_memory(need: MemoryNeed, free_bytes: float, where: str) -> None:
    """Refuse a model that does not fit, with the sum.

    Args:
        need: What one rank needs.
        free_bytes: What is free there.
        where: Name of the place, as a sentence begins with it: "GPU 0", "This machine".

    Raises:
        OutOfMemory: The sum, and what is free.
    """
    if need.total > free_bytes:
        raise OutOfMemory(
            f"{where} has {memory_words(free_bytes)} free; this decode step needs {need.words}.",
            "Pick a smaller model, a shorter KV length, a smaller batch or more GPUs.",
        )
