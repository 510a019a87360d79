"""One workload in one round: what came back, and what it is turned into."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models.metrics import metric
from models.result import Measurement, Notice, Samples, Scalar
from models.serving import Requests
from runners.serving_metrics import Phases
from runners.spec import Workload


@dataclass
class Outcome:
    """One workload in one round.

    Attributes:
        workload: What was asked for.
        round: Its number.
        details: The tool's decoded result of each replica.
        began: Epoch seconds at which the clients were let go.
        ended: When the last one ended.
        phases: What the servers' counters say, one a replica.
        telemetry: Samples taken meanwhile.
        requests: What Linkworth's own client saw, where there is no tool's result.
        raw: The tool's result files as they are, one a replica.
        slipped: Whether a client began to measure before it was let go.
    """

    workload: Workload
    round: int
    details: list[dict[str, Any]]
    began: float
    ended: float
    clock_offset_s: float = 0.0
    phases: list[Phases | None] = field(default_factory=list)
    telemetry: Sequence[Mapping[str, Any]] = ()
    requests: list[Requests] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    slipped: bool = False


@dataclass
class Reading:
    """What an outcome says.

    Attributes:
        measurements: Of this round.
        samples: Per request.
        warnings: For people.
        invalid: Reasons for which the round must not be used.
        suspect: Reasons to be careful.
        summary: Short, for the live view.
    """

    measurements: list[Measurement] = field(default_factory=list)
    samples: list[Samples] = field(default_factory=list)
    warnings: list[Notice] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    suspect: list[str] = field(default_factory=list)
    summary: dict[str, object] = field(default_factory=dict)


def load_dims(workload: Workload, replicas: int) -> dict[str, Scalar]:
    """The dimensions that tell one workload's values from another's."""
    dims: dict[str, Scalar] = {
        "concurrency": workload.concurrency,
        "input_len": workload.input_len,
        "output_len": workload.output_len,
        "num_prompts": workload.num_prompts,
        "scenario": workload.scenario,
    }
    # as the tool's own figures have it
    dims["request_rate"] = "inf" if workload.request_rate is None else workload.request_rate
    if replicas > 1:
        dims["replicas"] = replicas
    return {name: value for name, value in dims.items() if value is not None}


def words_of(workload: Workload) -> str:
    """A workload as a person says it."""
    at = "no cap" if workload.concurrency is None else f"concurrency {workload.concurrency}"
    return f"{at}, {workload.input_len} in, {workload.output_len} out"


class Putter:
    """Adds measurements of one round."""

    def __init__(self, reading: Reading, round_: int, dims: Mapping[str, Scalar]) -> None:
        self._reading, self.round, self.dims = reading, round_, dims

    def __call__(
        self,
        name: str,
        value: float | None,
        definition: str,
        statistic: str = "value",
        *,
        n: int | None = None,
        **extra: Scalar,
    ) -> None:
        """Add one; a value of None adds nothing, and dims that the metric lacks are left out."""
        if value is None:
            return
        known = metric(name)
        dims = {k: v for k, v in {**self.dims, **extra}.items() if k in known.dims}
        self._reading.measurements.append(
            Measurement(
                metric=name,
                statistic=statistic,
                unit=known.unit,
                value=value,
                n=n,
                round=self.round,
                dims=dims,
                definition=definition,
            )
        )
