"""How good predictions are: on models that the fit never saw, and on what was measured here."""

import pandas as pd

from models.prediction_calibration import DISTANCE_WORDS, DISTANCES, Calibration
from pages.charts import what_if as pictures
from pages.widgets import finding, what_if_frames, what_if_sources
from pages.widgets.downloads import UNKNOWN, chart, table
from pages.widgets.links import page_link
from pages.widgets.what_if_form import Question
from pages.widgets.what_if_state import choice

_KINDS = {"dense": "dense models", "moe": "mixtures of experts"}


def calibration_chart(asked: Question, calibration: Calibration) -> None:
    """How good predictions were on models that the fit never saw."""
    finding.heading("How good is this?")
    content = what_if_sources.calibration_content()
    task = choice(
        "calibration",
        "Nearest measurement",
        DISTANCES,
        "nothing_measured",
        DISTANCE_WORDS,
    )
    points = what_if_sources.calibration_points()
    frame = points[points["task"] == task].drop(columns="task")
    rows = [row for row in content["report"]["errors"] if row["task"] == task]
    said = "; ".join(
        f"{_KINDS[row['kind']]}: {row['median']:.1f} % off in the median, {row['p90']:.0f} % at "
        f"the 90th percentile, over {row['models']} held-out models"
        for row in rows
    )
    models = sorted(frame["model"].unique())
    chart(pictures.calibration(frame, models), "calibration", said, frame)
    finding.say(f"- {said}.")
    covered = [row for row in content["report"]["coverage"] if row["task"] == task]
    for row in covered:
        width = content["widths"][row["kind"]][task]
        basis = "" if width["is_calibrated"] else ", width of the method study: not calibrated"
        finding.say(
            f"- {_KINDS[row['kind']]}: 80 % intervals held {row['mean']:.0f} % of the rows of a "
            f"model on average, {row['lowest']:.0f} % of the worst{basis}."
        )
    versions = "; ".join(
        f"{name} {', '.join(found)}" for name, found in content["engine_versions"].items()
    )
    finding.caption(
        f"Engine versions: {versions}. A newer engine reads about 10 % faster than these rows."
    )
    own_points(asked, calibration)
    page_link("method", "How a prediction comes about", topic="prediction")


def own_points(asked: Question, calibration: Calibration) -> None:
    """What was measured and imported here, predicted without it."""
    frame = what_if_frames.own(asked.points, calibration)
    if frame.empty:
        return
    finding.say("**Against what was measured and imported here** (vLLM, at TP=1 and above)")
    finding.caption(
        "Each point is predicted without itself: from nothing, and from one GPU's point of the "
        "same model and load where there is one."
    )
    known = frame["error (%)"].dropna()
    worst = f"; errors from {known.min():+.0f} to {known.max():+.0f} %" if len(known) else ""
    words = f"{len(frame)} measured points beside their predictions{worst}"
    shown = pd.DataFrame(
        {
            "measured": frame["measured"],
            "from nothing": [
                _beside(row["from nothing (ms)"], row["error (%)"], row["inside its interval"])
                for row in frame.to_dict("records")
            ],
            "from one GPU": [
                _beside(row["from TP=1 (ms)"], row["error from TP=1 (%)"])
                for row in frame.to_dict("records")
            ],
        }
    )
    table(shown, "what-if-own", words, key="what-if-own", is_wrapped=True, file=frame.round(2))


def _beside(predicted_ms: float | None, error_pct: float | None, inside: str = "") -> str:
    """A prediction and how far off it was."""
    if predicted_ms is None or error_pct is None or pd.isna(predicted_ms):
        return UNKNOWN
    place = {"yes": ", inside its interval", "no": ", outside its interval"}.get(inside, "")
    return f"{predicted_ms:.2f} ms ({error_pct:+.0f} %{place})"
