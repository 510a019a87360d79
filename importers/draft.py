"""A result while a file is being read: numbers are taken only where they are numbers.

Every importer fills one draft a record; ``result()`` turns it into the one shape.
"""

import hashlib
import json
import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from models.metrics import METRICS
from models.result import (
    EvaluationRef,
    Kind,
    Measurement,
    Notice,
    Result,
    Samples,
    Scalar,
    Tool,
    Validity,
)

# Ids of imported results follow from what was read, so that the same record met twice (alone and
# in a summary) is one run.
_NAMESPACE = uuid.UUID("5b0a3f0e-6f0b-4f5a-9d53-1d6f1a7c2e44")


def number(value: Any) -> float | None:
    """A finite number, or None: a truth value, a text or NaN is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer beyond every float
        return None


def count(value: Any) -> int | None:
    """A whole number from 0 to 2^53, or None."""
    found = number(value)
    return int(found) if found is not None and 0 <= found <= 2**53 and found % 1 == 0 else None


def numbers(value: Any) -> list[float] | None:
    """A list of finite numbers, or None where it is anything else."""
    if not isinstance(value, list) or not value:
        return None
    found = [number(item) for item in value]
    return None if None in found else [item for item in found if item is not None]


def spoken_number(text: str) -> int | float | None:
    """The number that a text such as ``"2"`` says, or None."""
    try:
        found = float(text)
    except ValueError:
        return None
    if not math.isfinite(found):
        return None
    return int(found) if found == int(found) and "." not in text else found


def words(value: Any) -> str | None:
    """A text of sensible length, or None."""
    return value.strip()[:500] or None if isinstance(value, str) else None


@dataclass
class Draft:
    """One record on its way to a result."""

    kind: Kind
    tool: str
    version: str | None = None
    title: str | None = None
    round: int | None = None
    dims: dict[str, Scalar] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    host: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    evaluation: EvaluationRef | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    validity: Validity = "valid"
    reasons: list[str] = field(default_factory=list)
    code: str = ""  # why it is invalid
    warnings: list[Notice] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    samples: list[Samples] = field(default_factory=list)

    def put(
        self,
        metric: str,
        value: float | None,
        definition: str,
        statistic: str = "value",
        *,
        n: int | None = None,
        dims: Mapping[str, Scalar] | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        """Add a number; None adds nothing. Dims that the metric does not have are left out."""
        if value is None or not math.isfinite(value):
            return
        known = METRICS[metric]
        merged = {**self.dims, **(dims or {})}
        self.measurements.append(
            Measurement(
                metric=metric,
                statistic=statistic,
                unit=known.unit,
                value=value,
                n=n,
                round=self.round,
                dims={name: merged[name] for name in merged if name in known.dims},
                definition=definition,
                low=low,
                high=high,
            )
        )

    def sample(
        self, metric: str, values: list[float], dims: Mapping[str, Scalar] | None = None
    ) -> None:
        """Add raw values, in the order in which the file has them."""
        if values and all(map(math.isfinite, values)):
            known = METRICS[metric]
            merged = {**self.dims, **(dims or {})}
            self.samples.append(
                Samples(
                    metric=metric,
                    unit=known.unit,
                    round=self.round,
                    dims={name: merged[name] for name in merged if name in known.dims},
                    values=values,
                )
            )

    def warn(self, code: str, text: str) -> None:
        """Something a person should know; said once."""
        if all(notice.code != code or notice.text != text for notice in self.warnings):
            self.warnings.append(Notice(code=code, text=text))

    def suspect(self, code: str, text: str) -> None:
        """Usable with care."""
        self.warn(code, text)
        if self.validity == "valid":
            self.validity = "suspect"
        if text not in self.reasons:
            self.reasons.append(text)

    def invalid(self, code: str, text: str) -> None:
        """Never to be compared."""
        self.warn(code, text)
        self.code = code if self.validity != "invalid" else self.code
        self.validity = "invalid"
        if text not in self.reasons:
            self.reasons.insert(0, text)

    def value(self, metric: str, statistic: str = "value") -> float | None:
        """A number that was already put, or None."""
        for row in self.measurements:
            if row.metric == metric and row.statistic == statistic:
                return row.value
        return None

    def result(self) -> Result:
        """The finished result."""
        return Result(
            id=self._identity(),
            kind=self.kind,
            origin="imported",
            validity=self.validity,
            reasons=self.reasons,
            title=self.title,
            evaluation=self.evaluation,
            warnings=self.warnings,
            spec=self.spec,
            host=self.host,
            environment=self.environment,
            started_at=self.started_at,
            finished_at=self.finished_at,
            tool=Tool(name=self.tool, version=self.version),
            measurements=self.measurements,
            samples=self.samples,
        )

    def _identity(self) -> str:
        content = [
            self.kind,
            self.tool,
            self.version,
            self.validity,
            self.reasons,
            self.spec,
            self.environment,
            sorted(
                (row.metric, row.statistic, repr(row.value), json.dumps(row.dims, sort_keys=True))
                for row in self.measurements
            ),
        ]
        text = json.dumps(content, sort_keys=True, default=str)
        return str(uuid.uuid5(_NAMESPACE, hashlib.sha256(text.encode()).hexdigest()))


def experiment_id(parts: Iterable[str]) -> str:
    """The id of a set of results that belong together, the same at every import."""
    text = "\n".join(sorted(parts))
    return str(uuid.uuid5(_NAMESPACE, hashlib.sha256(text.encode()).hexdigest()))
