"""The layouts of the two serving studies: configurations of four cards, and a link switched on.

The second gives absolute values with the link off only; with the link on it gives ranges of
change, and that is all that is stored.
"""

from typing import Any

from importers.published_rows import change, printed, result_id, table_row
from models.result import EvaluationRef, Gpu, Measurement, Notice, Result, Scalar, Tool

_ONE_ROUND = Notice(
    code="few_rounds",
    text="One round a configuration: no interval, and a P99 of so few requests is the largest one.",
)


def configuration_results(content: dict[str, Any]) -> list[Result]:
    """The topology, then one serving result a configuration and concurrency."""
    found = [_topology(content)]
    for row in content["results"]:
        found.append(_configuration(content, row))
    return found


def _topology(content: dict[str, Any]) -> Result:
    matrix = content["topology"]
    card = _card(content)
    return Result(
        id=result_id(content["id"], "topology"),
        kind="topology",
        origin="published",
        title=f"{len(matrix)} GPUs, links as nvidia-smi prints them",
        study=content["id"],
        tool=Tool(name="nvidia-smi topo -m"),
        gpus=[Gpu(index=i, name=f"GPU{i}", facts={"model": card}) for i in range(len(matrix))],
        links=matrix,
        complete=all(len(row) == len(matrix) for row in matrix),
    )


def _card(content: dict[str, Any]) -> str:
    """The card's name, which this layout states in its title only."""
    return "RTX 3090" if "RTX 3090" in content["title"] else "not stated"


def _load(content: dict[str, Any], concurrency: int) -> dict[str, Scalar]:
    workload = content["workload"]
    prompts = next(
        run["num_prompts"] for run in workload["runs"] if run["max_concurrency"] == concurrency
    )
    return {
        "concurrency": concurrency,
        "input_len": workload["input_len"],
        "output_len": workload["output_len"],
        "num_prompts": prompts,
    }


def _configuration(content: dict[str, Any], row: dict[str, Any]) -> Result:
    study, name, concurrency = content["id"], row["configuration"], row["concurrency"]
    arm = content["configurations"][name]
    dims = _load(content, concurrency)
    gpus = [int(index) for index in arm["cuda_visible_devices"].split(",")]
    measured = table_row(study, "bench-serve", row, dims, n=int(dims["num_prompts"] or 0))
    measured += [
        change(study, "change", gain["metric"], gain["change_pct"], gain["b"], dims)
        for gain in content["derived"]
        if (gain["a"], gain["concurrency"]) == (name, concurrency)
    ]
    return Result(
        id=result_id(study, "serving", name, concurrency),
        kind="serving",
        origin="published",
        title=f"{name}: {arm['label']}, concurrency {concurrency}",
        study=study,
        evaluation=EvaluationRef(id=study, arm=name),
        warnings=[_ONE_ROUND, Notice(code="confounds", text=content["confounds"])],
        spec={
            "kind": "serving",
            "model": content["model"]["name"],
            "speculative_config": content["model"]["speculative_config"],
            "arm": {"gpus": gpus, "tp": arm["tp"], "links": arm["links"]},
            "engine_args": content["serve_args"],
            "workload": {**dims, "seed": content["workload"]["seed"], "ignore_eos": True},
        },
        host={"gpus": [{"index": index, "name": _card(content)} for index in gpus]},
        environment={
            **content["software"],
            "CUDA_VISIBLE_DEVICES": arm["cuda_visible_devices"],
        },
        tool=Tool(name=content["workload"]["tool"], version=content["software"]["vllm"]),
        measurements=measured,
    )


def interconnect_results(content: dict[str, Any]) -> list[Result]:
    """Link off with its values at each concurrency, link on with its ranges of change."""
    found = []
    for row in content["results"]:
        concurrency = row["concurrency"]
        dims: dict[str, Scalar] = {"concurrency": concurrency}
        measured = table_row(content["id"], "link-off", row, dims)
        measured += _tokens(content, dims)
        measured += [
            change(
                content["id"],
                "scaling",
                claim["metric"],
                claim["change_pct"],
                f"link off, concurrency {claim['from_concurrency']}",
                dims,
            )
            for claim in content["scaling_claims"]
            if claim["to_concurrency"] == concurrency
        ]
        found.append(_interconnect(content, f"link {row['interconnect']}", concurrency, measured))
    for concurrency in sorted({row["concurrency"] for row in content["gains_when_on"]}):
        gains = [
            change(
                content["id"],
                "gain-when-on",
                gain["metric"],
                gain["change_pct"],
                "link off",
                {"concurrency": concurrency},
            )
            for gain in content["gains_when_on"]
            if gain["concurrency"] == concurrency
        ]
        found.append(_interconnect(content, "link on", concurrency, gains))
    return found


def _tokens(content: dict[str, Any], dims: dict[str, Scalar]) -> list[Measurement]:
    """Tokens a round, which the author gives as "about"."""
    workload = content["workload"]
    return [
        printed(content["id"], "about-a-round", name, workload[key], dims=dict(dims))
        for name, key in (
            ("input_tokens", "total_input_tokens_about"),
            ("output_tokens", "total_output_tokens_about"),
        )
    ]


def _interconnect(
    content: dict[str, Any], arm: str, concurrency: int, measured: list[Measurement]
) -> Result:
    warnings = [_ONE_ROUND, Notice(code="confounds", text=content["confounds"])]
    if all(row.statistic == "change_pct" for row in measured):
        warnings.append(Notice(code="no_absolutes", text=content["do_not_invent"]))
    return Result(
        id=result_id(content["id"], "serving", arm, concurrency),
        kind="serving",
        origin="published",
        title=f"Two cards, {arm}, concurrency {concurrency}",
        study=content["id"],
        evaluation=EvaluationRef(id=content["id"], arm=arm),
        warnings=warnings,
        spec={
            "kind": "serving",
            "arm": {"link": arm.removeprefix("link ")},
            "workload": {
                "concurrency": concurrency,
                "num_prompts_about": content["workload"]["requests_per_round_about"],
            },
        },
        tool=Tool(name="not stated"),
        measurements=measured,
    )
