"""AIPerf's CSV: distributions, single values and GPU telemetry, parted by blank lines."""

import csv
import io
import re

from importers.aiperf import finish, put_block
from importers.draft import Draft, spoken_number
from importers.text import refusal
from importers.vllm_json import COMPLETED_ZERO
from models.result import Result

# the name in the file, without its unit -> the name in the JSON
_NAMES = {
    "Time to First Token": "time_to_first_token",
    "Inter Token Latency": "inter_token_latency",
    "Inter Chunk Latency": "inter_chunk_latency",
    "Request Latency": "request_latency",
    "Output Token Throughput": "output_token_throughput",
    "Total Token Throughput": "total_token_throughput",
    "Request Throughput": "request_throughput",
    "Goodput": "goodput",
    "Benchmark Duration": "benchmark_duration",
    "Request Count": "request_count",
    "Error Request Count": "error_request_count",
    "Total Input Sequence Length": "total_isl",
    "Total Output Sequence Length": "total_osl",
}
_TITLE = re.compile(r"(?P<name>.+?)(?: \((?P<unit>[^()]*)\))?")


def looks_like(text: str) -> bool:
    """Whether the text is an AIPerf summary, by the header of its first or second section."""
    head = text.lstrip("\n").split("\n", 1)[0]
    return head.startswith("Metric,avg,min,max") or (
        head.startswith("Metric,Value") and "Request Throughput" in text
    )


def read(text: str, name: str = "") -> list[Result]:
    """The run that the file describes.

    Raises:
        UnreadableFile: No request succeeded, or the file holds no known metric.
    """
    draft = Draft("serving", "aiperf", title="AIPerf serving benchmark")
    draft.spec = {"kind": "serving"}
    sections = re.split(r"\n[ \t]*\n", text.strip("\n"))
    for section in sections:
        _section(section, draft)
    completed = draft.value("completed")
    if completed == 0:
        raise refusal("completed_zero", COMPLETED_ZERO, "Check the server's log and run it again.")
    if not draft.measurements:
        raise refusal("no_rows", "The file holds no metric that could be read.")
    if completed is None:
        draft.suspect("truncated", "The second section, with the number of requests, is missing.")
    finish(draft)
    return [draft.result()]


def _section(section: str, draft: Draft) -> None:
    try:
        rows = list(csv.reader(io.StringIO(section.strip("\n"))))
    except csv.Error as error:
        raise refusal("malformed", f"This CSV file cannot be read: {error}.") from None
    if not rows or rows[0][0] != "Metric":
        return  # GPU telemetry
    header = rows[0]
    for row in rows[1:]:
        if len(row) < len(header):
            draft.suspect("truncated", "A row of the file is cut: its numbers were left out.")
            continue
        title = _TITLE.fullmatch(row[0])
        known = _NAMES.get(title["name"]) if title else None
        if known is None or title is None:
            continue
        unit = {"sec": "sec", "seconds": "sec"}.get(title["unit"] or "", title["unit"])
        block: dict[str, object] = {"unit": unit}
        for column, cell in zip(header[1:], row[1:], strict=False):
            block["avg" if column == "Value" else column] = spoken_number(cell)
        put_block(draft, known, block)
