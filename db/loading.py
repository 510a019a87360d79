"""Reading one run back, as the result that it was."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Engine, select
from sqlalchemy.engine import RowMapping

from db.engine import reading
from db.packing import unpack_dims, unpack_rows, unpack_values
from db.schema import Measurement, Run, Samples, Telemetry
from models.errors import NotFound
from models.result import Result


def load(engine: Engine, run_id: str) -> Result:
    """One run with its measurements, samples and telemetry; rounds as the run numbers them.

    Raises:
        NotFound: There is no such run.
    """
    with reading(engine) as connection:
        return load_in(connection, number_of(connection, run_id))


def head(engine: Engine, run_id: str) -> Result:
    """One run as ``load`` reads it, without measurements, samples and telemetry.

    Raises:
        NotFound: There is no such run.
    """
    found = heads(engine, [run_id])
    if not found:
        raise _not_found()
    return found[run_id]


def heads(engine: Engine, run_ids: Collection[str]) -> dict[str, Result]:
    """Several runs at once as ``load`` reads them, without measurements, samples and telemetry.

    Returns:
        Id -> run, in the order of ``run_ids``; those that are not there are left out.
    """
    with reading(engine) as connection:
        rows = connection.execute(
            select(*Run.__table__.columns).where(Run.id.in_(list(run_ids)))
        ).mappings()
        found = {row["id"]: Result.model_validate(_head(row)) for row in rows}
    return {run_id: found[run_id] for run_id in run_ids if run_id in found}


def number_of(connection: Connection, run_id: str) -> int:
    """The run's key inside the database.

    Raises:
        NotFound: There is no such run.
    """
    number = connection.execute(select(Run.number).where(Run.id == run_id)).scalar()
    if number is None:
        raise _not_found()
    return int(number)


def _not_found() -> NotFound:
    return NotFound("There is no such run any more.", "Look for it in the list of runs.")


def load_in(connection: Connection, number: int, *, with_samples: bool = True) -> Result:
    """As ``load``, inside a transaction; samples and telemetry only where asked for."""
    run = (
        connection.execute(select(*Run.__table__.columns).where(Run.number == number))
        .mappings()
        .one()
    )
    return Result.model_validate(
        {
            **_head(run),
            "measurements": _measurements(connection, number),
            "samples": _samples(connection, number) if with_samples else [],
            "telemetry": telemetry_rows(connection, number) if with_samples else [],
        }
    )


def telemetry_rows(connection: Connection, number: int) -> list[dict[str, Any]]:
    """Telemetry of every result of a run, in the order they came."""
    rows = connection.execute(
        select(Telemetry.data).where(Telemetry.run_number == number).order_by(Telemetry.number)
    )
    return [item for row in rows for item in unpack_rows(row.data)]


def _head(run: RowMapping) -> dict[str, Any]:
    same = (
        "id", "kind", "origin", "validity", "reasons", "title", "study", "warnings", "spec",
        "host", "environment", "started_at", "finished_at", "artifacts", "said",
    )  # fmt: skip
    evaluation = None
    if run["evaluation_id"] is not None:
        evaluation = {
            "id": run["evaluation_id"],
            "arm": run["arm"],
            "order": run["arm_order"],
            "start": run["start"],
        }
    return {
        **{name: run[name] for name in same},
        "evaluation": evaluation,
        "tool": {"name": run["tool"], "version": run["tool_version"]},
        **(run["topology"] or {}),
    }


def _measurements(connection: Connection, number: int) -> list[dict[str, Any]]:
    names = (
        "metric", "statistic", "unit", "value", "n", "round", "definition", "low", "high",
        "relative_to", "dims",
    )  # fmt: skip
    rows = connection.execute(
        select(*(getattr(Measurement, name) for name in names))
        .where(Measurement.run_number == number)
        .order_by(Measurement.number)
    ).mappings()
    return [{**row, "dims": unpack_dims(row["dims"])} for row in rows]


def _samples(connection: Connection, number: int) -> list[dict[str, Any]]:
    rows = connection.execute(
        select(Samples.metric, Samples.unit, Samples.round, Samples.dims, Samples.data)
        .where(Samples.run_number == number)
        .order_by(Samples.number)
    )
    return [
        {
            "metric": row.metric,
            "unit": row.unit,
            "round": row.round,
            "dims": unpack_dims(row.dims),
            "values": unpack_values(row.data).tolist(),
        }
        for row in rows
    ]
