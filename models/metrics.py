"""The one table of metrics: name, unit, direction, allowed dims, words for people.

Longer than other modules on purpose: it is one table, and half of it would be harder to find.

A producer may only write metrics that stand here, in the unit that stands here. Direction belongs
to the metric, never to a chart.
"""

from dataclasses import dataclass
from typing import Literal

from models.errors import InvalidSpec

Direction = Literal["lower", "higher", "none"]

STATISTICS = (
    "value",  # the quantity was read once, or is a count
    "mean",
    "median",
    "std",
    "min",
    "max",
    "p1",
    "p5",
    "p10",
    "p25",
    "p75",
    "p90",
    "p95",
    "p99",
    "p99.9",
    "change_pct",  # a published gain in percent, relative_to names the arm
    "speedup",  # a published ratio, relative_to names the arm
)


@dataclass(frozen=True)
class Metric:
    """One measured quantity.

    Attributes:
        name: Identifier in database, files and URLs.
        unit: Unit of every stored value ("" for plain counts and ratios).
        direction: Whether a lower or a higher value is better, or neither.
        label: Words for people, no unit.
        meaning: One sentence that the Method page prints.
        dims: Names of the dimensions that may qualify a value.
    """

    name: str
    unit: str
    direction: Direction
    label: str
    meaning: str
    dims: tuple[str, ...] = ()

    @property
    def axis(self) -> str:
        """Title of an axis: label and unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


_COMM = ("bytes", "mode", "link", "ranks", "dtype", "op", "placement", "algorithm", "node_count")
_LOAD = (
    "concurrency",
    "request_rate",
    "input_len",
    "output_len",
    "num_prompts",
    "scenario",
    "phase",
    "replicas",
    "start",
)
_DECODE = ("tp", "batch", "kv_len", "clock", "link", "omp_num_threads", "cpu_affinity", "model")
_PAIR = ("src", "dst", "bytes", "direction", "method", "link", "test")

_TABLE = (
    Metric(
        "allreduce_latency",
        "us",
        "lower",
        "AllReduce latency",
        "Time of one all-reduce of a message, the slowest rank's, as the mode says: graph "
        "(captured, as an engine runs it), eager (launched one by one), exposed (with work "
        "between the calls).",
        _COMM,
    ),
    Metric(
        "allreduce_fixed",
        "us",
        "lower",
        "AllReduce fixed cost",
        "The part of an all-reduce's latency that does not depend on the message size (alpha).",
        _COMM,
    ),
    Metric(
        "allreduce_transfer",
        "us",
        "lower",
        "AllReduce transfer time",
        "The part of an all-reduce's latency that grows with the message size (size / beta).",
        _COMM,
    ),
    Metric(
        "allreduce_step_cost",
        "ms",
        "lower",
        "AllReduce cost a step",
        "Latency of one all-reduce times the calls in one decode step.",
        (*_COMM, "calls"),
    ),
    Metric(
        "calls_per_step",
        "",
        "none",
        "AllReduce calls a step",
        "How many all-reduces one decode step makes.",
        ("model", "tp", "link"),
    ),
    Metric(
        "collective_latency",
        "us",
        "lower",
        "Collective latency",
        "Time of one collective operation other than all-reduce, named by the dimension op.",
        _COMM,
    ),
    Metric(
        "algbw",
        "GB/s",
        "higher",
        "Algorithm bandwidth",
        "Message size divided by time; 1 GB is 1e9 bytes.",
        _COMM,
    ),
    Metric(
        "busbw",
        "GB/s",
        "higher",
        "Bus bandwidth",
        "Algorithm bandwidth times 2(n-1)/n for an all-reduce over n ranks: comparable with the "
        "speed of a link.",
        _COMM,
    ),
    Metric(
        "wrong_values",
        "",
        "lower",
        "Wrong values",
        "How many elements differed from the exact expected result.",
        (*_COMM, *_PAIR),
    ),
    Metric(
        "decode_step",
        "ms",
        "lower",
        "Decode step",
        "Time to produce one token for every sequence of the batch, in the clock that the "
        "dimension names.",
        _DECODE,
    ),
    Metric(
        "decode_throughput",
        "tok/s",
        "higher",
        "Decode throughput",
        "Tokens a second of one decode loop: batch / step time.",
        _DECODE,
    ),
    Metric(
        "decode_speedup",
        "",
        "higher",
        "Decode speedup",
        "Step time of the reference arm divided by this arm's.",
        _DECODE,
    ),
    Metric(
        "weight_bytes",
        "B",
        "none",
        "Weight bytes a GPU",
        "Bytes of weights that one GPU reads in a step.",
        _DECODE,
    ),
    Metric(
        "output_throughput",
        "tok/s",
        "higher",
        "Output throughput",
        "Output tokens of successful requests divided by the wall time of the round.",
        _LOAD,
    ),
    Metric(
        "total_token_throughput",
        "tok/s",
        "higher",
        "Total token throughput",
        "Input plus output tokens divided by the wall time of the round.",
        _LOAD,
    ),
    Metric(
        "request_throughput",
        "req/s",
        "higher",
        "Request throughput",
        "Successful requests divided by the wall time of the round.",
        _LOAD,
    ),
    Metric(
        "request_goodput",
        "req/s",
        "higher",
        "Request goodput",
        "Requests a second that met every service level objective.",
        _LOAD,
    ),
    Metric(
        "ttft",
        "ms",
        "lower",
        "Time to first token",
        "From sending a request to its first content.",
        _LOAD,
    ),
    Metric(
        "tpot",
        "ms",
        "lower",
        "Time per output token",
        "(Last token - first token) / (tokens - 1), one value a request.",
        _LOAD,
    ),
    Metric(
        "tpot_with_ttft",
        "ms",
        "lower",
        "End-to-end time per token",
        "End-to-end latency divided by the tokens: contains the time to first token, so it never "
        "stands beside TPOT.",
        _LOAD,
    ),
    Metric(
        "itl",
        "ms",
        "lower",
        "Inter-token latency",
        "Gap between two streamed chunks, all gaps of a round pooled.",
        _LOAD,
    ),
    Metric(
        "e2el",
        "ms",
        "lower",
        "End-to-end latency",
        "From sending a request to its last token.",
        _LOAD,
    ),
    Metric(
        "queue_time",
        "ms",
        "lower",
        "Queue time",
        "Time a request waited before work on it began, in the client or the server as the "
        "phase says.",
        _LOAD,
    ),
    Metric(
        "latency",
        "ms",
        "lower",
        "Latency (kind not stated)",
        "A latency whose source does not say which one.",
        _LOAD,
    ),
    Metric(
        "spec_decode_acceptance_rate",
        "%",
        "higher",
        "Acceptance rate",
        "Share of drafted tokens that speculative decoding accepted.",
        _LOAD,
    ),
    Metric(
        "spec_decode_acceptance_length",
        "",
        "higher",
        "Acceptance length",
        "Tokens a verification step yields on average, speculative decoding.",
        _LOAD,
    ),
    Metric("completed", "", "higher", "Requests completed", "Requests that succeeded.", _LOAD),
    Metric("failed", "", "lower", "Requests failed", "Requests that did not succeed.", _LOAD),
    Metric(
        "duration",
        "s",
        "none",
        "Wall time of the round",
        "From the first request sent to the last answer received.",
        _LOAD,
    ),
    Metric(
        "input_tokens",
        "",
        "none",
        "Input tokens",
        "Prompt tokens of successful requests.",
        _LOAD,
    ),
    Metric(
        "output_tokens",
        "",
        "none",
        "Output tokens",
        "Generated tokens of successful requests.",
        _LOAD,
    ),
    Metric(
        "batch_latency",
        "ms",
        "lower",
        "Batch latency",
        "Time of one whole batch without a server (vLLM's latency benchmark).",
        (*_LOAD, "batch"),
    ),
    Metric(
        "engine_token_throughput",
        "tok/s",
        "higher",
        "Engine token throughput",
        "Input plus output tokens a second without a server (vLLM's throughput benchmark).",
        _LOAD,
    ),
    Metric(
        "startup_time",
        "s",
        "lower",
        "Start-up time",
        "From starting the engine to its being ready.",
        ("temperature",),
    ),
    Metric(
        "forward_latency",
        "us",
        "lower",
        "Forward latency",
        "One forward pass of the engine, the slowest rank's.",
        ("case", "tp", "batch", "input_len", "kv_len"),
    ),
    Metric(
        "p2p_bandwidth",
        "GB/s",
        "higher",
        "Copy bandwidth between GPUs",
        "Bytes copied from one GPU to another divided by the time, per direction unless the "
        "dimension direction says both.",
        _PAIR,
    ),
    Metric(
        "p2p_latency",
        "us",
        "lower",
        "Copy latency between GPUs",
        "Time of a very small copy from one GPU to another.",
        _PAIR,
    ),
    Metric(
        "copy_bandwidth",
        "GB/s",
        "higher",
        "Memory copy bandwidth",
        "Bytes read plus bytes written by a copy inside one GPU (or CPU), divided by the time.",
        ("device", "bytes", "test", "src", "dst"),
    ),
    Metric(
        "host_copy_bandwidth",
        "GB/s",
        "higher",
        "Copy bandwidth between host and GPU",
        "Bytes copied between host memory and a GPU divided by the time, per direction unless the "
        "dimension direction says both.",
        _PAIR,
    ),
    Metric(
        "matmul_rate",
        "TFLOP/s",
        "higher",
        "Matrix product rate",
        "Floating point operations a second of a large matrix product.",
        ("device", "dtype"),
    ),
    Metric(
        "nvlink_rate",
        "GB/s",
        "none",
        "NVLink signalling rate",
        "Raw rate of one NVLink per direction, as the driver states it.",
        ("src", "dst", "link_index"),
    ),
    Metric(
        "energy_per_token",
        "J/tok",
        "lower",
        "Energy per output token",
        "GPU energy of the round divided by its output tokens.",
        _LOAD,
    ),
    Metric("power", "W", "none", "GPU power", "Power drawn by one GPU.", (*_LOAD, "gpu")),
    Metric(
        "phase_time",
        "ms",
        "lower",
        "Time in a phase",
        "Mean time a request spent in one phase, by the server's own counters: queue, prefill, "
        "decode; and client, which is what the client saw beyond the server's end-to-end time.",
        _LOAD,
    ),
    Metric(
        "preemptions",
        "",
        "lower",
        "Preemptions",
        "How often the engine took a running request's cache away because memory was short.",
        _LOAD,
    ),
    Metric("timeouts", "", "lower", "Timeouts", "Requests that hit their time limit.", _LOAD),
    Metric(
        "foreign_load",
        "%",
        "lower",
        "Foreign load",
        "Share of the host's processor time that programs other than the server and its client "
        "used during the round.",
        _LOAD,
    ),
    Metric(
        "sm_clock",
        "MHz",
        "none",
        "SM clock",
        "Median clock of one GPU's processors while it worked.",
        (*_LOAD, "gpu"),
    ),
    Metric(
        "output_logprob",
        "",
        "none",
        "Log-probability of a fixed prompt",
        "Log-probabilities the server gives the tokens of fixed prompts: alike in every arm that "
        "computes rightly.",
        ("prompt", "phase", "start"),
    ),
    Metric("soak_hours", "h", "higher", "Hours observed", "Length of a sustained load.", _LOAD),
    Metric("incidents", "", "lower", "Incidents", "Hangs, crashes and wrong outputs seen.", _LOAD),
    Metric(
        "kv_cache_tokens",
        "",
        "higher",
        "KV cache capacity",
        "Tokens of context that fit in the cache, from the server's log.",
        ("replicas",),
    ),
)

METRICS: dict[str, Metric] = {row.name: row for row in _TABLE}


def metric(name: str) -> Metric:
    """Look a metric up by name.

    Raises:
        InvalidSpec: No such metric.
    """
    try:
        return METRICS[name]
    except KeyError:
        raise InvalidSpec(f"There is no metric called {name!r}.") from None


def is_better(name: str, value: float, other: float) -> bool | None:
    """Whether ``value`` is better than ``other``; None without a direction, and where they tie."""
    direction = metric(name).direction
    if direction == "none" or value == other:
        return None
    return (value < other) == (direction == "lower")
