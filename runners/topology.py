"""Which GPUs this machine has and how they are linked: ``python -m runners.topology``.

NVML is the first source. ``nvidia-smi topo -m`` and ``nvidia-smi nvlink -s`` are the second where
that program is there; what the two see differently is named in a warning. A machine whose GPUs
cannot be read still gives a result: its CPU, and a sentence that says why.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from models.errors import LinkworthError, RunnerUnavailable
from models.host_report import findings
from models.result import VERSION, Gpu, Notice, Result, Tool, utc_now
from runners import second_source, topology_facts
from runners.environment import environment, host_facts, process_conditions
from runners.events import Events, main_program
from runners.nvml import Nvml, open_nvml
from runners.spec import TopologySpec

Second = Callable[[], Result | None]


def run(
    spec: TopologySpec,
    events: Events,
    *,
    opened: Callable[[], Nvml] = open_nvml,
    second: Second | None = None,
) -> Result:
    """Read the GPUs and links of this machine.

    Args:
        spec: Holds the time limit only.
        events: Told about each stage.
        opened: Gives NVML; tests give a recording.
        second: Gives the second source; by default nvidia-smi.
    """
    started_at = utc_now()
    result = Result(
        kind="topology",
        origin="measured",
        spec=spec.model_dump(mode="json"),
        host=_host(),
        environment={**environment(), "process": process_conditions()},
        started_at=started_at,
        tool=Tool(name="linkworth", version=VERSION),
    )
    events.stage("Reading GPUs", 0.1)
    try:
        raw = _read_nvml(result, opened, events)
    except LinkworthError as error:
        events.log(str(error), "warning")
        result.warnings.append(Notice(code="gpus_unreadable", text=str(error)))
        result.title = "This machine: its GPUs could not be read"
        result.finished_at = utc_now()
        return result
    events.stage("Asking nvidia-smi", 0.6)
    other = (second or second_source.read_second_source)()
    disputed = second_source.compare(result, other)
    result.environment["second_source"] = second_source.named(other)
    for one in [*disputed, *findings(result)]:
        notice = Notice(code=one.code, text=f"{one.sentence} {one.meaning}")
        result.warnings.append(notice)
        events.log(notice.text, "warning" if one.severity == "problem" else "info")
    result.title = f"This machine: {_counted(result.gpus or [])}"
    result.finished_at = utc_now()
    events.stage("Done", 1.0, f"{len(raw)} GPUs")
    return result


def _host() -> dict[str, Any]:
    """The machine; empty where its driver breaks off even for that."""
    try:
        return host_facts()
    except Exception as error:
        if not _is_driver_error(error):
            raise
        return {}


def _is_driver_error(error: Exception) -> bool:
    """Known by name: pynvml makes its error classes at import, and may not be there."""
    return type(error).__name__.startswith("NVMLError")


def _read_nvml(result: Result, opened: Callable[[], Nvml], events: Events) -> Sequence[str]:
    """Fill GPUs, links and rates; returns the UUIDs.

    Raises:
        RunnerUnavailable: A sentence for each cause.
    """
    try:
        with opened() as nvml:
            facts = nvml.gpus()
            sample = nvml.sample()
            lost = nvml.problems()
            events.stage("Reading links", 0.3)
            raw = nvml.links()
    except Exception as error:
        if not _is_driver_error(error):
            raise
        raise _driver_error(error) from None
    for sentence in lost:
        result.warnings.append(Notice(code="gpu_lost", text=sentence))
        events.log(sentence, "error")
    result.gpus = topology_facts.gpus(facts, sample, raw)
    result.links = topology_facts.link_matrix(raw)
    result.p2p = topology_facts.peer_access(raw)
    result.complete = all(code is not None for row in result.links for code in row)
    result.measurements = topology_facts.link_rates(raw, [gpu.index for gpu in facts])
    if not facts:
        raise RunnerUnavailable(
            "The NVIDIA driver runs, and it shows no GPU.",
            "Check that the container or virtual machine was given one.",
        )
    return [gpu.uuid for gpu in facts]


def _driver_error(error: Exception) -> RunnerUnavailable:
    if "GpuIsLost" in type(error).__name__ or "lost" in str(error).lower():
        return RunnerUnavailable(
            "A GPU has fallen off the bus: the driver can no longer reach it.",
            "Restart the machine; look for Xid 79 in the kernel log, and check power and riser.",
            detail=repr(error),
        )
    return RunnerUnavailable(
        f"The NVIDIA driver stopped answering: {error}.",
        "nvidia-smi may tell more.",
        detail=repr(error),
    )


def _counted(gpus: Sequence[Gpu]) -> str:
    """Cards by name: "2x NVIDIA H200"."""
    names = [gpu.name for gpu in gpus]
    return ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names)) or "no GPU"


if __name__ == "__main__":
    sys.exit(main_program("topology", run))
