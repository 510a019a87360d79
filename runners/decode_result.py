"""The result of a decode run, from what its ranks measured: the slowest rank's step counts."""

from statistics import median
from typing import Any

import numpy as np

from models.architecture import read_config
from models.cpu_lists import compact
from models.decode import DTYPE_BYTES, step_cost
from models.metrics import metric
from models.result import VERSION, Measurement, Notice, Result, Samples, Scalar, Tool
from runners import environment
from runners.spec import DecodeSpec

FEWEST_ROUNDS = 3
SPREAD = 0.10  # rounds further apart than this are warned about

# 2: keys and values also go through a page table, by a kernel of its own in each layer
_VERSIONS = {"wall_served": 2}


def _name(spec: DecodeSpec) -> str:
    arch = read_config(spec.model)
    return spec.model_name or f"{arch.model_type} {arch.layers} x {arch.hidden}"


def _dims(spec: DecodeSpec, **more: Scalar) -> dict[str, Scalar]:
    dims: dict[str, Scalar] = {"tp": spec.tp, "model": _name(spec), **more}
    if spec.link is not None and spec.tp > 1:
        dims["link"] = spec.link
    if spec.omp_num_threads is not None:
        dims["omp_num_threads"] = spec.omp_num_threads
    if spec.cpu_affinity is not None:
        dims["cpu_affinity"] = compact(spec.cpu_affinity)
    return dims


def assemble(
    spec: DecodeSpec,
    ranks: list[dict[str, Any]],
    uuids: list[str],
    telemetry: list[dict[str, Any]],
) -> Result:
    """Put a result together.

    Args:
        spec: What was asked for.
        ranks: What each rank returned, in rank order.
        uuids: The GPUs' UUIDs in rank order; empty where unknown.
        telemetry: Readings of the GPUs beside the rounds.
    """
    measurements: list[Measurement] = []
    samples: list[Samples] = []
    warnings = notices(spec, ranks)
    reasons: list[str] = []
    for number, first in enumerate(ranks[0]["cases"]):
        cases = [rank["cases"][number] for rank in ranks]
        dims = _dims(spec, batch=first["batch"], kv_len=first["kv_len"])
        for clock in first["samples"]:
            by_round = slowest([case["samples"][clock] for case in cases])
            named = {**dims, "clock": clock}
            for index, values in enumerate(by_round):
                samples.append(
                    Samples(metric="decode_step", unit="ms", round=index, dims=named, values=values)
                )
                measurements += _statistics(
                    values, first["batch"], index, named, _definition(clock, first)
                )
            apart, first_apart = spread(by_round)
            place = f"{clock}, batch {first['batch']}, KV {first['kv_len']}"
            if apart:
                warnings.append(Notice(code="spread", text=f"{place}: {apart}"))
            if first_apart and spec.device == "cuda":
                reasons.append(f"{place}: {first_apart}")
            elif first_apart:
                warnings.append(Notice(code="first_round", text=f"{place}: {first_apart}"))
        measurements.append(_weight_bytes(spec, first["batch"], first["kv_len"]))
    measurements += _probe(ranks, uuids)
    resolved = spec.model_dump(mode="json")
    if uuids:
        resolved["gpus"] = uuids
    at_link = f", link {spec.link}" if spec.link is not None and spec.tp > 1 else ""
    return Result(
        kind="decode",
        origin="measured",
        validity="suspect" if reasons else "valid",
        reasons=reasons,
        warnings=warnings,
        title=f"{_name(spec)}: decode step at TP={spec.tp}{at_link}",
        spec=resolved,
        host=environment.host_facts(),
        environment={
            **_own_environment(ranks[0]["environment"]),
            "ranks": [rank["conditions"] for rank in ranks],
            "transports": ranks[0]["transports"],
        },
        telemetry=telemetry,
        tool=Tool(name="linkworth", version=VERSION),
        measurements=measurements,
        samples=samples,
    )


def _own_environment(environment: dict[str, Any]) -> dict[str, Any]:
    """A rank's environment without what the runner itself set to read NCCL's log."""
    variables = {
        name: value
        for name, value in environment["variables"].items()
        if not name.startswith("NCCL_DEBUG")
    }
    return {**environment, "variables": variables}


def slowest(by_rank: list[list[list[float]]]) -> list[list[float]]:
    """(rank, round, sample) -> (round, sample), the slowest rank's: the step ends with it."""
    return [np.max(rounds, axis=0).tolist() for rounds in zip(*by_rank, strict=True)]


def _definition(clock: str, case: dict[str, Any]) -> str:
    """Kernels differ between fused and plain steps: two definitions, never one axis."""
    plain = "" if case["is_fused"] or clock == "wall_eager" else "plain-"
    return f"linkworth:decode-{plain}{clock.replace('_', '-')}:{_VERSIONS.get(clock, 1)}"


def _statistics(
    values: list[float], batch: int, index: int, dims: dict[str, Scalar], definition: str
) -> list[Measurement]:
    shares = {"median": 50, "p10": 10, "p90": 90}
    rows = [
        Measurement(
            metric="decode_step",
            statistic=name,
            unit="ms",
            value=float(np.percentile(values, share)),
            n=len(values),
            round=index,
            dims=dims,
            definition=definition,
        )
        for name, share in shares.items()
    ]
    rows.append(
        Measurement(
            metric="decode_throughput",
            statistic="median",
            unit=metric("decode_throughput").unit,
            value=batch / float(np.median(values)) * 1e3,
            n=len(values),
            round=index,
            dims=dims,
            definition=definition,
        )
    )
    return rows


def spread(rounds: list[list[float]]) -> tuple[str, str]:
    """What rounds that differ say: far apart from each other, and the first from the rest."""
    medians = [median(values) for values in rounds]
    centre = median(medians)
    width = (max(medians) - min(medians)) / centre
    apart = f"the rounds lie {width:.0%} apart." if width > SPREAD else ""
    first_apart = ""
    if len(medians) >= FEWEST_ROUNDS:
        rest = median(medians[1:])
        if abs(medians[0] / rest - 1) > SPREAD:
            first_apart = (
                f"the first round differs from the others by {medians[0] / rest - 1:+.0%}; "
                "warm up longer or run it again."
            )
    return apart, first_apart


def _weight_bytes(spec: DecodeSpec, batch: int, kv_len: int) -> Measurement:
    cost = step_cost(read_config(spec.model), spec.tp, batch, kv_len, DTYPE_BYTES[spec.dtype])
    return Measurement(
        metric="weight_bytes",
        unit="B",
        value=cost.weight_bytes,
        dims=_dims(spec, batch=batch, kv_len=kv_len),
        definition="linkworth:decode-weight-bytes:1",
    )


def _probe(ranks: list[dict[str, Any]], uuids: list[str]) -> list[Measurement]:
    """Each rank's own rates, its device named as everywhere else."""
    found = []
    for number, rank in enumerate(ranks):
        name = uuids[number] if uuids else f"rank {number}"
        for row in rank["probe"]:
            found.append(
                Measurement.model_validate({**row, "dims": {**row["dims"], "device": name}})
            )
    return found


def notices(spec: DecodeSpec, ranks: list[dict[str, Any]]) -> list[Notice]:
    """What a reader of the numbers must know, as warnings."""
    found = []
    if spec.device == "cpu":
        found.append(
            Notice(
                code="cpu_wall_only",
                text="CPU ranks have wall clock only: without a GPU there is no graph to replay "
                "and no launch to separate from the work.",
            )
        )
    if spec.rounds < FEWEST_ROUNDS:
        found.append(
            Notice(
                code="few_rounds",
                text=f"{spec.rounds} of {FEWEST_ROUNDS} rounds: values without an interval.",
            )
        )
    if spec.tp == 1 and "replay_no_allreduce" in spec.clocks:
        found.append(
            Notice(
                code="no_collectives",
                text="One GPU has no all-reduces to leave out: that clock is not measured there.",
            )
        )
    for case in ranks[0]["cases"]:
        if case.get("not_fused"):
            found.append(
                Notice(
                    code="not_fused",
                    text=f"Batch {case['batch']}, KV {case['kv_len']}: torch.compile failed, so "
                    f"the step ran unfused and slower ({case['not_fused']}).",
                )
            )
    if ranks[0]["numerics"]:
        found.append(Notice(code="numerics", text=ranks[0]["numerics"]))
    return found
