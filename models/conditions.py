"""Two runs' conditions side by side: what differs, what of it is known to matter, and why.

A hidden variable once turned a published result round (OMP_NUM_THREADS, unset on one host). So
everything that is recorded is compared, and what has been seen to matter comes first.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from models.nested import flat
from models.result import Result

Weight = Literal["high", "some", "unknown"]
Group = Literal["found", "asked"]

# Readings of one quantity within this share of each other are the same condition.
SAME_WITHIN = 0.05

# They name a run or a machine and say nothing about its speed.
_IDENTITY = frozenset(
    """hostname boot_id uuid index pci_bus_id mig_uuids name_hash cpus numa id title model_name
    gpus_asked path time_limit_s CUDA_VISIBLE_DEVICES NCCL_DEBUG NCCL_DEBUG_FILE
    NCCL_DEBUG_SUBSYS""".split()
)


@dataclass(frozen=True)
class Known:
    """A condition of which it is known how it changes speed.

    Attributes:
        pattern: Matches the last part of a condition's name, whole.
        weight: ``high`` where it has been seen to turn results round.
        why: One sentence.
    """

    pattern: str
    weight: Weight
    why: str


KNOWN: tuple[Known, ...] = (
    Known(
        "OMP_NUM_THREADS|omp_num_threads",
        "high",
        "Threads of each process's CPU work. Some launchers set 1 where it is unset: in the "
        "published study this alone made the faster host the slower one.",
    ),
    Known(
        "threads",
        "high",
        "The thread count that took effect, whatever the variables say: it bounds the CPU's work "
        "between two launches.",
    ),
    Known(
        "n_cpus|affinity|cpu_affinity|cpu_quota",
        "high",
        "CPUs that the processes may use: ranks that share a core wait for each other in every "
        "step.",
    ),
    Known(
        "python",
        "high",
        "The host side of a step is Python code, and newer interpreters run it faster.",
    ),
    Known(
        "cpu_model|cpu_turbo_ghz|clock_mhz|governor",
        "high",
        "One core launches the work of a step: its clock sets the CPU's share, its number of cores "
        "does not.",
    ),
    Known(
        "link|NCCL_P2P_DISABLE|NCCL_P2P_LEVEL|NCCL_SHM_DISABLE|transports.*",
        "high",
        "It decides whether GPUs talk directly or through the host's memory.",
    ),
    Known(
        "NCCL_.*",
        "high",
        "It can change the algorithm, the protocol or the transport of every all-reduce.",
    ),
    Known(
        "driver",
        "high",
        "Drivers change launch cost, clocks and whether GPUs may talk directly.",
    ),
    Known(
        "power_limit_w",
        "high",
        "A lower power cap lowers the clock under load.",
    ),
    Known(
        "pcie_(gen|width)(_max)?",
        "high",
        "Half the lanes or one generation less halves the PCIe bandwidth between GPUs.",
    ),
    Known(
        "CUDA_LAUNCH_BLOCKING",
        "high",
        "It makes every launch wait for its end: nothing overlaps any more.",
    ),
    Known(
        "gpu_name|sm_clock_max_mhz|mem_clock_max_mhz|gpu_count|interconnect",
        "high",
        "Another GPU or link is another machine.",
    ),
    Known(
        "model",
        "high",
        "Another model reads other weights in every step.",
    ),
    Known(
        "tp|ranks|replicas",
        "high",
        "Another number of GPUs shares the work, and pays for the link.",
    ),
    Known(
        "batches|kv_lens|workloads|concurrency|input_len|output_len|request_rate",
        "high",
        "Under another load the same machine does something else.",
    ),
    Known("dtype", "high", "Weights and messages of another width have other sizes."),
    Known("compile|fusion", "some", "Other kernels do the same work."),
    Known("nccl", "some", "Another version chooses algorithms and protocols otherwise."),
    Known(
        "cuda|torch|torch_cuda|vllm|transformers|triton",
        "some",
        "Other versions bring other kernels.",
    ),
    Known(
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "some",
        "It bounds how many queues feed the GPU: with 1, collectives and compute line up.",
    ),
    Known("VLLM_.*", "some", "It switches parts of the engine, kernels among them."),
    Known(
        "(PY)?TORCH_.*|CUDA_.*|MKL_.*|OMP_.*|GLOO_.*|NVSHMEM_.*",
        "some",
        "It changes a library that takes part in every step.",
    ),
    Known("numa_nodes", "some", "Memory of another socket is farther from the GPU."),
)


@dataclass(frozen=True)
class Difference:
    """One condition that two runs do not share.

    Attributes:
        name: Its name, parts joined by dots.
        left: One run's value, None where it does not say.
        right: The other's.
        weight: Whether it is known to matter.
        why: Why, or an empty text.
        group: ``found`` on the machine, or ``asked`` for in the spec.
    """

    name: str
    left: Any
    right: Any
    weight: Weight
    why: str
    group: Group


def conditions(result: Result) -> dict[str, Any]:
    """Everything a run says about its conditions, one flat table.

    Args:
        result: The run.

    Returns:
        Name -> value. GPUs are counted and summarised over all of them, ranks likewise; names that
        only identify a machine or a run are left out.
    """
    host = dict(result.host)
    environment = dict(result.environment)
    host.pop("name", None)  # an author's word for the machine
    gpus = _mappings(host.pop("gpus", ()))
    flat = _flat(host)
    if gpus:
        flat["gpu_count"] = len(gpus)
        flat |= {
            ("gpu_name" if name == "name" else name): value
            for name, value in _summary(gpus).items()
        }
    variables = environment.pop("variables", {})
    ranks = _mappings(environment.pop("ranks", ()))
    flat |= _flat(environment)
    if isinstance(variables, Mapping):
        flat |= _flat(variables)
    flat |= {f"process.{name}": value for name, value in _summary(ranks).items()}
    return {name: value for name, value in flat.items() if _last(name) not in _IDENTITY}


def differences(left: Result, right: Result) -> list[Difference]:
    """What differs between two runs, in order of what is known to matter.

    Args:
        left: One run.
        right: The other.

    Returns:
        Differences found on the machines first, then those that were asked for; within each, the
        table of known conditions gives the order, unknown ones follow by name.
    """
    found = _compare(conditions(left), conditions(right), "found")
    asked = _compare(_asked(left), _asked(right), "asked")
    return sorted(found, key=_order) + sorted(asked, key=_order)


def explanations(different: Iterable[Difference]) -> list[str]:
    """Differences that may explain unequal results, a sentence each, the gravest first."""
    return [
        f"{row.name} differs ({said(row.left)} against {said(row.right)}). {row.why}"
        for row in different
        if row.group == "found" and row.weight == "high"
    ]


def counted(n: int, n_known: int) -> str:
    """How many conditions differ, and how many of them are known to matter, in words."""
    differ = "1 condition differs" if n == 1 else f"{n} conditions differ"
    return f"{differ}, {n_known} of them known to matter"


def said(value: Any) -> str:
    """A value as a table shows it."""
    return "not stated" if value is None else str(value)


def _asked(result: Result) -> dict[str, Any]:
    spec = {name: value for name, value in result.spec.items() if name not in ("model", "gpus")}
    asked = {name: value for name, value in _flat(spec).items() if _last(name) not in _IDENTITY}
    model = result.spec.get("model_name") or result.spec.get("model")
    return {**asked, "model": model} if isinstance(model, str) else asked


def _compare(left: Mapping[str, Any], right: Mapping[str, Any], group: Group) -> list[Difference]:
    rows = []
    for name in dict.fromkeys((*left, *right)):
        mine, other = left.get(name), right.get(name)
        if not _same(mine, other):
            known = _known(name)
            rows.append(
                Difference(
                    name,
                    mine,
                    other,
                    "unknown" if known is None else KNOWN[known].weight,
                    "" if known is None else KNOWN[known].why,
                    group,
                )
            )
    return rows


def _same(left: Any, right: Any) -> bool:
    if left == right:
        return True
    numbers = [value for value in (left, right) if isinstance(value, int | float)]
    if len(numbers) == 2 and not isinstance(left, bool) and not isinstance(right, bool):
        # counts and switches are exact, readings are not
        if all(isinstance(value, int) and value < 1000 for value in numbers):
            return False
        return bool(abs(left - right) <= SAME_WITHIN * max(abs(left), abs(right)))
    # "3.12" of one source is "3.12.3" of another that says more
    texts = [value for value in (left, right) if isinstance(value, str)]
    if len(texts) == 2 and all(re.fullmatch(r"\d+(\.\d+)+", text) for text in texts):
        short, long = sorted(texts, key=len)
        return long.startswith(f"{short}.")
    return False


def _order(row: Difference) -> tuple[int, str]:
    known = _known(row.name)
    return (len(KNOWN) if known is None else known, row.name)


def _known(name: str) -> int | None:
    for number, entry in enumerate(KNOWN):
        if re.fullmatch(entry.pattern, _last(name)) or re.fullmatch(entry.pattern, name):
            return number
    return None


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Nested facts as one table; what was read in each round is a result and no condition."""
    found: dict[str, Any] = {}
    for name, value in flat(data).items():
        if not isinstance(value, list | tuple):
            found[name] = value
        elif not any(isinstance(item, Mapping) and "round" in item for item in value):
            found[name] = ", ".join(_item(item) for item in value)
    return found


def _item(item: Any) -> str:
    """One entry of a list in words; a count of things as a person writes it."""
    if isinstance(item, Mapping):
        return " ".join(f"{name} {value}" for name, value in item.items())
    return str(item)


def _mappings(rows: Any) -> list[dict[str, Any]]:
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        return []
    return [_flat(row) for row in rows if isinstance(row, Mapping)]


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One value for several GPUs or ranks: the common one, else all of them in order."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        if _last(name) in _IDENTITY:
            continue
        values = [row.get(name) for row in rows]
        alike = all(_same(value, values[0]) for value in values)
        found[name] = values[0] if alike else ", ".join(said(value) for value in values)
    return found
