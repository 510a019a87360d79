"""From one workload's raw outcome to measurements, samples and warnings."""

from importers import vllm_json
from models.definitions import vllm_definition
from models.metrics import metric
from models.result import Notice, Samples, Scalar
from models.serving import (
    AGREEMENT,
    DEFINITION,
    LATENCIES,
    Requests,
    disagreements,
    figures,
    overlap_share,
    pool,
    pooled_acceptance,
    requests_of,
)
from runners.serving_outcome import Outcome, Putter, Reading, load_dims, words_of
from runners.serving_sides import machine_side, server_side

MIN_OVERLAP = 0.9
# what the file alone cannot tell and the runner knows
_KNOWN_HERE = frozenset({"no_version", "no_tp", "no_gpu"})


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
    put = Putter(reading, outcome.round, dims)
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
        _acceptance(put, outcome)
    if outcome.details:
        _differences(reading, outcome, parts, place)
    server_side(reading, put, outcome, pooled, place)
    machine_side(reading, put, outcome, pooled, place)
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
    put: Putter,
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


def _acceptance(put: Putter, outcome: Outcome) -> None:
    """Speculative decoding over all replicas, from the counts of each one's client."""
    found = pooled_acceptance(outcome.details)
    if found is not None:
        for name, value in zip(("acceptance_rate", "acceptance_length"), found, strict=True):
            put(f"spec_decode_{name}", value, f"vllm:spec_decode_{name}:1")


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
            # a rate is tokens or requests over this time, so it differs by as much
            found = {
                key: value
                for key, value in found.items()
                if key[0] not in _OVER_WALL
                or (key[0] != "duration" and abs((1 + value) * (1 + wall) - 1) > AGREEMENT)
            }
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
