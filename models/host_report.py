"""Everything that a person should know of a host before measuring, from its topology result."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from models.gpu_sets import gpu_words
from models.host_findings import Finding, known_card, nvlink_findings, pcie_findings
from models.links import P2P_MEANINGS, checked, is_direct
from models.result import Gpu, Result

# a display or a monitoring tool holds a little; work holds more
BUSY_BYTES = 1 << 30
# variables that switch links or kernels off for whatever is measured afterwards
TELLING_VARIABLES = {
    "NCCL_P2P_DISABLE": "NCCL sends everything through the host: the links are off.",
    "NCCL_P2P_LEVEL": "NCCL uses peer-to-peer only up to this kind of link.",
    "NCCL_SHM_DISABLE": "NCCL may not use shared memory: without the links it takes the network.",
    "NCCL_ALGO": "NCCL's choice of algorithm is overridden.",
    "NCCL_PROTO": "NCCL's choice of protocol is overridden.",
    "NCCL_NVLS_ENABLE": "NVLink multicast is switched by hand.",
    "CUDA_VISIBLE_DEVICES": "Programs see these GPUs only, under new numbers.",
    "CUDA_LAUNCH_BLOCKING": "Every launch waits: all timings are too long.",
    "VLLM_SKIP_P2P_CHECK": "vLLM trusts the driver instead of testing peer-to-peer.",
}


def product(gpu: Gpu) -> str | None:
    """The card's product name; None where the source gives GPUs numbers only."""
    name = gpu.facts.get("product") or gpu.facts.get("model") or gpu.name
    return None if name == f"GPU{gpu.index}" or name == f"Device {gpu.index}" else str(name)


def findings(
    result: Result, loaded: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Finding]:
    """What stands out about a host, problems first.

    Args:
        result: A topology result, measured or described.
        loaded: GPU UUID -> ``pcie_gen`` and ``pcie_width`` as seen while data moved.

    Returns:
        Findings on single GPUs, on links, and on the host as a whole.
    """
    gpus = result.gpus or []
    found: list[Finding] = []
    for gpu in gpus:
        found += nvlink_findings(gpu.index, product(gpu) or "", gpu.facts)
        under_load = (loaded or {}).get(gpu.uuid or "")
        facts = {**gpu.facts, **(under_load or {})}
        found += pcie_findings(gpu.index, facts, under_load=under_load is not None)
        found += _state(gpu)
    found += _unlike(gpus)
    found += _links(result)
    found += _variables(result)
    if len(gpus) == 1:
        # a pasted status may be of one card among others
        is_whole = result.origin == "measured" or result.links is not None
        found.append(
            Finding(
                "one_gpu",
                "note",
                "This host has one GPU." if is_whole else "The text describes one GPU.",
                "There is no link between GPUs to measure; copies inside the GPU can be.",
            )
        )
    return sorted(_gathered(found), key=lambda one: one.severity != "problem")


def _gathered(found: Sequence[Finding]) -> list[Finding]:
    """The same sentence about several GPUs becomes one about all of them."""
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for one in found:
        said = one.sentence
        if len(one.gpus) == 1:
            said = said.removeprefix(f"GPU {one.gpus[0]}: ")
        alike.setdefault((one.code, said, one.meaning), []).append(one)
    return [
        same[0]
        if len(same) == 1
        else replace(
            same[0],
            sentence=f"{gpu_words([gpu for one in same for gpu in one.gpus])}: {said}",
            gpus=tuple(gpu for one in same for gpu in one.gpus),
        )
        for (_, said, _), same in alike.items()
    ]


def _state(gpu: Gpu) -> list[Finding]:
    """What a GPU is doing, and how it is cut up."""
    found: list[Finding] = []
    used = gpu.facts.get("memory_used_bytes")
    if (gpu.facts.get("n_processes") or 0) > 0 or (used or 0) > BUSY_BYTES:
        held = f"{used / 1e9:.1f} GB in use" if used is not None else "memory in use not known"
        found.append(
            Finding(
                "gpu_busy",
                "problem",
                f"GPU {gpu.index} is in use by another program ({held}).",
                "Whatever is measured on it competes with that program.",
                "End that program, or leave this GPU out.",
                (gpu.index,),
            )
        )
    parts = gpu.facts.get("mig_uuids") or []
    if parts:
        found.append(
            Finding(
                "mig",
                "problem",
                f"GPU {gpu.index} is split by MIG into {len(parts)} parts.",
                "Parts reach other GPUs neither over NVLink nor peer-to-peer: tensor parallelism "
                "does not work over them.",
                "Switch MIG off to measure links, or measure single parts.",
                (gpu.index,),
            )
        )
    ecc = gpu.facts.get("ecc") or {}
    if ecc.get("uncorrected"):
        found.append(
            Finding(
                "ecc_errors",
                "problem",
                f"GPU {gpu.index}: {ecc['uncorrected']} memory errors were not corrected.",
                "Values may be wrong, and the driver retires memory.",
                "Restart the machine; if the count rises again, have the card replaced.",
                (gpu.index,),
            )
        )
    return found


def _unlike(gpus: list[Gpu]) -> list[Finding]:
    names = {gpu.index: product(gpu) for gpu in gpus}
    kinds = Counter(name for name in names.values() if name)
    if len(kinds) < 2:
        return []
    said = " and ".join(f"{count}x {name}" for name, count in sorted(kinds.items()))
    sizes = {g.index: g.facts["memory_bytes"] for g in gpus if g.facts.get("memory_bytes")}
    smallest = ""
    if sizes and min(sizes.values()) < max(sizes.values()):
        low = min(sizes, key=lambda index: sizes[index])
        smallest = (
            f" GPU {low} has the least memory ({sizes[low] / 1e9:.0f} GB): it sets what fits."
        )
    return [
        Finding(
            "unlike_cards",
            "problem",
            f"The GPUs differ: {said}.",
            f"In a group the slowest card sets the pace for all.{smallest}",
            "Group like cards with like.",
        )
    ]


def _links(result: Result) -> list[Finding]:
    found: list[Finding] = []
    gpus = result.gpus or []
    names = [gpu.index for gpu in gpus]
    if result.p2p is not None:
        denied = [
            (names[i], names[j], str(result.p2p[i][j]))
            for i, j in combinations(range(len(result.p2p)), 2)
            if result.p2p[i][j] not in ("OK", "X", None)
        ]
        if denied:
            code = denied[0][2]
            who = gpu_words(denied[0][:2]) + (f" and {len(denied) - 1} more" if denied[1:] else "")
            found.append(
                Finding(
                    "no_peer_access",
                    "problem",
                    f"The driver grants no peer access: {who} ({P2P_MEANINGS.get(code, code)}).",
                    "Copies go through the host's memory, and vLLM's own all-reduce stays off.",
                    "Check IOMMU and ACS in the firmware; consumer cards need a driver that allows "
                    "it.",
                )
            )
    if result.links is None:
        return found
    links = checked(result.links)
    pairs = [links[i][j] for i, j in combinations(range(len(links)), 2)]
    if pairs and None in pairs:
        found.append(
            Finding(
                "links_unknown",
                "problem",
                f"{sum(code is None for code in pairs)} of {len(pairs)} links are not known.",
                "Placement ranks them as the worst.",
                "Read the machine again, or paste the whole table.",
            )
        )
    direct = sum(is_direct(code) for code in pairs)
    over_pcie = sum(code is not None and not is_direct(code) for code in pairs)
    if direct and over_pcie:
        others = "the others go" if direct + over_pcie == len(pairs) else f"{over_pcie} go"
        found.append(
            Finding(
                "partial_nvlink",
                "note",
                f"{direct} of {len(pairs)} pairs have a direct link, {others} over PCIe.",
                "The slowest link sets the pace of a group: which GPUs share a group matters here.",
                "See the placement below.",
            )
        )
    bare = [
        gpu.index for gpu in gpus if (card := known_card(product(gpu) or "")) and card.links > 0
    ]
    if pairs and direct == 0 and len(bare) > 1:
        found.append(
            Finding(
                "no_nvlink",
                "note",
                f"{gpu_words(bare)} have NVLink connectors, and no pair is joined by one.",
                "This is the machine that an NVLink bridge would change.",
                "Compare link on and link off, or ask What-if, before buying one.",
                tuple(bare),
            )
        )
    return found


def _variables(result: Result) -> list[Finding]:
    variables = result.environment.get("variables") or {}
    return [
        Finding(
            "variable",
            "note",
            f"{name}={variables[name]} is set.",
            TELLING_VARIABLES[name],
            "Unset it before measuring, unless it is meant.",
        )
        for name in TELLING_VARIABLES
        if name in variables
    ]
