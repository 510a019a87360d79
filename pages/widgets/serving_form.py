"""Forms of served models: one arm, a whole evaluation, a sustained load -> jobs."""

import zlib
from collections.abc import Callable
from typing import Any

import streamlit as st

from models.comparison import MIN_UNITS, smallest_change_pct
from models.errors import InvalidSpec, LinkworthError
from pages.widgets import model_picker, serving_form_arms, serving_form_parts, store
from pages.widgets.allreduce_form import choose_gpus, gpu_label, host_gpus
from pages.widgets.live_job import duration_words
from pages.widgets.plain import plain
from pages.widgets.serving_form_arms import Engine
from runners.evaluation_serving import (
    PRESSURE_LOAD,
    serving_jobs,
    short_of_memory,
    soak_jobs,
    summary,
)
from runners.serving_paste import Pasted, allowed_model, commands
from runners.serving_presets import PRESETS, Preset
from settings import settings

CPU_MODEL = "tiny-test-shape"
START, URL = "start vLLM", "a server that runs"
SHAPE, NAMED = "built-in shape (speed only)", "folder or hub id"


def render(engine: object = None) -> list[dict[str, Any]] | None:
    """One arm: draw the form, return its job, or None while something is missing."""
    del engine  # the form asks the store itself; kept for callers that pass one
    target = _target("serving")
    if target is None:
        return None
    arm = serving_form_arms.one_arm(target)
    loads = serving_form_parts.workloads("serving", on_cpu=target.on_cpu)
    rounds, starts = serving_form_parts.repetitions("serving", 3, 1)
    if arm is None or not loads:
        return None
    return _planned(lambda: serving_jobs(
        [arm], loads, rounds=rounds, starts=starts, title=_title(target), **target.common
    ))  # fmt: skip


def render_evaluation(engine: object = None) -> list[dict[str, Any]] | None:
    """Two or more arms in turn: draw the form, return the jobs in their order."""
    del engine
    names = list(PRESETS)
    asked = st.query_params.get("preset")
    name = st.selectbox(
        "Preset",
        names,
        index=names.index(asked) if asked in names else 0,
        format_func={code: row.label for code, row in PRESETS.items()}.__getitem__,
        key="preset",
    )
    if name != names[0] or "preset" in st.query_params:
        st.query_params["preset"] = name
    preset = PRESETS[name]
    st.caption(preset.explained)
    target = _target(f"evaluation-{name}", preset, may_be_url=False)
    if target is None:
        return None
    arms = serving_form_arms.several(target, preset)
    loads = serving_form_parts.workloads(f"evaluation-{name}", on_cpu=target.on_cpu, preset=preset)
    rounds, starts = serving_form_parts.repetitions(
        f"evaluation-{name}", preset.rounds, preset.starts
    )
    st.caption(_shown_with(rounds))
    is_short = st.toggle(
        "Short memory: one more start an arm, with a cache that cannot hold all requests",
        value=name == "purchase",
        key=f"evaluation-{name}-pressure",
    )
    hours = serving_form_parts.soak_hours(f"evaluation-{name}", preset.soak_hours)
    if arms is None or not loads:
        return None
    title = f"{preset.label}, {_title(target)}"

    def plan() -> list[dict[str, Any]]:
        jobs = serving_jobs(
            arms, loads, rounds=rounds, starts=starts, title=title, seed=preset.seed,
            **target.common,
        )  # fmt: skip
        evaluation_id = jobs[0]["evaluation"]["id"]
        if is_short:
            more = serving_jobs(
                [short_of_memory(arm) for arm in arms],
                [PRESSURE_LOAD],
                rounds=1,
                evaluation_id=evaluation_id,
                title=f"Short memory, {_title(target)}",
                **target.common,
            )
            for job in more:
                job["order"] += len(jobs)
                job["evaluation"]["order"] = job["order"]
            jobs += more
        if hours:
            jobs += soak_jobs(
                arms,
                {**loads[-1], "concurrency": 4, "scenario": "soak"},
                hours=hours,
                evaluation_id=evaluation_id,
                title=f"Sustained load, {_title(target)}",
                first_order=len(jobs),
                **target.common,
            )
        return jobs

    return _planned(plan)


def render_soak(engine: object = None) -> list[dict[str, Any]] | None:
    """Sustained load on one arm: draw the form, return its job."""
    del engine
    target = _target("soak")
    if target is None:
        return None
    arm = serving_form_arms.one_arm(target)
    loads = serving_form_parts.workloads("soak", on_cpu=target.on_cpu, single=True)
    hours = serving_form_parts.soak_hours("soak", 0.1 if target.on_cpu else 2.0)
    if arm is None or not loads or not hours:
        return None
    return _planned(lambda: soak_jobs(
        [arm], loads[0], hours=hours, title=f"Sustained load, {_title(target)}", **target.common
    ))  # fmt: skip


def _target(key: str, preset: Preset | None = None, *, may_be_url: bool = True) -> Engine | None:
    """Where requests go and which model answers them."""
    if may_be_url:
        where = st.segmented_control(
            "Server", [START, URL], default=START, required=True, key=f"{key}-server"
        )
        if where == URL:
            return _running_server(key)
    python = settings().vllm_interpreter()
    if python is None:
        st.info(
            "vLLM is not installed. Type `make vllm` in Linkworth's folder (on a machine without a "
            "GPU it takes vLLM's CPU build), then open this page again."
            + (" Or benchmark a server that already runs, by its address." if may_be_url else "")
        )
        return None
    version = serving_form_parts.vllm_version(str(python))
    if version is None:
        return None
    on_cpu = version.endswith("+cpu") or not host_gpus()
    st.caption(f"vLLM {version}, {'on the CPU' if on_cpu else 'on GPUs'}.")
    pasted = serving_form_parts.paste(key, str(python))
    if pasted != Pasted():
        # a widget keeps what it shows: fields that a pasted line fills are new ones
        key = f"{key}-{zlib.crc32(repr(pasted).encode()):x}"
    gpus = [] if on_cpu else _gpus(key, pasted)
    if gpus is None:
        return None
    model = _model(key, on_cpu, preset, pasted)
    if model is None:
        return None
    common = {"device": "cpu" if on_cpu else "cuda", "vllm_python": str(python), **model}
    return Engine(common, on_cpu, gpus, pasted, key, _labels())


def _running_server(key: str) -> Engine | None:
    url = st.text_input(
        "Address",
        placeholder="http://127.0.0.1:8000",
        key=f"{key}-url",
        help="Any OpenAI-compatible server. A key is taken from OPENAI_API_KEY where Linkworth was "
        "started.",
    ).strip()
    name = st.text_input(
        "Tokenizer (folder or hub id), optional",
        key=f"{key}-tokenizer",
        help="With it, vLLM's own client makes the prompts; else Linkworth's client does.",
    ).strip()
    if not url:
        st.info("Type the server's address.")
        return None
    common: dict[str, Any] = {"base_url": url, "device": "cuda"}
    if name:
        try:
            common["model"] = allowed_model(name, settings().model_roots)
        except InvalidSpec as error:
            store.show_error(error)
            return None
    if python := settings().vllm_interpreter():
        common["vllm_python"] = str(python)
    return Engine(common, key=key)


def _gpus(key: str, pasted: Pasted) -> list[str] | None:
    if pasted.gpus:
        chosen = _pasted_gpus(key, pasted)
    else:
        chosen = choose_gpus(host_gpus(), f"{key}-gpus", one_group=False)
    if not chosen:
        st.info("Choose the GPUs that take part.")
        return None
    return chosen


def _labels() -> dict[str, str]:
    return {str(gpu["uuid"]): gpu_label(gpu) for gpu in host_gpus()}


def _pasted_gpus(key: str, pasted: Pasted) -> list[str]:
    """GPUs as the pasted line names them, by index or UUID."""
    labels = _labels()
    names = {str(gpu["index"]): str(gpu["uuid"]) for gpu in host_gpus()}
    names |= {uuid: uuid for uuid in labels}
    missing = [str(name) for name in pasted.gpus if str(name) not in names]
    if missing:
        st.warning(f"The pasted line names GPUs that are not here: {plain(', '.join(missing))}.")
    found = [names[str(name)] for name in pasted.gpus if str(name) in names]
    return st.multiselect(
        "GPUs, in rank order",
        list(labels),
        default=list(dict.fromkeys(found)),
        format_func=labels.__getitem__,
        key=f"{key}-gpus",
    )


def _shown_with(rounds: int) -> str:
    """What so many rounds can show, before they are measured."""
    if rounds < MIN_UNITS:
        return (
            f"Below {MIN_UNITS} rounds an arm there is a direction and no interval: no change is "
            "shown."
        )
    smallest = smallest_change_pct(0.01, rounds, is_paired=True)
    return (
        f"{rounds} rounds an arm show changes from about {smallest:.1f} % up, where the pairs of "
        "rounds scatter by 1 %."
    )


def _model(key: str, on_cpu: bool, preset: Preset | None, pasted: Pasted) -> dict[str, Any] | None:
    named = pasted.model or (preset.model if preset and not on_cpu else None)
    kind = st.segmented_control(
        "Model from",
        [SHAPE, NAMED],
        default=NAMED if named else SHAPE,
        required=True,
        key=f"{key}-model-kind",
    )
    if kind == SHAPE:
        shapes = model_picker.shapes()
        names = list(shapes)
        start = CPU_MODEL if on_cpu else model_picker.DEFAULT
        name = st.selectbox(
            "Shape",
            names,
            index=names.index(start) if start in names else 0,
            key=f"{key}-shape",
            help="Dummy weights: the speed is real, the texts are not.",
        )
        return {
            "model_config_json": shapes[name],
            "model_name": name,
            "load_format": "dummy",
        }
    name = st.text_input(
        "Model",
        value=named or "",
        key=f"{key}-model",
        placeholder="owner/name, or a folder below an allowed folder",
    )
    if not name.strip():
        st.info("Name a model.")
        return None
    try:
        model = allowed_model(name, settings().model_roots)
    except InvalidSpec as error:
        store.show_error(error)
        return None
    return {"model": model, "model_name": name.strip()[-120:], "load_format": pasted.load_format}


def _title(target: Engine) -> str:
    return str(target.common.get("model_name") or target.common.get("base_url") or "serving")


def _planned(plan: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]] | None:
    """The jobs, their summary and their commands; None where the form asks for what cannot be."""
    try:
        planned = plan()
        lines = [commands(job["spec"]) for job in planned]
    except LinkworthError as error:
        store.show_error(error)
        return None
    told = summary(planned)
    numbers = [str(seed) for seed in dict.fromkeys(told["seeds"])]
    shown = numbers[0] if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}" if numbers else ""
    seeds = f" Seeds of the requests: {shown}, the same in every arm." if shown else ""
    gpus = f" GPUs: {len(told['gpus'])}." if told["gpus"] else ""
    st.caption(
        f"Order of arms: {' → '.join(told['order'])}. Server starts: {told['starts']}.{seeds}{gpus}"
        f" About {duration_words(told['seconds'])}."
    )
    with st.expander("Exact commands"):
        st.caption("What will be started, without a shell; to read or to copy.")
        for job, text in zip(planned, lines, strict=True):
            if job["evaluation"]["start"] == 0:
                st.markdown(f"**{plain(job['evaluation']['arm'])}**")
                st.code("\n".join(text), language="bash", wrap_lines=True)
    return planned
