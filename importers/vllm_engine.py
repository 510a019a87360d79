"""vLLM's benchmarks without a server: latency, throughput, startup (seconds) and forward (0.33)."""

from collections.abc import Mapping
from typing import Any

from importers.draft import Draft, count, number, numbers, words
from importers.text import refusal
from models.result import Result, Scalar

SPREAD_LIMIT_PCT = 0.5
_PHASES = ("cold", "warm")


def looks_like(record: Any) -> bool:
    """Whether a decoded value is one of the four."""
    if isinstance(record, list):
        return bool(record) and all(_is_case(item) for item in record)
    if not isinstance(record, dict):
        return False
    return _is_latency(record) or _is_throughput(record) or _is_startup(record) or _is_cases(record)


def _is_latency(record: Mapping[str, Any]) -> bool:
    return {"avg_latency", "latencies", "percentiles"} <= record.keys()


def _is_throughput(record: Mapping[str, Any]) -> bool:
    return {"elapsed_time", "num_requests", "tokens_per_second"} <= record.keys()


def _is_startup(record: Mapping[str, Any]) -> bool:
    return any(f"avg_{phase}_startup_time" in record for phase in _PHASES)


def _is_case(item: Any) -> bool:
    return isinstance(item, dict) and "median_us" in item and isinstance(item.get("ranks"), list)


def _is_cases(record: Mapping[str, Any]) -> bool:
    cases = _cases(record)
    return bool(cases) and all(_is_case(item) for item in cases)


def _cases(record: Mapping[str, Any]) -> list[Any]:
    for key in ("cases", "results"):
        if isinstance(record.get(key), list):
            return list(record[key])
    return []


def read(record: Any) -> Result:
    """One imported engine benchmark.

    Raises:
        UnreadableFile: It holds no measurement.
    """
    draft = Draft("engine", "vllm")
    if isinstance(record, list) or _is_cases(record):
        _forward(record if isinstance(record, list) else _cases(record), draft)
    elif _is_latency(record):
        _latency(record, draft)
    elif _is_throughput(record):
        _throughput(record, draft)
    else:
        _startup(record, draft)
    if not draft.measurements:
        raise refusal("no_rows", "The file holds no measurement.", "Run the benchmark again.")
    draft.warn("no_version", "The file does not say which vLLM version it measured.")
    return draft.result()


def _latency(record: Mapping[str, Any], draft: Draft) -> None:
    draft.title = "vLLM latency benchmark (no server)"
    draft.spec = {"kind": "engine", "benchmark": "latency"}
    seconds = numbers(record.get("latencies"))
    n = len(seconds) if seconds else None
    name = "vllm:batch_latency:1"
    average = number(record.get("avg_latency"))
    draft.put("batch_latency", average * 1e3 if average else None, name, "mean", n=n)
    percentiles = record.get("percentiles")
    for key, value in percentiles.items() if isinstance(percentiles, dict) else ():
        statistic = "median" if key == "50" else f"p{key}"
        found = number(value)
        if statistic in ("median", "p10", "p25", "p75", "p90", "p99") and found:
            draft.put("batch_latency", found * 1e3, name, statistic, n=n)
    if seconds:
        draft.sample("batch_latency", [value * 1e3 for value in seconds])
    draft.warn("per_batch", "The time is that of a whole batch; the file does not say its size.")


def _throughput(record: Mapping[str, Any], draft: Draft) -> None:
    draft.title = "vLLM throughput benchmark (no server)"
    draft.spec = {"kind": "engine", "benchmark": "throughput"}
    requests = count(record.get("num_requests"))
    if not requests:
        raise refusal("completed_zero", 'No request was processed: the zeros mean "not measured".')
    draft.dims = {"num_prompts": requests}
    draft.put(
        "engine_token_throughput",
        number(record.get("tokens_per_second")) or None,
        "vllm:engine_token_throughput:1",
        n=requests,
    )
    rate = number(record.get("requests_per_second"))
    draft.put("request_throughput", rate or None, "vllm:engine_request_throughput:1", n=requests)
    draft.put("duration", number(record.get("elapsed_time")) or None, "vllm:engine_duration:1")
    draft.warn(
        "input_plus_output",
        "Its tokens a second count input and output together: this is no output throughput.",
    )


def _startup(record: Mapping[str, Any], draft: Draft) -> None:
    draft.title = "vLLM start-up benchmark"
    draft.spec = {"kind": "engine", "benchmark": "startup"}
    for phase in _PHASES:
        dims = {"temperature": phase}
        times = numbers(record.get(f"{phase}_startup_times"))
        n = len(times) if times else None
        name = "vllm:startup:1"
        average = number(record.get(f"avg_{phase}_startup_time"))
        draft.put("startup_time", average or None, name, "mean", n=n, dims=dims)
        percentiles = record.get(f"{phase}_startup_percentiles")
        if isinstance(percentiles, dict):
            median = number(percentiles.get("50"))
            draft.put("startup_time", median or None, name, "median", n=n, dims=dims)
        if times:
            draft.sample("startup_time", times, dims)


def _forward(cases: list[Any], draft: Draft) -> None:
    draft.title = "vLLM forward-pass benchmark"
    draft.spec = {"kind": "engine", "benchmark": "forward"}
    for index, case in enumerate(cases):
        if not _is_case(case):
            continue
        dims: dict[str, Scalar] = {"case": _case_name(case, index), **_shape(case)}
        ranks = [rank for rank in case["ranks"] if isinstance(rank, dict)]
        slowest = max(ranks, key=_median_of, default=None)
        value = number(case.get("median_us"))
        if slowest is not None and _median_of(slowest) > 0:
            value = _median_of(slowest)  # the step ends when its slowest rank does
        draft.put("forward_latency", value or None, "vllm:forward:1", "median", dims=dims)
        if slowest is not None:
            timing = slowest.get("latency_us")
            timing = timing if isinstance(timing, dict) else {}
            p90 = number(timing.get("p90"))
            draft.put("forward_latency", p90 or None, "vllm:forward:1", "p90", dims=dims)
            draft.sample("forward_latency", numbers(timing.get("samples_us")) or [], dims)
        _doubts(case, ranks, dims["case"], draft)


def _doubts(case: Mapping[str, Any], ranks: list[Any], name: Any, draft: Draft) -> None:
    if case.get("finite") is False or any(rank.get("finite") is False for rank in ranks):
        draft.suspect("not_finite", f"Case {name}: the outputs were not finite.")
    spreads = [_timing(rank).get("sample_spread_pct") for rank in ranks]
    worst = max((number(spread) or 0.0 for spread in spreads), default=0.0)
    if worst > SPREAD_LIMIT_PCT:
        draft.suspect("spread", f"Case {name}: the samples of a rank spread by {worst:.1f} %.")


def _timing(rank: Mapping[str, Any]) -> Mapping[str, Any]:
    timing = rank.get("latency_us")
    return timing if isinstance(timing, dict) else {}


def _median_of(rank: Mapping[str, Any]) -> float:
    return number(_timing(rank).get("median")) or 0.0


def _case_name(case: Mapping[str, Any], index: int) -> str:
    for key in ("name", "case", "label", "id"):
        found = words(case.get(key))
        if found:
            return found
    return f"case {index}"


def _shape(case: Mapping[str, Any]) -> dict[str, int]:
    known = {
        "tp": ("tp", "tensor_parallel_size"),
        "batch": ("batch", "batch_size", "num_seqs"),
        "input_len": ("input_len", "query_len"),
        "kv_len": ("kv_len", "context_len"),
    }
    found: dict[str, int] = {}
    for name, keys in known.items():
        value = next((count(case.get(key)) for key in keys if key in case), None)
        if value is not None:
            found[name] = value
    return found
