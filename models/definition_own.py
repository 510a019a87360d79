"""What Linkworth's own measuring programs mean by their words, one line each.

Each is a group of its own: nobody else measures the same thing in the same way.
"""

from models.definition_table import Definition

_SERVED = (
    "one step in wall clock as an engine drives it: a graph of the layers, and around it pages of "
    "the cache, arrays to the GPU, head and sampling launched one by one"
)
# what is timed in a decode step, by name and revision: each is a quantity of its own, and so are
# the fused step and the one of single kernels
_STEPS = {
    "wall-eager:1": "one step of the loop in wall clock, every kernel launched from Python",
    "wall-served:1": _SERVED,
    "wall-served:2": f"{_SERVED}; each layer writes keys and values through the page table by a "
    "kernel of its own",
    "wall-graph:1": "one step of the loop in wall clock, the whole step one launch of a CUDA graph",
    "replay:1": "the step's CUDA graph replayed back to back, no work of the host between",
    "replay-no-allreduce:1": "the step's CUDA graph without its all-reduces, replayed back to back",
}

_SLOWEST = "time a call of the slowest rank, median over batches"

# name -> metric, words
_OTHERS = {
    "allreduce-graph": (
        "allreduce_latency",
        f"{_SLOWEST}: all-reduces back to back in a CUDA graph",
    ),
    "allreduce-eager": (
        "allreduce_latency",
        f"{_SLOWEST}: all-reduces launched one by one from Python",
    ),
    "allreduce-exposed": (
        "allreduce_latency",
        "time that an all-reduce adds to a graph of short matrix products that stand between calls",
    ),
    "allreduce-eager-gloo": (
        "allreduce_latency",
        f"{_SLOWEST}: all-reduces over gloo between CPU processes, no GPU",
    ),
    "p2p-copy-bandwidth": (
        "p2p_bandwidth",
        "bytes of a large copy from GPU to GPU over its time by device events, median of batches",
    ),
    "p2p-copy-latency": (
        "p2p_latency",
        "time of a copy of 16 B in a queue of such copies, by device events",
    ),
    "gloo-send-bandwidth": (
        "p2p_bandwidth",
        "bytes of one message between CPU processes over gloo",
    ),
    "gloo-send-latency": ("p2p_latency", "time of one message of 16 B between CPU processes"),
    "verified-copy": (
        "wrong_values",
        "32-bit words that differ at the destination from what the source was filled with",
    ),
    "probe-copy": (
        "copy_bandwidth",
        "bytes read plus written of a copy inside one device, best of two seconds",
    ),
    "probe-matmul": (
        "matmul_rate",
        "rate of a large matrix product on one device, best of two seconds",
    ),
}

OWN_TABLE = (
    *(
        Definition(
            f"linkworth:decode-{plain}{name}", "decode_step", f"decode-{plain}{name}", what + how
        )
        for name, what in _STEPS.items()
        for plain, how in (("", ""), ("plain-", ", not fused"))
        if not (plain and name == "wall-eager:1")  # that clock is of single kernels anyway
    ),
    *(
        Definition(f"linkworth:{name}:1", metric, f"linkworth-{name}", words)
        for name, (metric, words) in _OTHERS.items()
    ),
)
