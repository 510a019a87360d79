"""Fit the constants of the prediction, measure its errors on held-out models, write both down.

Writes data/calibration.json (constants, widths, report), data/calibration_points.csv (predicted
against measured), data/calibration_refused.csv, and the tables of docs/calibration.md. Everything
follows from the shipped rows, so a second run changes nothing; a test compares.

    python scripts/calibrate.py
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parent))

import calibration_report
from calibration_rows import DATA, Rows, loads, read_rows

from models.prediction_calibration import DISTANCES, LEAST_MODELS, WEIGHTS
from models.prediction_refusals import MOST_INTERFERENCE

ENGINES = ("vllm", "trtllm", "sglang")
KINDS = ("dense", "moe")
# The prior of the method study: microseconds a layer, and how far engines lie apart (log).
PRIOR_US = {"dense": 40.0, "moe": 60.0}
POOL_SD, ENGINE_SD, FACTOR_SD = 1.0, 0.3, 0.5
# Rows of one model hang together, so each model counts as five observations with an error of 15 %.
OBSERVATIONS, ROW_SD = 5.0, 0.15
LEVEL = 0.8
# Half-widths of the method study, for classes with fewer than three calibration models.
STUDY_WIDTHS = {
    "dense": (0.11, 0.25, 0.37, 0.16, 0.18),
    "moe": (0.22, 0.25, 0.37, 0.43, 0.59),
}
CUT = "blackwell"  # mixtures of experts have faster kernels there


@dataclass(frozen=True)
class Fit:
    """Microseconds a layer by engine, and the factor of one generation."""

    us: dict[str, float]
    factor: float


def fit(rows: pd.DataFrame, kind: str) -> Fit:
    """Constants of one kind of model: soft-L1 on log residuals, models weighted equally."""
    measured = np.log(rows["measured"].to_numpy())
    base, layers = rows["base"].to_numpy(), rows["layers"].to_numpy()
    engine = rows["engine"].map(ENGINES.index).to_numpy()
    has_factor = kind == "moe"
    on_cut = (rows["generation"] == CUT).to_numpy() & has_factor
    size = rows.groupby("model")["base"].transform("size").to_numpy()
    weight = np.sqrt(OBSERVATIONS / size)

    def residuals(free: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        constant = np.exp(free[1 + engine]) * np.where(on_cut, np.exp(free[4]), 1.0)
        off = (np.log(base + layers * constant / 1e3) - measured) / ROW_SD
        soft = np.sign(off) * np.sqrt(2.0 * (np.sqrt(1.0 + off**2) - 1.0))
        pool = (free[0] - np.log(PRIOR_US[kind])) / POOL_SD
        apart = (free[1:4] - free[0]) / ENGINE_SD
        return np.concatenate([weight * soft, apart, [pool, free[4] / FACTOR_SD]])

    start = np.array([np.log(PRIOR_US[kind])] * 4 + [0.0])
    found = least_squares(residuals, start, xtol=1e-12, ftol=1e-12, gtol=1e-12).x
    constants = {name: float(np.exp(found[1 + place])) for place, name in enumerate(ENGINES)}
    return Fit(constants, float(np.exp(found[4])) if has_factor else 1.0)


def modelled(rows: pd.DataFrame, fitted: Fit) -> "np.ndarray[Any, Any]":
    constant = rows["engine"].map(fitted.us).to_numpy()
    factor = np.where((rows["generation"] == CUT).to_numpy(), fitted.factor, 1.0)
    result: np.ndarray[Any, Any] = (
        rows["base"].to_numpy() + rows["layers"].to_numpy() * constant * factor / 1e3
    )
    return result


def held_out(rows: pd.DataFrame) -> pd.DataFrame:
    """Every row predicted with constants that never saw its model."""
    parts = []
    for kind in KINDS:
        own = rows[rows["kind"] == kind]
        for model in sorted(own["model"].unique()):
            test = own[own["model"] == model]
            fitted = fit(own[own["model"] != model], kind)
            parts.append(test.assign(model_ms=modelled(test, fitted)))
    return pd.concat(parts, ignore_index=True)


SAME = ["model", "kind", "engine", "version", "precision", "isl", "osl", "batch"]


def pairs(rows: pd.DataFrame, same: list[str], changed: str, weight: Callable[..., Any]) -> Any:
    """Every ordered pair that differs in one thing: the first is measured, the second predicted."""
    both = rows.merge(rows, on=same, suffixes=("_from", ""))
    both = both[both[f"{changed}_from"] != both[changed]]
    ratio = both["measured_from"] / both["model_ms_from"]
    return both.assign(predicted=both["model_ms"] * ratio ** weight(both))


def tasks(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Task -> predicted and measured; keys of `DISTANCES`, and all ordered pairs of TP sizes."""
    together = [*SAME, "system", "expert_parallel"]
    every = pairs(rows, together, "tp", lambda _: WEIGHTS["same_system"])
    upward = every[every["tp"] > every["tp_from"]]
    smallest = upward.groupby(together)["tp_from"].transform("min")
    other = pairs(
        rows,
        [*SAME, "tp", "ep"],
        "system",
        lambda both: np.where(
            both["generation_from"] == both["generation"],
            WEIGHTS["same_generation"],
            WEIGHTS["other_generation"],
        ),
    )
    near = other["generation_from"] == other["generation"]
    engines = [name for name in SAME if name not in ("engine", "version")]
    engine = pairs(
        rows, [*engines, "system", "tp", "ep"], "engine", lambda _: WEIGHTS["other_engine"]
    )
    alone = rows[rows["engine"] != "sglang"]
    return {
        "same_system": upward[upward["tp_from"] == smallest],
        "same_generation": other[near],
        "other_generation": other[~near],
        "other_engine": engine,
        "nothing_measured": alone.assign(predicted=alone["model_ms"]),
        "all_tp_pairs": every,
    }


def log_error(rows: pd.DataFrame) -> pd.Series:
    return np.log(rows["predicted"] / rows["measured"])


def own_widths(task: pd.DataFrame, kind: str) -> dict[str, float]:
    """Model -> the half-width that would have held 80 % of its own rows."""
    rows = task[task["kind"] == kind]
    sizes = log_error(rows).abs().groupby(rows["model"]).quantile(LEVEL)
    return {str(name): float(value) for name, value in sizes.items()}


def chained(halves: dict[str, float]) -> dict[str, float]:
    """Widths that never shrink with distance, and never exceed that of nothing measured.

    A measured point is no reason to be less sure than without one; a point farther away is no
    reason to be surer.
    """
    found, widest = {}, 0.0
    for name in DISTANCES:
        widest = max(widest, min(halves[name], halves["nothing_measured"]))
        found[name] = widest
    return found


def widths(found: dict[str, pd.DataFrame], kind: str, without: str = "") -> dict[str, Any]:
    """Distance -> half-width, with ``without`` left out of its own calibration."""
    halves, models, is_own = {}, {}, {}
    for name, study in zip(DISTANCES, STUDY_WIDTHS[kind], strict=True):
        own = {k: v for k, v in own_widths(found[name], kind).items() if k != without}
        is_own[name] = len(own) >= LEAST_MODELS
        models[name] = len(own)
        halves[name] = (
            float(np.quantile(list(own.values()), LEVEL))
            if is_own[name]
            else float(np.log1p(study))
        )
    return {
        name: {
            "half": half,
            "models": models[name],
            "is_calibrated": is_own[name],
            "before_order": halves[name],
        }
        for name, half in chained(halves).items()
    }


def without_refused(rows: Rows, fitted: dict[str, Fit]) -> Rows:
    """Refuse where prefill of other requests is more than half of the predicted step."""
    parts, out = [], [rows.refused]
    for kind in KINDS:
        own = rows.scored[rows.scored["kind"] == kind]
        heavy = own["prefill"].to_numpy() / modelled(own, fitted[kind]) > MOST_INTERFERENCE
        parts.append(own[~heavy])
        out.append(own[heavy].assign(reason="interference"))
    return Rows(
        scored=pd.concat(parts, ignore_index=True),
        refused=pd.concat(out, ignore_index=True),
        counts=rows.counts,
        merged=rows.merged,
        beyond_core=rows.beyond_core,
    )


def calibrate(rows: Rows) -> tuple[dict[str, Any], dict[str, pd.DataFrame], Rows]:
    """The content of the calibration file, the scored tasks, and the rows as they were used."""
    first = {kind: fit(rows.scored[rows.scored["kind"] == kind], kind) for kind in KINDS}
    rows = without_refused(rows, first)
    fitted = {kind: fit(rows.scored[rows.scored["kind"] == kind], kind) for kind in KINDS}
    found = tasks(held_out(rows.scored))
    all_widths = {kind: widths(found, kind) for kind in KINDS}
    left_out = {
        (kind, model): widths(found, kind, model)
        for kind in KINDS
        for model in sorted(rows.scored.loc[rows.scored["kind"] == kind, "model"].unique())
    }
    shapes = loads()
    sizes = {
        kind: [
            shapes[name].total
            for name in set(rows.scored.loc[rows.scored["kind"] == kind, "model"])
        ]
        for kind in KINDS
    }
    versions = rows.scored[rows.scored["version"] != ""].groupby("engine")["version"].unique()
    content = {
        "version": 1,
        "us_a_layer": {
            kind: {name: round(value, 3) for name, value in one.us.items()}
            for kind, one in fitted.items()
        },
        "generation_factors": {"dense": {}, "moe": {CUT: round(fitted["moe"].factor, 4)}},
        "widths": {
            kind: {
                name: {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
                for name, row in all_widths[kind].items()
            }
            for kind in KINDS
        },
        "engine_versions": {name: sorted(found_) for name, found_ in versions.items()},
        "parameters": {kind: [min(sizes[kind]), max(sizes[kind])] for kind in KINDS},
        "batches": [int(rows.scored["batch"].min()), int(rows.scored["batch"].max())],
        "least_output": int(rows.scored["osl"].min()),
        "report": calibration_report.report(rows, found, left_out),
    }
    return content, found, rows


def main() -> int:
    content, found, rows = calibrate(read_rows())
    text = json.dumps(content, indent=1) + "\n"
    (DATA / "calibration.json").write_text(text, encoding="utf-8")
    calibration_report.points(found).to_csv(
        DATA / "calibration_points.csv", index=False, float_format="%.4g"
    )
    calibration_report.refused(rows, found).to_csv(
        DATA / "calibration_refused.csv", index=False, float_format="%.4g"
    )
    calibration_report.write_document(content)
    for line in calibration_report.summary(content):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
