"""Errors, coverage and refusals of a calibration, as numbers and as docs/calibration.md."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from calibration_rows import ROOT, Rows

from models.prediction_calibration import DISTANCE_WORDS, DISTANCES, KINDS

DOCUMENT = ROOT / "docs" / "calibration.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
# What was asked for: median and 90th percentile of the error, percent.
TARGETS = {
    ("same_system", "dense"): (7.5, 17.0),
    ("same_system", "moe"): (9.0, 23.0),
    ("nothing_measured", "dense"): (10.0, 20.0),
    ("nothing_measured", "moe"): (18.0, 42.0),
}
COVERAGE_TARGET = (75.0, 90.0)
TASK_WORDS = {**DISTANCE_WORDS, "all_tp_pairs": "every ordered pair of TP sizes"}
REASONS = {
    "memory": "weights and cache do not fit: requests would wait",
    "interference": "prefill of other requests is more than half of the step",
    "engine": "SGLang without a measured point",
}


def errors(rows: pd.DataFrame) -> dict[str, Any]:
    off = 100.0 * (rows["predicted"] / rows["measured"] - 1.0)
    return {
        "rows": len(rows),
        "median": round(float(off.abs().median()), 2),
        "p90": round(float(off.abs().quantile(0.9)), 2),
        "bias": round(float(off.median()), 2),
    }


def coverage(rows: pd.DataFrame, halves: Mapping[str, float]) -> dict[str, float]:
    """Model -> percent of its rows inside the interval, the model left out of the widths."""
    off = np.log(rows["predicted"] / rows["measured"]).abs()
    return {
        str(model): round(100.0 * float((off[own.index] <= halves[str(model)]).mean()), 1)
        for model, own in rows.groupby("model")
    }


def report(
    rows: Rows, found: Mapping[str, pd.DataFrame], left_out: Mapping[tuple[str, str], Any]
) -> dict[str, Any]:
    """The whole report; every number in it is recomputed by a test."""
    by_task, by_engine, by_model, covered = [], [], [], []
    for task, frame in found.items():
        for kind in KINDS:
            own = frame[frame["kind"] == kind]
            names = {"task": task, "kind": kind}
            by_task.append({**names, **errors(own), "models": own["model"].nunique()})
            for engine, part in own.groupby("engine"):
                by_engine.append({**names, "engine": str(engine), **errors(part)})
            for model, part in own.groupby("model"):
                by_model.append({**names, "model": str(model), **errors(part)})
            if task in DISTANCES:
                halves = {
                    model: left_out[kind, model][task]["half"] for model in own["model"].unique()
                }
                each = coverage(own, halves)
                covered.append(
                    {
                        **names,
                        "mean": round(float(np.mean(list(each.values()))), 1),
                        "lowest": min(each.values()),
                        "models": each,
                    }
                )
    reasons = rows.refused["reason"].value_counts().sort_index()
    scored = rows.scored
    alone = scored[scored["engine"] == "sglang"]
    return {
        "left_out": dict(rows.counts),
        "merged": rows.merged,
        "beyond_core": rows.beyond_core,
        "scored": {kind: int((scored["kind"] == kind).sum()) for kind in KINDS},
        "refused": {
            **{str(name): int(count) for name, count in reasons.items()},
            "engine": len(alone),
        },
        "errors": by_task,
        "errors_by_engine": by_engine,
        "errors_by_model": by_model,
        "coverage": covered,
        "coverage_mean": round(float(np.mean([row["mean"] for row in covered])), 1),
    }


def points(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Predicted against measured, for the picture on the page."""
    names = [
        "task",
        "kind",
        "model",
        "engine",
        "system",
        "precision",
        "tp",
        "batch",
        "isl",
        "osl",
    ]
    parts = [frame.assign(task=task) for task, frame in found.items() if task in DISTANCES]
    whole = pd.concat(parts, ignore_index=True)[[*names, "measured", "predicted"]]
    return whole.sort_values([*names, "measured"], ignore_index=True).rename(
        columns={"measured": "measured_ms", "predicted": "predicted_ms"}
    )


def refused(rows: Rows, found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every refused configuration with its reason; SGLang's are refused without a point only."""
    alone = rows.scored[rows.scored["engine"] == "sglang"].assign(reason="engine")
    whole = pd.concat([rows.refused, alone], ignore_index=True)
    names = [
        "reason",
        "model",
        "engine",
        "version",
        "system",
        "precision",
        "tp",
        "batch",
        "isl",
        "osl",
        "measured",
    ]
    listed = whole[names].rename(columns={"measured": "measured_ms"})
    return listed.sort_values(names[:-1], ignore_index=True)


def _table(head: list[str], lines: list[list[Any]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for line in lines:
        yield "| " + " | ".join(str(cell) for cell in line) + " |"
    yield ""


def _met(row: Mapping[str, Any]) -> tuple[str, str]:
    target = TARGETS.get((row["task"], row["kind"]))
    if target is None:
        return "", ""
    met = row["median"] <= target[0] and row["p90"] <= target[1]
    return f"{target[0]:g} / {target[1]:g}", "met" if met else "**missed**"


def summary(content: Mapping[str, Any]) -> Iterator[str]:
    """One line a task, for the terminal."""
    for row in content["report"]["errors"]:
        yield (
            f"{row['task']:>18} {row['kind']:>5}: {row['median']:5.1f} / {row['p90']:5.1f} "
            f"bias {row['bias']:+5.1f} on {row['rows']} rows {' '.join(_met(row))}"
        )
    for row in content["report"]["coverage"]:
        yield f"{row['task']:>18} {row['kind']:>5}: coverage {row['mean']} lowest {row['lowest']}"


def document(content: Mapping[str, Any]) -> str:
    """The generated part of docs/calibration.md."""
    found = content["report"]
    lines = ["### Constants", ""]
    lines += _table(
        ["kind", *content["us_a_layer"]["dense"]],
        [
            [kind, *(f"{value:.1f} us a layer" for value in content["us_a_layer"][kind].values())]
            for kind in KINDS
        ],
    )
    factor = content["generation_factors"]["moe"]
    lines += [f"Mixtures of experts on {name}: × {value:.2f}." for name, value in factor.items()]
    lines += ["", "Engine versions of the rows (an empty version is unknown):", ""]
    lines += [f"- {name}: {', '.join(v)}" for name, v in content["engine_versions"].items()]
    lines += ["", "### Errors on held-out models", ""]
    lines += ["|predicted/measured − 1| in percent. Bias above 0: predicted too slow.", ""]
    lines += _table(
        ["from", "kind", "median", "p90", "bias", "pairs or rows", "models", "target", ""],
        [
            [
                TASK_WORDS[row["task"]],
                row["kind"],
                row["median"],
                row["p90"],
                f"{row['bias']:+}",
                row["rows"],
                row["models"],
                *_met(row),
            ]
            for row in found["errors"]
        ],
    )
    lines += ["By engine:", ""]
    lines += _table(
        ["from", "kind", "engine", "median", "p90", "bias", "n"],
        [
            [
                TASK_WORDS[r["task"]],
                r["kind"],
                r["engine"],
                r["median"],
                r["p90"],
                r["bias"],
                r["rows"],
            ]
            for r in found["errors_by_engine"]
            if r["task"] in ("same_system", "nothing_measured")
        ],
    )
    lines += ["By model:", ""]
    lines += _table(
        ["from", "model", "median", "p90", "bias", "n"],
        [
            [TASK_WORDS[r["task"]], r["model"], r["median"], r["p90"], r["bias"], r["rows"]]
            for r in found["errors_by_model"]
            if r["task"] in ("same_system", "nothing_measured")
        ],
    )
    lines += ["### Intervals (80 %)", ""]
    lines += _table(
        ["nearest measurement", "kind", "width", "basis", "coverage, mean", "lowest model"],
        [_width_line(content, row) for row in found["coverage"]],
    )
    low, high = COVERAGE_TARGET
    lines += [
        f"Mean over these classes: {found['coverage_mean']} % (asked for: {low:g} to {high:g} %).",
        "",
        "### Rows",
        "",
    ]
    lines += _table(["", "rows"], [[name, count] for name, count in found["left_out"].items()])
    lines += [
        f"Merged to {found['merged']} configurations; {found['beyond_core']} lie outside the core "
        "set (at most 64 requests, at least 256 output tokens) and are not scored.",
        "",
    ]
    lines += _table(
        ["refused in the core set", "configurations"],
        [[REASONS[name], count] for name, count in found["refused"].items()],
    )
    lines += [
        "Each of them is listed in `data/calibration_refused.csv`. SGLang's rows are refused only "
        "where nothing is measured; they are scored from a measured point.",
        "",
    ]
    return "\n".join(lines)


def _width_line(content: Mapping[str, Any], row: Mapping[str, Any]) -> list[Any]:
    width = content["widths"][row["kind"]][row["task"]]
    pct = 100.0 * (np.exp(width["half"]) - 1.0)
    basis = f"{width['models']} models"
    if not width["is_calibrated"]:
        basis = f"method study ({width['models']} models here: not calibrated)"
    before = 100.0 * (np.exp(width["before_order"]) - 1.0)
    if round(before) != round(pct):
        basis += f", ±{before:.0f} % before ordering by distance"
    weakest = min(row["models"], key=row["models"].get)
    return [
        TASK_WORDS[row["task"]],
        row["kind"],
        f"±{pct:.0f} %",
        basis,
        f"{row['mean']} %",
        f"{row['lowest']} % ({weakest})",
    ]


def write_document(content: Mapping[str, Any], path: Path = DOCUMENT) -> None:
    """Replace the tables between the markers; the text around them is written by people."""
    text = path.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    path.write_text(f"{head}{BEGIN}\n\n{document(content)}\n{END}{tail}", encoding="utf-8")
