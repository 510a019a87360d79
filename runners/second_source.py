"""nvidia-smi beside NVML: what it says of links, and where the two see different things."""

import os
import subprocess
from collections.abc import Sequence

from importers import nvlink
from importers import topology as link_tables
from models.errors import UnreadableFile
from models.host_findings import Finding, disagreements
from models.result import Gpu, Result
from runners.nvml import RECORDING_VARIABLE
from runners.smi import find_smi

TOOLS = (("topo", "-m"), ("nvlink", "-s"))
TOOL_TIME_LIMIT_S = 20.0
_MAX_OUTPUT = 1 << 20
_NAME = "nvidia-smi"
# raw rates that differ by less are one rate, printed with other digits
_SAME_RATE = 0.01

Matrix = Sequence[Sequence[str | None]]


def read_second_source(program: str | None = None) -> Result | None:
    """What nvidia-smi says of links; None where it is not there or says nothing readable.

    Args:
        program: Path of nvidia-smi; by default what is on the search path.
    """
    if program is None and os.environ.get(RECORDING_VARIABLE):
        return None  # a recording and this machine are not the same host
    found = program or find_smi()
    if found is None:
        return None
    text = "\n".join(_output([found, *arguments]) for arguments in TOOLS)
    for read in (link_tables.read, nvlink.read):
        try:
            return read(text)[0]
        except UnreadableFile:
            continue
    return None


def _output(command: list[str]) -> str:
    """What a program prints; nothing where it fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOOL_TIME_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:_MAX_OUTPUT] if done.returncode == 0 else ""


def named(other: Result | None) -> str | None:
    """Which of nvidia-smi's outputs could be read."""
    if other is None:
        return None
    has_status = any("links_active" in gpu.facts for gpu in other.gpus or [])
    parts = [*(["topo -m"] if other.links is not None else []), *(["nvlink -s"] * has_status)]
    return f"{_NAME} {' and '.join(parts)}" if parts else None


def compare(result: Result, other: Result | None) -> list[Finding]:
    """Take over what only the second source knows, and name what the two see differently.

    Args:
        result: What NVML told; holes in it are filled in place.
        other: What nvidia-smi told.
    """
    if other is None:
        return []
    result.nics = other.nics
    ours = result.gpus or []
    theirs = _matched(ours, other.gpus or [])
    found: list[Finding] = []
    if other.links is not None:
        links = _in_our_order(other.links, ours, other.gpus or [], theirs)
        if not result.complete and len(links) == len(ours):
            result.links = _filled(result.links or [], links)
            result.complete = all(code is not None for row in result.links for code in row)
        names = [gpu.index for gpu in ours]
        found = disagreements(result.links or [], links, "NVML", _NAME, names)
    for gpu in ours:
        same = theirs.get(gpu.index)
        if same is not None:
            found += _of_gpu(gpu, same)
            _fill(gpu, same)
    return found


def _matched(ours: Sequence[Gpu], theirs: Sequence[Gpu]) -> dict[int, Gpu]:
    """Our index -> the same GPU in the second source: by UUID where it tells them, else by index.

    Indices of two tools may differ, and the wrong card has been compared that way.
    """
    by_uuid = {gpu.uuid: gpu for gpu in theirs if gpu.uuid}
    by_index = {gpu.index: gpu for gpu in theirs}
    found = {}
    for gpu in ours:
        same = by_uuid.get(gpu.uuid or "") or by_index.get(gpu.index)
        if same is not None and (same.uuid is None or same.uuid == gpu.uuid):
            found[gpu.index] = same
    return found


def _in_our_order(
    links: Matrix, ours: Sequence[Gpu], theirs: Sequence[Gpu], matched: dict[int, Gpu]
) -> Matrix:
    """Their matrix with rows and columns as ours; as it stands where a GPU is in one only."""
    places = {gpu.index: place for place, gpu in enumerate(theirs)}
    order = [places[matched[gpu.index].index] for gpu in ours if gpu.index in matched]
    if len(order) != len(ours) or len(theirs) != len(ours) or max(order, default=0) >= len(links):
        return links
    return [[links[i][j] for j in order] for i in order]


def _of_gpu(gpu: Gpu, same: Gpu) -> list[Finding]:
    """Where the two differ on one GPU: links it has, links that are active, rate, place."""
    found = []
    for key, words in (("links_total", "NVLinks"), ("links_active", "active NVLinks")):
        ours, theirs = gpu.facts.get(key), same.facts.get(key)
        if ours is not None and theirs is not None and ours != theirs:
            said = f"NVML counts {ours} {words}, {_NAME} {theirs}"
            found.append(_finding(gpu, said, "A link went up or down between the two readings."))
    ours, theirs = gpu.facts.get("gb_s_per_link"), same.facts.get("gb_s_per_link")
    if ours and theirs and abs(ours / theirs - 1) > _SAME_RATE:
        said = f"NVML reads {ours:g} GB/s a link, {_NAME} {theirs:g} GB/s"
        found.append(_finding(gpu, said, "A link was trained anew between the two readings."))
    if gpu.numa is not None and same.numa is not None and gpu.numa != same.numa:
        said = f"the kernel puts it on NUMA node {gpu.numa}, {_NAME} on {same.numa}"
        found.append(_finding(gpu, said, "Processes may be pinned to the farther socket."))
    return found


def _finding(gpu: Gpu, said: str, meaning: str) -> Finding:
    return Finding(
        "sources_disagree",
        "problem",
        f"GPU {gpu.index}: {said}.",
        meaning,
        "Read the machine again.",
        (gpu.index,),
    )


def _fill(gpu: Gpu, same: Gpu) -> None:
    gpu.numa = same.numa if gpu.numa is None else gpu.numa
    gpu.cpus = gpu.cpus or same.cpus
    for key in ("links_total", "links_active", "gb_s_per_link"):
        if gpu.facts.get(key) is None:
            gpu.facts[key] = same.facts.get(key)


def _filled(ours: Matrix, theirs: Matrix) -> list[list[str | None]]:
    """Our matrix, holes filled from theirs."""
    return [
        [code if code is not None else theirs[i][j] for j, code in enumerate(row)]
        for i, row in enumerate(ours)
    ]
