"""The table that ``vllm bench serve`` prints, and SGLang's and LMDeploy's, which look the same.

Read by label, never by place: pastes are whole, cut, quoted, or collapsed to one line.
"""

import re
from dataclasses import dataclass, field

from importers import latency
from importers.draft import Draft, number, spoken_number
from importers.text import decimal_comma, refusal, unquoted
from importers.vllm_json import COMPLETED_ZERO, missing
from models.definitions import vllm_definition
from models.result import Result

_BANNER = re.compile(r"=*\s*Serving Benchmark Result\s*=*")
_END = re.compile(r"={20,}")
_PAIR = re.compile(r"(?P<label>[^:\n]{2,200}?):[ \t|]*(?P<value>not set|None|N/A|inf|-?\d[^\s|]*)")
_BODY_LIMIT = 20_000  # a full table has 3,000 characters
_RULE = re.compile(r"-{3,}|={3,}|\|")

# label in lower case, without what stands in brackets behind it -> key
_LABELS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "benchmark duration": "duration",
    "total input tokens": "input_tokens",
    "total generated tokens": "output_tokens",
    "request throughput": "request_throughput",
    "request goodput": "request_goodput",
    "output token throughput": "output_throughput",
    "total token throughput": "total_token_throughput",
    "maximum request concurrency": "concurrency",
    "max request concurrency": "concurrency",
    "max reqeuest concurrency": "concurrency",
    "request rate configured": "request_rate",
    "traffic request rate": "request_rate",
    "acceptance rate": "spec_decode_acceptance_rate",
    "acceptance length": "spec_decode_acceptance_length",
    "accept length": "spec_decode_acceptance_length",
}
_LATENCY = re.compile(
    r"(?P<stat>mean|median|std|p\d+(?:\.\d+)?) "
    r"(?P<what>ttft|tpot|itl|e2el|e2e latency|client queue time) \(ms\)"
)
_WHAT = {"e2e latency": "e2el", "client queue time": "queue_time"}
_TELLING = ("output token throughput (tok/s)", "mean ttft (ms)", "successful requests")
_PER_RUN = (
    "failed",
    "duration",
    "input_tokens",
    "output_tokens",
    "request_goodput",
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "spec_decode_acceptance_rate",
    "spec_decode_acceptance_length",
)


@dataclass
class _Table:
    """One printed table: its numbers by key, and how it ended."""

    values: dict[str, float | str | None] = field(default_factory=dict)
    latencies: dict[tuple[str, str], float] = field(default_factory=dict)
    backend: str | None = None
    truncated: bool = False
    sglang_words: bool = False


def looks_like(text: str) -> bool:
    """Whether a serving table stands in the text, by its banner or by three telling labels."""
    if _BANNER.search(text):
        return True
    lower = text.lower()
    return all(label in lower for label in _TELLING)


def read(text: str, name: str = "") -> list[Result]:
    """Every table of the text, in order.

    Raises:
        UnreadableFile: No table can be used.
    """
    drafts = [_draft(table) for table in _tables(unquoted(text))]
    usable = [draft for draft in drafts if draft.validity != "invalid"]
    if not usable:
        if not drafts:
            raise refusal("no_rows", "The table's banner is there, but no number below it.")
        first = drafts[0]
        raise refusal(first.code, first.reasons[0], "Check the server's log and run it again.")
    return [draft.result() for draft in drafts]


def _tables(text: str) -> list[_Table]:
    banners = list(_BANNER.finditer(text))
    if not banners:
        first = min(text.lower().find(label) for label in _TELLING)
        table = _parse(text[max(0, first - _BODY_LIMIT // 2) : first + _BODY_LIMIT])
        table.truncated = True
        return [table]
    found = []
    before = text[: banners[0].start()]
    for banner, following in zip(banners, [*banners[1:], None], strict=True):
        stop = following.start() if following else len(text)
        body = text[banner.end() : min(stop, banner.end() + _BODY_LIMIT)]
        end = _END.search(body)
        table = _parse(body[: end.start()] if end else body)
        table.truncated = end is None
        if table.truncated:
            _drop_cut_number(table, body)
        _cap_from(before, table)
        if table.values or table.latencies:
            found.append(table)
        before = body[end.end() :] if end else ""
    return found


def _parse(body: str) -> _Table:
    table = _Table()
    for match in _PAIR.finditer(body):
        label = _RULE.split(match["label"])[-1].strip().lower()
        value = match["value"]
        timing = _LATENCY.fullmatch(label)
        key = _LABELS.get(re.sub(r"\s*\([^)]*\)$", "", label))
        if label == "total generated tokens (retokenized)":
            key = None
        if timing is None and key is None:
            continue
        if "," in value:
            raise decimal_comma(f"{label}: {value}")
        table.sglang_words |= "e2e latency" in label or label.startswith("max req")
        read = spoken_number(value)
        if timing is not None:
            statistic = latency.statistic_name(timing["stat"])
            what = _WHAT.get(timing["what"], timing["what"])
            if read is not None and statistic is not None:
                table.latencies.setdefault((what, statistic), float(read))
        elif key is not None:
            table.values[key] = "inf" if value == "inf" else read
    backend = re.search(r"(?:^|-|\n)\s*Backend:\s*([\w./-]+)", body)
    table.backend = backend[1].lower() if backend else None
    return table


def _drop_cut_number(table: _Table, body: str) -> None:
    """The very last number of a cut text may itself be cut: it is not trusted."""
    if body[-1:].isspace() or not body:
        return
    pairs = list(_PAIR.finditer(body))
    if not pairs or pairs[-1].end() != len(body):
        return
    label = _RULE.split(pairs[-1]["label"])[-1].strip().lower()
    timing = _LATENCY.fullmatch(label)
    if timing is not None:
        statistic = latency.statistic_name(timing["stat"]) or ""
        table.latencies.pop((_WHAT.get(timing["what"], timing["what"]), statistic), None)
    table.values.pop(_LABELS.get(re.sub(r"\s*\([^)]*\)$", "", label), ""), None)


def _cap_from(before: str, table: _Table) -> None:
    """The cap and the rate may be printed above the banner."""
    above = _parse(before[-_BODY_LIMIT:]).values if before else {}
    for key in ("concurrency", "request_rate"):
        if key not in table.values and key in above:
            table.values[key] = above[key]


def _draft(table: _Table) -> Draft:
    tool = "vllm"
    if table.backend is not None or table.sglang_words:
        tool = "lmdeploy" if table.backend and "lmdeploy" in table.backend else "sglang"
    draft = Draft("serving", tool, title=f"{_NAMES[tool]} serving benchmark (printed table)")
    completed = number(table.values.get("completed"))
    if completed == 0:
        draft.invalid("completed_zero", COMPLETED_ZERO)
        return draft
    concurrency = number(table.values.get("concurrency"))
    rate = table.values.get("request_rate")
    draft.dims = {
        **({"concurrency": int(concurrency)} if concurrency else {}),
        **({"request_rate": rate} if rate is not None else {}),
    }
    draft.spec = {"kind": "serving", "backend": table.backend}
    draft.put("completed", completed, f"{tool}:completed:1")
    for key in _PER_RUN:
        value = number(table.values.get(key))
        revision = f"{tool}:{key}:1"
        draft.put(key, value if value or key == "failed" else None, revision)
    for (metric, statistic), value in table.latencies.items():
        dims = {"phase": "client"} if metric == "queue_time" else None
        draft.put(metric, value, _definition(tool, metric), statistic, dims=dims)
    _judge(table, draft)
    return draft


_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "lmdeploy": "LMDeploy"}


def _definition(tool: str, metric: str) -> str:
    if metric == "queue_time":
        return f"{tool}:client_queue_time:1"
    return vllm_definition(metric) if tool == "vllm" else f"{tool}:{metric}:1"


def _judge(table: _Table, draft: Draft) -> None:
    failed = draft.value("failed")
    if failed:
        draft.suspect("failed_requests", f"{failed:.0f} requests failed.")
    if table.truncated:
        draft.suspect("truncated", "The table is cut: what is missing is unknown, not zero.")
    if table.latencies.get(("ttft", "median")) == 0:
        draft.invalid(
            "zero_ttft", "The median TTFT is 0.00 ms: failed streams were counted as successes."
        )
    mean, median = draft.value("tpot", "mean"), draft.value("tpot", "median")
    if mean and median and mean > 3 * median:
        draft.warn("mean_far_from_median", "The mean TPOT is more than three times its median.")
    missing(draft)
