"""What NCCL says of itself in its debug log: which transports connect the ranks."""

import re

# "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"; "[send] via NET/Socket/0" ends with a device
_VIA = re.compile(r"Channel \S+ ?: .*?\bvia ((?:P2P|SHM|NET|COLLNET|NVLS)\S*)(?: (pointer\S*))?")


def transports(log: str) -> dict[str, int]:
    """Transport as NCCL names it -> connections that use it, counted over one rank's log."""
    counts: dict[str, int] = {}
    for match in _VIA.finditer(log):
        name = f"{match[1]} {match[2]}" if match[2] else match[1]
        counts[name] = counts.get(name, 0) + 1
    return counts


def family(counts: dict[str, int]) -> str | None:
    """P2P, SHM or NET where all connections are of one family, "mixed" else, None if none known."""
    families = {name.split("/", 1)[0] for name in counts}
    if len(families) == 1:
        return families.pop()
    return "mixed" if families else None
