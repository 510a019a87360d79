"""Which arms a serving study measures, by the machine that it is for.

An arm is its name, what `runners.spec` calls the arm, more engine flags, and the arm in whose
server it is measured too: a single replica is one of the replicas' servers, not one more start.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from runners.serving_interleaved import Arm
from runners.spec import parse_spec

KV_BYTES = 6 * 2**30  # fixed: arms that start together must not judge each other's memory
ArmPlan = tuple[str, dict[str, Any], dict[str, Any], str | None]


def _many(n: int) -> list[ArmPlan]:
    """Every TP size on n linked GPUs, replicas of each, and what link and kernel give over all."""
    gpus = list(range(n))
    half = n // 2
    arms: list[ArmPlan] = [
        ("tp1", {"gpus": [0], "tp": 1}, {}, f"{n}xtp1"),
        (f"{n}xtp1", {"gpus": gpus, "tp": 1, "replicas": n}, {}, None),
    ]
    tp = 2
    while tp <= half:
        replicas = n // tp
        shared = f"{replicas}xtp{tp}"
        arms += [
            (f"tp{tp}", {"gpus": gpus[:tp], "tp": tp, "link": "on"}, {}, shared),
            (shared, {"gpus": gpus, "tp": tp, "replicas": replicas, "link": "on"}, {}, None),
        ]
        tp *= 2
    whole = {"gpus": gpus, "tp": n}
    library = {**whole, "link": "on", "custom_all_reduce": False}
    return [
        *arms,
        (f"tp{n}", {**whole, "link": "on"}, {}, None),
        (f"tp{n}-no-custom-all-reduce", library, {}, None),
        (f"tp{n}-link-off", {**whole, "link": "off"}, {}, None),
    ]


_TWO: list[ArmPlan] = [
    ("tp1", {"gpus": [0], "tp": 1}, {}, "2xtp1"),
    ("2xtp1", {"gpus": [0, 1], "tp": 1, "replicas": 2}, {}, None),
    ("tp2-link-on", {"gpus": [0, 1], "tp": 2, "link": "on"}, {}, None),
    (
        "tp2-no-custom-all-reduce",
        {"gpus": [0, 1], "tp": 2, "link": "on", "custom_all_reduce": False},
        {},
        None,
    ),
    ("tp2-link-off", {"gpus": [0, 1], "tp": 2, "link": "off"}, {}, None),
]
_EAGER: ArmPlan = ("enforce-eager", {"gpus": [0], "tp": 1}, {"enforce-eager": True}, None)

PLANS: dict[str, list[ArmPlan]] = {
    "one-gpu": [("cuda-graphs", {"gpus": [0], "tp": 1}, {}, None), _EAGER],
    "two-gpu": _TWO,
    # what graphs give beside what the link gives, on the same cards in one sitting
    "two-gpu-and-eager": [*_TWO, _EAGER],
    "four-gpu": _many(4),
    "eight-gpu": _many(8),
    # a rehearsal of the whole path on two cores
    "cpu": [
        ("tp1", {"tp": 1, "cpu_cores": "0"}, {}, None),
        ("tp1-eager", {"tp": 1, "cpu_cores": "1"}, {"enforce-eager": True}, None),
    ],
}


def arms_of(options: argparse.Namespace, model: Path) -> list[Arm]:
    """The plan's arms for one model, as runners take them."""
    config = json.loads(model.read_text())
    plan = PLANS[options.plan]
    names = {row[0] for row in plan if re.search(options.only, row[0])}
    names |= {row[3] for row in plan if row[0] in names and row[3]}  # whose server it shares
    cpu = options.plan == "cpu"
    flags = {"max-model-len": options.input_len + options.output_len + 256}
    if not cpu:
        flags |= {"kv-cache-memory-bytes": KV_BYTES, "gpu-memory-utilization": 0.2}
        # graphs for more sequences than are ever sent would only lengthen the start
        flags["max-num-seqs"] = max(32, *options.concurrency)
        if options.plan == "one-gpu":
            flags["gpu-memory-utilization"] = 0.4
    arms = []
    for name, arm, extra, part_of in plan:
        if name not in names:
            continue
        spec = parse_spec(
            {
                "kind": "serving",
                "device": "cpu" if cpu else "cuda",
                "model_config_json": config,
                "model_name": model.stem,
                "load_format": "dummy",
                "vllm_python": options.vllm_python,
                "arm": {**arm, "engine_args": {**flags, **extra}},
                "workloads": [
                    {
                        "concurrency": cap,
                        "num_prompts": cap * options.prompts_per_slot,
                        "input_len": options.input_len,
                        "output_len": options.output_len,
                        "scenario": "single_stream" if cap == 1 else "online",
                    }
                    for cap in options.concurrency
                ],
                "time_limit_s": 7200,
            }
        )
        arms.append(Arm(name, spec, part_of))
    return arms
