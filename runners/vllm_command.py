"""The exact commands of a serving run, as lists: what is started, and what a person may copy."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.errors import InvalidSpec
from runners.spec import ServingArm, ServingSpec, SoakSpec, Workload
from runners.vllm_flags import ENTRY, Flag, engine_arguments

HOST = "127.0.0.1"
PERCENTILES = "90,95,99"
# asked of every server: no reports to anybody, and text that arrives line by line in the log
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Command:
    """A program to start: its arguments, and the variables set and removed for it."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    removed: tuple[str, ...] = ()

    def text(self) -> str:
        """One line for a terminal, quoted; for reading and copying only."""
        gone = [part for name in self.removed for part in ("-u", name)]
        front = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        words = ["env", *map(shlex.quote, gone), *front] if gone else front
        return " ".join([*words, shlex.join(self.arguments)])


def link_variables(arm: ServingArm) -> dict[str, str]:
    """Environment that switches the link off: shared memory through the host instead of P2P."""
    return {"NCCL_P2P_DISABLE": "1"} if arm.tp > 1 and arm.link == "off" else {}


def link_arguments(arm: ServingArm) -> list[str]:
    """Flags of the all-reduce: the custom kernel needs P2P, so link off also switches it off."""
    off = arm.link == "off" or not arm.custom_all_reduce
    return ["--disable-custom-all-reduce"] if arm.tp > 1 and off else []


def serve_command(
    spec: ServingSpec | SoakSpec,
    model: str,
    *,
    python: str,
    port: int,
    gpus: Sequence[int | str] = (),
    known: Mapping[str, Flag] | None = None,
) -> Command:
    """`vllm serve` for one replica of an arm.

    Args:
        spec: The arm, its flags and the kind of weights.
        model: Folder or id of the model.
        python: Interpreter that has vLLM.
        port: Where it listens, on this machine only.
        gpus: This replica's GPUs, in rank order.
        known: The installed vLLM's flags, to check the arm's against.

    Raises:
        InvalidSpec: A flag or the model's name is not acceptable.
    """
    if model.startswith("-"):
        raise InvalidSpec(f"{model!r} is no name of a model.", "Names do not start with a dash.")
    arm = spec.arm
    arguments = [python, *ENTRY, "serve", model, "--host", HOST, "--port", str(port)]
    arguments += ["--tensor-parallel-size", str(arm.tp)]
    if spec.load_format == "dummy":
        arguments += ["--load-format", "dummy"]
    arguments += link_arguments(arm)
    own = engine_arguments(arm.engine_args, known)
    if not any(word.endswith("enable-prefix-caching") for word in own):
        arguments.append("--no-enable-prefix-caching")  # later rounds would hit earlier prompts
    quiet = "disable-uvicorn-access-log"
    if known is not None and quiet in known and f"--{quiet}" not in own:
        arguments.append(f"--{quiet}")
    variables = {**QUIET, **link_variables(arm)}
    if Path(model).is_dir():
        variables["HF_HUB_OFFLINE"] = "1"
    if spec.device == "cuda":
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    else:
        variables["VLLM_CPU_KVCACHE_SPACE"] = "1"
        if arm.cpu_cores:
            variables["VLLM_CPU_OMP_THREADS_BIND"] = arm.cpu_cores
    removed = ("NCCL_P2P_DISABLE",) if arm.tp > 1 and arm.link == "on" else ()
    return Command((*arguments, *own), variables, removed)


def bench_command(
    workload: Workload,
    *,
    python: str,
    base_url: str,
    model: str,
    seed: int,
    tokenizer: str | None = None,
    result: Path | None = None,
) -> Command:
    """`vllm bench serve` for one workload and one round.

    Args:
        workload: Lengths, number of requests, concurrency and rate.
        python: Interpreter that has vLLM.
        base_url: The server.
        model: Name the server gives its model.
        seed: Of the prompts: the same in every arm, another in the next round.
        tokenizer: Folder or id, where it is not the model itself.
        result: Where the tool writes its result; None in a command that is only shown.
    """
    arguments = [python, *ENTRY, "bench", "serve", "--backend", "openai"]
    arguments += ["--base-url", base_url, "--endpoint", "/v1/completions", "--model", model]
    if tokenizer:
        arguments += ["--tokenizer", tokenizer]
    arguments += ["--dataset-name", "random", "--random-input-len", str(workload.input_len)]
    arguments += ["--random-output-len", str(workload.output_len), "--random-range-ratio", "0"]
    arguments += ["--num-prompts", str(workload.num_prompts)]
    if workload.concurrency is not None:
        arguments += ["--max-concurrency", str(workload.concurrency)]
    if workload.request_rate is not None:
        arguments += ["--request-rate", f"{workload.request_rate:g}"]
    arguments += ["--num-warmups", str(workload.warmups), "--ready-check-timeout-sec", "0"]
    arguments += ["--ignore-eos", "--temperature", "0", "--seed", str(seed)]
    arguments += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", PERCENTILES]
    arguments += ["--save-result", "--save-detailed"]
    if result is not None:
        arguments += ["--result-dir", str(result.parent), "--result-filename", result.name]
    variables = dict(QUIET)
    if Path(tokenizer or model).is_dir():
        variables["HF_HUB_OFFLINE"] = "1"
    return Command(tuple(arguments), variables)
