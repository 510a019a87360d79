"""Storing what an import understood: each file whole or not at all, nothing twice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from db import runs, studies
from db.engine import Engine
from importers.files import Reading
from importers.said import with_said
from models.errors import DuplicateFile
from models.result import Result, Scalar
from pages.widgets.store import refuse_read_only


@dataclass
class Outcome:
    """What became of the files.

    Attributes:
        stored: Ids of the runs, in order, each once.
        duplicates: Name of a file and the run that has it already.
        empty: How many results held no number and were not stored.
    """

    stored: list[str] = field(default_factory=list)
    duplicates: list[tuple[str, str]] = field(default_factory=list)
    empty: int = 0


def worth_storing(result: Result) -> bool:
    """Whether a result holds anything: a run that failed before its first number does not."""
    return bool(result.measurements) or result.links is not None


def store(
    engine: Engine,
    readings: Sequence[Reading],
    answers: Mapping[str, Scalar],
    on_file: Callable[[int, str], None],
) -> Outcome:
    """Store the results of files.

    Args:
        engine: The database.
        readings: What was read.
        answers: What the person said, for every result that does not say it itself.
        on_file: Told the number of files done and the name of the next one.

    Raises:
        ReadOnly: Demo mode.
        DatabaseUnavailable: The files before this one are stored, the others not.
    """
    refuse_read_only()
    outcome = Outcome()
    for index, reading in enumerate(readings):
        on_file(index, reading.name)
        results = [with_said(item, answers) for item in reading.results if worth_storing(item)]
        outcome.empty += len(reading.results) - len(results)
        if not results:
            continue
        if reading.bundle is not None and reading.bundle.study is not None:
            studies.save(engine, reading.bundle.study)
        _store_file(engine, reading, results, outcome)
    on_file(len(readings), "")
    outcome.stored = list(dict.fromkeys(outcome.stored))
    return outcome


def _store_file(
    engine: Engine, reading: Reading, results: Sequence[Result], outcome: Outcome
) -> None:
    name, data = reading.raw
    try:
        outcome.stored += runs.store_all(engine, results, raw=data, raw_name=name)
    except DuplicateFile as error:
        if len(results) == 1 or runs.find_by_sha256(engine, reading.sha256) is not None:
            outcome.duplicates.append((reading.name, error.detail))
            return
        _store_singly(engine, reading, results, outcome)


def _store_singly(
    engine: Engine, reading: Reading, results: Sequence[Result], outcome: Outcome
) -> None:
    """Some results of the file are there already: the others come in, the file with the first."""
    name, data = reading.raw
    raw: bytes | None = data
    for result in results:
        try:
            outcome.stored.append(runs.store(engine, result, raw=raw, raw_name=name))
            raw = None
        except DuplicateFile as error:
            outcome.duplicates.append((reading.name, error.detail))
