"""The narrow waist: the one result shape that runners, importers and exports speak.

Format history (``schema``):
    1: first published shape.

A value that is not known is null or absent, never 0.
"""

import json
import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    field_validator,
    model_validator,
)

from models.errors import UnreadableFile
from models.metrics import METRICS, STATISTICS

SCHEMA_VERSION = 1
VERSION = "0.1.0"  # of this code, as results name it; the same as in pyproject.toml

Kind = Literal["allreduce", "collective", "decode", "serving", "engine", "soak", "p2p", "topology"]
Origin = Literal["measured", "imported", "published", "described", "predicted", "assumed"]
Validity = Literal["valid", "suspect", "invalid"]
Scalar = str | int | FiniteFloat | bool | None


def _aware(value: datetime) -> datetime:
    """Refuse times without a zone: two hosts would disagree about them."""
    if value.tzinfo is None:
        raise ValueError("a time needs a time zone")
    return value.astimezone(UTC)


UtcTime = Annotated[datetime, AfterValidator(_aware)]


class _Strict(BaseModel):
    """Unknown keys are refused, NaN and Infinity too."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null")


class Measurement(_Strict):
    """One number with its definition; ``value`` may be null where only a range is known."""

    metric: str
    statistic: str = "value"
    unit: str
    value: FiniteFloat | None = None
    n: int | None = Field(default=None, ge=0)
    round: int | None = Field(default=None, ge=0)
    dims: dict[str, Scalar] = Field(default_factory=dict)
    definition: str
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None
    relative_to: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        known = METRICS.get(self.metric)
        if known is None:
            raise ValueError(f"unknown metric {self.metric!r}")
        if self.statistic not in STATISTICS:
            raise ValueError(f"unknown statistic {self.statistic!r}")
        if self.statistic == "change_pct":
            expected = "%"
        elif self.statistic == "speedup":
            expected = ""
        else:
            expected = known.unit
        if self.unit != expected:
            raise ValueError(f"{self.metric} is stored in {expected!r}, not {self.unit!r}")
        foreign = set(self.dims) - set(known.dims)
        if foreign:
            raise ValueError(f"{self.metric} has no dimension {sorted(foreign)}")
        if self.value is None and self.low is None and self.high is None:
            raise ValueError(f"{self.metric} has neither a value nor a range")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"{self.metric}: the range's low end lies above its high end")
        return self


class Samples(_Strict):
    """Raw values behind a statistic, in the order they were taken."""

    metric: str
    unit: str
    round: int | None = Field(default=None, ge=0)
    dims: dict[str, Scalar] = Field(default_factory=dict)
    values: list[FiniteFloat]

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in METRICS:
            raise ValueError(f"unknown metric {name!r}")
        return name


class Notice(_Strict):
    """A warning: a code for programs, a sentence for people."""

    code: str
    text: str


class Artifact(_Strict):
    """A file that belongs to a run, by name and content hash."""

    name: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Tool(_Strict):
    """Which program produced the numbers."""

    name: str
    version: str | None = None


class EvaluationRef(_Strict):
    """Where a run stands in a planned set: evaluation, arm, position in the order, start."""

    id: str
    arm: str
    order: int | None = None
    start: int | None = None


class Gpu(_Strict):
    """One GPU of a topology result."""

    index: int
    name: str
    numa: int | None = None
    cpus: str | None = None
    uuid: str | None = None
    facts: dict[str, Any] = Field(default_factory=dict)


class Result(_Strict):
    """One run as it travels between programs, files and the database."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    id: str = Field(default_factory=lambda: str(uuid.uuid4()))
    kind: Kind
    origin: Origin
    validity: Validity = "valid"
    reasons: list[str] = Field(default_factory=list)
    title: str | None = None
    study: str | None = None
    evaluation: EvaluationRef | None = None
    warnings: list[Notice] = Field(default_factory=list)
    spec: dict[str, Any] = Field(default_factory=dict)
    host: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)
    telemetry: list[dict[str, Any]] = Field(default_factory=list)
    started_at: UtcTime | None = None
    finished_at: UtcTime | None = None
    tool: Tool
    measurements: list[Measurement] = Field(default_factory=list)
    samples: list[Samples] = Field(default_factory=list)
    artifacts: list[Artifact] = Field(default_factory=list)
    said: dict[str, Scalar] = Field(
        default_factory=dict, description="what a person filled in about an imported file"
    )
    # topology results only
    gpus: list[Gpu] | None = None
    links: list[list[str | None]] | None = None
    nics: int | None = None
    complete: bool | None = None
    p2p: list[list[str | None]] | None = None

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        populate_by_name=True,
        serialize_by_alias=True,
    )

    @field_validator("id")
    @classmethod
    def _is_uuid(cls, value: str) -> str:
        return str(uuid.UUID(value))

    @model_validator(mode="after")
    def _reasons_given(self) -> Self:
        if self.validity != "valid" and not self.reasons:
            raise ValueError(f"a run that is {self.validity} must say why")
        return self

    def find(
        self,
        metric: str,
        statistic: str | None = None,
        **dims: Scalar,
    ) -> list[Measurement]:
        """Measurements of one metric whose dims contain all the given ones, in stored order."""
        return [
            row
            for row in self.measurements
            if row.metric == metric
            and (statistic is None or row.statistic == statistic)
            and all(row.dims.get(name) == value for name, value in dims.items())
        ]


class Claim(_Strict):
    """One sentence of a study's author, with our check of it."""

    claim: str
    check: str | None = None


_STUDY_ID = r"^[a-z0-9][a-z0-9-]*$"


def study_id(name: str) -> str:
    """The id of a study that is named so, as of a file: what an id may not hold becomes a hyphen.

    Raises:
        ValueError: Nothing of the name can stand in an id.
    """
    found = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not found:
        raise ValueError(f"{name!r} gives no id: the name needs letters a to z or digits")
    return found


class Study(_Strict):
    """A named body of results and what its author says of them."""

    id: str = Field(pattern=_STUDY_ID)
    title: str
    origin: Origin
    source: str
    summary: str = ""
    claims: list[Claim] = Field(default_factory=list)
    limits: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    facts: dict[str, Any] = Field(default_factory=dict)


class Bundle(_Strict):
    """What one import or one shipped file brings: results, and the study they belong to."""

    study: Study | None = None
    results: list[Result] = Field(default_factory=list)
    warnings: list[Notice] = Field(default_factory=list)


def utc_now() -> datetime:
    """The present moment, with its zone."""
    return datetime.now(UTC)


def dump(result: Result) -> dict[str, Any]:
    """The JSON object of one result, keys in the shape's own order, times in ISO 8601."""
    return result.model_dump(mode="json", by_alias=True)


def dumps(results: Iterable[Result], *, indent: int | None = 1) -> str:
    """A JSON array of results."""
    return json.dumps([dump(result) for result in results], indent=indent, allow_nan=False)


def parse(data: Any) -> Result:
    """Read one result from decoded JSON.

    Raises:
        UnreadableFile: The data does not have the shape; names the first place that does not fit.
    """
    try:
        return Result.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise UnreadableFile(
            f"This is not a Linkworth result: at {place}, {first['msg']}.",
            "Export the run again, or check that the file was not edited.",
            detail=str(error),
        ) from None


def json_schema() -> dict[str, Any]:
    """JSON schema of one result, draft 2020-12; every producer is tested against it."""
    return Result.model_json_schema(by_alias=True)
