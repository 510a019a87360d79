"""GuideLLM's JSON: schema 2 (0.7 and later), 1 (0.5 and 0.6), and the one without (up to 0.4).

Only ``successful`` counts. ``request_latency`` is in seconds, names ending ``_ms`` in ms. Its own
"time per output token" contains the time to first token; its inter-token latency is what others
call TPOT, weighed by tokens. Percentiles are nearest rank.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from importers import latency
from importers.draft import Draft, count, number, words
from importers.text import refusal
from importers.vllm_json import COMPLETED_ZERO, missing
from models.result import Result

# its name -> our metric, scale to our unit, definition
TIMES = (
    ("time_to_first_token_ms", "ttft", 1.0, "guidellm:ttft:1"),
    ("inter_token_latency_ms", "tpot", 1.0, "guidellm:itl:1"),
    ("time_per_output_token_ms", "tpot_with_ttft", 1.0, "guidellm:tpot:1"),
    ("request_latency", "e2el", 1e3, "guidellm:e2el:1"),
)
RATES = (
    ("output_tokens_per_second", "output_throughput"),
    ("tokens_per_second", "total_token_throughput"),
    ("requests_per_second", "request_throughput"),
)
# p01 is the 1st percentile, p001 the 0.1th
PERCENTILES = {
    "p01": "p1",
    "p05": "p5",
    "p10": "p10",
    "p25": "p25",
    "p75": "p75",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p999": "p99.9",
}
SMALL = 100


def looks_like(record: Any) -> bool:
    """Whether a decoded object is a GuideLLM report."""
    if not isinstance(record, dict) or not isinstance(record.get("benchmarks"), list):
        return False
    return any(
        isinstance(item, dict)
        and isinstance(item.get("metrics"), dict)
        and any(name in item["metrics"] for name, *_ in (*TIMES, *RATES))
        for item in record["benchmarks"]
    )


def read(record: Mapping[str, Any]) -> list[Result]:
    """One result a benchmark of the report.

    Raises:
        UnreadableFile: No benchmark has a successful request.
    """
    metadata = _mapping(record.get("metadata"))
    version = words(metadata.get("guidellm_version"))
    model = _model(record)
    drafts = [
        _draft(item, version, model)
        for item in record["benchmarks"]
        if isinstance(item, dict) and isinstance(item.get("metrics"), dict)
    ]
    usable = [draft for draft in drafts if draft.validity != "invalid"]
    if not usable:
        raise refusal(drafts[0].code, drafts[0].reasons[0], "Check the server's log and run again.")
    return [draft.result() for draft in drafts]


def _draft(item: Mapping[str, Any], version: str | None, model: str | None) -> Draft:
    draft = Draft("serving", "guidellm", version=version, title="GuideLLM serving benchmark")
    metrics = _mapping(item["metrics"])
    totals = _mapping(metrics.get("request_totals"))
    if not totals:
        totals = _mapping(_mapping(item.get("run_stats")).get("requests_made"))
    completed = count(totals.get("successful"))
    if completed is None:
        completed = count(_successful(metrics, "request_latency").get("count"))
    if not completed:
        draft.invalid("completed_zero", COMPLETED_ZERO)
        return draft
    draft.dims = {**_load(item), **_lengths(metrics)}
    draft.spec = {
        "kind": "serving",
        "model": model,
        "workloads": [
            {
                "concurrency": draft.dims.get("concurrency"),
                "mean_input_len": number(_successful(metrics, "prompt_token_count").get("mean")),
                "mean_output_len": number(_successful(metrics, "output_token_count").get("mean")),
            }
        ],
    }
    for attribute in ("start_time", "end_time"):
        moment = _moment(item.get(attribute))
        setattr(draft, "started_at" if attribute == "start_time" else "finished_at", moment)
    for name, metric in RATES:
        value = number(_successful(metrics, name).get("mean"))
        draft.put(metric, value or None, f"guidellm:{metric}:1")
    draft.put("completed", completed, "guidellm:completed:1")
    draft.put("failed", count(totals.get("errored")), "guidellm:failed:1")
    duration = number(item.get("duration")) or number(item.get("run_time"))
    draft.put("duration", duration or None, "guidellm:duration:1")
    for name, metric, scale, definition in TIMES:
        times(draft, _successful(metrics, name), metric, scale, definition)
    _samples(item, draft)
    judge(draft, count(totals.get("errored")), count(totals.get("incomplete")))
    return draft


def times(
    draft: Draft, block: Mapping[str, Any], metric: str, scale: float, definition: str
) -> None:
    """The statistics of one latency block; a count of 0 means that every 0.0 is no measurement."""
    n = count(block.get("count"))
    if n == 0:
        return
    percentiles = _mapping(block.get("percentiles"))
    named = {"mean": block.get("mean"), "median": block.get("median"), "std": block.get("std_dev")}
    named |= {ours: percentiles.get(theirs) for theirs, ours in PERCENTILES.items()}
    for statistic, value in named.items():
        found = number(value)
        if found is not None:
            draft.put(metric, found * scale, definition, statistic, n=n)


def judge(draft: Draft, errored: int | None, incomplete: int | None) -> None:
    """Failed and cut-off requests, few requests, and what the file does not say."""
    if errored:
        draft.suspect("failed_requests", f"{errored} requests failed.")
    if incomplete:
        draft.warn("incomplete", f"{incomplete} requests were cut off at the end and not counted.")
    completed = draft.value("completed")
    if completed is not None and completed < SMALL:
        draft.warn(
            "few_requests", f"With {completed:.0f} requests the p99 is the largest value seen."
        )
    missing(draft, is_engines_tool=False)


def _samples(item: Mapping[str, Any], draft: Draft) -> None:
    requests = _mapping(item.get("requests")).get("successful")
    if not isinstance(requests, list) or not requests:
        return
    for name, metric, scale in (
        ("time_to_first_token_ms", "ttft", 1.0),
        ("request_latency", "e2el", 1e3),
    ):
        values = [number(_mapping(request).get(name)) for request in requests]
        if None not in values:
            draft.sample(metric, [value * scale for value in values if value is not None])
    latency.hold_against_samples(
        draft, {"ttft": "guidellm:ttft:1", "e2el": "guidellm:e2el:1"}, checked=("mean",)
    )


def _load(item: Mapping[str, Any]) -> dict[str, Any]:
    strategy: Mapping[str, Any] = {}
    for holder in ("config", "args"):
        strategy = strategy or _mapping(_mapping(item.get(holder)).get("strategy"))
    kind = strategy.get("type_")
    dims: dict[str, Any] = {}
    streams = count(strategy.get("streams")) or count(strategy.get("max_concurrency"))
    if kind == "synchronous":
        dims["concurrency"] = 1
    elif kind in ("concurrent", "throughput") and streams:
        dims["concurrency"] = streams
    rate = number(strategy.get("rate"))
    if rate:
        dims["request_rate"] = rate
    return dims


def _lengths(metrics: Mapping[str, Any]) -> dict[str, int]:
    """Tokens of prompts and answers, where every request had the same number."""
    found: dict[str, int] = {}
    for name, ours in (("prompt_token_count", "input_len"), ("output_token_count", "output_len")):
        block = _successful(metrics, name)
        tokens = count(block.get("mean"))
        if tokens and number(block.get("std_dev")) == 0:
            found[ours] = tokens
    return found


def _model(record: Mapping[str, Any]) -> str | None:
    spec = _mapping(_mapping(record.get("config")).get("spec"))
    backend = _mapping(spec.get("backend"))
    return words(backend.get("model")) or words(_mapping(record.get("args")).get("model"))


def _successful(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _mapping(_mapping(metrics.get(name)).get("successful"))


def _moment(value: Any) -> datetime | None:
    seconds = number(value)
    if seconds is None or not 1e9 < seconds < 4e9:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
