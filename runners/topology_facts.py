"""From NVML's raw answers to GPUs, link matrix, peer access and link rates."""

from collections.abc import Mapping, Sequence
from typing import Any

from models.result import Gpu, Measurement
from runners.gpu_facts import GpuFacts

RATE_DEFINITION = "nvml:nvlink-rate:1"

# NVML's answers in the words of nvidia-smi topo -p2p
_ACCESS = {
    "ok": "OK",
    "chipset_not_supported": "CNS",
    "gpu_not_supported": "GNS",
    "topology_not_supported": "TNS",
    "disabled_by_regkey": "DR",
    "not_supported": "NS",
    "unknown": "U",
}


def gpus(
    facts: Sequence[GpuFacts], sample: Sequence[Mapping[str, Any]], raw: Mapping[str, Any]
) -> list[Gpu]:
    """One GPU with all that is known of it: what it is, how it is now, its NVLinks.

    Args:
        facts: What the GPUs are.
        sample: How they are at this moment.
        raw: ``Nvml.links()``.
    """
    now = {row.get("uuid"): row for row in sample}
    found: list[Gpu] = []
    for at, gpu in enumerate(facts):
        known = gpu.as_dict()
        state = {key: value for key, value in now.get(gpu.uuid, {}).items() if key != "xids"}
        processes = state.pop("processes", None)
        for told in ("index", "uuid", "name", "numa", "cpus"):
            known.pop(told, None)
            state.pop(told, None)
        found.append(
            Gpu(
                index=gpu.index,
                name=gpu.name,
                uuid=gpu.uuid,
                numa=gpu.numa,
                cpus=gpu.cpus,
                facts={
                    **known,
                    **state,
                    # how many, never which: other people's programs are their business
                    "n_processes": None if processes is None else len(processes),
                    **_nvlink_counts(at, raw),
                    "nvlink_errors": state.get("nvlink_errors") or _nvlink_errors(at, raw),
                },
            )
        )
    return found


def _nvlink_counts(at: int, raw: Mapping[str, Any]) -> dict[str, Any]:
    links = [row for row in raw.get("nvlinks", []) if row["gpu"] == at]
    rates = {row.get("speed_mbps") for row in links if row["active"]} - {None}
    return {
        "links_total": len(links) or None,
        "links_active": sum(row["active"] for row in links) if links else None,
        "gb_s_per_link": rates.pop() / 1000 if len(rates) == 1 else None,
    }


def _nvlink_errors(at: int, raw: Mapping[str, Any]) -> dict[str, int] | None:
    """Errors of all links of a GPU by counter, where the driver counts them link by link."""
    found: dict[str, int] = {}
    for row in raw.get("nvlinks", []):
        if row["gpu"] == at:
            for name, count in (row.get("errors") or {}).items():
                if count is not None:
                    found[name] = found.get(name, 0) + int(count)
    return found or None


def link_matrix(raw: Mapping[str, Any]) -> list[list[str | None]]:
    """Link kinds in the words of ``nvidia-smi topo -m``; None where the driver does not tell.

    GPUs that share direct NVLinks, or that hang on the same NVLink switches, are joined by NVLink;
    for all others the closest common PCI ancestor names the link.
    """
    n = len(raw.get("gpus", []))
    matrix: list[list[str | None]] = [["X" if i == j else None for j in range(n)] for i in range(n)]
    for pair in raw.get("pairs", []):
        a, b = pair["a"], pair["b"]
        n_links = _joined_by(raw, a, b, (pair.get("p2p") or {}).get("nvlink"))
        matrix[a][b] = matrix[b][a] = f"NV{n_links}" if n_links else pair.get("ancestor")
    return matrix


def _joined_by(raw: Mapping[str, Any], a: int, b: int, granted: str | None) -> int:
    """How many NVLinks join two GPUs."""
    active = [row for row in raw.get("nvlinks", []) if row["active"]]

    def count(gpu: int, key: str, wanted: object) -> int:
        return sum(1 for row in active if row["gpu"] == gpu and row.get(key) == wanted)

    direct = count(a, "remote_gpu", b)
    if direct or granted not in ("ok", None):
        return direct
    switched = min(count(gpu, "remote_type", "switch") for gpu in (a, b))
    if switched or granted != "ok":
        return switched
    # the driver grants NVLink without saying where the links lead: some virtual machines do
    return min(count(gpu, "remote_gpu", None) for gpu in (a, b))


def peer_access(raw: Mapping[str, Any]) -> list[list[str | None]] | None:
    """What the driver says of peer access, reading and writing, in the words of ``topo -p2p``."""
    n = len(raw.get("gpus", []))
    if n < 2:
        return None
    matrix: list[list[str | None]] = [["X" if i == j else None for j in range(n)] for i in range(n)]
    for pair in raw.get("pairs", []):
        said = pair.get("p2p") or {}
        answers = [said.get("read"), said.get("write")]
        refused = [answer for answer in answers if answer not in ("ok", None)]
        code = _ACCESS.get(refused[0], "U") if refused else "OK" if "ok" in answers else None
        matrix[pair["a"]][pair["b"]] = matrix[pair["b"]][pair["a"]] = code
    return matrix if any(code not in ("X", None) for row in matrix for code in row) else None


def link_rates(raw: Mapping[str, Any], indices: Sequence[int]) -> list[Measurement]:
    """Raw signalling rate of every active NVLink.

    Args:
        raw: ``Nvml.links()``; it counts GPUs by their place.
        indices: Index of each GPU on its machine, which has holes where one is gone.
    """

    def called(place: int | None) -> int | None:
        return None if place is None else indices[place]

    return [
        Measurement(
            metric="nvlink_rate",
            unit="GB/s",
            value=row["speed_mbps"] / 1000,
            dims={
                "src": called(row["gpu"]),
                "dst": called(row.get("remote_gpu")),
                "link_index": row["link"],
            },
            definition=RATE_DEFINITION,
        )
        for row in raw.get("nvlinks", [])
        if row["active"] and row.get("speed_mbps")
    ]
