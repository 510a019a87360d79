"""The layout of the 5090 and B200 study: decode steps in two clocks, and a small all-reduce.

Printed values are stored as printed, "about 28 us" as 28. The batch of 1 is not stated; it follows
from the printed tok/s, which are 1 / step time.
"""

from typing import Any

from importers.published_rows import printed, result_id
from models.result import EvaluationRef, Measurement, Notice, Result, Scalar, Tool

# table -> its clock; how the wall-clock loop launches a step (eager or as a graph) is not stated
_CLOCKS = {"decode_wall_clock": "wall", "decode_graph_replay": "replay"}
MESSAGE_BYTES = 3072  # "3KB": 1536 x 2 bytes

_ONE_FIGURE = Notice(
    code="few_rounds",
    text="The author prints one figure a configuration: no rounds and no spread, so no interval.",
)


def results(content: dict[str, Any]) -> list[Result]:
    """One decode result a host and TP size, one all-reduce result a host."""
    found = [_allreduce(content, row) for row in content["allreduce_3kb"]]
    places = {(row["host"], row["tp"]) for table in _CLOCKS for row in content[table]}
    return found + [_decode(content, host, tp) for host, tp in sorted(places)]


def _host(content: dict[str, Any], name: str, n_gpus: int) -> dict[str, Any]:
    facts = content["hosts"][name]
    return {
        "name": name,
        "gpus": [{"index": i, "name": facts["gpu"]} for i in range(n_gpus)],
        "interconnect": facts["interconnect"],
        "cpu_model": facts["cpu"],
        "cpu_turbo_ghz": facts["cpu_turbo_ghz"],
    }


def _environment(content: dict[str, Any], name: str) -> dict[str, Any]:
    facts = content["hosts"][name]
    return {"python": facts["python"], "OMP_NUM_THREADS": facts["omp_num_threads"]}


def _label(content: dict[str, Any], name: str) -> str:
    facts = content["hosts"][name]
    return f"{facts['gpu']} over {facts['interconnect']}"


def _allreduce(content: dict[str, Any], row: dict[str, Any]) -> Result:
    study, host = content["id"], row["host"]
    dims: dict[str, Scalar] = {"bytes": MESSAGE_BYTES, "ranks": 2}
    calls = row["calls_per_step"]
    measured = [
        printed(study, "allreduce-3kb", name, row[column], dims=dict(dims))
        for name, column in (
            ("allreduce_fixed", "fixed_us"),
            ("allreduce_transfer", "transfer_us"),
            ("allreduce_latency", "total_us"),
        )
    ]
    measured += [
        printed(study, "allreduce-3kb", "calls_per_step", calls, dims={"tp": 2}),
        printed(
            study,
            "allreduce-3kb",
            "allreduce_step_cost",
            row["per_step_ms"],
            dims={**dims, "calls": calls},
        ),
    ]
    return Result(
        id=result_id(study, "allreduce", host),
        kind="allreduce",
        origin="published",
        title=f"{_label(content, host)}: one 3 KB all-reduce",
        study=study,
        evaluation=EvaluationRef(id=f"{study}:allreduce", arm=host),
        warnings=[_ONE_FIGURE],
        spec={"kind": "allreduce", "ranks": 2, "sizes_bytes": [MESSAGE_BYTES]},
        host=_host(content, host, 2),
        environment=_environment(content, host),
        tool=Tool(name="not stated"),
        measurements=measured,
    )


def _decode(content: dict[str, Any], host: str, tp: int) -> Result:
    study = content["id"]
    model = content["model"]
    measured: list[Measurement] = []
    for table, clock in _CLOCKS.items():
        definition = table.removeprefix("decode_").replace("_", "-")
        for row in content[table]:
            if (row["host"], row["tp"]) != (host, tp):
                continue
            dims: dict[str, Scalar] = {"tp": tp, "batch": 1, "clock": clock}
            printed_values = (
                ("decode_step", row["step_ms"], None),
                ("decode_throughput", row.get("tok_s"), None),
                ("decode_speedup", row.get("speedup"), f"{host} TP=1"),
            )
            measured += [
                printed(study, definition, name, value, dims=dict(dims), relative_to=reference)
                for name, value, reference in printed_values
                if value is not None
            ]
    return Result(
        id=result_id(study, "decode", host, tp),
        kind="decode",
        origin="published",
        title=f"{_label(content, host)}: decode step at TP={tp}, {model['name']}",
        study=study,
        evaluation=EvaluationRef(id=f"{study}:decode", arm=f"{host} TP={tp}"),
        warnings=[_ONE_FIGURE],
        spec={"kind": "decode", "tp": tp, "batches": [1], "model": model},
        host=_host(content, host, tp),
        environment=_environment(content, host),
        tool=Tool(name="not stated"),
        measurements=measured,
    )
