"""``vllm bench serve --save-result``: one JSON object a run.

Keys by version: up to 0.8 there is no ``failed``; 0.12 added it; 0.30 writes ``latencies`` and
``queue_times`` even without ``--save-detailed``. The file never names its own version.
"""

from collections.abc import Mapping
from typing import Any

from importers import latency
from importers.draft import Draft, count, number, spoken_number, words
from importers.text import refusal
from models.definitions import vllm_definition
from models.result import Result, Scalar
from models.secrets import is_secret, scrub

_CORE = {"completed", "duration", "request_throughput", "total_input_tokens"}
_COUNTING = ("output_throughput", "total_token_throughput", "request_throughput")
# the tool's own keys; whatever else stands at the top is metadata or a sweep's override
_OWN = {
    *(
        "date backend endpoint_type label model_id tokenizer_id best_of num_prompts request_rate "
        "burstiness max_concurrency duration completed failed total_input_tokens total_input "
        "total_output_tokens total_output request_throughput request_goodput request_goodput: "
        "output_throughput total_token_throughput input_throughput input_lens output_lens ttfts "
        "itls start_times errors generated_texts latencies queue_times max_output_tokens_per_s "
        "max_concurrent_requests rtfx run_number good_completed use_beam_search"
    ).split()
}
_TP_KEYS = ("tensor_parallel_size", "tensor-parallel-size", "tp_size", "tp")
_LIST_LIMIT = 40  # metadata keys kept

COMPLETED_ZERO = 'No request succeeded: every printed zero means "not measured".'
WARMUP = "This is a warm-up run (run number -1), not a measurement."


def looks_like(record: Any) -> bool:
    """Whether a decoded object is one run of the serving benchmark."""
    return (
        isinstance(record, dict)
        and record.keys() >= _CORE
        and "total_throughput" not in record
        and any(key in record for key in ("model_id", "backend", "num_prompts"))
        and not any(key in record for key in ("median_ttft", "mean_ttft", "p99_ttft"))
    )


def read(record: Mapping[str, Any]) -> Result:
    """One imported run.

    Raises:
        UnreadableFile: Nothing succeeded, or it is a warm-up.
    """
    draft = draft_of(record)
    if draft.validity == "invalid":
        code = draft.warnings[-1].code
        raise refusal(
            code, draft.reasons[0], "Check the server's log, and run the benchmark again."
        )
    return draft.result()


def draft_of(
    record: Mapping[str, Any],
    *,
    version: str | None = None,
    round: int | None = None,
    dims: Mapping[str, Scalar] | None = None,
) -> Draft:
    """Measurements, samples and warnings of one run's JSON, also for the runner that made it.

    Args:
        record: The decoded object.
        version: vLLM's version, where known: it decides the definitions.
        round: Number of the round; default is the file's ``run_number``.
        dims: Dimensions to use beside, or instead of, those that the file tells.

    Returns:
        The draft; ``validity`` is invalid where nothing succeeded.
    """
    run_number = number(record.get("run_number"))
    draft = Draft("serving", "vllm", version=version, title="vLLM serving benchmark")
    draft.round = round
    if round is None:
        draft.round = count(record.get("run_number"))
    completed = count(record.get("completed"))
    if not completed or (run_number is not None and run_number < 0):
        warmup = bool(completed)
        draft.invalid(
            "warmup" if warmup else "completed_zero", WARMUP if warmup else COMPLETED_ZERO
        )
        return draft
    draft.dims = {**load_dims(record, completed), **(dims or {})}
    _settings(record, draft, completed)
    _numbers(record, draft, completed)
    latency.per_request(record, draft)
    definition = {name: _definition(name, record, version) for name in latency.LATENCY_METRICS}
    latency.hold_against_samples(draft, definition)
    _judge(record, draft, completed)
    return draft


def load_dims(record: Mapping[str, Any], completed: int) -> dict[str, Scalar]:
    """The load that was asked for; lengths only where every request can have had the same."""
    dims: dict[str, Scalar] = {}
    for key, name in (("max_concurrency", "concurrency"), ("num_prompts", "num_prompts")):
        value = count(record.get(key))
        if value:
            dims[name] = value
    rate = record.get("request_rate")
    if rate in ("inf", float("inf")):
        dims["request_rate"] = "inf"
    elif number(rate) is not None:
        dims["request_rate"] = number(rate)
    for total, lens, name in (
        ("total_input_tokens", "input_lens", "input_len"),
        ("total_output_tokens", "output_lens", "output_len"),
    ):
        tokens, each = count(record.get(total)), record.get(lens)
        same = not isinstance(each, list) or all(item == each[0] for item in each)
        if tokens and tokens % completed == 0 and same:
            dims[name] = tokens // completed
    return dims


def _settings(record: Mapping[str, Any], draft: Draft, completed: int) -> None:
    metadata = {
        str(key)[:80]: value
        for key, value in list(record.items())[:500]
        if key not in _OWN
        and not key.endswith("_ms")
        and not key.startswith("spec_decode_")
        and isinstance(value, str | int | float | bool)
        and (isinstance(value, str | bool) or number(value) is not None)
        and not is_secret(key)
    }
    metadata = dict(list(metadata.items())[:_LIST_LIMIT])
    draft.spec = {
        "kind": "serving",
        "model": words(record.get("model_id")),
        "backend": words(record.get("endpoint_type")) or words(record.get("backend")),
        "date": words(record.get("date")),
        "label": words(record.get("label")),
        "workloads": [
            {
                "concurrency": count(record.get("max_concurrency")),
                "num_prompts": count(record.get("num_prompts")),
                "mean_input_len": _mean(record.get("total_input_tokens"), completed),
                "mean_output_len": _mean(record.get("total_output_tokens"), completed),
            }
        ],
        "metadata": scrub(metadata),
    }
    tp = next((_whole(metadata[key]) for key in _TP_KEYS if key in metadata), None)
    if tp is not None:
        draft.spec["arm"] = {"tp": tp}
    gpu = words(metadata.get("gpu"))
    if gpu is not None:
        draft.host = {"gpus": [{"name": gpu}]}


def _whole(value: Any) -> int | None:
    return count(spoken_number(value) if isinstance(value, str) else value) or None


def _mean(total: Any, completed: int) -> float | None:
    tokens = number(total)
    return tokens / completed if tokens is not None else None


def _definition(metric: str, record: Mapping[str, Any], version: str | None) -> str:
    if version is None and "latencies" in record:
        version = "0.30"  # only from there on; 0.33 cannot be told apart
        if metric in ("ttft", "itl"):
            version = None
    backend = f"{record.get('endpoint_type') or ''} {record.get('backend') or ''}".strip()
    return vllm_definition(metric, chat="chat" in backend if backend else None, version=version)


def _numbers(record: Mapping[str, Any], draft: Draft, completed: int) -> None:
    for key in _COUNTING:
        value = number(record.get(key))
        draft.put(key, value or None, f"vllm:{key}:1")
    draft.put("request_goodput", number(record.get("request_goodput")), "vllm:request_goodput:1")
    draft.put("completed", completed, "vllm:completed:1")
    draft.put("failed", count(record.get("failed")), "vllm:failed:1")
    draft.put("duration", number(record.get("duration")), "vllm:duration:1")
    draft.put("input_tokens", count(record.get("total_input_tokens")), "vllm:input_tokens:1")
    draft.put("output_tokens", count(record.get("total_output_tokens")), "vllm:output_tokens:1")
    for metric, statistic, value in latency.statistics(record, suffix="_ms", scale=1.0):
        dims = {"phase": "client"} if metric == "queue_time" else None
        name = "vllm:client_queue_time:1" if dims else _definition(metric, record, draft.version)
        draft.put(
            metric, value, name, statistic, n=completed if metric != "itl" else None, dims=dims
        )
    for key in ("acceptance_rate", "acceptance_length"):
        name = f"spec_decode_{key}"
        draft.put(name, number(record.get(name)), f"vllm:{name}:1")


def _judge(record: Mapping[str, Any], draft: Draft, completed: int) -> None:
    failed = count(record.get("failed"))
    asked = count(record.get("num_prompts"))
    if failed:
        draft.suspect("failed_requests", f"{failed} of {completed + failed} requests failed.")
    elif failed is None and asked is not None and asked > completed:
        draft.suspect(
            "failed_requests",
            f"Only {completed} of {asked} requests that were asked for succeeded.",
        )
    if draft.value("ttft", "median") == 0:
        draft.suspect(
            "zero_ttft", "The median TTFT is 0 ms: failed streams were counted as successes."
        )
    missing(draft)


def missing(draft: Draft, *, is_engines_tool: bool = True) -> None:
    """Say what a serving file does not tell and a comparison needs.

    Args:
        draft: The record; its version is that of the tool.
        is_engines_tool: Whether the tool comes with the engine and shares its version.
    """
    if draft.version is None or not is_engines_tool:
        draft.warn("no_version", "The file does not say which version of which engine answered.")
    if not isinstance(draft.spec.get("arm"), dict) or not draft.spec["arm"].get("tp"):
        draft.warn("no_tp", "The file does not say over how many GPUs the model was split (TP).")
    if not draft.host.get("gpus"):
        draft.warn("no_gpu", "The file does not say which GPU it ran on.")
