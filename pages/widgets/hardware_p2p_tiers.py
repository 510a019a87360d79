"""What the later tiers of a peer-to-peer check saw: the collective's times, the load's values."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from models.curve import size_words
from pages.widgets.downloads import table
from pages.widgets.plain import plain


def collective_frame(told: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """An all-reduce over each pair: over the link, through the host, and the ratio of the two.

    Args:
        told: The pairs of a check, as its environment keeps them.
    """
    rows = []
    for pair in told:
        times = pair.get("collective_us") or {}
        direct = times.get("on") or times.get("cpu") or {}
        host = times.get("off") or {}
        for size, us in sorted(direct.items(), key=lambda item: int(item[0])):
            around = host.get(size)
            rows.append(
                {
                    "pair": f"{pair['src']} and {pair['dst']}",
                    "message": size_words(int(size)),
                    "all-reduce (us)": us,
                    "through the host (us)": around,
                    "times as fast": around / us if around and us else None,
                }
            )
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def render(told: Sequence[Mapping[str, Any]], kind: str) -> None:
    """Draw both.

    Args:
        told: The pairs of a check.
        kind: ``GPUs`` or ``CPU ranks``.
    """
    for pair in told:
        load = pair.get("load")
        if load:
            note = load.get("note")
            kernel = "vLLM's own" if load.get("kernel") == "vLLM" else "NCCL's"
            st.caption(
                f"{kind} {pair['src']} and {pair['dst']} under load: {kernel} all-reduce, "
                f"{load['checked']:,} times in {load['seconds']:.0f} s, {load['wrong']:,} wrong "
                f"values.{f' {plain(note, 500)}' if note else ''}"
            )
    frame = collective_frame(told)
    if frame.empty:
        return
    said = f"All-reduces over {len(told)} {'pair' if len(told) == 1 else 'pairs'}"
    if "times as fast" in frame:
        low, high = frame["times as fast"].min(), frame["times as fast"].max()
        said += f": {low:.2g} to {high:.2g} times as fast as through the host"
    st.caption(f"{said}.")
    table(
        frame,
        "peer-collectives",
        said,
        column_config={
            name: st.column_config.NumberColumn(format="%.4g")
            for name in ("all-reduce (us)", "through the host (us)", "times as fast")
        },
    )
