"""From one workload's raw outcome to measurements, samples and warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from importers import vllm_json
from models.definitions import vllm_definition
from models.metrics import metric
from models.result import Measurement, Notice, Samples, Scalar
from models.serving import (
    DEFINITION,
    LATENCIES,
    Requests,
    disagreements,
    figures,
    overlap_share,
    pool,
    requests_of,
)
from models.serving_energy import energy, foreign_load_pct, median_in
from runners.serving_metrics import Phases
from runners.spec import Workload

MIN_OVERLAP = 0.9
CLIENT_SHARE = 0.1  # of the end-to-end time spent in the client: it cannot keep up
MIN_CLIENT_MS = 5.0
FOREIGN_PCT = 10.0
# what the file alone cannot tell and the runner knows
_KNOWN_HERE = frozenset({"no_version", "no_tp", "no_gpu"})


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
    if workload.request_rate is not None:
        dims["request_rate"] = workload.request_rate
    if replicas > 1:
        dims["replicas"] = replicas
    return {name: value for name, value in dims.items() if value is not None}


def words_of(workload: Workload) -> str:
    """A workload as a person says it."""
    at = "no cap" if workload.concurrency is None else f"concurrency {workload.concurrency}"
    return f"{at}, {workload.input_len} in, {workload.output_len} out"


def read_outcome(outcome: Outcome, *, version: str | None) -> Reading:
    """Turn an outcome into measurements.

    Raises:
        UnreadableFile: The tool's result lacks the per-request lists.
    """
    reading = Reading()
    place = f"Round {outcome.round}, {words_of(outcome.workload)}"
    parts = [requests_of(detail) for detail in outcome.details] or outcome.requests
    pooled = pool(parts)
    dims = load_dims(outcome.workload, len(parts))
    put = _Putter(reading, outcome.round, dims)
    if pooled.completed == 0:
        reading.invalid.append(
            f"{place}: no request succeeded, so the tool's zeros are no measurements."
        )
        put("failed", pooled.failed, "vllm:failed:1")
        put("completed", 0, "vllm:completed:1")
        return reading
    if pooled.failed:
        share = pooled.failed / (pooled.failed + pooled.completed)
        reading.suspect.append(
            f"{place}: {pooled.failed} of {pooled.failed + pooled.completed} requests failed "
            f"({share:.0%})."
        )
    if outcome.slipped:
        reading.suspect.append(f"{place}: a client began before the others were ready.")
    if len(outcome.details) == 1:
        _tools_own(reading, outcome, dims, version)
    else:
        _own_formulas(reading, put, parts, pooled, place, version if outcome.details else "")
    if outcome.details:
        _differences(reading, outcome, parts, place)
    _server_side(reading, put, outcome, pooled, place)
    _machine_side(reading, put, outcome, pooled, place)
    tpot = pooled.tpot_s
    reading.summary = {
        "round": outcome.round,
        "workload": words_of(outcome.workload),
        "concurrency": outcome.workload.concurrency,
        "scenario": outcome.workload.scenario,
        "output_tok_s": figures(pooled).get(("output_throughput", "value")),
        "median_ttft_ms": float(sorted(pooled.ttft_s)[pooled.completed // 2] * 1000),
        "median_tpot_ms": float(sorted(tpot)[tpot.size // 2] * 1000) if tpot.size else None,
        "failed": pooled.failed,
    }
    return reading


class _Putter:
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


def _tools_own(
    reading: Reading, outcome: Outcome, dims: dict[str, Scalar], version: str | None
) -> None:
    """The numbers of the one client's file, through the importer's door."""
    draft = vllm_json.draft_of(outcome.details[0], version=version, round=outcome.round, dims=dims)
    reading.measurements += draft.measurements
    reading.samples += draft.samples
    reading.warnings += [
        notice
        for notice in draft.warnings
        if notice.code not in _KNOWN_HERE | {"failed_requests", "recomputed_differs"}
    ]


def _own_formulas(
    reading: Reading,
    put: _Putter,
    parts: list[Requests],
    pooled: Requests,
    place: str,
    version: str | None,
) -> None:
    """Requests of several clients, or of our own, as one round, by the tool's formulas.

    ``version`` is vLLM's, None where unknown, and empty where the client was Linkworth's own.
    """
    for (name, statistic), value in figures(pooled).items():
        definition = (
            DEFINITION.format(name)
            if version == ""
            else vllm_definition(name, chat=False, version=version)
        )
        put(name, value, definition, statistic, n=pooled.completed if name != "itl" else None)
    for name in LATENCIES:
        values = pooled.values_ms(name)
        if values.size:
            known = metric(name)
            reading.samples.append(
                Samples(
                    metric=name,
                    unit=known.unit,
                    round=put.round,
                    dims={k: v for k, v in put.dims.items() if k in known.dims},
                    values=[round(float(value), 6) for value in values],
                )
            )
    share = overlap_share(parts)
    if share is not None and share < MIN_OVERLAP:
        reading.warnings.append(
            Notice(
                code="replicas_apart",
                text=f"{place}: the replicas worked together for {share:.0%} of the wall time "
                "only; the pooled throughput is too low by the rest.",
            )
        )


def _differences(reading: Reading, outcome: Outcome, parts: list[Requests], place: str) -> None:
    """Where the tool's own figures differ from its per-request detail; one sentence a cause."""
    for part, detail in zip(parts, outcome.details, strict=True):
        draft = vllm_json.draft_of(detail)
        theirs = {
            (row.metric, row.statistic): row.value
            for row in draft.measurements
            if row.value is not None and not row.dims.get("phase")
        }
        found = disagreements(figures(part), theirs)
        wall = found.get(("duration", "value"))
        if wall is not None:
            # every rate is tokens or requests over this time, and differs by as much
            found = {key: value for key, value in found.items() if key[0] not in _OVER_WALL}
            reading.warnings.append(
                Notice(
                    code="recomputed_differs",
                    text=f"{place}: wall time and rates recomputed from the requests differ by "
                    f"{abs(wall):.1%} from the tool's own, whose clock also counts the moments "
                    "before the first and after the last request.",
                )
            )
        for (name, statistic), difference in sorted(found.items()):
            label = metric(name).label if statistic == "value" else f"{statistic} {name.upper()}"
            reading.warnings.append(
                Notice(
                    code="recomputed_differs",
                    text=f"{place}: {label} recomputed from the requests differs by "
                    f"{difference:+.1%} from the tool's own; see its definition.",
                )
            )


_OVER_WALL = frozenset(
    {"duration", "output_throughput", "total_token_throughput", "request_throughput"}
)


def _server_side(
    reading: Reading, put: _Putter, outcome: Outcome, pooled: Requests, place: str
) -> None:
    known = [phases for phases in outcome.phases if phases is not None]
    if not known or len(known) != len(outcome.phases):
        return
    count = sum(phases.requests for phases in known)
    for phase in ("queue", "prefill", "decode"):
        values = [(p.phase_ms[phase], p.requests) for p in known if phase in p.phase_ms]
        if len(values) == len(known):
            mean = sum(value * n for value, n in values) / count
            put("phase_time", mean, "vllm:metrics-phase:1", "mean", n=count, phase=phase)
    lost = [p.preemptions for p in known if p.preemptions is not None]
    if len(lost) == len(known):
        put("preemptions", sum(lost), "vllm:num_preemptions:1")
    ends = [(p.end_to_end_ms, p.requests) for p in known if p.end_to_end_ms is not None]
    if len(ends) == len(known):
        server_ms = sum(value * n for value, n in ends) / count
        seen_ms = float(pooled.e2el_s.mean() * 1000)
        client_ms = max(0.0, seen_ms - server_ms)
        put("phase_time", client_ms, "linkworth:client-time:1", "mean", n=count, phase="client")
        if client_ms > MIN_CLIENT_MS and client_ms > CLIENT_SHARE * seen_ms:
            reading.warnings.append(
                Notice(
                    code="client_slow",
                    text=f"{place}: {client_ms:.0f} of {seen_ms:.0f} ms a request passed outside "
                    "the server: the client, or the way to it, cannot keep up.",
                )
            )


def _machine_side(
    reading: Reading, put: _Putter, outcome: Outcome, pooled: Requests, place: str
) -> None:
    begin, end = _window(outcome, pooled)
    rows = outcome.telemetry
    used = energy(rows, begin, end)
    tokens = float(pooled.output_tokens.sum())
    if used is not None and tokens:
        put("energy_per_token", used.joules / tokens, f"linkworth:energy-{used.method}:1")
    for uuid, clock in median_in(rows, "sm_clock_mhz", begin, end).items():
        put("sm_clock", clock, "nvml:sm_clock:1", "median", gpu=uuid)
    for uuid, watts in median_in(rows, "power_w", begin, end).items():
        put("power", watts, "nvml:power:1", "median", gpu=uuid)
    foreign = foreign_load_pct(rows, begin, end)
    if foreign is not None:
        put("foreign_load", foreign, "linkworth:foreign-load:1")
        if foreign > FOREIGN_PCT:
            reading.warnings.append(
                Notice(
                    code="foreign_load",
                    text=f"{place}: other programs used {foreign:.0f} % of the host's processors.",
                )
            )


def _window(outcome: Outcome, pooled: Requests) -> tuple[float, float]:
    """The measured part in epoch seconds; the clients' warm-up lies before it."""
    span = pooled.span_s
    if span is None:
        return outcome.began, outcome.ended
    begin = float(pooled.start_s.min()) + outcome.clock_offset_s
    if not outcome.began <= begin <= outcome.ended:  # a client with a clock of its own
        return outcome.began, outcome.ended
    return begin, min(begin + span, outcome.ended)
