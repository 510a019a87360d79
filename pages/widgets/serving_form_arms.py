"""Arms of the serving forms: GPUs, TP size, replicas, link, engine flags."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import streamlit as st

from models.errors import InvalidSpec
from pages.widgets import serving_form_parts, store, url_state
from runners.evaluation_serving import ArmPlan
from runners.serving_paste import Pasted
from runners.serving_presets import CPU_ARMS, Preset, arms_for

ARM_WORDS = {
    "link-off": "TP=2, link off",
    "link-on": "TP=2, link on",
    "no-custom-all-reduce": "TP=2, link on, custom all-reduce off",
    "tp1": "TP=1 on one GPU",
    "replicas": "one TP=1 server a GPU",
    "two-pairs": "two TP=2 servers on separate pairs",
    "all-four": "TP=4 on four GPUs",
    "pair-0-2": "TP=2 on the 1st and 3rd GPU",
    "pair-0-1": "TP=2 on the 1st and 2nd GPU",
    "A": "the arm",
    "A again": "the same arm again",
}
CPU_WORDS = {
    "tp1": "TP=1 on one core",
    "tp2": "TP=2 on two cores",
    "A": "the arm, TP=1 on one core",
    "A again": "the same arm again",
}
MOST_OWN = 6
_NEEDS = {"tp1": 1, "A": 1, "A again": 1, "pair-0-2": 4, "pair-0-1": 4, "all-four": 4}
_NEEDS |= {"two-pairs": 4}


@dataclass
class Engine:
    """Where requests go: vLLM started here, or a server that runs.

    Attributes:
        common: Fields that all specs share.
        on_cpu: Whether vLLM's CPU build is used.
        gpus: Chosen GPUs, in rank order.
        pasted: What a pasted line brought.
        key: Stem of the widget keys.
        labels: Words for each GPU.
    """

    common: dict[str, Any]
    on_cpu: bool = False
    gpus: list[str] = field(default_factory=list)
    pasted: Pasted = field(default_factory=Pasted)
    key: str = "serving"
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def is_url(self) -> bool:
        """Whether a server that runs is benchmarked."""
        return "base_url" in self.common


def _flags(target: Engine, preset: Preset | None, key: str) -> dict[str, Any]:
    """Engine flags: the preset's, then the pasted ones, then those of the form."""
    given = {} if target.on_cpu or preset is None else dict(preset.engine_args)
    given |= target.pasted.engine_args
    return _chosen(target, given, key)


def _chosen(target: Engine, given: dict[str, Any], key: str) -> dict[str, Any]:
    python = target.common.get("vllm_python", "")
    return serving_form_parts.engine_flags(key, python, given)


def one_arm(target: Engine, given: dict[str, Any] | None = None) -> ArmPlan | None:
    """One arm: TP size, servers side by side, link, flags.

    Args:
        target: Where it runs.
        given: Flags to start from; by default the pasted ones.
    """
    key = target.key
    if target.is_url:
        return ArmPlan("server", {})
    flags = _flags(target, None, key) if given is None else _chosen(target, given, key)
    if target.on_cpu:
        tp = st.segmented_control("TP size", [1, 2], default=1, required=True, key=f"{key}-tp")
        return ArmPlan(f"tp{tp}", {**CPU_ARMS[f"tp{tp}"], "engine_args": flags})
    count = len(target.gpus)
    left, middle, right = st.columns(3)
    sizes = [size for size in (1, 2, 4, 8, 16) if size <= count]
    is_pasted = target.pasted.model is not None and target.pasted.tp in sizes
    wanted = target.pasted.tp if is_pasted else url_state.asked_one("tp", sizes, sizes[-1])
    tp = left.selectbox("TP size", sizes, index=sizes.index(wanted), key=f"{key}-tp")
    most = count // tp
    replicas = middle.number_input(
        "Servers side by side",
        1,
        most,
        url_state.asked_number("replicas", 1, most, 1),
        key=f"{key}-replicas",
    )
    arm: dict[str, Any] = {
        "gpus": target.gpus[: tp * int(replicas)],
        "tp": tp,
        "replicas": int(replicas),
        "engine_args": flags,
    }
    name = f"tp{tp}" if replicas == 1 else f"{replicas}x-tp{tp}"
    if tp > 1:
        link = right.segmented_control(
            "Link",
            ["on", "off"],
            default=target.pasted.link or url_state.asked_one("link", ["on", "off"], "on"),
            required=True,
            key=f"{key}-link",
        )
        kernel = right.toggle(
            "Custom all-reduce",
            value=target.pasted.custom_all_reduce,
            disabled=link == "off",
            key=f"{key}-kernel",
            help="vLLM's own all-reduce needs the link: off with it.",
        )
        arm |= {"link": link, "custom_all_reduce": bool(kernel)}
        name = f"link-{link}" if kernel or link == "off" else "no-custom-all-reduce"
    return ArmPlan(name, arm)


def several(target: Engine, preset: Preset) -> list[ArmPlan] | None:
    """The arms of an evaluation: those of the preset chosen at first, and a person's own."""
    flags = _flags(target, preset, target.key)
    if target.on_cpu:
        st.caption(
            "On the CPU the arms are TP=1 on one core and TP=2 on two: a real comparison of two "
            "ways to serve, which says nothing of a GPU link."
        )
    names = _cpu_names(preset) if target.on_cpu else _arm_names(target, preset)
    own = _own(target, flags)
    if not names and not own:
        st.info("Choose at least one arm.")
        return None
    try:
        plans = arms_for(names, target.gpus, "cpu" if target.on_cpu else "cuda")
    except InvalidSpec as error:
        store.show_error(error)
        return None
    plans = [ArmPlan(p.name, {**p.arm, "engine_args": flags}, p.fields) for p in plans]
    return plans + own


def _own(target: Engine, flags: dict[str, Any]) -> list[ArmPlan]:
    """Arms that a person puts together: GPUs, TP size, servers, link and flags of each."""
    key = f"{target.key}-own"
    count = st.number_input(
        "Arms of your own",
        0,
        MOST_OWN,
        0,
        key=f"{key}-count",
        help="Any GPUs, TP size, number of servers, link and engine flags, beside the arms above.",
    )
    found = []
    for number in range(1, int(count) + 1):
        with st.container(border=True):
            name = st.text_input("Name of the arm", f"own-{number}", key=f"{key}-name-{number}")
            gpus = target.gpus
            if not target.on_cpu:
                gpus = st.multiselect(
                    "GPUs of this arm, in rank order",
                    target.gpus,
                    default=target.gpus,
                    format_func={u: target.labels.get(u, u) for u in gpus}.__getitem__,
                    key=f"{key}-gpus-{number}",
                )
                if not gpus:
                    st.info("Choose the GPUs of this arm.")
                    continue
            plan = one_arm(replace(target, gpus=list(gpus), key=f"{key}{number}"), dict(flags))
        if plan is not None:
            found.append(ArmPlan(name.strip()[:60] or f"own-{number}", plan.arm, plan.fields))
    return found


def _cpu_names(preset: Preset) -> Sequence[str]:
    usual = [name for name in preset.arms if name in ("A", "A again")] or ["tp1", "tp2"]
    return st.multiselect(
        "Arms", list(CPU_WORDS), default=usual, format_func=CPU_WORDS.__getitem__,
        key=f"arms-cpu-{preset.name}",
    )  # fmt: skip


def _arm_names(target: Engine, preset: Preset) -> Sequence[str]:
    count = len(target.gpus)
    possible = [name for name in ARM_WORDS if _NEEDS.get(name, 2) <= count]
    usual = [name for name in preset.arms if name in possible]
    if len(usual) < len(preset.arms):
        missing = ", ".join(ARM_WORDS[name] for name in preset.arms if name not in possible)
        st.warning(f"With {count} GPU(s) these arms of the preset cannot run: {missing}.")
    return st.multiselect(
        "Arms",
        possible,
        default=usual or [name for name in ("A", "A again") if name in possible],
        format_func=ARM_WORDS.__getitem__,
        key=f"arms-{preset.name}",
    )
