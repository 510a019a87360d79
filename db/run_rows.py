"""The rows of a run: written when it is new, joined when another result belongs to it."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from db import hosts
from db.headline import headline
from db.loading import load_in
from db.merging import (
    StoredRound,
    Verdict,
    united_artifacts,
    united_reasons,
    united_warnings,
    worst,
)
from db.preparing import Prepared
from db.schema import Measurement, Round, Run, Samples, Telemetry
from db.statements import changed
from models.result import Notice, Result, utc_now

_TOPOLOGY = ("gpus", "links", "nics", "complete", "p2p")


def new_run(
    connection: Connection,
    prepared: Prepared,
    key: str | None,
    host: str | None,
    seed: str | None,
) -> int:
    """The row of a run that is not there yet; gives its key inside the database."""
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


def add_rounds(
    connection: Connection,
    prepared: Prepared,
    number: int,
    part: int,
    numbers: dict[int | None, int | None],
    verdict: Verdict,
    job_id: str | None,
    environment: dict[str, Any] | None,
) -> None:
    """The rounds that a result brings; ``environment`` where it differs from the run's."""
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
                "validity": verdict.validity,
                "reasons": verdict.reasons,
                "seed": seed if isinstance(seed, int) else None,
                "started_at": result.started_at,
                "finished_at": result.finished_at,
                "boot_id": documents["host"].get("boot_id"),
                "environment": environment,
            }
            for source in own
        ],
    )


def add_rows(
    connection: Connection,
    prepared: Prepared,
    number: int,
    part: int,
    numbers: dict[int | None, int | None],
) -> None:
    """Measurements, samples and telemetry of a result, under their numbers in the run."""
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


def unite(connection: Connection, added: Result, number: int, notices: list[Notice]) -> None:
    """Bring the run's own row up to date after another result joined it."""
    run = load_in(connection, number, with_samples=False)
    rounds = rounds_of(connection, number)
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


def rounds_of(connection: Connection, number: int) -> list[StoredRound]:
    """The rounds that a run has, in the order they came."""
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
