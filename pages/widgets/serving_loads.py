"""The parts of Link A/B that look at load: curves, service level, batching beside the link."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.metrics import metric
from models.serving_slo import Point, Slo, capacity, scaling
from pages.charts import serving as pictures
from pages.widgets import beside, finding
from pages.widgets.downloads import chart
from pages.widgets.plain import plain
from pages.widgets.serving_arms import (
    Arm,
    Cell,
    cell_words,
    figures,
    rounds_of,
    shared_cells,
)
from pages.widgets.serving_compare import Row
from pages.widgets.serving_samples import samples_of

TAILS = ("ttft", "tpot", "itl", "e2el")
Arms = tuple[Arm, Arm]
Frames = tuple[pd.DataFrame, pd.DataFrame]
LIMIT_HELP = {
    "ttft": "Time to first token: how long a person waits before an answer begins.",
    "tpot": "Time per output token once an answer has begun: 50 ms are 20 tokens a second.",
    "share": "How many of the requests must keep both limits.",
}


def sweep_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Plain workloads that differ in concurrency only: those of the commonest rate and lengths.

    Two loads of other lengths are no two points of one sweep.
    """
    plain_ones = [cell for cell in cells if cell[0] is None and cell[1]]
    counted = Counter(cell[2:] for cell in plain_ones)
    rest = max(counted, key=counted.__getitem__) if counted else ()
    return [cell for cell in plain_ones if cell[2:] == rest]


def _curve(arms: Arms, frames: Frames, name: str, statistic: str) -> pd.DataFrame:
    """Mean over valid rounds by concurrency, for plain workloads of the commonest lengths."""
    lines = []
    cells = sweep_cells(shared_cells(*frames))
    for arm, frame in zip(arms, frames, strict=True):
        for cell in cells:
            values = [r.value for r in rounds_of(frame, name, statistic, cell) if r.valid]
            if values:
                lines.append(
                    {"arm": arm.name, "concurrency": cell[1], "value": float(np.mean(values))}
                )
    return pd.DataFrame(lines)


@dataclass(frozen=True)
class Sweep:
    """Two arms over their loads, worked out once for each state of the runs. Only to be read.

    Attributes:
        speed: Output throughput by arm and concurrency.
        first: Median time to first token likewise.
        tails: P99 of the latencies that two loads have, likewise.
        points: Each arm's requests by load.
        alone: Each arm's throughput and time per output token by concurrency.
    """

    speed: pd.DataFrame
    first: pd.DataFrame
    tails: dict[str, pd.DataFrame]
    points: tuple[list[Point], ...]
    alone: tuple[tuple[dict[int, float], dict[int, float]], ...]


@st.cache_resource(show_spinner=False, max_entries=16)
def _sweep(_engine: Engine, version: str, arms: Arms) -> Sweep:
    frames = figures(_engine, arms[0]), figures(_engine, arms[1])
    cells = sweep_cells(shared_cells(*frames))
    tails = {name: _curve(arms, frames, name, "p99") for name in TAILS}
    return Sweep(
        speed=_curve(arms, frames, "output_throughput", "value"),
        first=_curve(arms, frames, "ttft", "median"),
        tails={
            name: rows
            for name, rows in tails.items()
            if len(rows) and rows["concurrency"].nunique() > 1
        },
        points=tuple(
            _points(_engine, arm, frame, cells) for arm, frame in zip(arms, frames, strict=True)
        ),
        alone=tuple(_alone(frame) for frame in frames),
    )


def loads(engine: Engine, arms: Arms) -> None:
    """P99 against concurrency, throughput against TTFT, and the load that meets a service level."""
    names = [arm.name for arm in arms]
    sweep = _sweep(engine, runs.version(engine), arms)
    speed, first = sweep.speed, sweep.first
    if speed.empty or speed["concurrency"].nunique() < 2 or speed["arm"].nunique() < 2:
        return
    finding.heading("Under load")
    slo = _slo()
    left, right = st.columns(2)
    if len(first):
        both = speed.rename(columns={"value": "output_tok_s"}).merge(
            first.rename(columns={"value": "ttft_ms"}), on=["arm", "concurrency"]
        )
        inside = both[both["ttft_ms"] <= slo.ttft_ms]
        with left:
            chart(
                pictures.trade(both, slo.ttft_ms, names),
                "link-ab-throughput-ttft",
                f"{len(inside)} of {len(both)} loads have a median TTFT within {slo.ttft_ms:g} ms",
                both,
                key="ab-trade",
            )
            finding.caption(
                f"Figures: requests at a time. Shaded: median time to first token within "
                f"{slo.ttft_ms:,.0f} ms."
            )
    with right:
        tail, title = _tail(sweep)
        if tail.empty:
            tail, title = speed, metric("output_throughput").axis
        worst = tail.loc[tail["value"].idxmax()]
        chart(
            pictures.load_curve(tail.rename(columns={"value": "y"}), "y", title, names),
            "link-ab-load",
            f"Largest value {worst.value:.4g} with {worst.arm} at concurrency {worst.concurrency}",
            tail,
            key="ab-load",
        )
    for arm, points in zip(arms, sweep.points, strict=True):
        found = capacity(points, slo)
        rate = f" There it yields {found.tok_s:.0f} tok/s." if found.tok_s else ""
        finding.say(f"- **{plain(arm.name)}**: {plain(found.words, 1000)}{rate}")


def _tail(sweep: Sweep) -> tuple[pd.DataFrame, str]:
    """P99 of a latency by concurrency, and its axis; empty where no two loads have one."""
    if not sweep.tails:
        return pd.DataFrame(), ""
    name = st.selectbox("P99 of", list(sweep.tails), format_func=_label, key="ab-tail")
    return sweep.tails[name], f"{metric(name).label.lower()}, P99 (ms)"


def _label(name: str) -> str:
    return metric(name).label


def _slo() -> Slo:
    fields = beside.fields(3)
    ttft = fields.number_input(
        "TTFT limit (ms)",
        1,
        600_000,
        1000,
        key="slo_ttft",
        bind="query-params",
        help=LIMIT_HELP["ttft"],
    )
    tpot = fields.number_input(
        "TPOT limit (ms)",
        1,
        10_000,
        50,
        key="slo_tpot",
        bind="query-params",
        help=LIMIT_HELP["tpot"],
    )
    share = fields.number_input(
        "Share of requests (%)",
        1,
        100,
        95,
        key="slo_share",
        bind="query-params",
        help=LIMIT_HELP["share"],
    )
    return Slo(float(ttft), float(tpot), share / 100)


def _points(engine: Engine, arm: Arm, frame: pd.DataFrame, cells: Sequence[Cell]) -> list[Point]:
    points = []
    for cell in cells:
        first, each = (
            {
                (i["run"], i["part"], i["round"]): i["values"]
                for i in samples_of(engine, arm, name, cell)
            }
            for name in ("ttft", "tpot")
        )
        lost = _failed(frame, cell)
        keys = sorted((first.keys() & each.keys()) | {key for key, n in lost.items() if n}, key=str)
        nothing = np.empty(0)  # of a round in which every request failed
        rounds = [(first.get(key, nothing), each.get(key, nothing)) for key in keys]
        speed = [r.value for r in rounds_of(frame, "output_throughput", "value", cell) if r.valid]
        if rounds:
            mean = float(np.mean(speed)) if speed else None
            failed = [lost.get(key, 0.0) for key in keys]
            points.append(Point(int(cell[1]), rounds, mean, failed))
    return points


def _failed(frame: pd.DataFrame, cell: Cell) -> dict[tuple[Any, ...], float]:
    """Requests that failed, by run, part and round as samples are named."""
    rows = frame[
        (frame["metric"] == "failed")
        & (frame["cell"] == cell)
        & (frame["kind"] != "soak")
        & frame["value"].notna()
    ]
    places = zip(rows["run_id"], rows["own_part"], rows["own_round"], strict=True)
    keys = [(run, *(None if pd.isna(n) else int(n) for n in numbers)) for run, *numbers in places]
    return dict(zip(keys, rows["value"].map(float), strict=True))


def batching(engine: Engine, arms: Arms, rows: Sequence[Row]) -> None:
    """More requests at a time beside the link: batching gets its due."""
    lines = []
    sweep = _sweep(engine, runs.version(engine), arms)
    for arm, alone in zip(arms, sweep.alone, strict=True):
        found = scaling(*alone)
        if found is not None:
            lines.append(
                {
                    "what": f"{arm.name}: concurrency 1 to 4",
                    "from": pictures.BATCHING,
                    "gain_pct": found.throughput_pct,
                    "low_pct": None,
                    "high_pct": None,
                }
            )
    for row in rows:
        if row.metric != "output_throughput" or row.cell[0] is not None:
            continue
        what = f"{arms[1].name} against {arms[0].name}, {cell_words(row.cell)}"
        if row.result is not None and row.result.change_pct is not None:
            gain = {"gain_pct": row.result.change_pct, "low_pct": None, "high_pct": None}
        elif row.printed:
            ends = [float(word) for word in row.printed.replace("%", "").split(" to ")]
            gain = {"gain_pct": None, "low_pct": min(ends), "high_pct": max(ends)}
        else:
            continue
        lines.append({"what": what, "from": pictures.OTHER_ARM, **gain})
    batch = [line for line in lines if line["from"] == pictures.BATCHING]
    if not batch or len(lines) == len(batch):
        return
    finding.heading("Batching beside the link")
    frame = pd.DataFrame(lines)
    largest = max(line["gain_pct"] for line in batch)
    chart(
        pictures.beside(frame),
        "link-ab-batching",
        f"From concurrency 1 to 4 throughput changes by {largest:+.0f} % in one arm",
        frame,
        key="ab-batching",
    )
    finding.caption(
        "Serving four requests at a time instead of one, and choosing the other arm: two ways to "
        "more tokens a second, on one axis. Batching needs no purchase."
    )
    if frame["gain_pct"].isna().any():
        finding.caption(
            "A range without a bar is what an author printed without the values behind it."
        )


def _alone(frame: pd.DataFrame) -> tuple[dict[int, float], dict[int, float]]:
    """Throughput and TPOT of one arm by concurrency, plain workloads only."""
    found: list[dict[int, float]] = []
    for wanted in ((("output_throughput", "value"),), (("tpot", "median"), ("tpot", "mean"))):
        values: dict[int, float] = {}
        for name, statistic in wanted:
            for cell in sweep_cells(dict.fromkeys(frame["cell"])):
                rounds = [r.value for r in rounds_of(frame, name, statistic, cell) if r.valid]
                if rounds and int(cell[1]) not in values:
                    values[int(cell[1])] = float(np.mean(rounds))
        found.append(values)
    return found[0], found[1]
