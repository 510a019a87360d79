"""The form of a decode-step test: model, devices, TP sizes, loads, clocks, arms -> jobs."""

from typing import Any

import streamlit as st

from importers.model_configs import read_upload
from models import cpu_lists, step_clocks
from models.architecture import divisible_tps, read_config
from models.decode import memory_words
from models.errors import InvalidSpec, LinkworthError
from pages.widgets import model_picker, store, url_state
from pages.widgets.allreduce_form import (
    CPU,
    DEVICES,
    LINKS,
    choose_gpus,
    device_code,
    host_gpus,
)
from runners.decode_plan import largest_need
from runners.evaluation import decode_jobs

CPU_MODEL = "tiny-test-shape"  # random weights of this size need no patience
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
KV_LENS = [128, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072]
THREADS = [1, 2, 4, 8, 16, 32, 50, 64]
CLOCKS = {code: step_clocks.CLOCKS[code].explained for code in step_clocks.MEASURED}
FUSIONS = {
    "default": "library products, the rest fused",
    "combo": "small kernels launched together as well",
    "matvec": "generated kernels for batch 1",
    "max-autotune": "kernels chosen by trial (slow start)",
}


def render() -> list[dict[str, Any]] | None:
    """Draw the form; returns the planned jobs, or None while something is missing."""
    devices = _devices()
    if devices is None:
        return None
    on_gpus = devices["device"] == "cuda"
    model = _model(on_gpus)
    if model is None:
        return None
    name, config = model
    loads = _loads(on_gpus)
    try:
        arms = _arms(on_gpus, len(devices["gpus"]), config)
        if loads is None or arms is None:
            return None
        _memory(config, arms["tps"], loads, devices)
        planned = decode_jobs(model=config, model_name=name, **devices, **loads, **arms)
    except LinkworthError as error:
        store.show_error(error)
        return None
    return planned


def _devices() -> dict[str, Any] | None:
    gpus = host_gpus()
    choice = CPU
    if gpus:
        choice = DEVICES[device_code("decode-devices")]
    else:
        st.caption(
            "No GPU was found on this machine. Processes on the CPU (ranks) run the same decoder "
            "instead, by the wall clock only: there is no graph to replay."
        )
    if choice == CPU:
        return {"device": "cpu", "gpus": [], "memory_bytes": None}
    by_uuid = {gpu["uuid"]: gpu for gpu in gpus}
    chosen = choose_gpus(gpus, "decode-gpus", one_group=True)
    if not chosen:
        st.info("Choose the GPUs that take part.")
        return None
    st.caption("A TP size takes the first so many of them.")
    sizes = [by_uuid[uuid].get("memory_bytes") for uuid in chosen]
    smallest = min((size for size in sizes if size), default=None)
    return {"device": "cuda", "gpus": chosen, "memory_bytes": smallest}


def _model(on_gpus: bool) -> tuple[str, dict[str, Any]] | None:
    shapes = model_picker.shapes()
    names = [*shapes, model_picker.UPLOAD]
    start = model_picker.DEFAULT if on_gpus else CPU_MODEL
    name = st.selectbox(
        "Model",
        names,
        index=names.index(url_state.asked_one("model", names, start)),
        key="decode-model",
        help="Weights are random: the shape alone decides the speed.",
    )
    url_state.keep("model", name, start)
    if name != model_picker.UPLOAD:
        return name, shapes[name]
    file = st.file_uploader("config.json", type=["json"], key="decode-model-file")
    if file is None:
        st.caption("Upload the config.json that lies beside the model's weights.")
        return None
    try:
        return file.name.removesuffix(".json"), read_upload(file.getvalue())
    except LinkworthError as error:
        store.show_error(error)
        return None


def _loads(on_gpus: bool) -> dict[str, Any] | None:
    left, middle, right, last = st.columns(4)
    batches = left.multiselect(
        "Batch (sequences)",
        BATCHES,
        default=url_state.asked_some("batch", BATCHES, [1]),
        key="decode-batches",
    )
    usual_kv = [1024] if on_gpus else [128]
    kv_lens = middle.multiselect(
        "KV length (tokens)",
        KV_LENS,
        default=url_state.asked_some("kv", KV_LENS, usual_kv),
        key="decode-kv",
        help="Positions that the new token attends to.",
    )
    rounds = right.number_input(
        "Rounds",
        1,
        20,
        url_state.asked_number("rounds", 1, 20, 3),
        key="decode-rounds",
        help="The round is the unit of statistics: below three there is no interval.",
    )
    usual_steps = 100 if on_gpus else 20
    steps = last.number_input(
        "Steps a round",
        5,
        10_000,
        url_state.asked_number("steps", 5, 10_000, usual_steps),
        key="decode-steps",
    )
    url_state.keep("batch", batches, [1])
    url_state.keep("kv", kv_lens, usual_kv)
    url_state.keep("rounds", rounds, 3)
    url_state.keep("steps", steps, usual_steps)
    clocks = ["wall_eager"]
    if on_gpus:
        clocks = st.multiselect(
            "Clocks",
            list(CLOCKS),
            default=url_state.asked_some("clocks", list(CLOCKS), list(CLOCKS)),
            format_func=CLOCKS.__getitem__,
            key="decode-clocks",
            help="Wall minus replay is the CPU's share; replay minus replay without all-reduces "
            "is the exposed communication.",
        )
        url_state.keep("clocks", clocks, list(CLOCKS))
    if not (batches and kv_lens and clocks):
        st.info("Choose at least one batch, one KV length and one clock.")
        return None
    return {
        "batches": sorted(batches),
        "kv_lens": sorted(kv_lens),
        "clocks": clocks,
        "rounds": int(rounds),
        "steps_per_round": int(steps),
        "dtype": "bfloat16" if on_gpus else "float32",
    }


def _arms(on_gpus: bool, n_gpus: int, config: dict[str, Any]) -> dict[str, Any] | None:
    sizes = list(range(1, n_gpus + 1)) if on_gpus else [1, 2, 4, 8]
    powers = [size for size in sizes if size & (size - 1) == 0]
    usual = _divided(config, powers if on_gpus else [1, 2])
    asked = url_state.asked_some("tp", sizes, [])
    # a link names the group that it is about: one GPU is what it is compared with
    wanted = sorted({1, *asked}) if len(asked) == 1 else asked or usual
    left, right = st.columns(2)
    tps = left.multiselect(
        "TP sizes" if on_gpus else "Ranks",
        sizes,
        default=wanted,
        key="decode-tp",
        help="The model's heads must divide by it; the form says so where they do not.",
    )
    if tps != wanted:
        url_state.keep("tp", tps, usual)
    links: list[str] = []
    if on_gpus and any(tp > 1 for tp in tps):
        links = right.pills(
            "Link",
            list(LINKS),
            selection_mode="multi",
            default=url_state.asked_some("link", list(LINKS), list(LINKS)),
            format_func=LINKS.__getitem__,
            key="decode-links",
            help="Off: NCCL_P2P_DISABLE=1, the data goes through the host's memory.",
        )
        url_state.keep("link", links, list(LINKS))
    if not tps:
        st.info("Choose at least one TP size.")
        return None
    found: dict[str, Any] = {"tps": sorted(tps), "links": links}
    with st.expander("CPU settings, repeats, fusion, time limit"):
        found |= _details(on_gpus)
    return found


def _divided(config: dict[str, Any], sizes: list[int]) -> list[int]:
    """Of some TP sizes those that the model divides by; all of them where it cannot be read."""
    try:
        found = divisible_tps(read_config(config), max(sizes))
    except InvalidSpec:
        return sizes  # refused with its reason once the memory is worked out
    return [size for size in sizes if size in found]


def _details(on_gpus: bool) -> dict[str, Any]:
    threads = st.multiselect(
        "OMP_NUM_THREADS (sweep; none: as it is)",
        THREADS,
        default=url_state.asked_some("omp", THREADS, []),
        key="decode-omp",
        help="A value that nobody had set once turned a published result round.",
    )
    url_state.keep("omp", threads, [])
    pinned = _pinning()
    middle, right = st.columns(2)
    starts = middle.number_input(
        "Starts of each arm",
        1,
        5,
        url_state.asked_number("starts", 1, 5, 1),
        key="decode-starts",
        help="Each start builds everything anew; arms take turns, so that drift of the machine "
        "does not pose as a difference.",
    )
    minutes = right.number_input(
        "Time limit a job (min)",
        1,
        600,
        url_state.asked_number("limit", 1, 600, 20),
        key="decode-limit",
    )
    url_state.keep("starts", starts, 1)
    url_state.keep("limit", minutes, 20)
    found: dict[str, Any] = {
        "omp_num_threads": threads or [None],
        "cpu_affinities": pinned,
        "starts": int(starts),
        "time_limit_s": float(minutes) * 60,
    }
    if on_gpus:
        connections = middle.number_input(
            "CUDA_DEVICE_MAX_CONNECTIONS (0: as it is)",
            0,
            32,
            url_state.asked_number("connections", 0, 32, 0),
            key="decode-connections",
        )
        found["cuda_device_max_connections"] = int(connections) or None
        codes = list(FUSIONS)
        found["fusion"] = right.selectbox(
            "Fusion",
            codes,
            index=codes.index(url_state.asked_one("fusion", codes, codes[0])),
            format_func=FUSIONS.__getitem__,
            key="decode-fusion",
        )
        url_state.keep("connections", connections, 0)
        url_state.keep("fusion", found["fusion"], codes[0])
    return found


def _pinning() -> list[list[int] | None]:
    """Sets of CPUs to sweep.

    Raises:
        InvalidSpec: A list cannot be read.
    """
    text = st.text_input(
        "CPU pinning (sweep; empty: as it is)",
        st.query_params.get("cpus", "")[:500],
        max_chars=500,
        placeholder="all; 0-7; 8-15",
        key="decode-cpus",
        help="Sets of CPUs parted by semicolons, each an arm that all ranks share (all: not "
        "pinned). CPUs near the GPU, or fewer of them, change the host's part of a step.",
    )
    url_state.keep("cpus", text, "")
    found: list[list[int] | None] = []
    for part in text.split(";"):
        word = part.strip().lower()
        if not word:
            continue
        found.append(None if word == "all" else cpu_lists.parse(word))
    return [cpus for at, cpus in enumerate(found) if cpus not in found[:at]] or [None]


def _memory(
    config: dict[str, Any], tps: list[int], loads: dict[str, Any], devices: dict[str, Any]
) -> None:
    """The sum for each TP size, before anything starts."""
    lines = []
    for tp in tps:
        need = largest_need(
            config,
            tp,
            loads["batches"],
            loads["kv_lens"],
            loads["dtype"],
            devices["device"],
            loads["clocks"],
        )
        lines.append(f"- TP={tp}: {need.words}")
    unit = "GPU" if devices["device"] == "cuda" else "rank"
    limit = devices["memory_bytes"]
    there = f" The smallest GPU has {memory_words(limit)}." if limit else ""
    st.caption("\n".join([f"Memory each {unit} needs.{there}", "", *lines]))
