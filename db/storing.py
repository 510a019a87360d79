"""Writing results: prepared first, then stored in one transaction, whole or not at all."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, insert, or_, select, update

from db import files, hosts
from db.engine import writing
from db.headline import headline
from db.loading import load_in
from db.merging import (
    StoredRound,
    changed_conditions,
    merge_key,
    number_rounds,
    united_artifacts,
    united_reasons,
    united_warnings,
    worst,
)
from db.preparing import Prepared, prepare
from db.schema import Measurement, Round, Run, Samples, Telemetry
from db.statements import changed, lock
from models.errors import DuplicateFile
from models.result import Notice, Result, utc_now

_STORE_LOCK = 0x73746F7265  # results of one run arrive one by one
_TOPOLOGY = ("gpus", "links", "nics", "complete", "p2p")


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
            select(Run.number, Run.id, Run.environment).where(Run.merge_key == key)
        ).first()
    host = hosts.remember_in(connection, prepared.documents["host"], fresh=job_id is not None)
    before: list[StoredRound] = []
    if found is None:
        run_id, part = prepared.result.id, 0
        number = _new_run(connection, prepared, key, host, seed)
    else:
        run_id, number = found.id, found.number
        before = _rounds(connection, number)
        part = max(item.part for item in before) + 1
    numbers = number_rounds(prepared.result, [item.round for item in before])
    own_environment = prepared.documents["environment"]
    differs = found is not None and found.environment != own_environment
    _add_rounds(
        connection, prepared, number, part, numbers, job_id, own_environment if differs else None
    )
    _add_rows(connection, prepared, number, part, numbers)
    if file is not None:
        files.link(connection, file, number, part)
    if found is not None:
        notices = changed_conditions(found.environment, own_environment, numbers.values())
        _unite(connection, prepared.result, number, notices)
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


def _new_run(
    connection: Connection,
    prepared: Prepared,
    key: str | None,
    host: str | None,
    seed: str | None,
) -> int:
    result, documents = prepared.result, prepared.documents
    topology = {name: documents[name] for name in _TOPOLOGY if documents[name] is not None}
    evaluation = result.evaluation
    inserted = connection.execute(
        insert(Run)
        .values(
            id=result.id,
            kind=result.kind,
            origin=result.origin,
            validity=result.validity,
            title=result.title,
            study=result.study,
            evaluation_id=evaluation.id if evaluation else None,
            arm=evaluation.arm if evaluation else None,
            arm_order=evaluation.order if evaluation else None,
            start=evaluation.start if evaluation else None,
            merge_key=key,
            tool=result.tool.name,
            tool_version=result.tool.version,
            host_id=host,
            host_label=hosts.label(documents["host"]),
            started_at=result.started_at,
            finished_at=result.finished_at,
            created_at=utc_now(),
            headline=headline(result),
            seed=seed,
            topology=topology or None,
            **{
                name: documents[name]
                for name in (
                    "reasons", "warnings", "artifacts", "said", "spec", "host", "environment",
                )
            },
        )
        .returning(Run.number)
    )  # fmt: skip
    return int(inserted.scalar_one())


def _add_rounds(
    connection: Connection,
    prepared: Prepared,
    number: int,
    part: int,
    numbers: dict[int | None, int | None],
    job_id: str | None,
    environment: dict[str, Any] | None,
) -> None:
    result, documents = prepared.result, prepared.documents
    own: list[int | None] = [source for source in numbers if source is not None] or [None]
    seed = documents["spec"].get("seed")
    connection.execute(
        insert(Round),
        [
            {
                "run_number": number,
                "round": numbers[source],
                "source_round": source,
                "part": part,
                "result_id": result.id,
                "job_id": job_id,
                "validity": result.validity,
                "reasons": documents["reasons"],
                "seed": seed if isinstance(seed, int) else None,
                "started_at": result.started_at,
                "finished_at": result.finished_at,
                "boot_id": documents["host"].get("boot_id"),
                "environment": environment,
            }
            for source in own
        ],
    )


def _add_rows(
    connection: Connection,
    prepared: Prepared,
    number: int,
    part: int,
    numbers: dict[int | None, int | None],
) -> None:
    for table, rows in ((Measurement, prepared.measurements), (Samples, prepared.samples)):
        if rows:
            placed = {"run_number": number, "part": part}
            connection.execute(
                insert(table), [{**row, **placed, "round": numbers[row["round"]]} for row in rows]
            )
    if prepared.telemetry is not None:
        connection.execute(
            insert(Telemetry).values(
                run_number=number, part=part, count=prepared.n_telemetry, data=prepared.telemetry
            )
        )


def _unite(connection: Connection, added: Result, number: int, notices: list[Notice]) -> None:
    """Bring the run's own row up to date after another result joined it."""
    run = load_in(connection, number, with_samples=False)
    rounds = _rounds(connection, number)
    united = run.model_copy(
        update={
            "validity": worst(item.validity for item in rounds),
            "reasons": united_reasons(rounds),
            "warnings": united_warnings(run.warnings, [*added.warnings, *notices]),
            "artifacts": united_artifacts(run.artifacts, added.artifacts),
            "said": {**added.said, **run.said},
            "started_at": _least(run.started_at, added.started_at),
            "finished_at": _most(run.finished_at, added.finished_at),
        }
    )
    documents = united.model_dump(mode="json", include={"warnings", "artifacts"})
    changed(
        connection,
        update(Run)
        .where(Run.number == number)
        .values(
            validity=united.validity,
            reasons=united.reasons,
            warnings=documents["warnings"],
            artifacts=documents["artifacts"],
            said=united.said,
            started_at=united.started_at,
            finished_at=united.finished_at,
            headline=headline(united),
        ),
    )


def _rounds(connection: Connection, number: int) -> list[StoredRound]:
    rows = connection.execute(
        select(Round.round, Round.part, Round.validity, Round.reasons)
        .where(Round.run_number == number)
        .order_by(Round.number)
    )
    return [StoredRound(row.round, row.part, row.validity, tuple(row.reasons)) for row in rows]


def _least(first: datetime | None, second: datetime | None) -> datetime | None:
    return min((time for time in (first, second) if time is not None), default=None)


def _most(first: datetime | None, second: datetime | None) -> datetime | None:
    return max((time for time in (first, second) if time is not None), default=None)
