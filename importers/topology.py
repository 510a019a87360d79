"""Link tables that people paste: ``nvidia-smi topo -m`` and ``-p2p``, ``rocm-smi --showtopo``.

A table gives a link's kind, not its speed. ``OK`` in ``topo -p2p`` is the driver's claim, not a
check. What ``nvidia-smi nvlink -s`` prints in the same paste joins the same result.
"""

from collections.abc import Sequence
from itertools import pairwise

from importers.nvlink import Status, apply_status, find_statuses
from importers.pasted import clean, notices, numbered
from importers.rocm_topology import RocmTopology, find_rocm
from importers.topology_table import Table, find_tables
from models.errors import UnreadableFile
from models.result import Gpu, Measurement, Result, Tool


def looks_like(text: str) -> bool:
    """Whether a link or peer access table stands in the text."""
    if not any(word in text for word in ("GPU0", "Device 0", "between two GPUs", "GPU")):
        return False
    plain = clean(text)
    return bool(find_rocm(plain) or find_tables(plain))


def read(text: str, name: str = "") -> list[Result]:
    """One described host for each set of tables.

    Args:
        text: What was pasted or uploaded; colour codes, CRLF and quoting do not matter.
        name: File name, for the title only.

    Raises:
        UnreadableFile: No table was found.
    """
    plain = clean(text)
    rocm = [_rocm_result(found, name) for found in find_rocm(plain)]
    tables = find_tables(plain)
    if not rocm and not tables:
        raise UnreadableFile(
            "There is no GPU link table in this text.",
            "Paste what nvidia-smi topo -m prints, from the line with GPU0 on.",
        )
    hosts = _hosts(tables)
    results = [_result(group, name) for group in hosts]
    if hosts and (statuses := find_statuses(plain)):
        _join(results, [group[0].line for group in hosts], statuses)
    return numbered([*results, *rocm])


def _hosts(tables: Sequence[Table]) -> list[list[Table]]:
    """Tables that describe one host: at most one of links and one of peer access, same GPUs."""
    hosts: list[list[Table]] = []
    for table in tables:
        current = hosts[-1] if hosts else None
        if (
            current is None
            or current[0].names != table.names
            or any(other.is_p2p == table.is_p2p for other in current)
        ):
            hosts.append([table])
        else:
            current.append(table)
    return hosts


def _result(tables: Sequence[Table], name: str) -> Result:
    links = next((table for table in tables if not table.is_p2p), None)
    p2p = next((table for table in tables if table.is_p2p), None)
    first = tables[0]
    tool = "nvidia-smi topo -m" if links else "nvidia-smi topo -p2p"
    if first.names[0].startswith("Device"):
        tool = "gpustack-runtime topo"
    truncated = [text for table in tables for code, text in table.problems if code == "truncated"]
    source = links or first
    return Result(
        kind="topology",
        origin="described",
        validity="suspect" if truncated else "valid",
        reasons=truncated,
        title=_title(len(first.names), tool, name),
        tool=Tool(name=tool),
        warnings=notices(problem for table in tables for problem in table.problems),
        gpus=[
            Gpu(index=_index(label), name=label, numa=source.numa[k], cpus=source.cpus[k])
            for k, label in enumerate(first.names)
        ],
        links=links.cells if links else None,
        complete=all(code is not None for row in links.cells for code in row) if links else None,
        nics=links.nics if links else None,
        p2p=p2p.cells if p2p else None,
    )


def _index(label: str) -> int:
    return int("".join(digit for digit in label if digit.isdigit()))


def _title(n_gpus: int, tool: str, name: str) -> str:
    gpus = "1 GPU" if n_gpus == 1 else f"{n_gpus} GPUs"
    return f"{gpus}, described by {tool}" + (f" ({name})" if name else "")


def _rocm_result(found: RocmTopology, name: str) -> Result:
    truncated = [text for code, text in found.problems if code == "truncated"]
    return Result(
        kind="topology",
        origin="described",
        validity="suspect" if truncated else "valid",
        reasons=truncated,
        title=_title(len(found.names), "rocm-smi --showtopo", name),
        tool=Tool(name="rocm-smi --showtopo"),
        warnings=notices(found.problems),
        gpus=[
            Gpu(
                index=_index(label),
                name=label,
                numa=found.numa[k],
                facts={
                    key: rows[k]
                    for key, rows in (("weights", found.weights), ("hops", found.hops))
                    if rows is not None
                },
            )
            for k, label in enumerate(found.names)
        ],
        links=found.links,
        complete=all(code is not None for row in found.links for code in row),
        nics=0,
    )


def _join(results: Sequence[Result], lines: Sequence[int], statuses: Sequence[Status]) -> None:
    """Put link counts, product names and rates beside the GPUs of a table.

    Several machines are told apart only where each table has its own status before or behind it:
    counts of another machine would be worse than none.

    Args:
        results: One a machine.
        lines: Where each starts in the text.
        statuses: In the order they stand.
    """
    if not _alternate(results, lines, statuses):
        left_out = (
            "link_counts_left_out",
            "What nvidia-smi nvlink -s printed is left out: which machine of this text it belongs "
            "to cannot be told. Paste one machine at a time.",
        )
        for result in results:
            result.warnings.extend(notices([left_out]))
        return
    for result, status in zip(results, statuses, strict=True):
        measurements: list[Measurement] = apply_status(result.gpus or [], status)
        result.measurements.extend(measurements)
        result.warnings.extend(notices(status.problems))


def _alternate(results: Sequence[Result], lines: Sequence[int], statuses: Sequence[Status]) -> bool:
    """Whether each machine has one status that is plainly its own."""
    if len(results) != len(statuses):
        return False
    if len(results) == 1:
        return True
    marks = [(line, "table") for line in lines] + [(each.line, "status") for each in statuses]
    kinds = [kind for _, kind in sorted(marks)]
    same_gpus = all(
        {gpu.index for gpu in result.gpus or []} == {gpu.index for gpu in status.gpus}
        for result, status in zip(results, statuses, strict=True)
    )
    return same_gpus and all(here != there for here, there in pairwise(kinds))
