"""GuideLLM's CSV: three header rows (group, metric, statistic), percentile cells hold a list."""

import csv
import io
import json
import re
from collections.abc import Mapping
from typing import Any

from importers.draft import Draft, count, spoken_number, words
from importers.guidellm import judge, times
from importers.text import refusal
from importers.vllm_json import COMPLETED_ZERO
from models.result import Result

# group, metric -> our metric, scale, definition
_TIMES = {
    ("Time to First Token", "Successful ms"): ("ttft", 1.0, "guidellm:ttft:1"),
    ("Inter Token Latency", "Successful ms"): ("tpot", 1.0, "guidellm:itl:1"),
    ("Time per Output Token", "Successful ms"): ("tpot_with_ttft", 1.0, "guidellm:tpot:1"),
    ("Request Latency", "Successful Sec"): ("e2el", 1e3, "guidellm:e2el:1"),
}
_RATES = {
    ("Token Throughput", "Successful Output Tokens/Sec"): "output_throughput",
    ("Token Throughput", "Successful Total Tokens/Sec"): "total_token_throughput",
    ("Server Throughput", "Successful Requests/Sec"): "request_throughput",
}
# the order of the eleven values in a percentile cell
_PERCENTILES = ("p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999")
_LIMIT = 16 * 1024 * 1024


def looks_like(text: str) -> bool:
    """Whether the text is a GuideLLM CSV, by its first two header rows."""
    lines = text.lstrip("\n").split("\n", 2)
    return len(lines) > 2 and "Request Counts," in lines[0] and "Successful ms" in lines[1]


def read(text: str, name: str = "") -> list[Result]:
    """One result a data row.

    Raises:
        UnreadableFile: The table is cut, or no row has a successful request.
    """
    csv.field_size_limit(_LIMIT)
    try:
        rows = list(csv.reader(io.StringIO(text.lstrip("\n"))))
    except csv.Error as error:
        raise refusal("malformed", f"This CSV file cannot be read: {error}.") from None
    if len(rows) < 4:
        raise refusal("no_rows", "The table has header rows and no result.", "Run it again.")
    columns = list(zip(*rows[:3], strict=False))
    drafts = []
    cut = False
    for row in rows[3:]:
        if len(row) < len(columns) - 1:
            cut = cut or bool(row)
            continue
        drafts.append(_draft(dict(zip(columns, row, strict=False))))
    usable = [draft for draft in drafts if draft.validity != "invalid"]
    if not usable:
        code = drafts[0].code if drafts else "truncated"
        raise refusal(code, drafts[0].reasons[0] if drafts else "The table's only row is cut.")
    if cut:
        for draft in usable:
            draft.suspect("truncated", "The table is cut: its last row was left out.")
    return [draft.result() for draft in drafts]


def _draft(cells: Mapping[tuple[str, ...], str]) -> Draft:
    metadata = _json(cells.get(("Runtime Info", "Metadata", "")))
    version = words(metadata.get("guidellm_version")) if isinstance(metadata, dict) else None
    draft = Draft("serving", "guidellm", version=version, title="GuideLLM serving benchmark")
    completed = _count(cells.get(("Request Counts", "Successful", "")))
    if not completed:
        draft.invalid("completed_zero", COMPLETED_ZERO)
        return draft
    strategy = re.fullmatch(r"concurrent@(\d+)", cells.get(("Benchmark", "Strategy", ""), ""))
    if strategy:
        draft.dims = {"concurrency": int(strategy[1])}
    backend = _json(cells.get(("Run Info", "Backend", "")))
    model = words(backend.get("model")) if isinstance(backend, dict) else None
    draft.spec = {"kind": "serving", "model": model}
    for (group, metric), ours in _RATES.items():
        value = _number(cells.get((group, metric, "Mean")))
        draft.put(ours, value or None, f"guidellm:{ours}:1")
    errored = _count(cells.get(("Request Counts", "Errored", "")))
    draft.put("completed", completed, "guidellm:completed:1")
    draft.put("failed", errored, "guidellm:failed:1")
    draft.put("duration", _number(cells.get(("Timings", "Duration", "Sec"))), "guidellm:duration:1")
    for (group, metric), (ours, scale, definition) in _TIMES.items():
        listed = _json(cells.get((group, metric, "Percentiles")))
        known = isinstance(listed, list) and len(listed) == len(_PERCENTILES)
        block = {
            "mean": _number(cells.get((group, metric, "Mean"))),
            "median": _number(cells.get((group, metric, "Median"))),
            "std_dev": _number(cells.get((group, metric, "Std Dev"))),
            "percentiles": dict(zip(_PERCENTILES, listed, strict=True)) if known else {},
        }
        if block["mean"]:  # 0.0 is what a metric without values prints
            times(draft, block, ours, scale, definition)
    judge(draft, errored, _count(cells.get(("Request Counts", "Incomplete", ""))))
    return draft


def _number(text: str | None) -> float | None:
    found = spoken_number(text) if text else None
    return None if found is None else float(found)


def _count(text: str | None) -> int | None:
    return count(spoken_number(text)) if text else None


def _json(text: str | None) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
