"""``vllm bench sweep serve``: rounds of one run that lie in one folder, and their summaries.

``run=N.json`` hold the runs, ``summary.json`` the same again as a list, ``summary.csv`` all of an
experiment once more: nothing is counted twice. ``warmup.json`` is no measurement.
"""

import csv
import io
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from importers import vllm_json
from importers.draft import Draft, experiment_id, spoken_number
from importers.text import refusal
from models.result import EvaluationRef, Notice, Result

COLD = 0.10  # a first round that is this much slower than the others is said
_TEXT_COLUMNS = ("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id")
_FIELD_LIMIT = 64 * 1024 * 1024
_CSV_START = (",date,", "date,", ",backend,")


def looks_like_csv(text: str) -> bool:
    """Whether the text is a sweep's ``summary.csv``."""
    head = text.lstrip("\n").split("\n", 1)[0]
    return head.startswith(_CSV_START) and ",request_throughput," in head


def read_csv(text: str, name: str = "") -> list[Result]:
    """The runs of ``summary.csv``: text cells become the numbers and lists that they spell.

    Raises:
        UnreadableFile: No row can be used.
    """
    csv.field_size_limit(_FIELD_LIMIT)
    rows = csv.DictReader(io.StringIO(text.lstrip("\n")))
    try:
        records = [
            {
                key: _cell(key, value)
                for key, value in row.items()
                if key and value not in ("", None)
            }
            for row in rows
        ]
    except csv.Error as error:
        raise refusal("malformed", f"This CSV file cannot be read: {error}.") from None
    return read_list([record for record in records if vllm_json.looks_like(record)])


def _cell(key: str, value: Any) -> Any:
    if not isinstance(value, str) or key in _TEXT_COLUMNS:
        return value
    if value[:1] == "[":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):  # a list of texts is written as Python writes it
            return None
    found = spoken_number(value)
    return value if found is None else found


def read_list(records: Sequence[Mapping[str, Any]]) -> list[Result]:
    """The runs of ``summary.json``, or of a file that ``--append-result`` grew.

    Raises:
        UnreadableFile: No run can be used.
    """
    drafts = [vllm_json.draft_of(record) for record in records]
    usable = [draft for draft in drafts if draft.validity != "invalid"]
    if not usable:
        if not drafts:
            raise refusal("no_rows", "The file lists no run.", "Check that the sweep ended.")
        raise refusal(drafts[0].code, drafts[0].reasons[0], "Run the benchmark again.")
    results = [draft.result() for draft in drafts]
    swept = [result for result, draft in zip(results, drafts, strict=True) if _in_sweep(draft)]
    bind(swept, experiment_id(result.id for result in swept))
    return results


def _in_sweep(draft: Draft) -> bool:
    return draft.validity != "invalid" and draft.round is not None


def bind(results: Sequence[Result], identity: str) -> None:
    """Make rounds of the runs of one sweep, and compare each first round with the others."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        arm = arm_of(result)
        result.evaluation = EvaluationRef(id=identity, arm=arm)
        # what differs from round to round is no condition of the run
        result.spec.pop("date", None)
        load = result.spec["workloads"][0]
        for name in ("mean_input_len", "mean_output_len"):
            load.pop(name, None)
        groups.setdefault(f"{arm} {sorted(load.items(), key=str)}", []).append(result)
    for group in groups.values():
        _judge_rounds(sorted(group, key=lambda result: result.measurements[0].round or 0))


def arm_of(result: Result) -> str:
    """The overrides of a sweep in words: what this arm changed."""
    overrides = {
        key: value
        for key, value in result.spec.get("metadata", {}).items()
        if key not in ("max_concurrency", "request_rate", "num_prompts")
    }
    return ", ".join(f"{key}={value}" for key, value in sorted(overrides.items())) or "default"


def _judge_rounds(group: list[Result]) -> None:
    speeds = [_speed(result) for result in group]
    known = [speed for speed in speeds if speed is not None]
    if len(known) < 2 or len(known) != len(speeds):
        return
    rest = statistics.median(known[1:])
    if known[0] < (1 - COLD) * rest:
        _suspect(
            group[0],
            "cold_run",
            f"The first round made {known[0]:.1f} tok/s, the others {rest:.1f} tok/s: it ran cold.",
        )
    rising = all(later > sooner for sooner, later in itertools.pairwise(known))
    if len(known) >= 3 and rising and known[-1] > (1 + COLD) * known[0]:
        for result in group:
            _suspect(
                result,
                "rising",
                "Throughput rises from round to round: with one seed, later rounds find their "
                "prompts in the prefix cache.",
            )


def _speed(result: Result) -> float | None:
    found = result.find("output_throughput", "value")
    return found[0].value if found else None


def _suspect(result: Result, code: str, text: str) -> None:
    result.warnings.append(Notice(code=code, text=text))
    result.reasons.append(text)
    if result.validity == "valid":
        result.validity = "suspect"


def is_failure(path: str) -> bool:
    """Whether a file of a sweep's folder reports a failed run."""
    return PurePosixPath(path).name.endswith(".failure.json")


def repeats(path: str, others: Sequence[str]) -> bool:
    """Whether a summary only repeats the run files that are imported with it."""
    here = PurePosixPath(path)
    runs = [PurePosixPath(other) for other in others if _is_run(PurePosixPath(other))]
    if here.name == "summary.json":
        return any(run.parent == here.parent for run in runs)
    if here.name == "summary.csv":
        return any(run.parent.parent == here.parent for run in runs)
    return False


def _is_run(path: PurePosixPath) -> bool:
    return (
        path.name.startswith("run=") and path.name.endswith(".json") and not is_failure(str(path))
    )


def experiment_of(path: str) -> str | None:
    """The experiment's folder of a ``run=N.json``, or None for any other file."""
    here = PurePosixPath(path)
    if _is_run(here) and here.parent.name.startswith("SERVE-"):
        return str(here.parent.parent)
    return None
