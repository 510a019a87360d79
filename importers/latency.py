"""The latency words that serving tools share: key names to metrics, lists to samples."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from importers.draft import Draft, number
from models.metrics import STATISTICS

# key in a file -> our metric
QUANTITIES = {
    "ttft": "ttft",
    "tpot": "tpot",
    "itl": "itl",
    "e2el": "e2el",
    "e2e_latency": "e2el",
    "client_queue_time": "queue_time",
}
LATENCY_METRICS = ("ttft", "tpot", "itl", "e2el")
CHECKED = ("mean", "median", "p90", "p95", "p99")
DIFFERENCE_LIMIT = 0.005  # a tool's own statistic against the one from its own lists

_NAME = re.compile(
    rf"(?P<stat>mean|median|std|min|max|p\d+(?:\.\d+)?)_(?P<what>{'|'.join(QUANTITIES)})"
)


def statistic_name(name: str) -> str | None:
    """Our name of a statistic: p50 is the median, p99.0 is p99; None where we keep no such one."""
    if name in ("p50", "p50.0"):
        return "median"
    if name.startswith("p") and "." in name:
        name = name.rstrip("0").rstrip(".")
    return name if name in STATISTICS else None


def statistics(
    record: Mapping[str, Any], *, suffix: str, scale: float
) -> Iterator[tuple[str, str, float]]:
    """Metric, statistic and milliseconds of every latency key; an explicit median wins over p50."""
    seen: set[tuple[str, str]] = set()
    for key in sorted(record, key=lambda name: name.startswith("p50")):
        if not key.endswith(suffix):
            continue
        match = _NAME.fullmatch(key[: len(key) - len(suffix)])
        value = number(record[key])
        if match is None or value is None:
            continue
        statistic = statistic_name(match["stat"])
        if statistic is None:
            continue
        place = (QUANTITIES[match["what"]], statistic)
        if place not in seen:
            seen.add(place)
            yield (*place, value * scale)


def recomputed(values: list[float], statistic: str) -> float:
    """A statistic of raw values, percentiles interpolated linearly as numpy does."""
    array = np.asarray(values, dtype=float)
    if statistic == "mean":
        return float(array.mean())
    if statistic == "std":
        return float(array.std())
    quantile = 50.0 if statistic == "median" else float(statistic[1:])
    return float(np.percentile(array, quantile))


def hold_against_samples(
    draft: Draft, definition: Mapping[str, str], *, checked: Sequence[str] = CHECKED
) -> None:
    """Check a tool's statistics against its own lists; fill a metric that has lists only.

    End-to-end latency is printed on request only, so its lists stay samples. A tool that takes the
    nearest rank is held to its mean only.
    """
    for sample in draft.samples:
        own = [row for row in draft.measurements if row.metric == sample.metric]
        if not own and sample.metric in ("ttft", "tpot", "itl"):
            draft.warn(
                "recomputed",
                f"The file prints no {sample.metric.upper()} statistics; they were computed from "
                "its per-request list.",
            )
            for statistic in ("mean", "median", "std", "p90", "p95", "p99"):
                draft.put(
                    sample.metric,
                    recomputed(sample.values, statistic),
                    definition[sample.metric],
                    statistic,
                    n=len(sample.values),
                )
        for row in own:
            if row.statistic not in checked or not row.value:
                continue
            ours = recomputed(sample.values, row.statistic)
            if abs(ours - row.value) > DIFFERENCE_LIMIT * abs(row.value):
                draft.warn(
                    "recomputed_differs",
                    f"{row.statistic} {sample.metric.upper()} reads {row.value:.4g} ms in the file "
                    f"and {ours:.4g} ms from its per-request list.",
                )


def per_request(record: Mapping[str, Any], draft: Draft) -> None:
    """Turn per-request lists (seconds) into samples (ms); failed requests are left out."""
    ttfts, itls = _list(record, "ttfts"), _list(record, "itls")
    latencies, lens = _list(record, "latencies"), _list(record, "output_lens")
    errors, queues = _list(record, "errors"), _list(record, "queue_times")
    failed = number(record.get("failed"))
    if not ttfts or not itls or len(ttfts) != len(itls):
        values = [number(item) for item in latencies]
        if values and not failed and None not in values:
            draft.sample("e2el", [value * 1e3 for value in values if value is not None])
        _queue(draft, queues, failed)
        return
    first: list[float] = []
    between: list[float] = []
    whole: list[float] = []
    per_token: list[float] = []
    for index, ttft in enumerate(ttfts):
        start = number(ttft)
        gaps = _floats(itls[index])
        broken = index < len(errors) and bool(errors[index])
        if start is None or start <= 0 or broken or gaps is None:
            continue
        end = number(latencies[index]) if index < len(latencies) else None
        end = start + sum(gaps) if end is None else end
        tokens = number(lens[index]) if index < len(lens) else None
        first.append(start * 1e3)
        between.extend([gap * 1e3 for gap in gaps])
        whole.append(end * 1e3)
        if tokens is not None and tokens > 1:  # one token has no time per further token
            per_token.append((end - start) / (tokens - 1) * 1e3)
    for metric, values_ms in zip(LATENCY_METRICS, (first, per_token, between, whole), strict=True):
        draft.sample(metric, values_ms)
    _queue(draft, queues, failed)


def _queue(draft: Draft, queues: list[Any], failed: float | None) -> None:
    values = [number(item) for item in queues]
    if values and not failed and None not in values:
        draft.sample(
            "queue_time",
            [value * 1e3 for value in values if value is not None],
            {"phase": "client"},
        )


def _floats(value: Any) -> list[float] | None:
    """A list of finite numbers, perhaps empty; one look at types and sum, as lists are long."""
    if not isinstance(value, list) or not set(map(type, value)) <= {float, int}:
        return None
    try:
        return value if math.isfinite(sum(value)) else None
    except OverflowError:
        return None


def _list(record: Mapping[str, Any], key: str) -> list[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else []
