"""The form of an AllReduce sweep: devices, link arms, sizes, modes, rounds -> jobs."""

from typing import Any

import streamlit as st

from db import hosts
from models.errors import InvalidSpec
from pages.widgets import model_picker, store
from runners.evaluation import allreduce_jobs
from runners.spec import DEFAULT_CALLS_PER_STEP, DEFAULT_SIZES

CPU = "CPU ranks over gloo"
GPUS = "GPUs"
QUICK_SIZES = (512, 1024, 3072, 4096, 16_384, 65_536, 262_144, 1_048_576)
SIZE_SETS = {
    "quick": "Quick look: 8 sizes, 512 B to 1 MB",
    "full": "Full: powers of two, 512 B to 64 MB",
    "model": "The messages of a model",
}
BATCHES = [1, 2, 4, 8, 16, 32]
LINKS = {"on": "link on", "off": "link off"}
MODES = {
    "graph": "graph (what an engine pays)",
    "eager": "eager (launched one by one)",
    "exposed": "exposed (with work between)",
}


def host_gpus() -> list[dict[str, Any]]:
    """GPUs of this machine as its worker last read them."""
    known = hosts.list_hosts(store.engine())
    return list(known[0]["facts"].get("gpus") or []) if known else []


def gpu_label(gpu: dict[str, Any]) -> str:
    """A GPU in words: index, name, memory."""
    memory = gpu.get("memory_bytes")
    size = f" · {memory / 2**30:.0f} GiB" if memory else ""
    return f"GPU {gpu.get('index')} · {gpu.get('name')}{size}"


def render() -> list[dict[str, Any]] | None:
    """Draw the form; returns the planned jobs, or None while something is missing."""
    devices = _devices()
    if devices is None:
        return None
    sizes = _sizes()
    if sizes is None:
        return None
    sizes_bytes, calls = sizes
    on_gpus = devices["device"] == "cuda"
    left, middle, right = st.columns(3)
    modes = ["eager"]
    if on_gpus:
        modes = left.multiselect(
            "Modes", list(MODES), default=list(MODES), format_func=MODES.get, key="modes"
        )
    else:
        left.caption("CUDA graphs need GPUs: CPU ranks run the eager mode only.")
    dtype = middle.selectbox("Data type", ["bfloat16", "float16", "float32"], key="dtype")
    rounds = right.number_input(
        "Rounds",
        1,
        20,
        3,
        key="rounds",
        help="The round is the unit of statistics: below three there is no interval.",
    )
    minutes = right.number_input("Time limit (min)", 1, 600, 20, key="limit")
    if not modes:
        st.info("Choose at least one mode.")
        return None
    try:
        return allreduce_jobs(
            **devices,
            sizes_bytes=sizes_bytes,
            modes=modes,
            dtype=dtype,
            rounds=int(rounds),
            calls_per_graph=calls,
            time_limit_s=float(minutes) * 60,
            title=f"AllReduce, {_device_words(devices)}",
        )
    except InvalidSpec as error:
        store.show_error(error)
        return None


def _device_words(devices: dict[str, Any]) -> str:
    if devices["device"] == "cpu":
        return f"{devices['ranks']} CPU ranks"
    return f"{len(devices['gpus'])} GPUs"


def _devices() -> dict[str, Any] | None:
    gpus = host_gpus()
    choice = CPU
    if gpus:
        choice = st.segmented_control(
            "Devices", [GPUS, CPU], default=GPUS, required=True, key="devices"
        )
    else:
        st.caption(
            "No GPU was found on this machine. CPU ranks run the same program over gloo: they show "
            "how a measurement works and say nothing of a GPU link."
        )
    if choice == CPU:
        ranks = st.number_input("CPU ranks", 2, 16, 2, key="ranks")
        return {"device": "cpu", "ranks": int(ranks)}
    by_uuid = {gpu["uuid"]: gpu for gpu in gpus}
    asked = {part for part in st.query_params.get("gpus", "").split(",") if part}
    preset = [
        uuid for uuid, gpu in by_uuid.items() if uuid in asked or str(gpu["index"]) in asked
    ] or list(by_uuid)
    labels = {uuid: gpu_label(gpu) for uuid, gpu in by_uuid.items()}
    chosen = st.multiselect(
        "GPUs",
        list(by_uuid),
        default=preset,
        format_func=labels.get,
        key="gpu-choice",
    )
    if not chosen:
        st.info("Choose the GPUs that take part.")
        return None
    links: list[str] = []
    if len(chosen) > 1:
        links = st.pills(
            "Link",
            list(LINKS),
            selection_mode="multi",
            default=list(LINKS),
            format_func=LINKS.get,
            key="links",
            help="Off: NCCL_P2P_DISABLE=1, the data goes through the host's memory. Both: the arms "
            "take turns, so that drift does not pose as a difference.",
        )
    else:
        st.caption("One GPU has no link: the sweep then checks graphs, clocks and telemetry.")
    return {"device": "cuda", "gpus": chosen, "links": links}


def _sizes() -> tuple[list[int], int] | None:
    choice = st.segmented_control(
        "Message sizes",
        list(SIZE_SETS),
        default="quick",
        format_func=SIZE_SETS.get,
        required=True,
        key="sizes",
    )
    if choice == "quick":
        return list(QUICK_SIZES), DEFAULT_CALLS_PER_STEP
    if choice == "full":
        return list(DEFAULT_SIZES), DEFAULT_CALLS_PER_STEP
    chosen = model_picker.pick("model")
    if chosen is None:
        return None
    sizes, calls = model_picker.messages(chosen[1], BATCHES)
    st.caption(
        f"{chosen[0]} sends {calls} all-reduces a decode step, of {sizes[0]:,} B at batch 1 to "
        f"{sizes[-1]:,} B at batch {BATCHES[-1]} (bf16)."
    )
    return sizes, calls
