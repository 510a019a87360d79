"""The parts of Link A/B that look inside: phases and causes, telemetry, drift, recomputation."""

import numpy as np
import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine
from models.metrics import metric
from models.serving import AGREEMENT, statistics_of
from pages.charts import serving as pictures
from pages.widgets import finding
from pages.widgets.downloads import chart, table
from pages.widgets.figure_places import places
from pages.widgets.plain import plain
from pages.widgets.serving_arms import Arm, cell_words, figures, shared_cells
from pages.widgets.serving_evidence import cells_with_phases, kept_causes, phases_of
from pages.widgets.serving_samples import samples_of, telemetry_of

Arms = tuple[Arm, Arm]
Frames = tuple[pd.DataFrame, pd.DataFrame]
PHASES = ("client", "queue", "prefill", "decode")
TELEMETRY = {
    "power_w": "power (W)",
    "sm_clock_mhz": "SM clock (MHz)",
    "temperature_c": "temperature (°C)",
    "cpu_pct": "processor load (%)",
    "cpu_mhz": "processor clock (MHz)",
}
DRIFT = {
    "tpot:median": "time per output token, median (ms)",
    "ttft:p99": "time to first token, P99 (ms)",
    "failed:value": "failed requests a window",
    "timeouts:value": "requests timed out a window",
}
MOST_MARKS = 1500
PAUSE_MIN = 0.25  # longer than any sampling: the arm had no turn


def phases(engine: Engine, arms: Arms, frames: Frames) -> None:
    """Where a request's time goes, and which part makes the slower arm slower."""
    cells = cells_with_phases(frames)
    if not cells:
        return
    finding.heading("Where the time goes")
    lines = []
    for cell, words in cells:
        for arm, frame in zip(arms, frames, strict=True):
            parts = phases_of(frame, cell)
            lines += [
                {"bar": f"{arm.name} · {words}", "phase": name, "ms": value, "order": place}
                for place, name in enumerate(PHASES)
                if (value := getattr(parts, name)) is not None
            ]
    frame = pd.DataFrame(lines)
    kept = kept_causes(engine, runs.version(engine), arms)
    causes = [(words, kept.get(cell)) for cell, words in cells]
    named = [f"{words}: {cause.words}" for words, cause in causes if cause is not None]
    chart(
        pictures.phases(frame),
        "link-ab-phases",
        named[-1] if named else f"Phases of {len(cells)} workloads in both arms",
        frame,
        key="ab-phases",
    )
    for text in named:
        finding.say(f"- {plain(text, 1000)}")
    if not named:
        finding.caption(
            "The arms split the model differently, so their phases are shown and none is blamed."
        )


def telemetry(engine: Engine, arms: Arms, frames: Frames) -> None:
    """Power, clocks and temperature over time, errors of each round, drift of sustained loads."""
    frame, failed = _over_time(engine, runs.version(engine), arms)
    drift = _drift(arms, frames)
    if frame.empty and drift.empty and failed.empty:
        return
    finding.heading("Over time")
    if len(frame):
        choice = [name for name in TELEMETRY if name in frame and frame[name].notna().any()]
        _telemetry_chart(frame, choice)
    if len(failed):
        _errors(arms, failed)
    if len(drift):
        _drift_charts(arms, drift)


@st.cache_resource(show_spinner=False, max_entries=16)
def _over_time(_engine: Engine, version: str, arms: Arms) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Telemetry of both arms, and their failed requests. Only to be read."""
    found = {arm.name: _telemetry(_engine, arm) for arm in arms}
    frame = pd.concat(
        [rows.assign(arm=name) for name, rows in found.items() if len(rows)] or [pd.DataFrame()]
    )
    return frame, failures(arms, (figures(_engine, arms[0]), figures(_engine, arms[1])))


def _telemetry(engine: Engine, arm: Arm) -> pd.DataFrame:
    parts = []
    for rows in telemetry_of(engine, arm):
        if "uuid" in rows and rows["uuid"].notna().any():
            rows = rows[rows["uuid"].notna()]  # beside GPUs the host's rows say little
            index = rows["index"] if "index" in rows else rows["uuid"].str[-6:]
            rows = rows.assign(device="GPU " + index.astype(str))
        else:
            rows = rows.assign(device="CPU")
        parts.append(rows.assign(minutes=(rows["t"] - rows["t"].min()) / 60))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _telemetry_chart(frame: pd.DataFrame, choice: list[str]) -> None:
    if not choice:
        return
    name = st.segmented_control(
        "Telemetry",
        choice,
        default=choice[0],
        format_func=TELEMETRY.__getitem__,
        required=True,
        key="ab-telemetry",
    )
    rows = frame.dropna(subset=[name]).copy()
    rows["series"] = rows["arm"] + " · " + rows["device"]
    step = max(1, len(rows) // MOST_MARKS)
    # each line is thinned by itself: rows of several GPUs take turns
    is_kept = rows.groupby("series").cumcount() % step == 0
    shown = rows.loc[is_kept, ["minutes", name, "series"]]
    # between two rounds the other arm has its turn: nothing was sampled, no line says otherwise
    pause = shown.groupby("series")["minutes"].diff()
    shown["stretch"] = (
        (pause > max(PAUSE_MIN, 5 * pause.median())).groupby(shown["series"]).cumsum()
    )
    names = list(dict.fromkeys(shown["series"]))
    chart(
        pictures.over_time(shown, name, TELEMETRY[name], "series", names),
        f"link-ab-{name}",
        f"{TELEMETRY[name]}: from {rows[name].min():.4g} to {rows[name].max():.4g}",
        shown,
        key="ab-telemetry-chart",
    )
    if not frame["device"].str.startswith("GPU").any():
        return
    reasons = {
        reason
        for row in frame.get("throttle_reasons", pd.Series(dtype=object)).dropna()
        for reason in row
        if reason not in ("gpu_idle", "applications_clocks_setting", "display_clock_setting")
    }
    words = ", ".join(sorted(reasons)).replace("_", " ") if reasons else "none"
    finding.caption(f"Throttle reasons seen: {plain(words)}.")


def failures(arms: Arms, frames: Frames) -> pd.DataFrame:
    """Failed requests of each round and workload of both arms; wrong inputs fail on purpose."""
    lines = []
    for arm, frame in zip(arms, frames, strict=True):
        if frame.empty:
            continue
        rows = frame[
            (frame["metric"] == "failed")
            & (frame["kind"] != "soak")
            & (frame["scenario"] != "abnormal")
            & frame["round"].notna()
        ]
        lines += [
            {
                "workload": cell_words(row.cell),
                "arm": arm.name,
                "round": int(row.round),
                "value": row.value,
                "state": "invalid" if row.round_validity == "invalid" else "valid",
            }
            for row in rows.itertuples()
        ]
    return pd.DataFrame(lines)


def _errors(arms: Arms, failed: pd.DataFrame) -> None:
    count = failed.groupby("arm")["value"].sum()
    rounds = failed[["arm", "workload", "round"]].drop_duplicates()
    if not failed["value"].any():
        finding.caption(
            f"No request failed in the {len(rounds)} rounds and workloads of both arms."
        )
        return
    words = ", ".join(f"{arm} {int(total)}" for arm, total in count.items())
    chart(
        pictures.rounds(failed, "failed requests of a round", [arm.name for arm in arms]),
        "link-ab-failed",
        f"Failed requests in all rounds: {words}",
        failed,
        key="ab-failed",
    )


def _drift(arms: Arms, frames: Frames) -> pd.DataFrame:
    parts = []
    for arm, frame in zip(arms, frames, strict=True):
        if frame.empty or not (frame["kind"] == "soak").any():
            continue
        rows = frame[(frame["kind"] == "soak") & frame["round"].notna()]
        for key in DRIFT:
            name, statistic = key.split(":")
            mine = rows[(rows["metric"] == name) & (rows["statistic"] == statistic)]
            window_s = _window_s(arm, frame)
            parts.append(
                pd.DataFrame(
                    {
                        "what": key,
                        "arm": arm.name,
                        "minutes": mine["round"] * window_s / 60,
                        "value": mine["value"],
                    }
                )
            )
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return frame


def _window_s(arm: Arm, frame: pd.DataFrame) -> float:
    """Seconds of one window: the whole time over the windows."""
    rows = frame[frame["kind"] == "soak"]
    hours = rows.loc[rows["metric"] == "soak_hours", "value"].max()
    windows = rows["round"].max() + 1
    return float(hours * 3600 / windows) if pd.notna(hours) and windows else 60.0


def _drift_charts(arms: Arms, drift: pd.DataFrame) -> None:
    names = [arm.name for arm in arms]
    for column, (key, title) in zip(st.columns(len(DRIFT)), DRIFT.items(), strict=True):
        rows = drift[drift["what"] == key]
        if rows.empty:
            continue
        ends = rows.sort_values("minutes")["value"]
        with column:
            chart(
                pictures.over_time(rows, "value", title, "arm", names),
                f"link-ab-drift-{key.split(':')[0]}",
                f"{title}: {ends.iloc[0]:.4g} at first, {ends.iloc[-1]:.4g} at last",
                rows,
                key=f"ab-drift-{key.split(':')[0]}",
            )


def recomputed(engine: Engine, arms: Arms) -> None:
    """Every latency figure recomputed from the requests, beside the tool's own."""
    lines = _recomputed(engine, runs.version(engine), arms)
    if not lines:
        return
    frame = pd.DataFrame(lines)
    worst = float(frame["difference (%)"].abs().max())
    apart = frame[frame["difference (%)"].abs() > 100 * AGREEMENT]
    with st.expander("Recomputed from each request"):
        if apart.empty:
            st.success(
                f"All {len(frame)} figures agree with the tool's own within "
                f"{100 * AGREEMENT:g} % (largest difference {worst:.2g} %)."
            )
        else:
            st.warning(
                f"{len(apart)} of {len(frame)} figures differ by more than {100 * AGREEMENT:g} %, "
                f"at most by {worst:.2g} %. The tool computed them from something else than the "
                "requests it lists: the warnings name each."
            )
        table(
            frame,
            "link-ab-recomputed",
            f"{len(frame)} figures recomputed, largest difference {worst:.2g} %",
            key="ab-recomputed",
        )


@st.cache_data(show_spinner=False, max_entries=32)
def _recomputed(_engine: Engine, version: str, arms: Arms) -> list[dict[str, object]]:
    """Lines of the table; a server's runs hold hundreds of thousands of gaps between tokens."""
    frames = [figures(_engine, arm) for arm in arms]
    cells = shared_cells(*frames)
    return [
        line
        for arm, frame in zip(arms, frames, strict=True)
        for cell in cells
        for name in ("ttft", "tpot", "itl", "e2el")
        for item in samples_of(_engine, arm, name, cell)
        for line in _beside(arm, frame, cell, name, item)
    ]


def _beside(
    arm: Arm, frame: pd.DataFrame, cell: tuple[object, ...], name: str, item: dict[str, object]
) -> list[dict[str, object]]:
    ours = statistics_of(np.asarray(item["values"], dtype=float))
    found = np.sort(np.concatenate([places(frame, name, one, cell) for one in ours]))
    columns = ("run_id", "own_round", "own_part", "statistic", "value")
    rows = zip(*(frame[column].array.take(found) for column in columns), strict=True)
    wanted = (item["run"], item["round"], item["part"])
    return [
        {
            "arm": arm.name,
            "workload": cell_words(cell),
            "round": item["round"],
            "figure": f"{metric(name).label}, {statistic} (ms)",
            "the tool's": value,
            "recomputed": ours[statistic],
            "difference (%)": round(100 * (ours[statistic] / value - 1), 4),
        }
        for *where, statistic, value in rows
        if tuple(where) == wanted and value
    ]
