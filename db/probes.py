"""The best that a host has shown in the probe before a run."""

from sqlalchemy import Engine, func, select

from db.engine import reading
from db.packing import unpack_dims
from db.schema import Measurement, Run
from models.machine import PROBE_METRICS


def best_rates(engine: Engine, host_id: str) -> dict[tuple[str, str], dict[str, float]]:
    """Highest probe rates of a host: ``(device, dtype) -> {metric: rate}``, invalid runs left out.

    The shape is that of ``models.machine.probe_rates``.
    """
    statement = (
        select(Measurement.metric, Measurement.dims, func.max(Measurement.value))
        .join(Run, Run.number == Measurement.run_number)
        .where(
            Measurement.metric.in_(PROBE_METRICS),
            Measurement.definition.startswith("linkworth:probe-"),
            Measurement.value.is_not(None),
            Run.host_id == host_id,
            Run.validity != "invalid",
        )
        .group_by(Measurement.metric, Measurement.dims)
    )
    best: dict[tuple[str, str], dict[str, float]] = {}
    with reading(engine) as connection:
        for name, dims_text, rate in connection.execute(statement):
            dims = unpack_dims(dims_text)
            rates = best.setdefault((str(dims.get("device", "")), str(dims.get("dtype", ""))), {})
            rates[name] = max(float(rate or 0), rates.get(name, 0.0))
    return best
