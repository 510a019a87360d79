"""The form of an AllReduce sweep: devices, link arms, sizes, modes, rounds -> jobs."""

from typing import Any

import streamlit as st

from models.errors import InvalidSpec
from pages.widgets import model_picker, store, this_machine, url_state
from runners.evaluation import allreduce_jobs
from runners.spec import DEFAULT_CALLS_PER_STEP, DEFAULT_SIZES

CPU = "CPU processes (a rehearsal)"
GPUS = "GPUs"
DEVICES = {"gpu": GPUS, "cpu": CPU}
QUICK_SIZES = (512, 1024, 3072, 4096, 16_384, 65_536, 262_144, 1_048_576)
SIZE_SETS = {
    "quick": "Quick look: 8 sizes, 512 B to 1 MB",
    "full": "Full: powers of two, 512 B to 64 MB",
    "model": "The messages of a model",
}
BATCHES = [1, 2, 4, 8, 16, 32]
DTYPES = ["bfloat16", "float16", "float32"]
LINKS = {"on": "link on", "off": "link off"}
MODES = {
    "graph": "graph (what an engine pays)",
    "eager": "eager (launched one by one)",
    "exposed": "exposed (with work between)",
}


def host_gpus() -> list[dict[str, Any]]:
    """GPUs of this machine as its worker last read them."""
    return this_machine.gpus()


def gpu_label(gpu: dict[str, Any]) -> str:
    """A GPU in words: index, name, memory."""
    memory = gpu.get("memory_bytes")
    size = f" · {memory / 2**30:.0f} GiB" if memory else ""
    return f"GPU {gpu.get('index')} · {gpu.get('name')}{size}"


def device_code(key: str) -> str:
    """``gpu`` or ``cpu``, by the URL's ``devices``."""
    codes = list(DEVICES)
    code = st.segmented_control(
        "Devices",
        codes,
        default=url_state.asked_one("devices", codes, codes[0]),
        format_func=DEVICES.__getitem__,
        required=True,
        key=key,
    )
    url_state.keep("devices", code, codes[0])
    return str(code)


def choose_gpus(gpus: list[dict[str, Any]], key: str, *, one_group: bool) -> list[str]:
    """UUIDs of the chosen GPUs in rank order, by the URL's ``gpus`` (indices or UUIDs).

    Args:
        gpus: GPUs of this machine.
        key: Of the widget.
        one_group: Whether a link that names several TP groups (``tp``, ``replicas``) means the
            first of them.
    """
    by_uuid = {str(gpu["uuid"]): gpu for gpu in gpus}
    by_index = {str(gpu["index"]): uuid for uuid, gpu in by_uuid.items()}
    asked = url_state.asked_some("gpus", [*by_uuid, *by_index], [])
    preset = list(dict.fromkeys(by_index.get(name, name) for name in asked)) or list(by_uuid)
    if one_group and asked and url_state.asked_number("replicas", 1, 64, 1) > 1:
        preset = preset[: url_state.asked_number("tp", 1, len(preset), len(preset))]
    chosen = st.multiselect(
        "GPUs, in rank order",
        list(by_uuid),
        default=preset,
        format_func={uuid: gpu_label(gpu) for uuid, gpu in by_uuid.items()}.__getitem__,
        key=key,
    )
    if chosen != preset:
        indices = [str(by_uuid[uuid]["index"]) for uuid in chosen]
        url_state.keep("gpus", indices, list(by_index))
        st.query_params.pop("replicas", None)
    return list(chosen)


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
    modes = ["eager"]
    if on_gpus:
        modes = st.multiselect(
            "Modes",
            list(MODES),
            default=url_state.asked_some("modes", list(MODES), list(MODES)),
            format_func=MODES.get,
            key="modes",
        )
        url_state.keep("modes", modes, list(MODES))
    else:
        st.caption(
            "Only the eager mode, in which each call is launched on its own: CUDA graphs need GPUs."
        )
    left, middle, right = st.columns(3)
    dtype = left.selectbox(
        "Data type",
        DTYPES,
        index=DTYPES.index(url_state.asked_one("dtype", DTYPES, DTYPES[0])),
        key="dtype",
    )
    rounds = middle.number_input(
        "Rounds",
        1,
        20,
        url_state.asked_number("rounds", 1, 20, 3),
        key="rounds",
        help="The round is the unit of statistics: below three there is no interval.",
    )
    minutes = right.number_input(
        "Time limit (min)", 1, 600, url_state.asked_number("limit", 1, 600, 20), key="limit"
    )
    for name, value, usual in (
        ("dtype", dtype, DTYPES[0]),
        ("rounds", rounds, 3),
        ("limit", minutes, 20),
    ):
        url_state.keep(name, value, usual)
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
        choice = DEVICES[device_code("devices")]
    else:
        st.caption(
            "No GPU was found on this machine. Processes on the CPU (ranks) run the same program "
            "instead: they show how a measurement works and say nothing of a GPU link."
        )
    if choice == CPU:
        ranks = st.number_input(
            "CPU ranks", 2, 16, url_state.asked_number("ranks", 2, 16, 2), key="ranks"
        )
        url_state.keep("ranks", ranks, 2)
        return {"device": "cpu", "ranks": int(ranks)}
    chosen = choose_gpus(gpus, "gpu-choice", one_group=True)
    if not chosen:
        st.info("Choose the GPUs that take part.")
        return None
    links: list[str] = []
    if len(chosen) > 1:
        links = st.pills(
            "Link",
            list(LINKS),
            selection_mode="multi",
            default=url_state.asked_some("link", list(LINKS), list(LINKS)),
            format_func=LINKS.get,
            key="links",
            help="Off: NCCL_P2P_DISABLE=1, the data goes through the host's memory. Both: the arms "
            "take turns, so that drift does not pose as a difference.",
        )
        url_state.keep("link", links, list(LINKS))
    else:
        st.caption("One GPU has no link: the sweep then checks graphs, clocks and telemetry.")
    return {"device": "cuda", "gpus": chosen, "links": links}


def _sizes() -> tuple[list[int], int] | None:
    choice = st.segmented_control(
        "Message sizes",
        list(SIZE_SETS),
        default=url_state.asked_one("sizes", list(SIZE_SETS), "quick"),
        format_func=SIZE_SETS.get,
        required=True,
        key="sizes",
    )
    url_state.keep("sizes", choice, "quick")
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
