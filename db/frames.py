"""Tables for pages: every query returns a DataFrame or plain dicts, and none asks row by row."""

from collections.abc import Collection, Sequence
from typing import Any, TypedDict, Unpack

import pandas as pd
from sqlalchemy import ColumnElement, Engine, Select, func, or_, select

from db.engine import reading
from db.loading import number_of, telemetry_rows
from db.packing import unpack_dims, unpack_values
from db.schema import Measurement, Round, Run, Samples, Seed
from models.metrics import METRICS

_LISTED = (
    Run.id, Run.kind, Run.origin, Run.validity, Run.title, Run.study,
    Run.evaluation_id.label("evaluation"), Run.arm, Run.tool, Run.tool_version,
    Run.host_label.label("host"), Run.started_at, Run.finished_at, Run.created_at, Run.reasons,
    Run.headline,
)  # fmt: skip
_OF_RUNS = (
    Run.id.label("run_id"), Run.kind, Run.origin, Run.validity, Run.title, Run.study,
    Run.evaluation_id.label("evaluation"), Run.arm, Run.tool, Run.tool_version,
    Run.host_label.label("host"), Run.started_at, Run.finished_at, Run.created_at,
)  # fmt: skip
_OF_MEASUREMENTS = (
    Measurement.metric, Measurement.statistic, Measurement.unit, Measurement.value,
    Measurement.low, Measurement.high, Measurement.n, Measurement.round, Measurement.part,
    Measurement.definition, Measurement.relative_to, Measurement.dims,
)  # fmt: skip
_MOST_SEARCHED = 200  # characters: every word is looked for in nine columns
_TIMES = frozenset(("started_at", "finished_at", "created_at"))
_NUMBERS = frozenset(
    ("value", "low", "high", "n", "round", "source_round", "part", "seed", "number", "run_number")
)


class RunFilter(TypedDict, total=False):
    """Which runs are asked for; what is absent or None does not restrict.

    Attributes:
        kinds: Kinds of result.
        origins: measured, imported, published, …
        validities: valid, suspect, invalid.
        study: Id of the study they belong to.
        text: Words that must all stand in what a list shows of a run.
        hosts: Ids of machines.
        ids: Ids of runs.
        evaluations: Ids of plans.
        shipped: Only those that came with the code, or only all others.
    """

    kinds: Collection[str] | None
    origins: Collection[str] | None
    validities: Collection[str] | None
    study: str | None
    text: str | None
    hosts: Collection[str] | None
    ids: Collection[str] | None
    evaluations: Collection[str] | None
    shipped: bool | None


def list_runs(
    engine: Engine, *, limit: int = 500, offset: int = 0, **filters: Unpack[RunFilter]
) -> pd.DataFrame:
    """Runs, newest first, one row each; ``reasons`` is a list, times carry their zone."""
    statement = _filtered(select(*_LISTED), filters)
    statement = statement.order_by(Run.created_at.desc(), Run.number.desc())
    with reading(engine) as connection:
        rows = connection.execute(statement.limit(limit).offset(offset)).all()
    return _frame(rows, [column.key for column in _LISTED])


def count(engine: Engine, **filters: Unpack[RunFilter]) -> int:
    """How many runs ``list_runs`` would list without a limit."""
    statement = _filtered(select(func.count()).select_from(Run), filters)
    with reading(engine) as connection:
        return int(connection.execute(statement).scalar_one())


def measurements(
    engine: Engine,
    *,
    run_ids: Collection[str] | None = None,
    kinds: Collection[str] | None = None,
    metrics: Collection[str] | None = None,
    statistics: Collection[str] | None = None,
    include_invalid: bool = True,
    limit: int | None = None,
) -> pd.DataFrame:
    """Measurements in stored order: the columns of their run, their own, and one a dimension.

    Every dimension that one of the metrics may have is a column, empty where no row has it.

    Args:
        engine: The database.
        run_ids: Only these runs.
        kinds: Only runs of these kinds.
        metrics: Only these metrics.
        statistics: Only these statistics.
        include_invalid: Whether runs that are invalid come along.
        limit: At most so many rows, the newest.
    """
    wanted: list[ColumnElement[bool]] = []
    if run_ids is not None:
        wanted.append(Run.id.in_(list(run_ids)))
    if kinds is not None:
        wanted.append(Run.kind.in_(list(kinds)))
    if not include_invalid:
        wanted.append(Run.validity != "invalid")
    statement = select(Measurement.run_number, *_OF_MEASUREMENTS)
    if wanted:
        # not a join: for one metric SQLite would go through all its rows, of whatever run
        statement = statement.where(Measurement.run_number.in_(select(Run.number).where(*wanted)))
    if metrics is not None:
        statement = statement.where(Measurement.metric.in_(list(metrics)))
    if statistics is not None:
        statement = statement.where(Measurement.statistic.in_(list(statistics)))
    in_order = (Measurement.run_number, Measurement.number)
    if limit is None:
        statement = statement.order_by(*in_order)
    else:
        statement = statement.order_by(*(column.desc() for column in in_order)).limit(limit)
    with reading(engine) as connection:
        rows = connection.execute(statement).all()
        if limit is not None:
            rows = rows[::-1]
            wanted.append(Run.number >= (rows[0].run_number if rows else 0))
        # runs apart: their columns, times above all, would be read again for every row
        runs = connection.execute(select(Run.number, *_OF_RUNS).where(*wanted)).all()
    own = _frame(rows, ["run_number", *(column.key for column in _OF_MEASUREMENTS)])
    of_runs = _frame(runs, ["number", *(column.key for column in _OF_RUNS)])
    places = pd.Index(of_runs.pop("number")).get_indexer(pd.Index(own.pop("run_number")))
    frame = pd.concat([of_runs.take(places).set_axis(own.index), own], axis="columns")
    return _with_dims(frame, set(metrics or ()) | set(own["metric"].unique()))


def samples(engine: Engine, run_id: str, *, metric: str | None = None) -> list[dict[str, Any]]:
    """Raw values of a run: metric, unit, round, part, dims, and values as an array of float64.

    Raises:
        NotFound: There is no such run.
    """
    with reading(engine) as connection:
        statement = (
            select(
                Samples.metric, Samples.unit, Samples.round, Samples.part, Samples.dims,
                Samples.data,
            )
            .where(Samples.run_number == number_of(connection, run_id))
            .order_by(Samples.number)
        )  # fmt: skip
        if metric is not None:
            statement = statement.where(Samples.metric == metric)
        rows = connection.execute(statement).all()
    return [
        {
            "metric": row.metric,
            "unit": row.unit,
            "round": row.round,
            "part": row.part,
            "dims": unpack_dims(row.dims),
            "values": unpack_values(row.data),
        }
        for row in rows
    ]


def telemetry(engine: Engine, run_id: str) -> pd.DataFrame:
    """Telemetry rows of a run, in the order they came; empty where none was sampled.

    Raises:
        NotFound: There is no such run.
    """
    with reading(engine) as connection:
        return pd.DataFrame(telemetry_rows(connection, number_of(connection, run_id)))


def rounds(engine: Engine, run_id: str) -> pd.DataFrame:
    """Rounds of a run: number, part, validity, reasons, seed, times, boot and what brought them.

    Raises:
        NotFound: There is no such run.
    """
    columns = (
        Round.round, Round.source_round, Round.part, Round.validity, Round.reasons, Round.seed,
        Round.started_at, Round.finished_at, Round.boot_id, Round.job_id, Round.result_id,
        Round.environment,
    )  # fmt: skip
    with reading(engine) as connection:
        rows = connection.execute(
            select(*columns)
            .where(Round.run_number == number_of(connection, run_id))
            .order_by(Round.round, Round.number)
        ).all()
    return _frame(rows, [column.key for column in columns])


def _filtered(statement: Select[Any], filters: RunFilter) -> Select[Any]:
    for column, wanted in (
        (Run.kind, filters.get("kinds")),
        (Run.origin, filters.get("origins")),
        (Run.validity, filters.get("validities")),
        (Run.host_id, filters.get("hosts")),
        (Run.id, filters.get("ids")),
        (Run.evaluation_id, filters.get("evaluations")),
    ):
        if wanted is not None:
            statement = statement.where(column.in_(list(wanted)))
    study, shipped = filters.get("study"), filters.get("shipped")
    if study is not None:
        statement = statement.where(Run.study == study)
    if shipped is not None:
        # by the seeds' names, which an index answers: "is not null" would read every run there is
        came = select(Run.number).where(Run.seed.in_(select(Seed.name)))
        statement = statement.where(Run.number.in_(came) if shipped else Run.number.not_in(came))
    for word in (filters.get("text") or "")[:_MOST_SEARCHED].split():
        searched = (
            Run.title, Run.headline, Run.study, Run.arm, Run.tool, Run.host_label, Run.kind,
            Run.evaluation_id, Run.id,
        )  # fmt: skip
        statement = statement.where(
            or_(*(column.icontains(word, autoescape=True) for column in searched))
        )
    return statement


def _frame(rows: Sequence[Any], columns: list[str]) -> pd.DataFrame:
    """Times with their zone, numbers with NaN, everything else as it is: a text or None."""
    data = dict(zip(columns, zip(*rows, strict=True), strict=True)) if rows else {}
    series: dict[str, pd.Series] = {}
    for name in columns:
        values = pd.Series(data.get(name, ()), dtype=object)
        if name in _TIMES:
            values = pd.to_datetime(values, utc=True)
        elif name in _NUMBERS:  # also where every row is empty
            values = pd.to_numeric(values)
        series[name] = values
    return pd.DataFrame(series)


def _with_dims(frame: pd.DataFrame, metrics: set[str]) -> pd.DataFrame:
    """One column a dimension instead of their JSON: the few distinct texts are parsed once."""
    codes, texts = pd.factorize(frame["dims"])
    parsed = [unpack_dims(text) for text in texts]
    names = {name: None for metric in sorted(metrics) for name in METRICS[metric].dims}
    names |= {name: None for dims in parsed for name in dims}
    columns = {}
    for name in names:
        values = pd.Series([dims.get(name) for dims in parsed], dtype=object)
        known = [value for value in values if value is not None]
        if known and all(type(value) in (int, float) for value in known):
            values = pd.to_numeric(values)
        columns[name] = values.take(codes).set_axis(frame.index)
    return pd.concat([frame.drop(columns="dims"), pd.DataFrame(columns)], axis="columns")
