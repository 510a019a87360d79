"""Invented arms of a served model, as the worker stores them: for the tests of Link A/B."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import runs
from models.result import EvaluationRef, Measurement, Result, Samples, Tool
from models.serving import statistics_of

EVALUATION = str(uuid.uuid5(uuid.NAMESPACE_URL, "test-evaluation"))


def arm_result(
    arm: str,
    factor: float,
    rounds: Sequence[int] = (0, 1, 2),
    *,
    tp: int = 2,
    validity: str = "valid",
    concurrencies: Sequence[int] = (1, 4),
    **changes: Any,
) -> Result:
    """A measured arm: latencies times `factor`, with samples, phases and telemetry."""
    rows, samples = [], []
    for number in rounds:
        rng = np.random.default_rng(number)
        for cap in concurrencies:
            dims = {
                "concurrency": cap,
                "input_len": 1024,
                "output_len": 256,
                "num_prompts": 10 * cap,
                "scenario": "single_stream" if cap == 1 else "online",
            }
            values = {
                "ttft": factor * (100 + 20 * cap) * rng.normal(1, 0.01, 10 * cap),
                "tpot": factor * (10 + cap) * rng.normal(1, 0.01, 10 * cap),
                "itl": factor * (10 + cap) * rng.normal(1, 0.02, 100),
            }
            for name, each in values.items():
                each = [float(value) for value in each]
                samples.append(
                    Samples(metric=name, unit="ms", round=number, dims=dims, values=each)
                )
                for statistic, value in statistics_of(np.array(each)).items():
                    rows.append(row(name, statistic, value, "ms", number, dims, n=10 * cap))
            speed = 90 * cap / (1 + 0.1 * cap) / factor
            rows.append(row("output_throughput", "value", speed, "tok/s", number, dims))
            rows.append(row("completed", "value", 10 * cap, "", number, dims))
            rows.append(row("failed", "value", 0, "", number, dims))
            rows.append(row("energy_per_token", "value", 2 * factor, "J/tok", number, dims))
            rows.append(row("foreign_load", "value", 0, "%", number, dims))
            clock = {**dims, "gpu": "GPU-a"}
            rows.append(row("sm_clock", "median", 1980, "MHz", number, clock))
            for phase, share in (("client", 1), ("queue", 2), ("prefill", 100), ("decode", 2600)):
                value = share * (factor if phase in ("prefill", "decode") else 1)
                rows.append(
                    row("phase_time", "mean", value, "ms", number, {**dims, "phase": phase})
                )
    data: dict[str, Any] = {
        "kind": "serving",
        "origin": "measured",
        "title": f"qwen2.5-14b, {arm}",
        "evaluation": EvaluationRef(id=EVALUATION, arm=arm, order=0),
        "validity": validity,
        "reasons": [] if validity == "valid" else ["Output check before the load: NaN"],
        "tool": Tool(name="vllm", version="0.25.1"),
        "spec": {
            "kind": "serving",
            "device": "cuda",
            "model": "own/model",
            "arm": {"gpus": [0, 1], "tp": tp, "link": arm.removeprefix("link-")},
            "workloads": [{"concurrency": 4, "num_prompts": 40}],
            "vllm_python": "/opt/vllm/bin/python",
            "rounds": len(rounds),
            "round": rounds[0],
        },
        "host": {"gpus": [{"index": 0, "name": "Example GPU"}], "driver": "580.1"},
        "environment": {"server": {"vllm": "0.25.1"}},
        "telemetry": [
            {
                "t": 1000.0 + t,
                "uuid": "GPU-a",
                "index": 0,
                "power_w": 300 + t,
                "sm_clock_mhz": 1980,
                "temperature_c": 60,
                "utilization_pct": 99,
                "throttle_reasons": ["sw_power_cap"],
            }
            for t in range(5)
        ],
        "measurements": rows,
        "samples": samples,
    }
    return Result(**(data | changes))


def row(
    name: str,
    statistic: str,
    value: float,
    unit: str,
    number: int | None,
    dims: dict[str, Any],
    n: int | None = None,
) -> Measurement:
    definition = f"vllm:{name}:2" if unit == "ms" else f"vllm:{name}:1"
    return Measurement(
        metric=name, statistic=statistic, value=value, unit=unit, round=number, dims=dims,
        definition=definition, n=n,
    )  # fmt: skip


def said(at: AppTest) -> str:
    """All sentences of a page."""
    parts = [*at.markdown, *at.caption, *at.info, *at.warning, *at.success, *at.error]
    return "\n".join(str(item.value) for item in parts)


def keep_as(engine: Engine, arm: str, result: Result) -> None:
    """Store what a runner brought as an arm of the invented evaluation."""
    result.evaluation = EvaluationRef(id=EVALUATION, arm=arm)
    runs.store(engine, result)


def causes_said(open_page: Callable[..., AppTest], reference: str, other: str) -> list[str]:
    """What Link A/B says of where the time went, one sentence a workload."""
    codes = {name: f"{EVALUATION}|{arm}" for name, arm in (("a", reference), ("b", other))}
    at = open_page("link-ab", evaluation=EVALUATION, **codes)
    assert not at.exception, at.exception
    names = ("Queue: ", "Compute: ", "Link: ", "Compute or link: ", "No single part", "No slowdown")
    lines = [str(item.value).removeprefix("- ") for item in at.markdown]
    return [line for line in lines if line.startswith("concurrency") and
            any(f": {name}" in line for name in names)]  # fmt: skip
