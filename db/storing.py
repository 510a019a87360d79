"""Writing results: prepared first, then stored in one transaction, whole or not at all."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, or_, select

from db import files, hosts
from db.engine import writing
from db.merging import StoredRound, Verdict, changed_conditions, merge_key, number_rounds
from db.preparing import Prepared, prepare
from db.run_rows import add_rounds, add_rows, new_run, rounds_of, unite
from db.schema import Round, Run
from db.statements import lock
from models.errors import DuplicateFile
from models.result import Result

_STORE_LOCK = 0x73746F7265  # results of one run arrive one by one


def store(
    engine: Engine,
    result: Result,
    *,
    job_id: str | None = None,
    raw: bytes | None = None,
    raw_name: str = "result.json",
    telemetry: list[dict[str, Any]] | None = None,
) -> str:
    """Store one result, as a run of its own or as further rounds of one.

    Args:
        engine: The database.
        result: What a runner or an importer brought.
        job_id: The job that measured it; storing its result again changes nothing.
        raw: The bytes that it came from; kept without their secrets.
        raw_name: Name of those bytes.
        telemetry: Rows that the worker sampled, beside those of the result.

    Returns:
        The run's id.

    Raises:
        DuplicateFile: The bytes or the result are there already; ``detail`` is the run's id.
        DatabaseUnavailable: Nothing was stored.
    """
    prepared = prepare(result, telemetry)
    file = None if raw is None else files.prepare(raw, raw_name)
    with writing(engine) as connection:
        lock(connection, _STORE_LOCK)
        if job_id is not None:
            again = connection.execute(
                select(Run.id)
                .join(Round, Round.run_number == Run.number)
                .where(Round.result_id == result.id, Round.job_id == job_id)
            ).scalar()
            if again is not None:
                return again
        if file is not None:
            files.keep(connection, file)
        return _store(connection, prepared, file=file, job_id=job_id)


def store_all(
    engine: Engine,
    results: Sequence[Result],
    *,
    raw: bytes | None = None,
    raw_name: str = "result.json",
) -> list[str]:
    """Store every result of one file, or none of them.

    Returns:
        The runs' ids, in order, each once.

    Raises:
        DuplicateFile: The bytes or one of the results are there; ``detail`` is the run's id.
        DatabaseUnavailable: Nothing was stored.
    """
    prepared = [prepare(result) for result in results]
    file = None if raw is None else files.prepare(raw, raw_name)
    with writing(engine) as connection:
        return _store_all(connection, prepared, file)


def store_seed(
    connection: Connection, results: Sequence[Result], *, raw: bytes, name: str
) -> list[str]:
    """Store the results of a shipped file inside a transaction of the caller's."""
    prepared = [prepare(result) for result in results]
    return _store_all(connection, prepared, files.prepare(raw, name), seed=name)


def _store_all(
    connection: Connection,
    prepared: Sequence[Prepared],
    file: files.PreparedFile | None,
    seed: str | None = None,
) -> list[str]:
    lock(connection, _STORE_LOCK)
    if file is not None and prepared:
        files.keep(connection, file)
    run_ids = [_store(connection, item, file=file, seed=seed) for item in prepared]
    return list(dict.fromkeys(run_ids))


def _store(
    connection: Connection,
    prepared: Prepared,
    *,
    file: files.PreparedFile | None = None,
    job_id: str | None = None,
    seed: str | None = None,
) -> str:
    """Write the rows of one prepared result."""
    _refuse_again(connection, prepared.result)
    key = merge_key(prepared.result, prepared.documents["spec"])
    found = None
    if key is not None:
        found = connection.execute(
            select(Run.number, Run.id, Run.host_id, Run.environment).where(Run.merge_key == key)
        ).first()
    host = hosts.remember_in(connection, prepared.documents["host"], fresh=job_id is not None)
    verdict = Verdict(prepared.result.validity, prepared.result.reasons)
    if found is None:
        before: list[StoredRound] = []
        run_id, part = prepared.result.id, 0
        number = new_run(connection, prepared, key, host, seed)
    else:
        run_id, number = found.id, found.number
        before = rounds_of(connection, number)
        part = max(item.part for item in before) + 1
        if found.host_id != host and None not in (found.host_id, host):
            verdict = verdict.doubted("It ran on another host than the first.")
    numbers = number_rounds(prepared.result, [item.round for item in before])
    environment = prepared.documents["environment"]
    differs = found is not None and found.environment != environment
    add_rounds(
        connection, prepared, number, part, numbers, verdict, job_id,
        environment if differs else None,
    )  # fmt: skip
    add_rows(connection, prepared, number, part, numbers)
    if file is not None:
        files.link(connection, file, number, part)
    if found is not None:
        notices = changed_conditions(found.environment, environment, numbers.values())
        unite(connection, prepared.result, number, notices)
    return run_id


def _refuse_again(connection: Connection, result: Result) -> None:
    first = connection.execute(
        select(Run.id)
        .join(Round, Round.run_number == Run.number)
        .where(or_(Round.result_id == result.id, Run.id == result.id))
        .limit(1)
    ).scalar()
    if first is not None:
        raise DuplicateFile(
            "This result is already stored.",
            "Open the run that it belongs to, or delete that run first.",
            detail=first,
        )
