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

_APART = (
    "peer_access_apart",
    "Which table of links and which table of peer access are of one machine cannot be told from "
    "this text: they are kept apart. Paste one machine at a time.",
)


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
    """Tables that describe one host: at most one of links and one of peer access, same GPUs.

    The n-th table of one kind joins the n-th of the other where each kind stands as often and the
    order leaves no doubt. Elsewhere tables of like machines stay apart and say so: peer access of
    another machine would be worse than none.
    """
    if (pairs := _paired(tables)) is not None:
        return pairs
    hosts: list[list[Table]] = []
    for names in dict.fromkeys(tuple(table.names) for table in tables):
        at = [k for k, table in enumerate(tables) if tuple(table.names) == names]
        like = [tables[k] for k in at]
        together = at[-1] - at[0] == len(at) - 1
        joined = _paired(like) if together else None
        if joined is None:
            joined = [[table] for table in like]
            if len({table.is_p2p for table in like}) > 1:
                for table in like:
                    table.problems.append(_APART)
        hosts += joined
    return sorted(hosts, key=lambda host: host[0].line)


def _paired(tables: Sequence[Table]) -> list[list[Table]] | None:
    """Each table of links with its table of peer access; None where the order leaves a doubt.

    Both kinds in turn, or all of one kind before all of the other.
    """
    kinds = [table.is_p2p for table in tables]
    links = [table for table in tables if not table.is_p2p]
    access = [table for table in tables if table.is_p2p]
    in_turn = all(here != there for here, there in pairwise(kinds))
    in_blocks = sum(here != there for here, there in pairwise(kinds)) == 1
    if len(links) != len(access) or not (in_turn or in_blocks):
        return None
    pairs = list(zip(links, access, strict=True))
    if any(one.names != other.names for one, other in pairs):
        return None
    return [sorted(pair, key=lambda table: table.line) for pair in pairs]


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
