"""The one picture of the Overview: the newest runs that were measured to be compared."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from db import runs
from db.engine import Engine
from models.allreduce import size_words
from models.metrics import METRICS

MOST = 6  # one colour each
# kind -> the quantity that is drawn, and which of its rows: where an evaluation measured several
# sizes, loads or clocks, the picture takes one that all arms have, near what one user needs
_QUANTITIES = {
    "allreduce": ("allreduce_latency", {"bytes": 3072, "mode": ("graph", "eager")}),
    "decode": (
        "decode_step",
        {"batch": 1, "kv_len": 1024, "clock": ("wall_graph", "wall", "wall_eager", "replay")},
    ),
    "serving": ("output_throughput", {"concurrency": 1}),
}


@dataclass(frozen=True)
class Picture:
    """What is drawn.

    Attributes:
        kind: Kind of the runs.
        origin: Where they come from.
        run_ids: The runs.
        frame: Columns arm, value; one row an arm.
        axis: Title of the value axis, with its unit.
        sentence: The takeaway.
    """

    kind: str
    origin: str
    run_ids: tuple[str, ...]
    frame: pd.DataFrame
    axis: str
    sentence: str


def newest(engine: Engine, listed: pd.DataFrame, *, compares: bool = False) -> Picture | None:
    """The picture of the newest runs that have one.

    Args:
        engine: The database.
        listed: Rows of `db.runs.list_runs`, newest first.
        compares: Only of runs that were measured as arms of one evaluation.
    """
    for kind, part in _groups(listed, compares=compares):
        found = _picture(engine, kind, part)
        if found is not None and (len(found.frame) > 1 or not compares):
            return found
    return None


def _groups(listed: pd.DataFrame, *, compares: bool) -> Iterator[tuple[str, pd.DataFrame]]:
    """Runs of one evaluation, or of one kind where they were measured one by one."""
    usable = listed[listed["kind"].isin(list(_QUANTITIES)) & (listed["validity"] != "invalid")]
    if compares:
        usable = usable[usable["evaluation"].notna() & (usable["origin"] == "measured")]
        order = usable["kind"].map({kind: place for place, kind in enumerate(_QUANTITIES)})
        usable = usable.loc[order.sort_values(kind="stable").index]
    group = usable["evaluation"].fillna(usable["kind"])
    for _, part in usable.groupby(group, sort=False):
        yield str(part["kind"].iloc[0]), part.head(MOST)


def _picture(engine: Engine, kind: str, part: pd.DataFrame) -> Picture | None:
    name, wanted = _QUANTITIES[kind]
    rows = runs.measurements(
        engine, run_ids=list(part["id"]), metrics=[name], include_invalid=False
    )
    if rows.empty:
        return None
    rows = rows[rows["statistic"].isin(["median", "value"])].dropna(subset=["value"])
    rows = rows.assign(arm=rows["run_id"].map(_labels(part)))
    rows = _one_condition(rows, {key: value for key, value in wanted.items() if key in rows})
    if rows.empty:
        return None
    frame = rows.groupby("arm", as_index=False, sort=False)["value"].median()
    quantity = METRICS[name]
    where = _where(rows.iloc[0], list(wanted))
    host = part["host"].dropna()
    place = f" on {host.iloc[0]}" if len(host) and host.nunique() == 1 else ""
    values = ", ".join(f"{row.arm} {row.value:.3g} {quantity.unit}" for row in frame.itertuples())
    return Picture(
        kind,
        str(rows["origin"].iloc[0]),
        tuple(dict.fromkeys(rows["run_id"])),
        frame,
        f"{quantity.label}{f', {where}' if where else ''} ({quantity.unit})",
        f"{quantity.label}{place}{f', {where}' if where else ''}: {values}.",
    )


def _labels(part: pd.DataFrame) -> dict[str, str]:
    """Arm of each run, else its title, with the time where titles repeat."""
    titles = part["arm"].fillna(part["title"]).fillna(part["kind"])
    if part["evaluation"].isna().all() and titles.duplicated().any():
        moments = part["finished_at"].fillna(part["created_at"])
        titles = [
            f"{title}, {moment:%d %b %H:%M}" for title, moment in zip(titles, moments, strict=True)
        ]
    return dict(zip(part["id"], titles, strict=True))


def _one_condition(rows: pd.DataFrame, wanted: dict[str, object]) -> pd.DataFrame:
    """Rows of one definition and one condition: the one that most arms share, then the nearest."""
    keys = ["definition", *wanted]
    best: tuple[tuple[float, ...], pd.DataFrame] | None = None
    for _, same in rows.groupby(keys, dropna=False, sort=False):
        far = [_distance(same[name].iloc[0], value) for name, value in wanted.items()]
        score = (-float(same["arm"].nunique()), *far)
        if best is None or score < best[0]:
            best = score, same
    return best[1] if best else rows


def _distance(value: object, wanted: object) -> float:
    """How far a condition is from the wanted one: in places of a list, or in doublings."""
    if isinstance(wanted, tuple):
        return float(wanted.index(value)) if value in wanted else float(len(wanted))
    if pd.isna(value) or float(value) <= 0:  # type: ignore[arg-type]
        return math.inf
    return abs(math.log2(float(value) / float(wanted)))  # type: ignore[arg-type]


def _where(row: pd.Series, names: list[str]) -> str:
    """The condition in words."""
    words = []
    for name in names:
        value = row.get(name)
        if value is None or pd.isna(value):
            continue
        if name == "bytes":
            words.append(size_words(float(value)))
        elif name in ("mode", "clock"):
            words.append(f"{str(value).replace('wall_', '')} mode")
        else:
            words.append(f"{ {'kv_len': 'KV'}.get(name, name) } {int(value):,}")
    return ", ".join(words)
