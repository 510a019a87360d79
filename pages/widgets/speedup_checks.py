"""Do simple models explain a step? The additive one, calls x latency, and T = A/tp + C."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from models.scaling import additive_check
from models.scaling_fits import Agreement, InverseFit, fit_inverse
from models.scaling_words import additive_sentence, agreement_sentence, fit_sentence
from models.step_clocks import words as clock_words
from pages.charts import speedup as pictures
from pages.widgets import finding, speedup_frames
from pages.widgets.downloads import chart
from pages.widgets.plain import plain
from pages.widgets.speedup_cases import Case, Point
from pages.widgets.speedup_facts import AllReduce
from pages.widgets.speedup_pairs import paired

_N_CURVE = 33  # points of a drawn curve


def render(cases: Sequence[Case]) -> None:
    """Each case against the simple models, in words with their residuals, and its curve."""
    finding.heading("Do simple models explain it?")
    told = {case.code: lines for case in cases if (lines := _lines(case))}
    for case in cases:
        if case.code not in told:
            continue
        if len(cases) > 1:
            finding.say(f"**{plain(case.label)}**")
        finding.say("\n".join(f"- {line}" for line in told[case.code]))
    if any(case.origin == "measured" and max(case.valid, default=1) > 1 for case in cases):
        finding.caption(
            "A measured step gathers each rank's best token once besides its all-reduces: the "
            "difference of the replays holds one small collective more than the calls."
        )
    if not told:
        finding.caption("Nothing to check yet: a TP size above 1 is not measured.")
    _curves(cases)


def _lines(case: Case) -> list[str]:
    """A line a TP size above 1, and one of the curve over all of them."""
    single = case.valid.get(1)
    lines = []
    for tp, point in sorted(case.valid.items()):
        if tp == 1:
            continue
        additive, agreement = _additive(single, point), _agreement(point)
        if agreement and not additive:  # which names its TP size itself
            agreement = f"TP={tp}. {agreement}"
        if additive or agreement:
            lines.append(f"{additive} {agreement}".strip())
    clock, fit = fit_of(case)
    return lines if fit is None else [*lines, fit_sentence(fit, clock_words(clock))]


def _additive(single: Point | None, point: Point) -> str:
    if single is None:
        return ""
    pair = paired(single, point)
    check = additive_check(pair.alone, pair.here)
    return "" if check is None else additive_sentence(check)


def _agreement(point: Point) -> str:
    """Communication by difference beside calls x latency, where the former was measured."""
    times = point.times
    exposed, product = times.exposed_ms, times.allreduce_ms
    if exposed is None:
        return ""
    if not product:
        return (
            f"Exposed communication is {exposed:.3f} ms; no AllReduce sweep on the same GPUs, link "
            "and message says what calls × latency would give."
        )
    calls, latency = times.calls or 0, times.allreduce_us or 0.0
    said = agreement_sentence(Agreement(exposed, product), calls, latency)
    return f"{said} {_latency_words(point.allreduce)}"


def _latency_words(cost: AllReduce | None) -> str:
    if cost is None:
        return ""
    how = ", interpolated between two measured sizes" if cost.is_interpolated else ""
    return f"(Latency in {cost.mode} mode{how}.)" if cost.mode else "(Latency as printed.)"


def fit_of(case: Case) -> tuple[str, InverseFit | None]:
    """The clock of a case's longest series, and its curve; None below three TP sizes."""
    clock, steps = speedup_frames.longest_series(case)
    tps = sorted(steps)
    return clock, fit_inverse(tps, [steps[tp] for tp in tps])


def fitted(cases: Sequence[Case]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The measured steps of cases with a curve, and the curves at closely spaced sizes."""
    points, curves = [], []
    for case in cases:
        clock, fit = fit_of(case)
        if fit is None:
            continue
        for tp, step_ms in zip(fit.tps, fit.measured_ms, strict=True):
            points.append(
                {
                    "case": case.label,
                    "TP": tp,
                    "step (ms)": step_ms,
                    "fitted (ms)": fit.at(tp),
                    "A (ms)": fit.shared_ms,
                    "C (ms)": fit.constant_ms,
                    "clock": clock_words(clock),
                }
            )
        for tp in np.geomspace(min(fit.tps), max(fit.tps), _N_CURVE):
            curves.append({"case": case.label, "TP": float(tp), "fitted (ms)": fit.at(tp)})
    return pd.DataFrame(points), pd.DataFrame(curves)


def _curves(cases: Sequence[Case]) -> None:
    points, curves = fitted(cases)
    if points.empty:
        return
    names = speedup_frames.short_names(cases)
    drawn = [frame.assign(case=frame["case"].map(names)) for frame in (points, curves)]
    gaps = (points["step (ms)"] - points["fitted (ms)"]).abs() / points["step (ms)"]
    far = points.loc[gaps.idxmax()]
    n_curves = points["case"].nunique()
    chart(
        pictures.inverse_fit(*drawn, list(names.values())),
        "inverse-fit",
        f"{n_curves} curve{'s' * (n_curves > 1)} T = A/tp + C; the step farthest off is "
        f"{far['case']} at TP={far['TP']}, by {gaps.max() * 100:.0f} %",
        points,
    )
    finding.caption(
        "Marks: measured steps. Lines: T = A/tp + C, drawn between the measured sizes only."
    )
