"""AIPerf: the JSON summary, the per-request records and the aggregate over several runs.

Units stand beside each value and are read, never guessed. Its inter-token latency is TPOT in our
words, its inter-chunk latency ITL. Warm-up records are dropped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from importers import latency
from importers.draft import Draft, count, number, words
from importers.text import refusal
from importers.vllm_json import COMPLETED_ZERO, missing
from models.result import Result

# its name -> our metric, definition
TIMES = {
    "time_to_first_token": ("ttft", "aiperf:ttft:1"),
    "inter_token_latency": ("tpot", "aiperf:itl:1"),
    "inter_chunk_latency": ("itl", "aiperf:icl:1"),
    "request_latency": ("e2el", "aiperf:e2el:1"),
}
SCALARS = {
    "output_token_throughput": "output_throughput",
    "total_token_throughput": "total_token_throughput",
    "request_throughput": "request_throughput",
    "goodput": "request_goodput",
    "benchmark_duration": "duration",
    "request_count": "completed",
    "error_request_count": "failed",
    "total_isl": "input_tokens",
    "total_osl": "output_tokens",
}
STATISTICS = {
    "avg": "mean",
    "p50": "median",
    "std": "std",
    "min": "min",
    "max": "max",
    **{f"p{k}": f"p{k}" for k in (1, 5, 10, 25, 75, 90, 95, 99)},
}
_NOT_AVERAGED = ("request_count", "benchmark_duration")  # a mean of them says nothing
_TO_MS = {"ms": 1.0, "sec": 1e3, "s": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6}
_SECONDS = {"sec": 1.0, "s": 1.0, "seconds": 1.0, "ms": 1e-3}


def scale_of(metric: str, unit: Any) -> float | None:
    """Factor from a named unit to the metric's own; None where the unit is not known."""
    if metric in latency.LATENCY_METRICS:
        return _TO_MS.get(str(unit))
    if metric == "duration":
        return _SECONDS.get(str(unit))
    return 1.0


def looks_like(record: Any) -> bool:
    """Whether a decoded object is an AIPerf summary or aggregate."""
    if not isinstance(record, dict):
        return False
    if is_aggregate(record):
        return True
    return any(
        isinstance(record.get(name), dict) and "unit" in record[name] and "avg" in record[name]
        for name in ("request_latency", "request_throughput", "time_to_first_token")
    )


def is_aggregate(record: Mapping[str, Any]) -> bool:
    """Whether it holds means over several runs."""
    metadata = record.get("metadata")
    return (
        isinstance(metadata, dict)
        and "aggregation_type" in metadata
        and isinstance(record.get("metrics"), dict)
    )


def looks_like_record(record: Any) -> bool:
    """Whether a decoded object is one request of ``profile_export.jsonl``."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("metrics"), dict)
        and isinstance(record.get("metadata"), dict)
        and "benchmark_phase" in record["metadata"]
    )


def read(record: Mapping[str, Any]) -> Result:
    """A summary or an aggregate.

    Raises:
        UnreadableFile: No request succeeded.
    """
    draft = _aggregate(record) if is_aggregate(record) else _summary(record)
    if draft.validity == "invalid":
        raise refusal(draft.code, draft.reasons[0], "Check the server's log and run it again.")
    return draft.result()


def _summary(record: Mapping[str, Any]) -> Draft:
    version = words(record.get("aiperf_version"))
    draft = Draft("serving", "aiperf", version=version, title="AIPerf serving benchmark")
    draft.dims, draft.spec = _load(record)
    errors = record.get("error_summary")
    if errors == [] and "error_request_count" not in record:
        draft.put("failed", 0.0, "aiperf:failed:1")
    for name, block in record.items():
        if isinstance(block, dict):
            put_block(draft, name, block)
    if not draft.value("completed"):
        draft.invalid("completed_zero", COMPLETED_ZERO)
    finish(draft)
    if record.get("was_cancelled") is True or record.get("is_complete") is False:
        draft.suspect("cancelled", "The benchmark was cancelled before its end.")
    return draft


def put_block(draft: Draft, name: str, block: Mapping[str, Any]) -> None:
    """One metric of the summary, with its statistics."""
    if name in TIMES:
        metric, definition = TIMES[name]
        scale = scale_of(metric, block.get("unit"))
        n = count(block.get("count"))
        if scale is None:
            draft.warn("unknown_unit", f"{name} is in {block.get('unit')!r}: not read.")
            return
        for theirs, ours in STATISTICS.items():
            value = number(block.get(theirs))
            if value is not None:
                draft.put(metric, value * scale, definition, ours, n=n)
    elif name in SCALARS:
        metric = SCALARS[name]
        scale = scale_of(metric, block.get("unit"))
        value = number(block.get("avg"))
        if value is not None and scale is not None:
            draft.put(metric, value * scale, f"aiperf:{metric}:1")


def finish(draft: Draft) -> None:
    """What every AIPerf file is judged by."""
    failed = draft.value("failed")
    if failed:
        draft.suspect("failed_requests", f"{failed:.0f} requests failed.")
    missing(draft, is_engines_tool=False)


def _load(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    config = record.get("input_config")
    config = config if isinstance(config, dict) else {}
    dims: dict[str, Any] = {}
    phases = config.get("phases")
    for phase in phases if isinstance(phases, list) else ():
        if isinstance(phase, dict) and phase.get("kind") != "warmup":
            _cap(phase, dims)
    loadgen = config.get("loadgen")  # up to 0.12
    if isinstance(loadgen, dict):
        _cap(loadgen, dims)
    models = config.get("models")
    items = models.get("items") if isinstance(models, dict) else None
    first = items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}
    return dims, {"kind": "serving", "model": words(first.get("name"))}


def _cap(phase: Mapping[str, Any], dims: dict[str, Any]) -> None:
    for key, name in (("concurrency", "concurrency"), ("requests", "num_prompts")):
        value = count(phase.get(key))
        if value:
            dims[name] = value


def _aggregate(record: Mapping[str, Any]) -> Draft:
    version = words(record.get("aiperf_version"))
    draft = Draft("serving", "aiperf", version=version, title="AIPerf, mean over several runs")
    runs = count(record["metadata"].get("num_successful_runs"))
    if not runs:
        draft.invalid("completed_zero", "No run of this aggregate succeeded.")
        return draft
    draft.spec = {"kind": "serving", "aggregate_of_runs": runs}
    for name, block in record["metrics"].items():
        base, _, theirs = str(name).rpartition("_")
        if not isinstance(block, dict) or theirs not in STATISTICS:
            continue
        if base in TIMES:
            metric, statistic = TIMES[base][0], STATISTICS[theirs]
        elif base in SCALARS and theirs == "avg" and base not in _NOT_AVERAGED:
            metric, statistic = SCALARS[base], "value"
        else:
            continue
        scale, value = scale_of(metric, block.get("unit")), number(block.get("mean"))
        low, high = number(block.get("ci_low")), number(block.get("ci_high"))
        if scale is None or value is None:
            continue
        interval = low is not None and high is not None and low <= high
        draft.put(
            metric,
            value * scale,
            f"aiperf-over-runs:{metric}:1",
            statistic,
            n=runs,
            low=low * scale if interval and low is not None else None,
            high=high * scale if interval and high is not None else None,
        )
    draft.warn(
        "mean_over_runs",
        f"Each number is the mean over {runs} runs: a p99 is the mean of {runs} p99 values, and "
        "its range is the interval between runs.",
    )
    missing(draft, is_engines_tool=False)
    return draft


def read_records(records: Sequence[Mapping[str, Any]]) -> Result:
    """The requests of ``profile_export.jsonl`` as one run, statistics computed from them.

    Raises:
        UnreadableFile: No measured request succeeded.
    """
    measured = [
        record for record in records if record["metadata"].get("benchmark_phase") == "profiling"
    ]
    good = [record for record in measured if not record.get("error")]
    if not good:
        what = "only warm-up requests" if records and not measured else "no successful request"
        raise refusal("completed_zero", f"The file holds {what}: nothing was measured.")
    draft = Draft("serving", "aiperf", title="AIPerf serving benchmark, per request")
    draft.spec = {"kind": "serving"}
    draft.put("completed", len(good), "aiperf:completed:1")
    draft.put("failed", len(measured) - len(good), "aiperf:failed:1")
    for name, (metric, definition) in TIMES.items():
        values = _values(good, name, metric)
        draft.sample(metric, values)
        for statistic in ("mean", "median", "std", "p90", "p95", "p99") if values else ():
            value = latency.recomputed(values, statistic)
            draft.put(metric, value, definition, statistic, n=len(values))
    if len(records) > len(measured):
        dropped = len(records) - len(measured)
        draft.warn("warmup_dropped", f"{dropped} warm-up requests were left out.")
    finish(draft)
    return draft.result()


def _values(records: Sequence[Mapping[str, Any]], name: str, metric: str) -> list[float]:
    found: list[float] = []
    for record in records:
        block = record["metrics"].get(name)
        scale = scale_of(metric, block.get("unit")) if isinstance(block, dict) else None
        if scale is None or not isinstance(block, dict):
            continue
        items = block.get("value")
        for item in items if isinstance(items, list) else [items]:
            value = number(item)
            if value is not None:
                found.append(value * scale)
    return found
