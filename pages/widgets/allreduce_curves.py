"""Curves behind the AllReduce explorer: from measurements to fits. Draws nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from models.allreduce import Curve, Fit, bootstrap, fit_curve, interpolate_us, make_curve
from models.errors import InvalidSpec

METRICS = (
    "allreduce_latency",
    "allreduce_fixed",
    "allreduce_transfer",
    "allreduce_step_cost",
    "calls_per_step",
)
# how a curve is told from another of the same run
PARTS = ("mode", "link", "dtype", "placement", "algorithm", "ranks", "node_count")
_TYPICAL = ("median", "mean", "value", "min")
# the time the CPU needs to launch is not a latency
_NO_LATENCY = "cpu-time"


@dataclass(frozen=True)
class Explained:
    """One curve with everything that is said about it.

    Attributes:
        row: Identity of the curve: label, run, origin, validity, mode, link, ranks, definition.
        curve: Its latencies.
        fit: Its fit, None where it has too few sizes.
        why_no_fit: The sentence that says so.
        printed: Fixed cost and transfer as a study prints them, by message size.
    """

    row: pd.Series
    curve: Curve
    fit: Fit | None
    why_no_fit: str
    printed: dict[int, tuple[float, float]]

    def latency_us(self, message_bytes: int) -> float | None:
        """Latency at a size; None outside the measured sizes."""
        try:
            return interpolate_us(self.curve, message_bytes)
        except InvalidSpec:
            return None

    def parts_us(self, message_bytes: int) -> tuple[float, float] | None:
        """Fixed cost and transfer at a size: as printed, else from the fit; None where unknown."""
        if message_bytes in self.printed:
            return self.printed[message_bytes]
        if self.fit is None:
            return None
        inside = self.fit.pieces[0].first_bytes <= message_bytes <= self.fit.pieces[0].last_bytes
        if not inside:
            return None
        beta = self.fit.beta_gbps
        return self.fit.alpha_us, (message_bytes / (beta * 1e3) if beta else 0.0)


def curve_points(measured: pd.DataFrame) -> pd.DataFrame:
    """One row a curve and size.

    Args:
        measured: Rows of `db.runs.measurements`.

    Returns:
        Columns code (stable, for the URL), curve (label for people), run_id, title, host, origin,
        validity, mode, link, ranks, definition, bytes, latency_us, p10_us, p90_us, rounds. The
        latency is the median over rounds of each round's typical value.
    """
    rows = measured[
        (measured["metric"] == "allreduce_latency")
        & measured["value"].gt(0)
        & measured["bytes"].gt(0)
        & ~measured["definition"].str.contains(_NO_LATENCY)
    ].copy()
    if rows.empty:
        return pd.DataFrame()
    rows["code"] = rows["run_id"].str[:8]
    for part in PARTS:
        words = rows[part] = rows[part].map(_word)
        rows["code"] += ("-" + words).where(words != "", "")
    typical = rows[rows["statistic"].isin(_TYPICAL)].copy()
    typical["rank"] = typical["statistic"].map(_TYPICAL.index)
    best = typical.groupby("code")["rank"].transform("min")
    typical = typical[typical["rank"] == best]
    keys = ["code", "bytes"]
    points = typical.groupby(keys, sort=False).agg(
        run_id=("run_id", "first"),
        title=("title", "first"),
        host=("host", "first"),
        origin=("origin", "first"),
        validity=("validity", "first"),
        definition=("definition", "first"),
        latency_us=("value", "median"),
        rounds=("round", "nunique"),
        **{part: (part, "first") for part in PARTS},
    )
    for statistic in ("p10", "p90"):
        spread = rows[rows["statistic"] == statistic].groupby(keys)["value"].median()
        points[f"{statistic}_us"] = spread.reindex(points.index)
    points = points.reset_index()
    points["bytes"] = points["bytes"].astype(int)
    points["curve"] = points["code"].map(_labels(points))
    return points.sort_values(["curve", "bytes"], ignore_index=True)


def _word(value: object) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def _labels(points: pd.DataFrame) -> dict[str, str]:
    """Code -> label: the run's name, then only what tells its curves apart."""
    curves = points.drop_duplicates("code")
    telling = [part for part in ("dtype", "placement", "algorithm") if curves[part].nunique() > 1]
    labels = {}
    for row in curves.itertuples():
        name = str(row.title or row.host or f"run {row.run_id[:8]}")
        link = f"link {row.link}" if row.link and f"link {row.link}" not in name.lower() else ""
        parts = [link, row.mode, *(getattr(row, part).replace("_", " ") for part in telling)]
        labels[row.code] = " · ".join([name, *(part for part in parts if part)])
    seen = pd.Series(labels)
    double = seen.duplicated(keep=False)
    # two runs of the same name: the id tells them apart
    return {
        code: f"{label} · {code[:4]}" if double[code] else label for code, label in seen.items()
    }


def explain(
    points: pd.DataFrame, measured: pd.DataFrame, code: str, samples: Sequence[dict[str, object]]
) -> Explained:
    """Everything that is said about one curve.

    Args:
        points: From `curve_points`.
        measured: The measurements they came from.
        code: Which curve.
        samples: Raw samples of its run, for the intervals; may be empty.
    """
    mine = points[points["code"] == code]
    row = mine.iloc[0]
    curve = make_curve(mine["bytes"].to_numpy(float), mine["latency_us"].to_numpy(float))
    fit, why = None, ""
    try:
        fit = fit_curve(curve)
    except InvalidSpec as error:
        why = error.sentence
    if fit is not None and samples:
        rounds = _samples_by_size(curve, row, samples)
        # a seed of its own: the interval must not change when the page is drawn again
        fit = bootstrap(curve, fit, rounds, np.random.default_rng(20261129))
    return Explained(row, curve, fit, why, _printed(measured, str(row["run_id"])))


def _samples_by_size(
    curve: Curve, row: pd.Series, samples: Sequence[dict[str, object]]
) -> list[list[np.ndarray]]:
    by_size: dict[int, list[np.ndarray]] = {int(size): [] for size in curve.message_bytes}
    for sample in samples:
        dims = sample["dims"]
        same = all(_word(dims.get(part)) == row[part] for part in PARTS)
        if same and dims.get("bytes") in by_size:
            by_size[dims["bytes"]].append(np.asarray(sample["values"]))
    return list(by_size.values())


def _printed(measured: pd.DataFrame, run_id: str) -> dict[int, tuple[float, float]]:
    mine = measured[measured["run_id"] == run_id]
    found = {}
    for size, rows in mine.groupby("bytes"):
        values = rows.set_index("metric")["value"]
        if {"allreduce_fixed", "allreduce_transfer"} <= set(values.index):
            found[int(size)] = (
                float(values["allreduce_fixed"]),
                float(values["allreduce_transfer"]),
            )
    return found
