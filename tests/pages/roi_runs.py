"""Invented evaluations of two arms, as the worker stores them: for the tests of the ROI page."""

import uuid

import numpy as np
from sqlalchemy import Engine

from db import runs
from models.result import EvaluationRef, Measurement, Result, Samples, Tool

UUIDS = ("GPU-aaaa1111", "GPU-bbbb2222")
WORKLOAD = {"concurrency": 4, "num_prompts": 40, "input_len": 1024, "output_len": 256}


def serving(
    arm: str,
    evaluation: str,
    *,
    tok_s: float,
    rounds: int = 3,
    validity: str = "valid",
    ttft_ms: float = 400.0,
    failed: int = 0,
    gpu: str = "NVIDIA GeForce RTX 3090",
) -> Result:
    """One arm at concurrency 4; every round scatters by 1 %."""
    rng = np.random.default_rng(len(arm))
    dims = {"concurrency": 4, "input_len": 1024, "output_len": 256, "num_prompts": 40}
    measured, samples = [], []
    for number in range(rounds):
        factor = float(np.exp(rng.normal(0, 0.01)))
        values = {
            ("output_throughput", "value", "tok/s"): tok_s * factor,
            ("ttft", "median", "ms"): ttft_ms,
            ("ttft", "p99", "ms"): 1.2 * ttft_ms,
            ("tpot", "median", "ms"): 4000 / tok_s,
            ("tpot", "p99", "ms"): 4400 / tok_s,
            ("completed", "value", ""): 40.0 - failed,
            ("failed", "value", ""): float(failed),
            ("energy_per_token", "value", "J/tok"): 600 / tok_s,
        }
        for (metric, statistic, unit), value in values.items():
            measured.append(
                Measurement(
                    metric=metric,
                    statistic=statistic,
                    unit=unit,
                    value=value,
                    round=number,
                    dims=dims,
                    definition=f"vllm:{metric}:1",
                )
            )
        for metric, middle in (("ttft", ttft_ms), ("tpot", 4000 / tok_s)):
            drawn = middle * np.exp(rng.normal(0, 0.05, 40))
            samples.append(
                Samples(metric=metric, unit="ms", round=number, dims=dims, values=drawn.tolist())
            )
    for prompt in (1, 2):
        dims_of = {"prompt": prompt, "phase": "before"}
        samples.append(
            Samples(metric="output_logprob", unit="", dims=dims_of, values=[-0.5, -1.0, -0.2])
        )
    link = "on" if arm == "link-on" else "off"
    return Result(
        id=str(uuid.uuid4()),
        kind="serving",
        origin="measured",
        validity=validity,
        reasons=[] if validity == "valid" else ["Output check after the load: tokens repeat."],
        title=f"Serving, {arm}",
        evaluation=EvaluationRef(id=evaluation, arm=arm),
        spec={
            "kind": "serving",
            "model": "owner/name",
            "device": "cuda",
            "arm": {"gpus": list(UUIDS), "tp": 2, "replicas": 1, "link": link},
            "workloads": [WORKLOAD],
            "round": 0,
            "rounds": rounds,
        },
        host={
            "hostname": "h1",
            "gpus": [{"index": i, "uuid": name, "name": gpu} for i, name in enumerate(UUIDS)],
        },
        environment={"server": {"vllm": "0.25.1"}},
        tool=Tool(name="vllm", version="0.25.1"),
        measurements=measured,
        samples=samples,
    )


def soak(arm: str, evaluation: str, *, hours: float, incidents: int = 0) -> Result:
    """A sustained load of an arm."""
    common = {"statistic": "value", "definition": "linkworth:soak:1"}
    return Result(
        id=str(uuid.uuid4()),
        kind="soak",
        origin="measured",
        title=f"Sustained load, {arm}",
        evaluation=EvaluationRef(id=evaluation, arm=arm),
        spec={"kind": "soak", "arm": {"gpus": list(UUIDS), "tp": 2}},
        host={"hostname": "h1"},
        tool=Tool(name="linkworth", version="0"),
        measurements=[
            Measurement(metric="soak_hours", unit="h", value=hours, **common),
            Measurement(metric="incidents", unit="", value=incidents, **common),
            # a window, as every sustained load has several
            Measurement(metric="output_throughput", unit="tok/s", value=100, round=0, **common),
        ],
    )


def evaluation(engine: Engine, *results: Result) -> None:
    """Store the results of an evaluation."""
    for result in results:
        runs.store(engine, result)
