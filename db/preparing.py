"""A result made ready for the tables before any lock is taken: scrubbed, packed, compressed."""

from dataclasses import dataclass
from typing import Any

from db.packing import pack_dims, pack_rows, pack_values
from models.result import Result
from models.secrets import scrub, scrub_text


@dataclass(frozen=True)
class Prepared:
    """A result with everything packed that takes time, so that the write lock is held briefly."""

    result: Result
    documents: dict[str, Any]
    measurements: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    telemetry: bytes | None
    n_telemetry: int


def prepare(result: Result, telemetry: list[dict[str, Any]] | None = None) -> Prepared:
    """Everything about a result that takes time.

    Args:
        result: What a runner or an importer brought.
        telemetry: Rows sampled beside it.
    """
    result = _without_secrets(result)
    documents = result.model_dump(
        mode="json", by_alias=True, exclude={"measurements", "samples", "telemetry"}
    )
    documents["spec"] = scrub(documents["spec"])
    documents["host"] = scrub(documents["host"])
    documents["environment"] = scrub(documents["environment"], strict=True)
    rows = [*result.telemetry, *(telemetry or [])]
    return Prepared(
        result=result,
        documents=documents,
        measurements=[
            {
                "metric": row.metric,
                "statistic": row.statistic,
                "unit": row.unit,
                "value": row.value,
                "low": row.low,
                "high": row.high,
                "n": row.n,
                "round": row.round,
                "definition": row.definition,
                "relative_to": row.relative_to,
                "dims": pack_dims(row.dims),
            }
            for row in result.measurements
        ],
        samples=[
            {
                "metric": row.metric,
                "unit": row.unit,
                "round": row.round,
                "dims": pack_dims(row.dims),
                "count": len(row.values),
                "data": pack_values(row.values),
            }
            for row in result.samples
        ],
        telemetry=pack_rows(rows) if rows else None,
        n_telemetry=len(rows),
    )


def _without_secrets(result: Result) -> Result:
    """What people and programs wrote: an address with its password ends up in sentences too."""
    return result.model_copy(
        update={
            "title": None if result.title is None else scrub_text(result.title),
            "reasons": [scrub_text(reason) for reason in result.reasons],
            "warnings": [
                notice.model_copy(update={"text": scrub_text(notice.text)})
                for notice in result.warnings
            ],
            "said": scrub(result.said),
        }
    )
