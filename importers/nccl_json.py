"""nccl-tests ``-J FILE`` (version 3).

Booleans and not-a-number are texts, ``root`` is padded text, ``nwrong`` is null without a check,
``time`` becomes ``cpu_time`` under ``-C``. The file carries the whole process environment: only
allow-listed variables are taken.
"""

import re
from collections.abc import Mapping
from typing import Any

from importers.draft import count, number, numbers, spoken_number, words
from importers.nccl_run import Half, Row, Run, to_draft
from importers.nccl_tests import COLLECTIVES, release
from importers.text import refusal
from models.result import Result
from models.secrets import is_secret

_ALLOWED = re.compile(r"(NCCL|RCCL|CUDA|NVSHMEM|HSA|OMP)_[A-Z0-9_]{1,60}")
_KNOWN_VERSION = 3


def looks_like(record: Any) -> bool:
    """Whether a decoded object is an nccl-tests report."""
    return (
        isinstance(record, dict)
        and "nccl_version" in record
        and isinstance(record.get("args"), list)
    )


def read(record: Mapping[str, Any]) -> Result:
    """The run of the report.

    Raises:
        UnreadableFile: It holds no result row, or one GPU only.
    """
    run = _run(record)
    draft = to_draft(run)
    if draft.validity == "invalid" and not draft.measurements:
        raise refusal(draft.code, draft.reasons[0], "Run the test again over two or more GPUs.")
    if record.get("version") != _KNOWN_VERSION:
        draft.warn(
            "format_version",
            f"The file's format version is {record.get('version')}; {_KNOWN_VERSION} is known.",
        )
    draft.spec["date"] = words(record.get("end_time"))
    return draft.result()


def _run(record: Mapping[str, Any]) -> Run:
    config = _mapping(record.get("config"))
    run = Run(has_header=True, has_footer="end_time" in record)
    library = count(record.get("nccl_version"))
    run.library = release(library) if library is not None else None
    run.collective = _collective(record["args"])
    graph = count(config.get("graph"))
    run.mode = None if graph is None else "graph" if graph > 0 else "eager"
    run.iterations = count(config.get("iterations"))
    run.aggregated = count(config.get("aggregated_iterations"))
    validation = count(config.get("validation"))
    run.validation = None if validation is None else validation > 0
    run.environment = _environment(record.get("env"))
    devices = config.get("devices")
    for device in devices if isinstance(devices, list) else ():
        rank = count(_mapping(device).get("rank"))
        if rank is not None:
            run.ranks.add(rank)
            run.rank_zero_lists += rank == 0
            run.gpus[rank] = words(_mapping(device).get("device_info")) or "unknown GPU"
    results = record.get("results")
    for item in results if isinstance(results, list) else ():
        _row(_mapping(item), run)
    bounds = _mapping(record.get("out_of_bounds"))
    run.out_of_bounds = count(bounds.get("count"))
    return run


def _row(item: Mapping[str, Any], run: Run) -> None:
    size = count(item.get("size"))
    if size is None:
        return
    if size == 0:
        run.zero_sizes += 1
        return
    row = Row(size, dtype=words(item.get("type")), redop=words(item.get("redop")))
    root = spoken_number(str(item.get("root")))
    row.root = int(root) if isinstance(root, int) else None
    for name in ("out_of_place", "in_place"):
        block = item.get(name)
        if not isinstance(block, dict):
            continue
        half = Half(algbw=number(block.get("alg_bw")), busbw=number(block.get("bus_bw")))
        half.wrong = number(block.get("nwrong"))
        half.time_us = number(block.get("time"))
        if half.time_us is None:
            half.time_us = number(block.get("cpu_time"))
            run.cpu_time |= "cpu_time" in block
        per_iteration = _mapping(item.get(f"{name}_per_iter"))
        for theirs, ours in (
            ("min_us", "min"),
            ("max_us", "max"),
            ("p50_us", "median"),
            ("p95_us", "p95"),
            ("p99_us", "p99"),
            ("stdev_us", "std"),
        ):
            value = number(per_iteration.get(theirs))
            if value is not None:
                half.extra[ours] = value
        half.samples_us = numbers(per_iteration.get("times_us")) or []
        setattr(row, name, half)
    if row.halves:
        run.rows.append(row)


def _collective(arguments: list[Any]) -> str | None:
    program = str(arguments[0]).rsplit("/", 1)[-1] if arguments else ""
    name = program.removesuffix("_perf")
    return name if name in COLLECTIVES else None


def _environment(entries: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entries if isinstance(entries, list) else ():
        name, sign, value = str(entry).partition("=")
        if sign and _ALLOWED.fullmatch(name) and not is_secret(name):
            found[name] = value[:200]
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
