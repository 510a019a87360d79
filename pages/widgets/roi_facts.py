"""What an arm's runs say besides figures: specs, cards, engine, lengths, power. Draws nothing."""

from typing import Any

import numpy as np

from pages.widgets.roi_arms import Known


def runnable(item: Known) -> dict[str, Any] | None:
    """The spec of an arm's serving run, where it was measured here and can be run again."""
    if item.arm.origin != "measured" or item.arm.study:
        return None
    for fact in item.facts:
        if fact["kind"] == "serving" and fact["spec"].get("workloads"):
            return dict(fact["spec"])
    return None


def gpu_of(item: Known) -> tuple[str, int]:
    """Name of the arm's GPU ("" where not stated) and how many it uses."""
    for fact in item.facts:
        arm = fact["spec"].get("arm") or {}
        gpus = [gpu for gpu in fact["host"].get("gpus") or [] if isinstance(gpu, dict)]
        used = {str(name) for name in arm.get("gpus") or []}
        mine = [gpu for gpu in gpus if {str(gpu.get("uuid")), str(gpu.get("index"))} & used]
        named = next((str(gpu["name"]) for gpu in mine or gpus if gpu.get("name")), "")
        count = int(arm.get("tp") or 0) * int(arm.get("replicas") or 1) or len(used)
        if named or count:
            return named, count or 2
    return "", 2


def engine_words(item: Known) -> str:
    """Engine and version that an arm was measured with; empty where not stated."""
    for fact in item.facts:
        server = fact["environment"].get("server")
        version = server.get("vllm") if isinstance(server, dict) else None
        version = version or fact["environment"].get("vllm")
        if version:
            return f"vLLM {version}"
    return ""


def lengths_of(item: Known) -> tuple[int | None, int | None]:
    """Input and output tokens of the arm's workload, where stated."""
    cell = next(iter(item.cells.values()), None)
    return (cell[3], cell[4]) if cell else (None, None)


def busy_watts(item: Known, concurrency: int | None) -> float | None:
    """Power of the arm's GPUs at a load, energy a token x tokens a second; None where unknown."""
    energy = [
        r.value
        for (metric, _, cell), several in item.rounds_of.items()
        if metric == "energy_per_token" and cell[1] == concurrency
        for r in several
        if r.valid
    ]
    speed = [r.value for r in item.rounds(concurrency) if r.valid]
    return float(np.mean(energy) * np.mean(speed)) if energy and speed else None
