"""Predictions as tables: steps, terms, speedups, loads, model sizes. Draws nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from models.prediction_anchor import Prediction, speedup
from models.prediction_calibration import DISTANCE_WORDS, Calibration
from models.prediction_layouts import by_size, grid, replicas
from models.prediction_refusals import Answer, answer, needed_bytes
from models.prediction_shape import load_of
from pages.widgets import what_if_sources
from pages.widgets.what_if_form import Question
from pages.widgets.what_if_sources import Point

TERMS = {
    "weights": "Weights (reading or computing)",
    "cache": "KV cache",
    "allreduce": "All-reduces",
    "fixed": "Fixed, a layer",
    "prefill": "Prefill of other requests",
}
LOADS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Answers:
    """The answers to a question, by TP size."""

    by_tp: dict[int, Answer]

    @property
    def predictions(self) -> dict[int, Prediction]:
        """Those that have a number."""
        return {tp: a.prediction for tp, a in self.by_tp.items() if a.prediction is not None}


def answers(asked: Question, calibration: Calibration) -> Answers:
    """Every TP size at the load that was asked for."""
    return Answers(
        {
            tp: answer(
                replace(asked.setup, tp=tp),
                asked.work,
                asked.link,
                calibration,
                asked.anchor,
                asked.modes,
            )
            for tp in asked.sizes
        }
    )


def steps(asked: Question, found: Answers) -> pd.DataFrame:
    """One row a TP size that has a number; measured points of the same setup beside it."""
    rows = []
    for tp, one in found.predictions.items():
        measured = _measured(asked, tp)
        need = needed_bytes(one.setup, one.work) / 1e9
        rows.append(
            {
                "TP": tp,
                "TPOT (ms)": one.tpot_ms,
                "low (ms)": one.low_ms,
                "high (ms)": one.high_ms,
                "tok/s": one.tokens_a_second,
                "tok/s a GPU": one.tokens_a_second / tp,
                "interval": f"±{one.width.pct:.0f} %",
                "nearest measurement": DISTANCE_WORDS[one.distance],
                "calibrated": "yes" if one.width.is_calibrated else "not calibrated",
                "memory (GB a GPU)": need,
                "measured (ms)": measured,
                "residual (%)": None if measured is None else 100 * (one.tpot_ms / measured - 1),
                "origin": "predicted",
            }
        )
    return pd.DataFrame(rows)


def _measured(asked: Question, tp: int) -> float | None:
    """Median of the measured points of exactly this setup and load, None without any."""
    found = [
        point.tpot_ms
        for point in asked.points
        if point.load == asked.setup.load
        and point.card.key == asked.setup.card.key
        and (point.tp, point.precision, point.work) == (tp, asked.setup.precision, asked.work)
        and asked.setup.engine == "vllm"
        and point.link != "off"
    ]
    return float(pd.Series(found).median()) if found else None


def parts(found: Answers) -> pd.DataFrame:
    """The terms of each step: columns TP, term, ms, share (%)."""
    rows = [
        {
            "TP": tp,
            "term": words,
            "ms": getattr(one.terms, name),
            "share (%)": 100 * getattr(one.terms, name) / one.tpot_ms,
        }
        for tp, one in found.predictions.items()
        for name, words in TERMS.items()
    ]
    return pd.DataFrame(rows)


def speedups(asked: Question, found: Answers, calibration: Calibration) -> pd.DataFrame:
    """Speedup of TPOT over one GPU, and throughput against replicas of one GPU."""
    single = found.predictions.get(1)
    rows = []
    for tp, one in found.predictions.items():
        if tp == 1:
            continue
        ratio = speedup(single, one, calibration) if single else None
        many = replicas(
            replace(asked.setup, tp=tp), asked.work, asked.link, calibration, asked.anchor
        )
        together = many.tokens_a_second
        rows.append(
            {
                "TP": tp,
                "speedup": ratio.value if ratio else None,
                "low": ratio.low if ratio else None,
                "high": ratio.high if ratio else None,
                "tok/s": one.tokens_a_second,
                "replicas (tok/s)": together,
                "throughput against replicas": one.tokens_a_second / together if together else None,
                "why no replicas": many.why,
            }
        )
    return pd.DataFrame(rows)


def loads(asked: Question, calibration: Calibration) -> pd.DataFrame:
    """Throughput of every TP size over concurrency: columns TP, requests, tok/s, TPOT (ms)."""
    works = [replace(asked.work, batch=batch) for batch in LOADS]
    rows = [
        {
            "TP": f"TP={tp}",
            "requests": work.batch,
            "tok/s": one.prediction.tokens_a_second,
            "TPOT (ms)": one.prediction.tpot_ms,
            "low (ms)": one.prediction.low_ms,
            "high (ms)": one.prediction.high_ms,
        }
        for tp, work, one in grid(
            asked.setup, works, asked.sizes, asked.link, calibration, asked.anchor
        )
        if one.prediction is not None
    ]
    return pd.DataFrame(rows)


def sizes(asked: Question, tp: int, calibration: Calibration) -> pd.DataFrame:
    """Speedup of a TP size by model size, over the built-in dense shapes."""
    models = [(name, load_of(config)) for name, config in what_if_sources.shapes().items()]
    found = by_size(models, replace(asked.setup, tp=tp), asked.work, asked.link, calibration)
    return pd.DataFrame(
        [
            {
                "model": row.name,
                "parameters (billion)": row.parameters / 1e9,
                "speedup": row.speedup,
                "fits one GPU": "yes" if row.fits_one else "no",
            }
            for row in found
        ]
    )


def own(points: Sequence[Point], calibration: Calibration) -> pd.DataFrame:
    """Every measured point predicted without it: from nothing, and from one GPU's point.

    Several GPUs are predicted with the reference of the card's own kernel, so points with the link
    off are left out.
    """
    rows = []
    for point in points:
        if point.link == "off":
            continue
        setup = point.anchor(None).setup
        link = what_if_sources.reference_of(point.card, setup.engine)
        alone = answer(setup, point.work, link, calibration).prediction
        single = next(
            (
                other
                for other in points
                if point.tp > 1
                and other.tp == 1
                and (other.load, other.card.key, other.precision, other.work)
                == (point.load, point.card.key, point.precision, point.work)
            ),
            None,
        )
        near = (
            answer(setup, point.work, link, calibration, single.anchor(None)).prediction
            if single
            else None
        )
        rows.append(
            {
                "measured": point.label,
                "TP": point.tp,
                "measured (ms)": point.tpot_ms,
                "from nothing (ms)": alone.tpot_ms if alone else None,
                "error (%)": _error(alone, point.tpot_ms),
                "inside its interval": _inside(alone, point.tpot_ms),
                "from TP=1 (ms)": near.tpot_ms if near else None,
                "error from TP=1 (%)": _error(near, point.tpot_ms),
            }
        )
    return pd.DataFrame(rows)


def _error(found: Prediction | None, measured_ms: float) -> float | None:
    return None if found is None else 100 * (found.tpot_ms / measured_ms - 1)


def _inside(found: Prediction | None, measured_ms: float) -> str:
    if found is None:
        return ""
    return "yes" if found.low_ms <= measured_ms <= found.high_ms else "no"


def labels(sizes_asked: Sequence[int]) -> list[str]:
    """Names of the TP sizes in the order of their colours."""
    return [f"TP={size}" for size in sizes_asked]
