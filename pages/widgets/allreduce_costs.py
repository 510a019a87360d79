"""Costs and comparisons behind the AllReduce explorer, as frames. Draws nothing."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from models.allreduce import ALPHA_MAX_BYTES, Curve, Fit, size_words, step_cost_ms
from pages.widgets.allreduce_curves import PARTS, Explained


def may_be_multiplied(mode: str, definition: str) -> bool:
    """Whether a latency may be multiplied by the calls of a step.

    An eager figure on a GPU is launch cost of the CPU. Over gloo nothing else exists: there the
    product rehearses the arithmetic and says nothing of a GPU link.
    """
    return mode != "eager" or "gloo" in definition


def costs(
    curves: Sequence[Explained], measured: pd.DataFrame, message_bytes: int, calls: int
) -> pd.DataFrame:
    """What a step pays on each curve, one row a curve.

    Args:
        curves: The curves shown.
        measured: The measurements they came from, for figures that a study prints.
        message_bytes: The message of a step.
        calls: All-reduces a step.
    """
    rows = []
    for item in curves:
        latency = item.latency_us(message_bytes)
        parts = item.parts_us(message_bytes)
        counts = may_be_multiplied(item.row["mode"], item.row["definition"])
        is_invalid = item.row["validity"] == "invalid"
        note = ""
        if is_invalid:
            note = "invalid run: no cost is computed from it"
        elif latency is None:
            note = f"not measured at {size_words(message_bytes)}"
        elif not counts:
            note = "launch cost of the CPU: never times calls"
        rows.append(
            {
                "curve": item.row["curve"],
                "origin": item.row["origin"],
                "validity": item.row["validity"],
                "mode": item.row["mode"] or "not stated",
                "link": item.row["link"] or "not stated",
                "latency (us)": latency,
                "fixed (us)": parts[0] if parts else None,
                "transfer (us)": parts[1] if parts else None,
                "calls a step": calls,
                "cost a step (ms)": step_cost_ms(latency, calls) if latency and not note else None,
                "as printed (ms)": _printed_cost(
                    measured, str(item.row["run_id"]), message_bytes, calls
                ),
                "note": note,
            }
        )
    return pd.DataFrame(rows)


def _printed_cost(
    measured: pd.DataFrame, run_id: str, message_bytes: int, calls: int
) -> float | None:
    """A study's own cost of a step, where it is of the same message and number of calls."""
    same = (
        (measured["run_id"] == run_id)
        & (measured["metric"] == "allreduce_step_cost")
        & (measured["bytes"] == message_bytes)
        & (measured["calls"] == calls)
    )
    return float(measured.loc[same, "value"].iloc[0]) if same.any() else None


def as_published(measured: pd.DataFrame) -> pd.DataFrame:
    """The figures of published studies exactly as printed, one row a configuration."""
    rows = measured[(measured["origin"] == "published") & measured["value"].notna()]
    if rows.empty:
        return pd.DataFrame()
    wide = rows.pivot_table(
        index=["study", "title"], columns="metric", values="value", aggfunc="first"
    )
    names = {
        "allreduce_fixed": "fixed cost (us)",
        "allreduce_transfer": "transfer (us)",
        "allreduce_latency": "total (us)",
        "calls_per_step": "calls a step",
        "allreduce_step_cost": "cost a step (ms)",
    }
    present = [name for name in names if name in wide.columns]
    return wide[present].rename(columns=names).reset_index()


def partner(curves: Sequence[Explained], row: pd.Series, **changed: str) -> Explained | None:
    """The valid curve that differs from ``row`` only in what ``changed`` names.

    The same run is preferred; else a run on the same kind of host.
    """
    wanted = {part: changed.get(part, row[part]) for part in PARTS}
    fitting = [
        item
        for item in curves
        if item.row["validity"] != "invalid"
        and item.row["host"] == row["host"]
        and all(item.row[part] == value for part, value in wanted.items())
    ]
    own = [item for item in fitting if item.row["run_id"] == row["run_id"]]
    return next(iter(own or fitting), None)


def fit_line(fit: Fit) -> pd.DataFrame:
    """Points of the fitted stretches, one stretch a value of ``piece``, for drawing."""
    frames = []
    for number, piece in enumerate(fit.pieces):
        x = np.geomspace(piece.first_bytes, piece.last_bytes, 24)
        transfer = x / (piece.beta_gbps * 1e3) if piece.beta_gbps else np.zeros(x.shape)
        frames.append(
            pd.DataFrame({"piece": number, "bytes": x, "latency_us": piece.alpha_us + transfer})
        )
    return pd.concat(frames, ignore_index=True)


def residuals(curve: Curve, fit: Fit) -> pd.DataFrame:
    """Measured over fitted minus one at each size, and what the size was used for."""
    sizes = curve.message_bytes.astype(int)
    last = min(ALPHA_MAX_BYTES, fit.pieces[0].last_bytes)
    return pd.DataFrame(
        {
            "bytes": sizes,
            "measured (us)": curve.latency_us,
            "residual (%)": fit.residual_pct,
            "used for": np.where(sizes <= last, "fixed cost", "bandwidth"),
        }
    )
