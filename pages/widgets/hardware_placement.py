"""Placement on the Hardware page: which GPUs should share a group, and a run to prove it."""

import shlex
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd
import streamlit as st

from models.errors import InvalidSpec
from models.links import link_kind
from models.placement import Placement, Ranking, proposals, rank_placements, two_pairs_or_four
from models.result import Result
from pages import PAGES, make_page
from pages.widgets import store
from pages.widgets.downloads import table
from pages.widgets.links import page_link
from pages.widgets.plain import plain

_KERNEL_WORDS = {
    "on": "on",
    "off": "off",
    "if_p2p": "on if peer-to-peer works",
    "unknown": "not known",
    "none": "not needed",
}
_FIRST_PORT = 8000


def render(
    result: Result,
    *,
    here: bool,
    busy: Collection[int],
    broken: Mapping[frozenset[int], str],
) -> None:
    """Draw the section.

    Args:
        result: A topology with links.
        here: Whether the machine is this one, so that a run can be opened.
        busy: Indices of GPUs in use or set aside.
        broken: Pairs that a check found broken, with what it saw.
    """
    gpus = result.gpus or []
    n = len(gpus)
    sizes = [size for size in (1, 2, 3, 4, 6, 8, 16, 32, 64) if size <= n]
    left, middle, right = st.columns([3, 2, 3], vertical_alignment="bottom")
    with left:
        tp = int(
            st.segmented_control(
                "GPUs a group (tensor parallelism)",
                sizes,
                default=2 if n > 1 else 1,
                required=True,
                key="groupsize",
                bind="query-params",
            )
            or 1
        )
    with middle:
        replicas = int(
            st.number_input("Replicas", 1, max(n, 1), 1, key="groups", bind="query-params")
        )
    aside: Collection[int] = ()
    if busy:
        words = ", ".join(str(index) for index in sorted(busy))
        with right:
            if st.checkbox(f"Leave out GPU {words} (in use or set aside)", True, key="leave-out"):
                aside = busy
    asked: dict[str, Any] = {
        "numa": [gpu.numa for gpu in gpus],
        "p2p": result.p2p,
        "indices": [gpu.index for gpu in gpus],
        "unavailable": aside,
        "broken": list(broken),
    }
    links = result.links or []
    try:
        ranking = rank_placements(links, tp, replicas, **asked)
    except InvalidSpec as error:
        store.show_error(error)
        return
    if not result.tool.name.startswith(("linkworth", "nvidia-smi", "rocm-smi", "published")):
        st.caption(
            f"This table is {plain(result.tool.name)}'s: the variables below are told for NVIDIA "
            "cards, and whether vLLM's own all-reduce runs is known for those only."
        )
    _warn_broken(ranking.best, broken)
    _best(ranking, broken, here=here)
    _others(ranking)
    offered = proposals(links, tp, replicas, **asked)
    pairs = next((one for one in offered if (one.tp, one.replicas) == (2, 2)), None)
    four = next((one for one in offered if (one.tp, one.replicas) == (4, 1)), None)
    if pairs is not None and four is not None:
        _pairs_or_four(pairs, four, broken, here=here)


def _warn_broken(best: Placement, broken: Mapping[frozenset[int], str]) -> None:
    """A good link that moves wrong data is no link: the check outweighs the table."""
    for group in best.gpus:
        for pair, seen in broken.items():
            if pair <= set(group):
                first, second = sorted(pair)
                st.error(
                    f"**GPUs {first} and {second} share a group here, and the peer-to-peer check "
                    f"says: {plain(seen, 1000)}** Keep the link off for them (NCCL_P2P_DISABLE=1 "
                    "and --disable-custom-all-reduce) until a check passes."
                )


def _best(ranking: Ranking, broken: Mapping[frozenset[int], str], *, here: bool) -> None:
    best = ranking.best
    with st.container(border=True):
        for replica, reason in enumerate(best.reasons):
            head = f"**Replica {replica + 1}.** " if best.replicas > 1 else ""
            kernel = best.kernels[replica]
            st.markdown(f"{head}{reason}")
            if kernel.state != "none":
                st.caption(f"vLLM's own all-reduce: {_KERNEL_WORDS[kernel.state]}. {kernel.reason}")
        for warning in best.warnings:
            st.warning(warning)
        if best.n_equal > 1:
            st.caption(f"{best.n_equal} placements are equally good by their links; this is one.")
        if not ranking.is_exact:
            st.caption(
                "Above 8 GPUs not every way is tried: pairs are matched exactly, larger groups "
                "grow over the best links and swap GPUs while that helps."
            )
        st.code("\n".join(commands(best)), language="shell", wrap_lines=True)
        _open_run(best, broken, here=here)


def commands(placement: Placement) -> list[str]:
    """A ready command line a replica; MODEL stands for the model."""
    lines = []
    for replica in range(placement.replicas):
        variables = [f"{k}={v}" for k, v in placement.environment(replica).items()]
        port = ["--port", str(_FIRST_PORT + replica)] if placement.replicas > 1 else []
        words = ["vllm", "serve", "MODEL", *placement.flags(replica), *port]
        lines.append(" ".join([*variables, shlex.join(words)]))
    return lines


def arm_query(
    placement: Placement, broken: Mapping[frozenset[int], str] = MappingProxyType({})
) -> dict[str, str]:
    """Query parameters of the page New run for this arm; the link is off where it is broken."""
    query = {
        "gpus": ",".join(str(gpu) for group in placement.gpus for gpu in group),
        "tp": str(placement.tp),
    }
    if placement.replicas > 1:
        query |= {"kind": "serving", "replicas": str(placement.replicas)}
    if any(pair <= set(group) for group in placement.gpus for pair in broken):
        query["link"] = "off"
    return query


def _open_run(best: Placement, broken: Mapping[frozenset[int], str], *, here: bool) -> None:
    if not here:
        st.caption("This machine is not the one that Linkworth runs on: nothing can be run on it.")
        page_link("what-if", "What would it bring? Ask What-if")
        return
    _button("New run with this arm", "open-arm", arm_query(best, broken))


def _button(words: str, key: str, query: dict[str, str]) -> None:
    """Opens New run with what a placement says."""
    if "new-run" in PAGES and st.button(words, key=key, icon=":material/play_arrow:"):
        st.switch_page(make_page("new-run"), query_params=query)


def _row(words: str, one: Placement) -> dict[str, Any]:
    slowest = f"{one.slowest} ({link_kind(one.slowest).label})" if one.slowest else "not known"
    return {
        "which": words,
        "groups": " | ".join(",".join(str(gpu) for gpu in group) for group in one.gpus),
        "slowest link": "none" if one.slowest == "X" else slowest,
        "vLLM's all-reduce": " | ".join(
            dict.fromkeys(_KERNEL_WORDS[kernel.state] for kernel in one.kernels)
        ),
        "equally good": one.n_equal,
        "notes": " ".join(one.warnings) or None,
    }


def _others(ranking: Ranking) -> None:
    """The next best and the worst, so that the choice has a contrast."""
    rows = [_row("best" if k == 0 else "next", one) for k, one in enumerate(ranking.placements)]
    if ranking.worst.score < ranking.placements[-1].score:
        rows.append(_row("worst", ranking.worst))
    elif len(rows) > 1:
        rows[-1]["which"] = "worst"
    if len(rows) == 1:
        st.caption("All ways to place these groups are equally good by their links.")
        return
    frame = pd.DataFrame(rows).dropna(axis="columns", how="all")
    table(
        frame,
        "placements",
        f"Best groups {rows[0]['groups']} over {rows[0]['slowest link']}; worst "
        f"{rows[-1]['groups']} over {rows[-1]['slowest link']}",
        is_wrapped=True,
    )


def both_query(pairs: Placement) -> dict[str, str]:
    """Query parameters of the page New run for the evaluation of both, on the pairs' GPUs.

    The preset takes the 1st and 3rd GPU as one pair, the 2nd and 4th as the other.
    """
    (a, c), (b, d) = pairs.gpus
    order = ",".join(str(gpu) for gpu in (a, b, c, d))
    return {"kind": "evaluation", "preset": "two-pairs-or-four", "gpus": order}


def _pairs_or_four(
    pairs: Placement,
    four: Placement,
    broken: Mapping[frozenset[int], str],
    *,
    here: bool,
) -> None:
    """Two TP=2 replicas beside one TP=4 group: links, kernel, commands, and runs that prove it."""
    st.markdown("**Two groups of two, or one of four?**")
    st.markdown(two_pairs_or_four(pairs, four))
    rows = [_row(f"{one.replicas} x TP={one.tp}", one) for one in (pairs, four)]
    frame = pd.DataFrame(rows).dropna(axis="columns", how="all")
    table(
        frame,
        "two-pairs-or-four",
        f"{rows[0]['which']} over {rows[0]['slowest link']}; "
        f"{rows[1]['which']} over {rows[1]['slowest link']}",
        is_wrapped=True,
    )
    columns = st.columns(2)
    for column, one, words in zip(
        columns, (pairs, four), ("two TP=2 servers", "one TP=4 server"), strict=True
    ):
        with column:
            st.code("\n".join(commands(one)), language="shell", wrap_lines=True)
            if here:
                query = arm_query(one, broken) | {"kind": "serving"}
                _button(f"New run with {words}", f"open-{one.replicas}x{one.tp}", query)
    if here:
        _button("Compare the two in an evaluation", "open-both", both_query(pairs))
