"""More GPUs in serving, against the gain that theory was said to promise."""

from typing import Any

import pandas as pd
import streamlit as st

from db import runs, studies
from db.engine import Engine
from models.result import Result
from models.scaling import promised_band
from pages.charts import speedup as pictures
from pages.widgets.badges import plain
from pages.widgets.downloads import chart

MOST_RUNS = 500  # of one's own, the newest; what came with the app is always there


@st.cache_data(show_spinner=False, max_entries=4)
def kept(_engine: Engine, version: str) -> pd.DataFrame:
    """`gains`, kept while the runs are the same (``version`` of `db.runs`)."""
    return gains(_engine)


def tp_of(run: Result) -> int | None:
    """Tensor-parallel size of a serving run, None where it is not stated."""
    arm = run.spec.get("arm")
    tp = arm.get("tp") if isinstance(arm, dict) else None
    return tp if isinstance(tp, int) and tp > 0 else None


def gains(engine: Engine) -> pd.DataFrame:
    """Output throughput of each larger TP size over the best arm of a smaller one.

    Returns:
        One row a study, concurrency and arm with the larger TP size: gain beside the promised band.
    """
    listed = pd.concat(
        runs.list_runs(
            engine,
            kinds=["serving"],
            validities=["valid", "suspect"],
            shipped=shipped,
            limit=MOST_RUNS,
        )
        for shipped in (True, False)
    )
    ids = list(listed.loc[listed["evaluation"].notna(), "id"])
    rows = runs.measurements(
        engine, run_ids=ids, metrics=["output_throughput"], statistics=["value", "median"]
    )
    if rows.empty:
        return pd.DataFrame()
    sizes = {run_id: tp_of(run) for run_id, run in runs.heads(engine, ids).items()}
    rows = rows.assign(tp=rows["run_id"].map(sizes)).dropna(subset=["value", "tp"])
    several = rows.groupby("evaluation")["tp"].transform("nunique") > 1
    rows = rows[several]
    titles = {study["id"]: study["title"].split(":")[0] for study in studies.list_studies(engine)}
    found: list[dict[str, Any]] = []
    for (_, concurrency), part in rows.groupby(["evaluation", "concurrency"]):
        arms = part.groupby(["arm", "tp", "origin", "definition"], as_index=False)["value"].median()
        for larger in arms.itertuples():
            smaller = arms[(arms["tp"] < larger.tp) & (arms["definition"] == larger.definition)]
            if smaller.empty:
                continue
            best = smaller.loc[smaller["value"].idxmax()]
            low, high = promised_band(int(larger.tp), int(best["tp"]))
            name = titles.get(str(part["study"].iloc[0]), "")
            found.append(
                {
                    "change": f"TP={int(best['tp'])} ({best['arm']}) to TP={int(larger.tp)} "
                    f"({larger.arm}), concurrency {int(concurrency)}" + (name and f" · {name}"),
                    "gain": larger.value / best["value"],
                    "promised low": low,
                    "promised high": high,
                    "origin": plain(larger.origin),
                }
            )
    return pd.DataFrame(found)


def render(engine: Engine) -> None:
    """Draw the gains beside the band, where a study has arms of several TP sizes."""
    frame = kept(engine, runs.version(engine))
    if frame.empty:
        return
    st.subheader("Serving: what more GPUs brought, and what was promised")
    worst = frame.loc[frame["gain"].idxmin()]
    short = int((frame["gain"] < frame["promised low"]).sum())
    chart(
        pictures.promised(frame),
        "promised-band",
        f"{short} of {len(frame)} fall short of the promised band; the lowest is "
        f"{worst['gain']:.2f} ({worst['change']})",
        frame,
    )
    st.caption(
        "Grey: 1.5 to 1.8 times for twice the GPUs, as the author of the 3090 study expected of "
        "theory. Points: output throughput over the best arm of the smaller TP size. These are "
        "serving results, prefill included: they are never mixed with decode steps above."
    )
