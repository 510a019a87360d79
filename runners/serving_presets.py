"""Ready-made evaluations: the published studies repeated, a quick look, a purchase, a night."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from models.errors import InvalidSpec
from runners.evaluation_serving import ArmPlan

GpuName = int | str


@dataclass(frozen=True)
class Preset:
    """What a preset fills a form with.

    Attributes:
        name: For URLs.
        label: For people.
        explained: What it is for, and what it is not.
        workloads: One round.
        rounds: Of each arm.
        starts: Of each arm.
        soak_hours: Sustained load after it, 0 for none.
        arms: Names of arms from `arms_for`.
        model: Hub id, where the preset names one.
        engine_args: Of every arm.
        seed: Of the first round's prompts.
    """

    name: str
    label: str
    explained: str
    workloads: tuple[dict[str, Any], ...]
    rounds: int
    starts: int
    soak_hours: float = 0.0
    arms: tuple[str, ...] = ("link-off", "link-on")
    model: str | None = None
    engine_args: dict[str, Any] = field(default_factory=dict)
    seed: int = 1000


def load(
    concurrency: int,
    prompts: int | None = None,
    input_len: int = 1024,
    output_len: int = 256,
    scenario: str | None = None,
) -> dict[str, Any]:
    """One workload; by default ten requests a slot, as the method asks for at least."""
    return {
        "concurrency": concurrency,
        "num_prompts": prompts or 10 * concurrency,
        "input_len": input_len,
        "output_len": output_len,
        "scenario": scenario or ("single_stream" if concurrency == 1 else "online"),
    }


_CORE = (load(1), load(4))
_ABNORMAL = {"scenario": "abnormal", "concurrency": 1, "num_prompts": 4}

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "quick",
            "Quick look",
            "One round at concurrency 1 and 4: a direction in about five minutes, no interval.",
            (load(1, 6), load(4, 16)),
            rounds=1,
            starts=1,
        ),
        Preset(
            "purchase",
            "Purchase",
            "Everything a decision between two GPUs' layouts needs: TP=2 with the link on, off and "
            "without the engine's own all-reduce, beside TP=1 and one TP=1 server a GPU; a sweep "
            "to concurrency 16, long and short outputs, wrong inputs, two starts of each arm and "
            "two hours of sustained load on each. Choose two GPUs; leave out TP=1 where one GPU "
            "cannot hold the model.",
            (
                *_CORE,
                load(8),
                load(16),
                load(4, 20, 1024, 1024, "long_output"),
                load(4, 40, 1024, 32, "short_output"),
                _ABNORMAL,
            ),
            rounds=4,
            starts=2,
            soak_hours=2,
            arms=("link-off", "link-on", "no-custom-all-reduce", "tp1", "replicas"),
        ),
        Preset(
            "overnight",
            "Overnight",
            "A short comparison, then eight hours of sustained load on each arm: errors, drift, "
            "heat and repeated output checks.",
            _CORE,
            rounds=3,
            starts=1,
            soak_hours=8,
        ),
        Preset(
            "a-a",
            "A against A",
            "The same arm twice: how small a difference this machine can show at all.",
            _CORE,
            rounds=4,
            starts=2,
            arms=("A", "A again"),
        ),
        Preset(
            "two-pairs-or-four",
            "Two pairs or one of four",
            "Two TP=2 servers (on the 1st and 3rd GPU and on the 2nd and 4th) against one TP=4 "
            "server over the same four, from one request at a time to sixteen.",
            (*_CORE, load(8), load(16)),
            rounds=3,
            starts=1,
            arms=("two-pairs", "all-four"),
        ),
        Preset(
            "nvlink-on-4x3090",
            "As published: NVLink on 4x RTX 3090",
            "One round of 8 and 32 requests, as the author ran it; add rounds for an interval.",
            (load(1, 8), load(4, 32)),
            rounds=1,
            starts=1,
            arms=("pair-0-2", "pair-0-1", "all-four"),
            model="cyankiwi/Qwen3.6-27B-AWQ-BF16-INT4",
            engine_args={
                "max-model-len": 131072,
                "gpu-memory-utilization": 0.85,
                "max-num-seqs": 8,
                "dtype": "float16",
                "attention-backend": "FLASHINFER",
                "enable-prefix-caching": True,
                "enable-chunked-prefill": True,
                "max-num-batched-tokens": 4096,
                "mamba-cache-dtype": "auto",
                "mamba-cache-mode": "align",
                "reasoning-parser": "qwen3",
                "enable-auto-tool-choice": True,
                "tool-call-parser": "qwen3_xml",
                "default-chat-template-kwargs": '{"enable_thinking": true, '
                '"preserve_thinking": true}',
                "speculative-config": '{"method": "qwen3_next_mtp", "num_speculative_tokens": 2}',
            },
            seed=42,
        ),
        Preset(
            "tp-on-5090-and-b200",
            "As published: TP=1 against TP=2",
            "A 1.5B shape at concurrency 1 on one GPU and on two; the study itself timed decode "
            "steps, see the decode benchmark for those.",
            (load(1),),
            rounds=3,
            starts=1,
            arms=("tp1", "link-on"),
        ),
        Preset(
            "two-gpu-interconnect-evaluation",
            "As published: two GPUs, link off and on",
            "About 10 requests of 1,080 tokens in and 1,020 out at concurrency 1 and 4. Ten "
            "requests do not fill the last wave at concurrency 4; the page says what that costs.",
            (load(1, 10, 1080, 1020), load(4, 10, 1080, 1020)),
            rounds=3,
            starts=1,
        ),
    )
}


def arms_for(names: Sequence[str], gpus: Sequence[GpuName], device: str = "cuda") -> list[ArmPlan]:
    """Arms by name on the GPUs chosen.

    Args:
        names: link-off, link-on, no-custom-all-reduce, tp1, replicas, A, "A again", pair-0-2,
            pair-0-1, all-four, two-pairs; on the CPU tp1, tp2, A, "A again".
        gpus: In rank order; the first tp of them are used.
        device: ``cuda`` or ``cpu``, where an arm is bound to cores.

    Raises:
        InvalidSpec: There is no such arm, or there are too few GPUs for it.
    """
    if device == "cpu":
        return [_cpu_arm(name) for name in names]
    return [_arm(name, list(gpus)) for name in names]


CPU_ARMS: dict[str, dict[str, Any]] = {
    "tp1": {"tp": 1, "cpu_cores": "0"},
    "tp2": {"tp": 2, "cpu_cores": "0|1"},
    "A": {"tp": 1, "cpu_cores": "0"},
    "A again": {"tp": 1, "cpu_cores": "0"},
}


def _cpu_arm(name: str) -> ArmPlan:
    if name not in CPU_ARMS:
        raise InvalidSpec(
            f"There is no arm called {name!r} on the CPU.", f"Arms: {', '.join(CPU_ARMS)}."
        )
    return ArmPlan(name, CPU_ARMS[name])


def _arm(name: str, gpus: list[GpuName]) -> ArmPlan:
    pair = gpus[:2]
    # name -> (GPUs needed, arm)
    table: dict[str, tuple[int, dict[str, Any]]] = {
        "link-off": (2, {"gpus": pair, "tp": 2, "link": "off"}),
        "link-on": (2, {"gpus": pair, "tp": 2, "link": "on"}),
        "no-custom-all-reduce": (
            2,
            {"gpus": pair, "tp": 2, "link": "on", "custom_all_reduce": False},
        ),
        "tp1": (1, {"gpus": gpus[:1], "tp": 1}),
        "replicas": (2, {"gpus": gpus, "tp": 1, "replicas": len(gpus)}),
        "A": (1, {"gpus": gpus, "tp": len(gpus)}),
        "A again": (1, {"gpus": gpus, "tp": len(gpus)}),
        "pair-0-2": (4, {"gpus": [*gpus[:1], *gpus[2:3]], "tp": 2}),
        "pair-0-1": (4, {"gpus": pair, "tp": 2}),
        "all-four": (4, {"gpus": gpus[:4], "tp": 4}),
        "two-pairs": (
            4,
            {"gpus": [*gpus[0:1], *gpus[2:3], *gpus[1:2], *gpus[3:4]], "tp": 2, "replicas": 2},
        ),
    }
    if name not in table:
        raise InvalidSpec(f"There is no arm called {name!r}.", f"Arms: {', '.join(table)}.")
    needed, arm = table[name]
    if len(gpus) < needed:
        raise InvalidSpec(
            f"The arm {name} needs {needed} GPUs and {len(gpus)} are chosen.",
            "Choose more GPUs, or leave the arm out.",
        )
    return ArmPlan(name, arm)
