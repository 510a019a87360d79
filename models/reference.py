"""Which public all-reduce measurements belong to a card, and how far a host is from them.

The table holds measured latencies of other people's hosts with the same card and link: it tells
what the link can do, never what this host does. Two hosts with the same card differ 4.4 times at
4 KB in it.
"""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from models.allreduce import Curve, Interval, interpolate_us
from models.errors import InvalidSpec
from models.fit import FloatArray

NO_REFERENCE = "No reference for this card."

# system names whose cards talk over PCIe
_PCIE = frozenset(("l40s", "b60", "rtx_pro_6000_server"))
# A known bad point of the table: 14.8 us between neighbours of 5.7 and 6.3.
_NOISE = ("a100_sxm", "vllm", "graph", 8, 4096)

_FAMILY_WORDS = {
    ("nccl", "eager"): "NCCL, nccl-tests launching one by one",
    ("vllm", "graph"): "vLLM's own kernel, in a graph",
    ("vllm", "eager"): "vLLM, launched one by one",
    ("sglang", "graph"): "SGLang's own kernel, in a graph",
    ("sglang", "eager"): "SGLang, launched one by one",
    ("trtllm", "graph"): "TensorRT-LLM's own kernel, in a graph",
}
# our mode -> which reference stands nearest; another library's kernel is another thing
_NEAREST = {
    "graph": (("nccl", "eager"), ("vllm", "graph")),
    "exposed": (("nccl", "eager"), ("vllm", "graph")),
    "eager": (("vllm", "eager"), ("sglang", "eager")),
}


@dataclass(frozen=True)
class Reference:
    """Public latencies of one card, rank count and library.

    Attributes:
        device: Card, as the table names it.
        ranks: Number of GPUs.
        family: nccl, vllm, sglang or trtllm.
        launch: graph or eager.
        label: Words for people.
        caution: What keeps the comparison from being exact; empty where nothing does.
        curve: Median over the distinct tables.
        low_us: Smallest latency of any table at each size, shape (k,), microseconds.
        high_us: Largest, shape (k,), microseconds.
        tables: How many distinct tables stand behind it.
    """

    device: str
    ranks: int
    family: str
    launch: str
    label: str
    caution: str
    curve: Curve
    low_us: FloatArray
    high_us: FloatArray
    tables: int


def _plain(name: str) -> str:
    """A card's name without vendor and memory size: the link depends on neither."""
    words = re.sub(r"\(r\)|\b\d+\s?gb\b", " ", name.lower()).replace("-", " ").split()
    # A100-SXM4-80GB and A100-SXM4-40GB have the same link
    return " ".join(word for word in words if word not in {"nvidia", "intel"})


def device_of(table: pd.DataFrame, gpu_name: str) -> str | None:
    """The table's name of a card, or None where it has no such card.

    Args:
        table: The reference table with its column ``device``.
        gpu_name: Name as NVML or a study gives it.
    """
    wanted = _plain(gpu_name)
    names = sorted(set(table["device"].astype(str)))
    return next((name for name in names if wanted and _plain(name) == wanted), None)


def references(table: pd.DataFrame, gpu_name: str, ranks: int) -> list[Reference]:
    """All references of a card and rank count, one a library and way of launching.

    Args:
        table: Columns system, device, library_version, mode, num_gpus, bytes, latency_us, dtype.
        gpu_name: Name as NVML or a study gives it.
        ranks: Number of GPUs.

    Returns:
        In the order of the table of families; empty where there is none.

    Source: the communication tables of AIConfigurator 0.12.0 (Apache-2.0; see NOTICE). Tables
        that are copies under another version label count once.
    """
    device = device_of(table, gpu_name)
    if device is None:
        return []
    rows = table[(table["device"] == device) & (table["num_gpus"] == ranks)].copy()
    rows["family"] = rows["library_version"].str.split("/").str[0]
    mode = rows["mode"].fillna("").astype(str)
    rows["launch"] = np.where(
        mode.str.endswith("graph") | ((rows["family"] == "trtllm") & (mode == "")),
        "graph",
        np.where(mode.str.endswith("eager") | (rows["family"] == "nccl"), "eager", "unknown"),
    )
    # rows under trtllm in half precision are copies of the NCCL tables
    rows = rows[~((rows["family"] == "trtllm") & (rows["dtype"] == "half"))]
    found = []
    for key in _FAMILY_WORDS:
        part = rows[(rows["family"] == key[0]) & (rows["launch"] == key[1])]
        if not part.empty:
            found.append(_reference(part, device, ranks, key))
    return found


def _reference(part: pd.DataFrame, device: str, ranks: int, key: tuple[str, str]) -> Reference:
    system = str(part["system"].iloc[0])
    if (system, *key, ranks) == _NOISE[:4]:
        part = part[part["bytes"] != _NOISE[4]]
    wide = part.pivot_table(
        index="bytes", columns=["library_version", "dtype"], values="latency_us", aggfunc="median"
    )
    distinct = wide.T.drop_duplicates().T
    values = distinct.to_numpy(dtype=float)
    return Reference(
        device=device,
        ranks=ranks,
        family=key[0],
        launch=key[1],
        label=_FAMILY_WORDS[key],
        caution=_caution(key, system, ranks),
        curve=Curve(distinct.index.to_numpy(dtype=float), np.asarray(np.nanmedian(values, axis=1))),
        low_us=np.asarray(np.nanmin(values, axis=1)),
        high_us=np.asarray(np.nanmax(values, axis=1)),
        tables=int(distinct.shape[1]),
    )


def _caution(key: tuple[str, str], system: str, ranks: int) -> str:
    if key == ("nccl", "eager"):
        return (
            "nccl-tests launches its calls one by one here: below 64 KB compare a graph's latency "
            "with it only loosely."
        )
    if key[0] == "vllm" and system in _PCIE and ranks > 2:
        return "For more than two PCIe GPUs vLLM turns its own kernel off: these rows are NCCL."
    if key[1] == "graph":
        return "This is the engine's own kernel; NCCL in a graph is another program."
    return ""


def nearest(found: list[Reference], mode: str) -> Reference | None:
    """The reference that stands nearest to one of our modes, or None.

    Args:
        found: References of the right card and rank count.
        mode: graph, eager or exposed.
    """
    for family, launch in _NEAREST.get(mode, ()):
        for reference in found:
            if (reference.family, reference.launch) == (family, launch):
                return reference
    return None


def ratio_to(reference: Reference, message_bytes: float, latency_us: float) -> float | None:
    """Measured latency over the reference's at the same size; None outside the reference's sizes.

    Args:
        reference: The reference.
        message_bytes: Size, bytes.
        latency_us: Latency, microseconds.
    """
    try:
        return latency_us / interpolate_us(reference.curve, message_bytes)
    except InvalidSpec:
        return None


def band_at(reference: Reference, message_bytes: float) -> Interval | None:
    """Smallest and largest reference latency at a size, microseconds; None outside its sizes."""
    x = reference.curve.message_bytes
    try:
        return (
            interpolate_us(Curve(x, reference.low_us), message_bytes),
            interpolate_us(Curve(x, reference.high_us), message_bytes),
        )
    except InvalidSpec:
        return None
