"""``nvidia-smi nvlink -s``: how many NVLinks each GPU has, how many are active, at which raw rate.

The rate is signalling per link and direction, before protocol overhead.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from importers.pasted import clean, is_last_line, notices, numbered
from importers.topology_table import find_tables
from models.errors import UnreadableFile
from models.host_findings import nvlink_findings
from models.result import Gpu, Measurement, Result, Tool

TOOL = "nvidia-smi nvlink -s"
DEFINITION = "nvidia-smi:nvlink-rate:1"

_GPU = re.compile(r"^\s*GPU (\d+): (.+?)(?: \(UUID: ([^)]*)\)?)?\s*$")
_LINK = re.compile(r"^\s*Link (\d+):\s*(.*?)\s*$")
_RATE = re.compile(r"(\d+(?:\.\d+)?) GB/s")
_ALL_DOWN = re.compile(r"all links are in-?active", re.IGNORECASE)


@dataclass
class GpuStatus:
    """One GPU as printed; a link's rate is None while it is inactive."""

    index: int
    name: str
    uuid: str | None
    line: int
    links: dict[int, float | None] = field(default_factory=dict)
    all_inactive: bool = False
    is_cut: bool = False

    @property
    def says_something(self) -> bool:
        """Whether more than the GPU's name was printed."""
        return bool(self.links) or self.all_inactive

    @property
    def total(self) -> int | None:
        """Links that were printed; None where the tool printed a sentence or the text is cut."""
        return None if self.is_cut or not self.links else len(self.links)

    @property
    def active(self) -> int | None:
        """Active links; None where that cannot be told."""
        if self.all_inactive:
            return 0
        if self.is_cut or not self.links:
            return None
        return sum(rate is not None for rate in self.links.values())

    @property
    def gb_s_per_link(self) -> float | None:
        """Rate of one link where all active links share it, else None."""
        rates = {rate for rate in self.links.values() if rate is not None}
        return rates.pop() if len(rates) == 1 else None


@dataclass
class Status:
    """All GPUs of one paste, and what is doubtful about them."""

    gpus: list[GpuStatus]
    problems: list[tuple[str, str]] = field(default_factory=list)

    @property
    def line(self) -> int:
        """Line of the text at which it starts."""
        return min(gpu.line for gpu in self.gpus)


def looks_like(text: str) -> bool:
    """Whether link status stands in the text, and no link table (that reader takes both)."""
    if "Link 0:" not in text and "NVLink" not in text and "Link " not in text:
        return False
    plain = clean(text)
    return bool(find_statuses(plain)) and not find_tables(plain)


def find_statuses(text: str) -> list[Status]:
    """The NVLink status of each machine in a cleaned text, in the order they stand."""
    gpus: list[GpuStatus] = []
    lines = text.split("\n")
    for at, line in enumerate(lines):
        header = _GPU.match(line)
        if header:
            gpus.append(_gpu(header, at))
            continue
        if not gpus:
            continue
        link = _LINK.match(line)
        if link:
            gpus[-1].is_cut |= not _add_link(gpus[-1], int(link[1]), link[2])
        elif _ALL_DOWN.search(line):
            gpus[-1].all_inactive = True
        elif line.strip().startswith("Link") and is_last_line(lines, at):
            gpus[-1].is_cut = True
    indices: dict[str | None, set[int]] = {}
    for gpu in gpus:
        indices.setdefault(gpu.uuid, set()).add(gpu.index)
    for gpu in gpus:
        if len(indices[gpu.uuid]) > 1:
            gpu.uuid = None  # blanked out by whoever pasted it
    machines = [list(machine.values()) for machine in _machines(gpus)]
    return [
        Status(machine, _problems(machine))
        for machine in machines
        if any(gpu.says_something for gpu in machine)
    ]


def _machines(gpus: Sequence[GpuStatus]) -> list[dict[int, GpuStatus]]:
    """GPUs by index, a machine each: an index that comes again belongs to the next one.

    Unless it is the same GPU: several commands of nvidia-smi print its name.
    """
    machines: list[dict[int, GpuStatus]] = [{}]
    for gpu in gpus:
        before = machines[-1].get(gpu.index)
        if before is not None and before.says_something:
            if not gpu.says_something:
                continue
            if gpu.uuid is None or gpu.uuid != before.uuid:
                machines.append({})
        machines[-1][gpu.index] = gpu
    return machines


def _gpu(header: re.Match[str], line: int) -> GpuStatus:
    uuid = header[3] if re.fullmatch(r"GPU-[0-9a-f-]{8,}", header[3] or "") else None
    return GpuStatus(index=int(header[1]), name=header[2], uuid=uuid, line=line)


def _add_link(gpu: GpuStatus, link: int, state: str) -> bool:
    """Take one link line over; False where its value is cut."""
    rate = _RATE.fullmatch(state)
    if rate:
        gpu.links[link] = float(rate[1])
    elif "inactive" in state.lower() and state.endswith(">"):
        gpu.links[link] = None
    else:
        return False
    return True


def _problems(gpus: Sequence[GpuStatus]) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    for gpu in gpus:
        facts = {"links_total": gpu.total, "links_active": gpu.active}
        for finding in nvlink_findings(gpu.index, gpu.name, facts):
            problems.append((finding.code, f"{finding.sentence} {finding.meaning}"))
        if gpu.is_cut:
            problems.append(("truncated", f"The links of GPU {gpu.index} are cut: not counted."))
        if len({rate for rate in gpu.links.values() if rate is not None}) > 1:
            problems.append(("link_rates_differ", f"GPU {gpu.index}: its links run unlike rates."))
    return problems


def apply_status(gpus: list[Gpu], status: Status) -> list[Measurement]:
    """Write link counts into the GPUs, adding those that are missing; returns the rates.

    Args:
        gpus: GPUs of a result, changed in place; matched by index.
        status: What the tool printed.
    """
    by_index = {gpu.index: gpu for gpu in gpus}
    measurements: list[Measurement] = []
    for found in status.gpus:
        gpu = by_index.get(found.index)
        if gpu is None:
            gpu = Gpu(index=found.index, name=found.name)
            gpus.append(gpu)
        gpu.uuid = gpu.uuid or found.uuid
        gpu.facts.update(
            product=found.name,
            links_total=found.total,
            links_active=found.active,
            gb_s_per_link=found.gb_s_per_link,
        )
        measurements.extend(
            Measurement(
                metric="nvlink_rate",
                unit="GB/s",
                value=rate,
                dims={"src": found.index, "link_index": link},
                definition=DEFINITION,
            )
            for link, rate in found.links.items()
            if rate is not None
        )
    return measurements


def read(text: str, name: str = "") -> list[Result]:
    """A described host a machine, with its link counts; where a link leads to is not printed.

    Args:
        text: What was pasted or uploaded.
        name: File name, for the title only.

    Raises:
        UnreadableFile: No link status was found.
    """
    statuses = find_statuses(clean(text))
    if not statuses:
        raise UnreadableFile(
            "There is no NVLink status in this text.",
            "Paste what nvidia-smi nvlink -s prints, from a line like 'GPU 0: …' on.",
        )
    return numbered([_result(status, name) for status in statuses])


def _result(status: Status, name: str) -> Result:
    cut = [text for code, text in status.problems if code == "truncated"]
    gpus: list[Gpu] = []
    measurements = apply_status(gpus, status)
    count = "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
    return Result(
        kind="topology",
        origin="described",
        validity="suspect" if cut else "valid",
        reasons=cut,
        title=f"{count}, described by {TOOL}" + (f" ({name})" if name else ""),
        tool=Tool(name=TOOL),
        warnings=notices(status.problems),
        gpus=gpus,
        measurements=measurements,
    )
