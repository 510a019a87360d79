"""What the layouts of published studies share: names of metrics, ids, one measurement."""

import uuid
from typing import Any

from models.metrics import metric
from models.result import Measurement, Scalar

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "linkworth:published")

# column of a published table -> our metric and statistic
COLUMNS: dict[str, tuple[str, str]] = {
    "output_tok_s": ("output_throughput", "value"),
    "median_ttft_ms": ("ttft", "median"),
    "median_tpot_ms": ("tpot", "median"),
    "median_itl_ms": ("itl", "median"),
    "mean_ttft_ms": ("ttft", "mean"),
    "mean_tpot_ms": ("tpot", "mean"),
    "p99_ttft_ms": ("ttft", "p99"),
    "p99_tpot_ms": ("tpot", "p99"),
    "p99_itl_ms": ("itl", "p99"),
    "acceptance_rate_pct": ("spec_decode_acceptance_rate", "value"),
    "acceptance_length": ("spec_decode_acceptance_length", "value"),
    # gains whose statistic or kind the author does not state
    "ttft_ms": ("ttft", "value"),
    "p99_latency": ("latency", "p99"),
}


def result_id(study: str, *parts: object) -> str:
    """The same study and parts always give the same id."""
    return str(uuid.uuid5(_NAMESPACE, ":".join([study, *(str(part) for part in parts)])))


def printed(
    study: str,
    table: str,
    name: str,
    value: float | None,
    *,
    statistic: str = "value",
    dims: dict[str, Scalar] | None = None,
    n: int | None = None,
    low: float | None = None,
    high: float | None = None,
    relative_to: str | None = None,
) -> Measurement:
    """One printed number: metric ``name`` as ``table`` of ``study`` defines it."""
    unit = {"change_pct": "%", "speedup": ""}.get(statistic, metric(name).unit)
    return Measurement(
        metric=name,
        statistic=statistic,
        unit=unit,
        value=value,
        n=n,
        dims={key: item for key, item in (dims or {}).items() if item is not None},
        definition=f"published:{study}:{table}",
        low=low,
        high=high,
        relative_to=relative_to,
    )


def table_row(
    study: str,
    table: str,
    row: dict[str, Any],
    dims: dict[str, Scalar],
    *,
    n: int | None = None,
) -> list[Measurement]:
    """All printed numbers of one row; an empty cell is absent, never 0."""
    found = []
    for column, (name, statistic) in COLUMNS.items():
        if row.get(column) is None:
            continue
        counted = n if statistic != "value" else None
        found.append(
            printed(study, table, name, row[column], statistic=statistic, dims=dims, n=counted)
        )
    return found


def change(
    study: str,
    table: str,
    column: str,
    pct: float | list[float],
    relative_to: str,
    dims: dict[str, Scalar],
) -> Measurement:
    """A published gain in percent; a range keeps its two ends and has no value between."""
    name, statistic = COLUMNS[column]
    which = "" if statistic == "value" else f"-of-{statistic}"
    low, high = (pct[0], pct[1]) if isinstance(pct, list) else (None, None)
    value = pct if not isinstance(pct, list) else (low if low == high else None)
    return printed(
        study,
        f"{table}{which}",
        name,
        value,
        statistic="change_pct",
        dims=dims,
        low=low,
        high=high,
        relative_to=relative_to,
    )
