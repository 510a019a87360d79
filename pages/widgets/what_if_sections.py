"""The parts of the What-if page: answer, steps, terms, speedups, loads, sizes, calibration."""

import pandas as pd
import streamlit as st

from models.errors import LinkworthError
from models.prediction_anchor import Ratio, other_link, speedup
from models.prediction_calibration import DISTANCE_WORDS, DISTANCES, Calibration
from models.prediction_refusals import Refusal, expert_doubt
from models.prediction_words import (
    dominant_sentence,
    link_sentence,
    replicas_sentence,
    sizes_sentence,
    speedup_sentence,
    step_sentence,
)
from pages.charts import what_if as pictures
from pages.widgets import store, what_if_frames, what_if_sources
from pages.widgets.badges import badge
from pages.widgets.downloads import chart, table
from pages.widgets.links import page_link
from pages.widgets.what_if_form import Question, pick_link
from pages.widgets.what_if_frames import Answers
from pages.widgets.what_if_state import choice


def verdicts(asked: Question, found: Answers, calibration: Calibration) -> None:
    """The answer in sentences, and every reason against it."""
    st.markdown(f"**{asked.name} on {asked.setup.card.label}**  {badge('predicted')}")
    predictions = found.predictions
    if 1 in predictions:
        frame = what_if_frames.speedups(asked, found, calibration)
        for row in frame.to_dict("records"):
            if not found.by_tp[row["TP"]].has_verdict:
                continue
            gain = Ratio(row["speedup"], row["low"], row["high"])
            words = speedup_sentence(row["TP"], gain)
            if pd.notna(row["throughput against replicas"]):
                words += f" {replicas_sentence(row['TP'], row['throughput against replicas'])}"
            doubt = expert_doubt(asked.setup.load.kind, gain.low)
            st.markdown(f"- **{words}**" + (f" {doubt.sentence}" if doubt else ""))
    for one in predictions.values():
        st.markdown(f"- {step_sentence(one)}")
    refusals(found)


def refusals(found: Answers) -> None:
    """What is not predicted or not decided, each reason once with the TP sizes it holds for."""
    reasons: dict[tuple[str, str, bool], list[int]] = {}
    for tp, one in found.by_tp.items():
        for refusal in one.refusals:
            reasons.setdefault(_key(refusal), []).append(tp)
    for (sentence, next_step, is_final), sizes in reasons.items():
        where = ", ".join(f"TP={size}" for size in sizes)
        head = "Not predicted" if is_final else "Shown without a verdict"
        show = st.warning if is_final else st.info
        show(f"**{head}** ({where}): {sentence} {next_step}")
    codes = {refusal.code for one in found.by_tp.values() for refusal in one.refusals}
    if codes & {"link"}:
        page_link("new-run", "Measure the link: start an AllReduce sweep", kind="allreduce")
    if codes & {"card", "engine", "size", "load"}:
        page_link("new-run", "Measure one point: start a serving run", kind="serving")
    st.caption(
        "Time to first token is not predicted: most of it is waiting, and predictions of it were "
        "76 to 85 % off. Throughput reads about 5 % high, since that time is left out of it."
    )


def _key(refusal: Refusal) -> tuple[str, str, bool]:
    return refusal.sentence, refusal.next_step, refusal.is_final


def steps(asked: Question, found: Answers) -> None:
    """TPOT and tok/s by TP size with intervals."""
    frame = what_if_frames.steps(asked, found)
    if frame.empty:
        return
    st.subheader("Time per token by TP size")
    best = frame.loc[frame["TPOT (ms)"].idxmin()]
    chart(
        pictures.steps(frame),
        "what-if-tpot",
        f"Predicted TPOT is shortest at TP={best['TP']} with {best['TPOT (ms)']:.2f} ms",
        frame,
    )
    st.caption("Hollow: predicted, with its 80 % interval. Filled squares: measured.")
    table(frame.round(2), "what-if-steps", f"{len(frame)} predicted steps", key="what-if-steps")
    for row in frame.dropna(subset=["measured (ms)"]).to_dict("records"):
        st.markdown(
            f"- TP={row['TP']}: measured {row['measured (ms)']:.2f} ms, the prediction is "
            f"{row['residual (%)']:+.1f} % off."
        )


def terms(found: Answers) -> None:
    """Where the predicted time goes."""
    frame = what_if_frames.parts(found)
    if frame.empty:
        return
    st.subheader("Where the time would go")
    words = [dominant_sentence(one) for one in found.predictions.values()]
    order = list(what_if_frames.TERMS.values())
    chart(pictures.terms(frame, order), "what-if-terms", words[-1], frame)
    for line in words:
        st.markdown(f"- {line}")


def speedups(asked: Question, found: Answers, calibration: Calibration) -> None:
    """Against one GPU, and against replicas on the same GPUs."""
    frame = what_if_frames.speedups(asked, found, calibration)
    if frame.empty:
        return
    st.subheader("Against one GPU, and against replicas")
    known = frame.dropna(subset=["speedup"])
    if known.empty:
        st.info("One GPU cannot be predicted here, so there is no speedup over it.")
    else:
        best = known.loc[known["speedup"].idxmax()]
        chart(
            pictures.speedups(known),
            "what-if-speedup",
            f"The largest predicted speedup is {best['speedup']:.2f} at TP={best['TP']}",
            known,
        )
        st.caption("Grey strokes: as many times as GPUs. Dashed: no gain.")
    table(frame.round(3), "what-if-speedups", f"{len(frame)} layouts", key="what-if-speedups-table")


def loads(asked: Question, calibration: Calibration) -> None:
    """Throughput over concurrency for every TP size."""
    frame = what_if_frames.loads(asked, calibration)
    if frame.empty or frame["requests"].nunique() < 2:
        return
    st.subheader("At other loads")
    top = frame.loc[frame["tok/s"].idxmax()]
    chart(
        pictures.loads(frame, what_if_frames.labels(asked.sizes)),
        "what-if-loads",
        f"Predicted throughput reaches {top['tok/s']:,.0f} tok/s with {top['TP']} at "
        f"{top['requests']} requests",
        frame,
    )
    st.caption("A line ends where weights and cache no longer fit.")


def other_links(asked: Question) -> None:
    """What another link would do to the measured point."""
    st.subheader("Another link")
    anchor = asked.anchor
    if anchor is None or anchor.setup.tp < 2:
        st.info(
            "Start from a measured point with TP above 1: a change of the link is predicted as a "
            "difference to it, never from nothing."
        )
        return
    setup = anchor.setup
    link = pick_link("link2", "Instead of it", setup.card, setup.engine, asked.links)
    if link is None:
        return
    try:
        change = other_link(anchor, link)
    except LinkworthError as error:
        store.show_error(error)
        return
    st.markdown(f"{link_sentence(change)} {badge('predicted')}")
    st.caption(
        "The change is quoted as 0.6 to 1.4 times itself: over five tested cases its error was 22 "
        "% in the median and 56 % at worst. The old latency must be that of the kernel really used."
    )
    send(change.gain, f"{setup.card.label}, TP={setup.tp}: {link.label}")


def sizes(asked: Question, calibration: Calibration) -> None:
    """From which model size on a TP size pays."""
    st.subheader("From which model size on does it pay?")
    choices = [str(size) for size in asked.sizes if size > 1]
    if not choices:
        st.info("Choose a TP size above 1.")
        return
    tp = int(choice("size-tp", "TP size", choices, choices[0]))
    frame = what_if_frames.sizes(asked, tp, calibration)
    if len(frame) < 2:
        st.info("No other model size can be predicted on this card without a measured point.")
        return
    said = sizes_sentence(tp, frame["parameters (billion)"].tolist(), frame["speedup"].tolist())
    chart(pictures.sizes(frame), "what-if-sizes", said, frame)
    st.markdown(f"- {said} {badge('predicted')}")
    st.caption(
        "Built-in dense shapes, same card, link, engine and load. Hollow: weights and cache do not "
        "fit on one GPU. Outside the calibration's sizes the curve is a direction, not a number."
    )


def to_roi(asked: Question, found: Answers, calibration: Calibration) -> None:
    """The predicted gain as a candidate of the ROI page."""
    predictions = found.predictions
    sizes_ = [size for size in sorted(predictions) if size > 1]
    if 1 not in predictions or not sizes_:
        return
    st.subheader("Weigh it in money")
    tp = int(choice("roi-tp", "Candidate", [str(size) for size in sizes_], str(sizes_[0])))
    gain = speedup(predictions[1], predictions[tp], calibration)
    send(gain, f"{asked.name} on {asked.setup.card.label}, TP={tp} instead of one GPU")


def send(gain: Ratio, words: str) -> None:
    """A link to ROI with the gain as a range; a predicted gain never yields Buy."""
    st.markdown(
        f"{words}: {100 * (gain.low - 1):+.0f} to {100 * (gain.high - 1):+.0f} % "
        f"{badge('predicted')}"
    )
    page_link("roi", "Send to ROI", **roi_query(gain, words))
    st.caption(
        "A predicted gain never ends in Buy: at best in Measure more. What to measure is the same "
        "load on one GPU and on the candidate, three rounds each."
    )


def roi_query(gain: Ratio, words: str) -> dict[str, str]:
    """The gain as the ROI page reads it from the URL: percent, and where it is from."""
    return {
        "gain_low": f"{100 * (gain.low - 1):.1f}",
        "gain_high": f"{100 * (gain.high - 1):.1f}",
        "origin": "predicted",
        "gain_name": words[:120],
    }


def calibration_chart(asked: Question, calibration: Calibration) -> None:
    """How good predictions were on models that the fit never saw."""
    st.subheader("How good is this?")
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
        f"{row['kind']}: {row['median']:.1f} % off in the median, {row['p90']:.0f} % at the 90th "
        f"percentile, over {row['models']} held-out models"
        for row in rows
    )
    models = sorted(frame["model"].unique())
    chart(pictures.calibration(frame, models), "calibration", said, frame)
    st.markdown(f"- {said}.")
    covered = [row for row in content["report"]["coverage"] if row["task"] == task]
    for row in covered:
        width = content["widths"][row["kind"]][task]
        basis = "" if width["is_calibrated"] else ", width of the method study: not calibrated"
        st.markdown(
            f"- {row['kind']}: 80 % intervals held {row['mean']:.0f} % of the rows of a model on "
            f"average, {row['lowest']:.0f} % of the worst{basis}."
        )
    versions = "; ".join(
        f"{name} {', '.join(found)}" for name, found in content["engine_versions"].items()
    )
    st.caption(
        f"Engine versions: {versions}. A newer engine reads about 10 % faster than these rows."
    )
    own_points(asked, calibration)
    page_link("method", "How a prediction comes about", topic="prediction")


def own_points(asked: Question, calibration: Calibration) -> None:
    """What was measured and imported here, predicted without it."""
    frame = what_if_frames.own(asked.points, calibration)
    if frame.empty:
        return
    st.markdown("**Against what was measured and imported here** (vLLM, at TP=1 and above)")
    known = frame["error (%)"].dropna()
    worst = f"; errors from {known.min():+.0f} to {known.max():+.0f} %" if len(known) else ""
    words = f"{len(frame)} measured points beside their predictions{worst}"
    table(frame.round(2), "what-if-own", words, key="what-if-own")
