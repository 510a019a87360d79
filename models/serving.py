"""What the figures of a served model mean: per-request detail in, statistics out.

The formulas are the ones of `vllm bench serve`, so that a figure computed here from the tool's own
per-request detail must agree with the figure the tool printed. Works with numpy alone: the runner
uses it on bare GPU machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.errors import UnreadableFile

FloatArray = NDArray[np.float64]

PERCENTILES = (90.0, 95.0, 99.0)
LATENCIES = ("ttft", "tpot", "itl", "e2el")
AGREEMENT = 0.005  # recomputed and printed figures may differ by half a percent
MIN_REQUESTS_FOR_P99 = 100
DEFINITION = "linkworth:{}:1"


@dataclass(frozen=True)
class Requests:
    """The successful requests of one round.

    Attributes:
        start_s: Send times on one clock, shape (k,), seconds; NaN where the tool gives none.
        ttft_s: Time to first token, shape (k,), seconds.
        e2el_s: End-to-end latency, shape (k,), seconds.
        output_tokens: Generated tokens, shape (k,).
        input_tokens: Prompt tokens, shape (k,).
        gaps_s: All gaps between chunks, pooled, seconds.
        failed: Requests that did not succeed.
        duration_s: Wall time as the tool states it, or None.
    """

    start_s: FloatArray
    ttft_s: FloatArray
    e2el_s: FloatArray
    output_tokens: FloatArray
    input_tokens: FloatArray
    gaps_s: FloatArray
    failed: int = 0
    duration_s: float | None = None

    @property
    def completed(self) -> int:
        """How many requests succeeded."""
        return int(self.ttft_s.size)

    @property
    def tpot_s(self) -> FloatArray:
        """(Last token - first token) / (tokens - 1) of every request of two or more tokens."""
        many = self.output_tokens > 1
        return np.asarray(
            (self.e2el_s[many] - self.ttft_s[many]) / (self.output_tokens[many] - 1),
            dtype=np.float64,
        )

    @property
    def span_s(self) -> float | None:
        """From the first request sent to the last answer received, seconds."""
        if not self.completed or np.isnan(self.start_s).any():
            return None
        return float((self.start_s + self.e2el_s).max() - self.start_s.min())

    def values_ms(self, metric: str) -> FloatArray:
        """The values behind a latency metric, milliseconds."""
        source = {
            "ttft": self.ttft_s,
            "tpot": self.tpot_s,
            "itl": self.gaps_s,
            "e2el": self.e2el_s,
        }[metric]
        return np.asarray(source * 1000.0, dtype=np.float64)


def requests_of(detail: Mapping[str, Any]) -> Requests:
    """Read the per-request lists of one `vllm bench serve` result (`--save-detailed`).

    Args:
        detail: Decoded JSON object with `ttfts`, `itls`, `output_lens`, `input_lens`, and where
            the version writes them `latencies`, `start_times`, `errors`; times in seconds.

    Returns:
        The successful requests.

    Raises:
        UnreadableFile: A list is missing, or the lists differ in length.

    Source: vllm/benchmarks/serve.py, `calculate_metrics`; without `latencies` (before 0.30) the
    end-to-end time is the first token's plus all gaps.
    """
    try:
        ttfts = np.asarray(detail["ttfts"], dtype=np.float64)
        outputs = np.asarray(detail["output_lens"], dtype=np.float64)
        inputs = np.asarray(detail["input_lens"], dtype=np.float64)
        itls = [np.asarray(gaps, dtype=np.float64) for gaps in detail["itls"]]
    except KeyError as error:
        raise UnreadableFile(
            f"The benchmark's result holds no per-request list {error}.",
            "Save it with --save-result --save-detailed.",
        ) from None
    count = ttfts.size
    latencies = detail.get("latencies")
    if latencies is None:
        e2els = ttfts + np.array([float(gaps.sum()) for gaps in itls])
    else:
        e2els = np.asarray(latencies, dtype=np.float64)
    starts = np.asarray(detail.get("start_times") or [np.nan] * count, dtype=np.float64)
    errors = detail.get("errors") or [""] * count
    if not {outputs.size, inputs.size, len(itls), e2els.size, starts.size, len(errors)} == {count}:
        raise UnreadableFile("The per-request lists of the benchmark's result differ in length.")
    # a failed request carries an error text, and the tool writes 0 output tokens for it
    fine = np.array([not error for error in errors], dtype=bool) & (outputs > 0)
    gaps = [itls[i] for i in np.flatnonzero(fine)]
    return Requests(
        start_s=starts[fine],
        ttft_s=ttfts[fine],
        e2el_s=e2els[fine],
        output_tokens=outputs[fine],
        input_tokens=inputs[fine],
        gaps_s=np.concatenate(gaps) if gaps else np.empty(0),
        failed=int(count - fine.sum()),
        duration_s=float(detail["duration"]) if "duration" in detail else None,
    )


def pool(parts: Sequence[Requests]) -> Requests:
    """Requests of several replicas as one round; its wall time is that of the union.

    Args:
        parts: One item a replica, on one clock.

    Returns:
        All requests; `duration_s` is the one part's own, or the union's span.
    """
    if len(parts) == 1:
        return parts[0]
    joined = Requests(
        start_s=np.concatenate([part.start_s for part in parts]),
        ttft_s=np.concatenate([part.ttft_s for part in parts]),
        e2el_s=np.concatenate([part.e2el_s for part in parts]),
        output_tokens=np.concatenate([part.output_tokens for part in parts]),
        input_tokens=np.concatenate([part.input_tokens for part in parts]),
        gaps_s=np.concatenate([part.gaps_s for part in parts]),
        failed=sum(part.failed for part in parts),
    )
    return Requests(**{**joined.__dict__, "duration_s": joined.span_s})


def pooled_acceptance(details: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Acceptance of the drafts of several replicas' clients as one.

    Args:
        details: The tool's result of each replica.

    Returns:
        Rate in percent of drafted tokens, and tokens a verification step yields on average; None
        where a replica did not draft, or its version does not count.

    Source: vllm/benchmarks/serve.py: accepted / drafted tokens, and 1 + accepted tokens / drafts.
    """
    sums = []
    for name in ("accepted_tokens", "draft_tokens", "num_drafts"):
        values = [detail.get(f"spec_decode_{name}") for detail in details]
        if not values or not all(isinstance(value, int | float) for value in values):
            return None
        sums.append(sum(value for value in values if value is not None))
    accepted, drafted, drafts = sums
    if not drafted or not drafts:
        return None
    return 100.0 * accepted / drafted, 1.0 + accepted / drafts


def overlap_share(parts: Sequence[Requests]) -> float | None:
    """Share of the union's wall time during which every replica was busy; None for fewer than 2."""
    if len(parts) < 2 or any(part.span_s is None for part in parts):
        return None
    starts = [float(part.start_s.min()) for part in parts]
    ends = [float((part.start_s + part.e2el_s).max()) for part in parts]
    return max(0.0, (min(ends) - max(starts)) / (max(ends) - min(starts)))


def statistics_of(values: FloatArray) -> dict[str, float]:
    """Mean, median, population deviation and percentiles; empty for no values.

    Source: numpy's linear percentiles and `std` with ddof 0, as the tool computes them.
    """
    if not values.size:
        return {}
    row = {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "std": float(values.std()),
    }
    for q in PERCENTILES:
        row[f"p{q:g}"] = float(np.percentile(values, q))
    return row


def figures(requests: Requests) -> dict[tuple[str, str], float]:
    """Every serving figure that the detail supports, keyed by (metric, statistic).

    Args:
        requests: One round, pooled over replicas.

    Returns:
        Latencies in ms, rates in tok/s and req/s, counts; rates are absent where the wall time
        is not known.
    """
    out: dict[tuple[str, str], float] = {
        ("completed", "value"): float(requests.completed),
        ("failed", "value"): float(requests.failed),
    }
    if not requests.completed:
        return out
    inputs, outputs = float(requests.input_tokens.sum()), float(requests.output_tokens.sum())
    out["input_tokens", "value"] = inputs
    out["output_tokens", "value"] = outputs
    wall = requests.span_s or requests.duration_s
    if wall:
        out["duration", "value"] = wall
        out["output_throughput", "value"] = outputs / wall
        out["total_token_throughput", "value"] = (inputs + outputs) / wall
        out["request_throughput", "value"] = requests.completed / wall
    for metric in LATENCIES:
        for statistic, value in statistics_of(requests.values_ms(metric)).items():
            out[metric, statistic] = value
    return out


def disagreements(
    ours: Mapping[tuple[str, str], float], theirs: Mapping[tuple[str, str], float]
) -> dict[tuple[str, str], float]:
    """Figures whose recomputed value differs from the tool's by more than half a percent.

    Args:
        ours: Recomputed figures, as `figures` gives them.
        theirs: The tool's own, same keys and units.

    Returns:
        Key to relative difference (ours / theirs - 1); only keys that both know.
    """
    out: dict[tuple[str, str], float] = {}
    for key in ours.keys() & theirs.keys():
        mine, other = ours[key], theirs[key]
        if other == 0:
            if abs(mine) > 1e-9:
                out[key] = float("inf")
        elif abs(mine / other - 1) > AGREEMENT:
            out[key] = mine / other - 1
    return out


def ecdf(values: Sequence[float] | FloatArray) -> tuple[FloatArray, FloatArray]:
    """Empirical distribution: sorted values, shape (k,), and the share at or below each."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return ordered, np.arange(1, ordered.size + 1) / max(ordered.size, 1)


def goodput_share(
    ttft_ms: Sequence[float] | FloatArray,
    tpot_ms: Sequence[float] | FloatArray,
    *,
    ttft_limit_ms: float,
    tpot_limit_ms: float,
) -> float | None:
    """Share of requests that meet both limits; None where the lists do not pair up."""
    first, each = np.asarray(ttft_ms, dtype=np.float64), np.asarray(tpot_ms, dtype=np.float64)
    if first.size == 0 or first.size != each.size:
        return None
    return float(((first <= ttft_limit_ms) & (each <= tpot_limit_ms)).mean())


def output_distance(
    reference: Sequence[float] | FloatArray, other: Sequence[float] | FloatArray
) -> float | None:
    """Mean absolute difference of two arms' log-probabilities of the same fixed tokens, nats.

    Returns:
        The distance, or None where the lists have no equal, positive length.
    """
    a, b = np.asarray(reference, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if a.size == 0 or a.size != b.size:
        return None
    return float(np.abs(a - b).mean())
