"""Our results in the words of ``expected.json`` of the shared samples, and how they compare."""

import json
import math
from pathlib import Path
from typing import Any

from importers import recognise
from models.errors import UnreadableFile
from models.result import Result

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"

Wrong = list[str]


def expected(folder: str) -> dict[str, Any]:
    """The answers of one folder; empty where the samples are absent."""
    path = SAMPLES / folder / "expected.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def records_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of a serving answer; a single one may stand at the top level only."""
    return answer.get("records") or [answer]


def attempt(path: Path) -> tuple[list[Result], UnreadableFile | None]:
    """The results of a file, or its refusal."""
    try:
        return recognise.read(path.read_bytes(), path.name).results, None
    except UnreadableFile as error:
        return [], error


def same(found: float | None, wanted: float | None, *, printed: bool) -> bool:
    """Equal within 1e-6 relative, or to the last printed digit of a text table."""
    if found is None or wanted is None:
        return found is wanted
    if printed and round(found, 6) == round(wanted, 6):
        return True
    return math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-9)


def value(result: Result, metric: str, statistic: str = "value", **dims: Any) -> float | None:
    """The one value of a metric; two different ones would be a fault of the importer."""
    found = {row.value for row in result.find(metric, statistic, **dims)}
    assert len(found) <= 1, (metric, statistic, found)
    return found.pop() if found else None


def serving_record(result: Result) -> dict[str, Any]:
    """One result as ``serving/expected.json`` writes it."""
    load = result.measurements[0].dims if result.measurements else {}
    rate = value(result, "spec_decode_acceptance_rate")
    length = value(result, "spec_decode_acceptance_length")
    return {
        "completed": value(result, "completed"),
        "failed": value(result, "failed"),
        "concurrency": load.get("concurrency"),
        "duration_s": value(result, "duration"),
        "req_s": value(result, "request_throughput"),
        "output_tok_s": value(result, "output_throughput"),
        **{
            f"{metric}_ms": {
                statistic: value(result, metric, statistic)
                for statistic in ("mean", "median", "p99")
            }
            for metric in ("ttft", "tpot", "itl", "e2el")
        },
        "spec_decode": None
        if rate is None and length is None
        else {"acceptance_rate_pct": rate, "acceptance_length": length},
        "tensor_parallel": result.spec.get("arm", {}).get("tp"),
    }


def differs(found: Any, wanted: Any, *, printed: bool) -> bool:
    """Whether two values of a record are not the same."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return any(differs(found.get(key), item, printed=printed) for key, item in wanted.items())
    if isinstance(wanted, dict) or isinstance(found, dict):
        return True
    return not same(found, wanted, printed=printed)


# compared only where a reader returns them
LENIENT = ("duration_s", "req_s", "tensor_parallel")


def hold_serving(results: list[Result], answer: dict[str, Any]) -> Wrong:
    """What is wrong with the results of one serving sample."""
    wrong: Wrong = []
    records, patches = records_of(answer), answer.get("also_ok", {}).get("records", [])
    if len(results) != len(records):
        return [f"{len(results)} records, {len(records)} expected"]
    printed = answer["format"].endswith("console")
    for result, record in zip(results, records, strict=True):
        if not record["usable"]:
            wrong += [] if result.validity == "invalid" and result.reasons else ["usable"]
            continue
        if result.validity == "invalid":
            wrong.append(f"refused: {result.reasons}")
        found = serving_record(result)
        for key, item in found.items():
            options = [record[key], *(patch[key] for patch in patches if key in patch)]
            if key in LENIENT and item is None:
                continue
            if all(differs(item, option, printed=printed) for option in options):
                wrong.append(f"{key}: {item}, expected {options}")
    tools = [answer["tool"], *answer.get("also_ok", {}).get("tool", [])]
    versions = [answer["version"], *answer.get("also_ok", {}).get("version", [])]
    wrong += [f"tool {r.tool.name}" for r in results if r.tool.name not in tools]
    wrong += [f"version {r.tool.version}" for r in results if r.tool.version not in versions]
    codes = {notice.code for result in results for notice in result.warnings}
    return wrong + [f"warning {code} missing" for code in answer["warnings"] if code not in codes]


def nccl_run(result: Result) -> dict[str, Any]:
    """One result as ``nccl/expected.json`` writes it."""
    latency = "allreduce_latency" if result.kind == "allreduce" else "collective_latency"
    sizes = dict.fromkeys(row.dims["bytes"] for row in result.measurements)
    rows = []
    for size in sizes:
        out = {"bytes": size, "placement": "out_of_place"}
        wrong = [row.value or 0.0 for row in result.find("wrong_values", bytes=size)]
        rows.append(
            {
                "bytes": size,
                "oop_us": value(result, latency, "mean", **out),
                "oop_algbw": value(result, "algbw", "mean", **out),
                "oop_busbw": value(result, "busbw", "mean", **out),
                "ip_us": value(result, latency, "mean", bytes=size, placement="in_place"),
                "wrong": sum(wrong) if wrong else None,
            }
        )
    return {
        "collective": result.spec["collective"],
        "n_gpus": result.spec["n_gpus"],
        "mode": result.spec["mode"] or "unknown",
        "rows": rows,
    }


def hold_nccl(results: list[Result], answer: dict[str, Any]) -> Wrong:
    """What is wrong with the results of one nccl sample."""
    if len(results) != len(answer["runs"]):
        return [f"{len(results)} runs, {len(answer['runs'])} expected"]
    wrong: Wrong = []
    for result, run in zip(results, answer["runs"], strict=True):
        found = nccl_run(result)
        for key in ("collective", "n_gpus", "mode"):
            options = [run[key], *run.get("also_ok", {}).get(key, [])]
            if found[key] not in options:
                wrong.append(f"{key}: {found[key]}, expected {options}")
        if run["usable"] is False:
            wrong += [] if result.validity == "invalid" and result.reasons else ["usable"]
            continue
        optional = {row["bytes"] for row in run.get("optional_rows", [])}
        rows = [row for row in found["rows"] if row["bytes"] not in optional]
        if len(rows) != len(run["rows"]):
            wrong.append(f"{len(rows)} rows, {len(run['rows'])} expected")
        for row, wanted in zip(rows, run["rows"], strict=False):
            wrong += [
                f"{wanted['bytes']} B {key}: {row[key]}, expected {wanted[key]}"
                for key in row
                if not same(row[key], wanted[key], printed=True)
            ]
    wrong += [f"tool {r.tool.name}" for r in results if r.tool.name != answer["tool"]]
    codes = {notice.code for result in results for notice in result.warnings}
    return wrong + [f"warning {code} missing" for code in answer["warnings"] if code not in codes]
