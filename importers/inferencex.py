"""InferenceX: aggregates (``agg_*.json``, ``agg_bmk.json``) and its client's files.

Its times are seconds under names without a unit; ``*_intvty`` is 1000 / TPOT; booleans are texts.
"""

from collections.abc import Mapping
from typing import Any

from importers import latency
from importers.draft import Draft, count, number, spoken_number, words
from importers.text import refusal
from importers.vllm_json import COMPLETED_ZERO, load_dims, missing
from models.result import Result

_SETTINGS = (
    "framework",
    "precision",
    "spec_decoding",
    "image",
    "scenario_type",
    "pp",
    "ep",
    "dp_attention",
    "disagg",
    "is_multinode",
    "mtp",
)


def looks_like(record: Any) -> bool:
    """Whether a decoded object is an InferenceX record."""
    if not isinstance(record, dict):
        return False
    seconds = any(
        f"{stat}_{what}" in record
        for stat in ("mean", "median", "p99")
        for what in ("ttft", "tpot", "e2el")
    )
    aggregate = "hw" in record and ("tput_per_gpu" in record or "output_tput_per_gpu" in record)
    return seconds and (aggregate or {"max_concurrency", "completed"} <= record.keys())


def draft_of(record: Mapping[str, Any]) -> Draft:
    """One record; invalid where nothing succeeded."""
    draft = Draft("serving", "inferencex", title="InferenceX serving benchmark")
    aggregate = "hw" in record
    total = count(record.get("num_requests_total"))
    completed = count(
        record.get("num_requests_successful") if aggregate else record.get("completed")
    )
    if completed == 0:
        draft.invalid("completed_zero", COMPLETED_ZERO)
        return draft
    if aggregate:
        _aggregate(record, draft)
    else:
        draft.dims = load_dims(record, completed or 1)
        draft.spec = {
            "kind": "serving",
            "model": words(record.get("model_id")),
            "date": words(record.get("date")),
        }
        for key in ("output_throughput", "request_throughput", "duration"):
            draft.put(key, number(record.get(key)) or None, f"inferencex:{key}:1")
        for key, metric in (
            ("total_input_tokens", "input_tokens"),
            ("total_output_tokens", "output_tokens"),
        ):
            draft.put(metric, count(record.get(key)) or None, f"inferencex:{metric}:1")
    draft.put("completed", completed, "inferencex:completed:1")
    if total is not None and completed is not None:
        draft.put("failed", total - completed, "inferencex:failed:1")
        if total > completed:
            draft.suspect("failed_requests", f"{total - completed} of {total} requests failed.")
    for metric, statistic, value in latency.statistics(record, suffix="", scale=1e3):
        draft.put(metric, value, f"inferencex:{metric}:1", statistic)
    missing(draft)
    return draft


def _aggregate(record: Mapping[str, Any], draft: Draft) -> None:
    for key, name in (("conc", "concurrency"), ("isl", "input_len"), ("osl", "output_len")):
        value = count(record.get(key))
        if value:
            draft.dims[name] = value
    tp = count(record.get("tp"))
    settings = {key: _truth(record[key]) for key in _SETTINGS if record.get(key) not in (None, "")}
    draft.spec = {"kind": "serving", "model": words(record.get("model")), "settings": settings}
    if tp:
        draft.spec["arm"] = {"tp": tp}
    hardware = words(record.get("hw"))
    if hardware:
        draft.host = {"gpus": [{"name": hardware}]}
    for key, metric in (
        ("output_tput_tps", "output_throughput"),
        ("total_tput_tps", "total_token_throughput"),
        ("duration_seconds", "duration"),
        ("total_prompt_tokens", "input_tokens"),
        ("total_generation_tokens", "output_tokens"),
    ):
        draft.put(metric, number(record.get(key)) or None, f"inferencex:{metric}:1")
    per_gpu = number(record.get("output_tput_per_gpu"))
    if draft.value("output_throughput") is None and per_gpu:
        draft.spec["output_throughput_per_gpu"] = per_gpu
        draft.warn(
            "per_gpu",
            f"The file gives {per_gpu:.1f} output tok/s a GPU only; over how many GPUs it was "
            "divided is not certain, so no total was computed.",
        )


def _truth(value: Any) -> Any:
    if isinstance(value, str):
        text = value.strip()[:200]
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        found = spoken_number(text)
        return text if found is None else found
    return value if isinstance(value, bool) or number(value) is not None else None


def read(record: Mapping[str, Any]) -> Result:
    """One imported record.

    Raises:
        UnreadableFile: Nothing succeeded, or no number is there.
    """
    draft = draft_of(record)
    if draft.validity == "invalid":
        raise refusal(draft.code, draft.reasons[0])
    if not draft.measurements:
        raise refusal("no_rows", "The record holds no number that could be read.")
    return draft.result()
