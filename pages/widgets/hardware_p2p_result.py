"""One peer-to-peer result on the Hardware page: verdicts, verified copies, bandwidth matrices."""

from typing import Any

import pandas as pd
import streamlit as st

from models.curve import size_words
from models.metrics import METRICS
from models.peer_check import TIER_WORDS, VERDICT_WORDS
from models.result import Result
from pages.charts.topology import pair_heat
from pages.widgets import hardware_p2p_tiers
from pages.widgets.badges import badge
from pages.widgets.downloads import chart, table
from pages.widgets.links import page_link
from pages.widgets.plain import plain

_MATRIX_METRICS = ("p2p_bandwidth", "p2p_latency")
BROKEN = ("wrong", "hangs", "fails")
_METHODS = {"CE": "by copy engines", "SM": "by GPU kernels"}
_SERIES = ("direction", "link", "test", "method", "bytes")


def draw(run: Result, run_id: str) -> None:
    """Draw one result of a check, ours or another tool's."""
    when = f" {run.started_at:%Y-%m-%d %H:%M} UTC" if run.started_at else ""
    st.markdown(f"{badge(run.origin, run.validity)}{when}")
    told = run.environment.get("pairs") or []
    if told:
        _verdicts(run, told)
        kind = "CPU ranks" if run.spec.get("device") == "cpu" else "GPUs"
        hardware_p2p_tiers.render(told, kind)
    for reason in run.reasons:
        if not any(pair["sentence"] in reason for pair in told):
            st.error(plain(reason, 1000))
    for notice in run.warnings:
        if notice.text not in run.reasons and not (told and _is_told(notice.code)):
            st.warning(plain(notice.text, 1000))
    _values(run)
    frame = pair_frame(run)
    if not frame.empty:
        _matrices(frame, "CPU rank" if run.spec.get("device") == "cpu" else "GPU")
        shown = frame.drop(columns="metric")
        if "bytes" in shown:
            known = shown["bytes"].notna()
            shown.loc[known, "size"] = [size_words(size) for size in shown.loc[known, "bytes"]]
            shown = shown.drop(columns="bytes")
        table(
            shown,
            "peer-to-peer",
            f"{len(frame)} copy measurements of {run.tool.name}",
            column_config={"value": st.column_config.NumberColumn(format="%.4g")},
            file=frame,
        )
    elif run.validity == "valid":
        st.caption("This result holds no copy bandwidth or latency.")
    page_link("runs", "Conditions and raw data", run=run_id)


def _is_told(code: str) -> bool:
    """Whether a warning says what the verdict of a pair says."""
    return code.startswith("peer_") or code == "slower_than_host"


def _verdicts(run: Result, told: list[dict[str, Any]]) -> None:
    """The answer for each pair with its next step; what is broken stands out."""
    rehearsal = run.spec.get("device") == "cpu"
    rows = []
    for pair in told:
        kind = "CPU ranks" if rehearsal else "GPUs"
        who = f"{kind} {pair['src']} and {pair['dst']}"
        if pair["code"] in BROKEN:
            said, step = plain(f"{who}: {pair['sentence']}", 1000), plain(pair["next_step"], 1000)
            st.error(f"**{said}**  \n**Next:** {step}")
        tier: Any = pair.get("tier")
        rows.append(
            {
                "pair": who,
                "verdict": VERDICT_WORDS.get(pair["code"], pair["code"]),
                "tested up to": TIER_WORDS.get(tier) if tier else "no tier passed",
                "what was seen": pair["sentence"],
                "next step": pair["next_step"] or None,
            }
        )
    frame = pd.DataFrame(rows).dropna(axis="columns", how="all")
    counts = frame["verdict"].value_counts()
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    st.markdown(f"**{len(frame)} {'pair' if len(frame) == 1 else 'pairs'}: {plain(said)}.**")
    # what was seen says how far it was tested
    order = [name for name in frame if name != "tested up to"]
    table(frame, "peer-verdicts", said, column_order=order, is_wrapped=True, file=frame)


def _values(run: Result) -> None:
    """How many copies were verified at their destination, and what was wrong."""
    rows = run.find("wrong_values")
    if rows:
        wrong = sum(row.value or 0 for row in rows)
        sizes = len({row.dims.get("bytes") for row in rows})
        patterns = len({row.dims.get("test") for row in rows})
        st.caption(
            f"{len(rows)} copies verified at their destination ({sizes} sizes, {patterns} "
            f"patterns): {wrong:,.0f} wrong values."
        )


def pair_frame(run: Result) -> pd.DataFrame:
    """Copy bandwidths and latencies, one row a pair and way of measuring."""
    rows: list[dict[str, Any]] = [
        {
            "what": METRICS[row.metric].label,
            # texts: a column may hold GPU numbers beside "cpu"
            "from": str(row.dims.get("src", row.dims.get("device"))),
            "to": str(row.dims.get("dst", row.dims.get("device"))),
            "value": row.value,
            "unit": row.unit,
            "statistic": row.statistic,
            **{name: row.dims[name] for name in _SERIES if row.dims.get(name) is not None},
            "metric": row.metric,
        }
        for row in run.measurements
        if row.metric in (*_MATRIX_METRICS, "copy_bandwidth", "host_copy_bandwidth")
    ]
    return pd.DataFrame(rows)


def _series(row: pd.Series) -> str:
    """A measurement's kind in words: what tells two matrices apart."""
    words = [row["what"]]
    direction = {"both": "both ways together", "one": "one way"}.get(row.get("direction"))
    link = {"on": "link on", "off": "link off"}.get(row.get("link"))
    size = size_words(row["bytes"]) if pd.notna(row.get("bytes")) else None
    test = row.get("test") if pd.notna(row.get("test")) else None
    method = _METHODS.get(row.get("method"), row.get("method"))
    method = method if pd.notna(method) else None
    words += [str(part) for part in (direction, link, test, method, size) if part]
    return ", ".join(words)


def _matrices(frame: pd.DataFrame, kind: str) -> None:
    pairs = frame[frame["metric"].isin(_MATRIX_METRICS) & (frame["from"] != frame["to"])].copy()
    pairs = pairs.dropna(subset=["value"])
    if pairs.empty:
        return
    pairs["series"] = pairs.apply(_series, axis="columns")
    names = list(dict.fromkeys(pairs["series"]))
    chosen = names[0]
    if len(names) > 1:
        chosen = st.selectbox("Matrix", names, key="p2p-series")
    shown = pairs[pairs["series"] == chosen]
    unit = str(shown["unit"].iloc[0])
    low, high = float(shown["value"].min()), float(shown["value"].max())
    chart(
        pair_heat(shown[["from", "to", "value"]], unit, kind),
        "peer-to-peer matrix",
        f"{chosen}: {low:.4g} to {high:.4g} {unit} over {len(shown)} directions",
        shown[["from", "to", "value", "unit"]],
    )
