"""The one door: bytes of any file, recognised by content, to results in our shape.

Two formats or none: the file is refused with a sentence. What is recognised and useless says why.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from importers import (
    aiperf,
    aiperf_csv,
    guidellm,
    guidellm_csv,
    inferencex,
    jsontext,
    nccl_json,
    nccl_tests,
    nvbandwidth,
    nvlink,
    own,
    p2p_test,
    published,
    sglang,
    topology,
    vllm_console,
    vllm_engine,
    vllm_json,
    vllm_sweep,
)
from importers.text import decode, refusal, unquoted
from models.errors import LinkworthError, UnreadableFile
from models.result import Bundle, Notice, Result


class TextFormat(NamedTuple):
    """A text or CSV format: name for people, test, reader."""

    name: str
    looks_like: Callable[[str], bool]
    read: Callable[[str, str], list[Result]]


class RecordFormat(NamedTuple):
    """A JSON format whose objects stand alone."""

    name: str
    looks_like: Callable[[Any], bool]
    read: Callable[[Any], list[Result]]


TEXT_FORMATS = (
    TextFormat("nccl-tests or RCCL output", nccl_tests.looks_like, nccl_tests.read),
    TextFormat("serving table", vllm_console.looks_like, vllm_console.read),
    TextFormat("vLLM sweep summary.csv", vllm_sweep.looks_like_csv, vllm_sweep.read_csv),
    TextFormat("GuideLLM CSV", guidellm_csv.looks_like, guidellm_csv.read),
    TextFormat("AIPerf CSV", aiperf_csv.looks_like, aiperf_csv.read),
    TextFormat("GPU link table", topology.looks_like, topology.read),
    TextFormat("NVLink status", nvlink.looks_like, nvlink.read),
    TextFormat("nvbandwidth output", nvbandwidth.looks_like, nvbandwidth.read),
    TextFormat("p2pBandwidthLatencyTest output", p2p_test.looks_like, p2p_test.read),
)

RECORD_FORMATS = (
    RecordFormat("vLLM serving JSON", vllm_json.looks_like, lambda item: [vllm_json.read(item)]),
    RecordFormat("SGLang JSON", sglang.looks_like, lambda item: [sglang.read(item)]),
    RecordFormat("InferenceX JSON", inferencex.looks_like, lambda item: [inferencex.read(item)]),
    RecordFormat("GuideLLM JSON", guidellm.looks_like, guidellm.read),
    RecordFormat("AIPerf JSON", aiperf.looks_like, lambda item: [aiperf.read(item)]),
    RecordFormat("nccl-tests JSON", nccl_json.looks_like, lambda item: [nccl_json.read(item)]),
    RecordFormat("vLLM engine JSON", vllm_engine.looks_like, lambda item: [vllm_engine.read(item)]),
)

# known and useless: what it is, and what to import in its place
_NOT_RESULTS = (
    (re.compile(r"^# TYPE vllm[:_]|^# HELP \w+ .*\n# TYPE \w+ (?:counter|gauge)", re.M),
     "not_a_result", "These are counters of a running server, not a benchmark result.",
     "Run vllm bench serve against that server."),
    (re.compile(r"NVIDIA AIPerf \| LLM Metrics"), "unknown_format",
     "This is the table that AIPerf prints; it rounds and breaks names over lines.",
     "Import profile_export_aiperf.json from its artifact folder."),
    (re.compile(r"guidellm\.benchmark|GuideLLM Benchmarks|Setup complete, starting benchmarks"),
     "unknown_format", "This is the text that GuideLLM prints; it rounds latencies to 0.1 s.",
     "Import its benchmarks.json."),
    (re.compile(r"No available memory for the cache blocks|Available KV cache memory: -"),
     "not_a_result", "This is a server's log: it did not start, for lack of KV cache memory.",
     "Start the server with less in use, then run the benchmark."),
    (re.compile(r"vllm: error: unrecognized arguments"), "not_a_result",
     "This is a server's log: it did not start, for an unknown argument.",
     "Correct the command, then run the benchmark."),
    (re.compile(r"\(APIServer pid=\d+\)|\(EngineCore pid=\d+\)"), "not_a_result",
     "This is a server's log, not a benchmark result.", "Run vllm bench serve against it."),
    (re.compile(r"size\(B\)\s+count\s+type\s+redop\s+latency\(us\)"), "unknown_format",
     "This is a table of NVSHMEM's perftest, which counts otherwise than NCCL.",
     "Run all_reduce_perf of nccl-tests."),
)  # fmt: skip


def read(data: bytes, name: str = "") -> Bundle:
    """Read one file of any known format; zip files go through ``importers.files``.

    Args:
        data: The file's bytes, or the bytes of a pasted text.
        name: File name, for titles and messages only.

    Returns:
        Results and what to say about them; at least one result.

    Raises:
        UnreadableFile: No known format, two at once, or nothing usable in it.
    """
    text = decode(data)
    try:
        bundle = _read_json(text) if jsontext.looks_like(text) else _read_text(text, name)
    except UnreadableFile:
        raise
    except LinkworthError as error:
        raise refusal("malformed", error.sentence, error.next_step) from error
    if not bundle.results:
        raise refusal("no_rows", "The file holds no result.")
    return bundle


def _read_text(text: str, name: str) -> Bundle:
    plain = unquoted(text)
    found = [form for form in TEXT_FORMATS if form.looks_like(plain)]
    if len(found) == 1:
        return Bundle(results=found[0].read(plain, name))
    if found:
        raise refusal(
            "two_formats",
            f"This text holds two kinds of output: {' and '.join(form.name for form in found)}.",
            "Import them one by one.",
        )
    for pattern, code, sentence, step in _NOT_RESULTS:
        if pattern.search(text[:2_000_000]):
            raise refusal(code, sentence, step)
    raise _unknown()


def _unknown() -> UnreadableFile:
    names = dict.fromkeys(form.name for form in (*RECORD_FORMATS, *TEXT_FORMATS))
    return refusal(
        "unknown_format",
        "This is no result file that Linkworth knows.",
        f"It looked for {', '.join(names)}, and its own exports.",
    )


def _read_json(text: str) -> Bundle:
    found = jsontext.documents(text)
    bundle = _bundle(found.values, text)
    if found.truncated:
        bundle.warnings.append(
            Notice(code="truncated", text="The file is cut: its last record was left out.")
        )
    if found.not_finite:
        bundle.warnings.append(
            Notice(
                code="not_finite",
                text=f"{found.not_finite} values are NaN or Infinity: they count as missing.",
            )
        )
    for notice in bundle.warnings:
        for result in bundle.results:
            if notice not in result.warnings and result.origin == "imported":
                result.warnings.append(notice)
    return bundle


def _bundle(values: Sequence[Any], text: str) -> Bundle:
    first = values[0]
    if len(values) == 1:
        if own.looks_like(first):
            return own.read(first)
        if published.is_published(first):
            return published.read(text.encode())
        if isinstance(first, dict) and "nvbandwidth" in first:
            return Bundle(results=nvbandwidth.read(text, ""))
        if vllm_engine.looks_like(first):
            return Bundle(results=[vllm_engine.read(first)])
    records = [item for value in values for item in (value if isinstance(value, list) else [value])]
    if records and all(aiperf.looks_like_record(record) for record in records):
        return Bundle(results=[aiperf.read_records(records)])
    if len(records) > 1 and all(vllm_json.looks_like(record) for record in records):
        return Bundle(results=vllm_sweep.read_list(records))
    if len(records) > 1 and all(own.looks_like(record) for record in records):
        return own.read(records)
    return _records(records)


def _records(records: Sequence[Any]) -> Bundle:
    """Records that stand alone; one that is no result does not spoil the others."""
    bundle = Bundle()
    errors: list[UnreadableFile] = []
    unknown = 0
    for record in records:
        form = next((form for form in RECORD_FORMATS if form.looks_like(record)), None)
        if form is None:
            unknown += 1
            continue
        try:
            bundle.results.extend(form.read(record))
        except UnreadableFile as error:
            errors.append(error)
    if not bundle.results:
        raise errors[0] if errors else _unknown()
    bundle.warnings += [
        Notice(code=each.detail, text=f"One record was left out: {each.sentence}")
        for each in errors
    ]
    if unknown:
        bundle.warnings.append(
            Notice(code="unknown_record", text=f"{unknown} records are no results: left out.")
        )
    return bundle
