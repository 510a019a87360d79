"""SGLang's ``bench_serving --output-file``: one JSON object a line, its own key names.

Its random lengths average half of what was asked, so lengths come from the totals.
"""

from collections.abc import Mapping
from typing import Any

from importers import latency
from importers.draft import Draft, count, number, words
from importers.text import refusal
from importers.vllm_json import COMPLETED_ZERO, load_dims, missing
from models.result import Result

_COUNTS = (
    ("output_throughput", "output_throughput"),
    ("total_throughput", "total_token_throughput"),
    ("request_throughput", "request_throughput"),
    ("duration", "duration"),
    ("total_input_tokens", "input_tokens"),
    ("total_output_tokens", "output_tokens"),
    ("accept_length", "spec_decode_acceptance_length"),
)


def looks_like(record: Any) -> bool:
    """Whether a decoded object is one run of SGLang's serving benchmark."""
    return (
        isinstance(record, dict)
        and {"total_throughput", "completed", "duration"} <= record.keys()
        and any("e2e_latency" in key or "ttft" in key for key in record)
    )


def draft_of(record: Mapping[str, Any]) -> Draft:
    """One run; invalid where nothing succeeded."""
    tool = "lmdeploy" if "lmdeploy" in str(record.get("backend")) else "sglang"
    draft = Draft("serving", tool, title="SGLang serving benchmark")
    completed = count(record.get("completed"))
    if not completed:
        draft.invalid("completed_zero", COMPLETED_ZERO)
        return draft
    server = record.get("server_info")
    server = server if isinstance(server, dict) else {}
    draft.version = words(server.get("version"))
    draft.dims = load_dims(record, completed)
    tp = count(server.get("tp_size"))
    draft.spec = {
        "kind": "serving",
        "model": words(server.get("model_path")) or words(record.get("model_id")),
        "backend": words(record.get("backend")),
        "dataset": words(record.get("dataset_name")),
        "tag": words(record.get("tag")),
        "workloads": [
            {
                "concurrency": count(record.get("max_concurrency")),
                "mean_input_len": (count(record.get("total_input_tokens")) or 0) / completed
                or None,
                "mean_output_len": (count(record.get("total_output_tokens")) or 0) / completed
                or None,
            }
        ],
        **({"arm": {"tp": tp}} if tp else {}),
    }
    draft.put("completed", completed, f"{tool}:completed:1")
    for key, metric in _COUNTS:
        draft.put(metric, number(record.get(key)) or None, f"{tool}:{metric}:1")
    for metric, statistic, value in latency.statistics(record, suffix="_ms", scale=1.0):
        draft.put(metric, value, f"{tool}:{metric}:1", statistic)
    latency.per_request({**record, "latencies": record.get("e2e_latencies")}, draft)
    definition = {name: f"{tool}:{name}:1" for name in latency.LATENCY_METRICS}
    if tool == "sglang":
        # its own gaps are divided by the tokens of the chunk: the raw lists are another quantity
        draft.samples = [sample for sample in draft.samples if sample.metric != "itl"]
    latency.hold_against_samples(draft, definition)
    missing(draft)
    return draft


def read(record: Mapping[str, Any]) -> Result:
    """One imported run.

    Raises:
        UnreadableFile: Nothing succeeded.
    """
    draft = draft_of(record)
    if draft.validity == "invalid":
        raise refusal(draft.code, draft.reasons[0], "Check the server's log and run it again.")
    return draft.result()
