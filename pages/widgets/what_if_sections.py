"""The parts of the What-if page: answer, steps, terms, speedups, loads, sizes, calibration."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from models.errors import LinkworthError
from models.prediction_anchor import Ratio, other_link, speedup
from models.prediction_calibration import DISTANCE_WORDS, Calibration
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
from pages.widgets import finding, store, what_if_frames
from pages.widgets.badges import badge
from pages.widgets.downloads import chart, table
from pages.widgets.links import page_link
from pages.widgets.plain import plain
from pages.widgets.what_if_form import ENGINE_WORDS, Question, pick_link
from pages.widgets.what_if_frames import Answers
from pages.widgets.what_if_state import choice

# no more digits than the interval leaves standing
_STEP_COLUMNS = {
    name: st.column_config.NumberColumn(format=digits)
    for name, digits in (
        ("TPOT (ms)", "%.2f"),
        ("low (ms)", "%.2f"),
        ("high (ms)", "%.2f"),
        ("tok/s", "%.0f"),
        ("tok/s a GPU", "%.0f"),
        ("memory (GB a GPU)", "%.1f"),
    )
}
_SPEEDUP_COLUMNS = {
    name: st.column_config.NumberColumn(format=digits)
    for name, digits in (
        ("speedup", "%.2f"),
        ("low", "%.2f"),
        ("high", "%.2f"),
        ("tok/s", "%.0f"),
        ("replicas (tok/s)", "%.0f"),
        ("throughput against replicas", "%.2f"),
    )
}


def verdicts(asked: Question, found: Answers, calibration: Calibration) -> None:
    """The answer in sentences, and every reason against it."""
    finding.say(f"**{asked.name} on {asked.setup.card.label}**  {badge('predicted')}")
    finding.caption(plain(asked_words(asked), 1000))
    predictions = found.predictions
    is_decided = False
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
            finding.say(f"- **{words}**" + (f" {doubt.sentence}" if doubt else ""))
            is_decided = True
    if not is_decided:  # then the steps are all that can be said
        for tp, one in predictions.items():
            finding.say(
                f"- TP={tp}: {one.tpot_ms:.2f} ms a token (80 % interval {one.low_ms:.2f} to "
                f"{one.high_ms:.2f}), {one.tokens_a_second:,.0f} tok/s"
            )
    if predictions:
        finding.caption(_nearness(found))
    refusals(found)


def asked_words(asked: Question) -> str:
    """What was asked for, for who reads the answer without the form."""
    setup, work = asked.setup, asked.work
    parts = [
        f"{ENGINE_WORDS[setup.engine]}, {setup.format} weights",
        f"{work.batch} requests at a time, {work.input_tokens:,} tokens in, "
        f"{work.output_tokens:,} out",
        f"TP {', '.join(map(str, asked.sizes))}",
        f"link: {asked.link.label if asked.link else 'none known'}",
    ]
    if asked.anchor is not None:
        parts.append(f"starts from a measured {asked.anchor.tpot_ms:.2f} ms a token")
    return "; ".join(parts) + "."


def _in_words(found: Answers) -> None:
    for one in found.predictions.values():
        finding.say(f"- {step_sentence(one)}")


def _nearness(found: Answers) -> str:
    """How far the nearest measurement is and how wide that makes the interval, each once."""
    kinds: dict[str, list[int]] = {}
    for tp, one in found.predictions.items():
        sure = "" if one.width.is_calibrated else ", the method study's width, not calibrated"
        words = f"±{one.width.pct:.0f} %{sure} ({DISTANCE_WORDS[one.distance]})"
        kinds.setdefault(words, []).append(tp)
    several = len(kinds) > 1
    parts = [
        words + (f" at {', '.join(f'TP={tp}' for tp in sizes)}" if several else "")
        for words, sizes in kinds.items()
    ]
    nothing = all(one.distance == "nothing_measured" for one in found.predictions.values())
    advice = " A measured point under Start from makes it surer." if nothing else ""
    return f"How sure: {'; '.join(parts)}.{advice}"


def refusals(found: Answers) -> None:
    """What is not predicted or not decided, each reason once with the TP sizes it holds for."""
    reasons: dict[tuple[str, str, bool], list[int]] = {}
    for tp, one in found.by_tp.items():
        for refusal in one.refusals:
            reasons.setdefault(_key(refusal), []).append(tp)
    # a reason that holds for every size stands for all others: they come when it is gone
    whole = [key for key, sizes in reasons.items() if key[2] and len(sizes) == len(found.by_tp)]
    further = {}
    if whole:
        further = {key: sizes for key, sizes in reasons.items() if key not in whole}
        reasons = {key: reasons[key] for key in whole}
    for (sentence, next_step, is_final), sizes in reasons.items():
        head = "Not predicted" if is_final else "Shown without a verdict"
        show = st.warning if is_final else st.info
        words = f"**{head}** ({_where(sizes)}): {sentence} {next_step}"
        show(words)
        finding.note(finding.Part("text", words))
    if further:
        with st.expander("What else stands in the way"):
            for (sentence, next_step, _), sizes in further.items():
                st.markdown(f"- {_where(sizes)}: {sentence} {next_step}")
    codes = {refusal.code for one in found.by_tp.values() for refusal in one.refusals}
    if codes & {"link"}:
        page_link("new-run", "Measure the link: start an AllReduce sweep", kind="allreduce")
    if codes & {"card", "engine", "size", "load"}:
        page_link("new-run", "Measure one point: start a serving run", kind="serving")
    finding.caption(
        "Time to first token is not predicted: most of it is waiting, and predictions of it were "
        "76 to 85 % off. Throughput reads about 5 % high, since that time is left out of it."
    )


def _where(sizes: Sequence[int]) -> str:
    return ", ".join(f"TP={size}" for size in sizes)


def _key(refusal: Refusal) -> tuple[str, str, bool]:
    return refusal.sentence, refusal.next_step, refusal.is_final


def steps(asked: Question, found: Answers) -> None:
    """TPOT by TP size with intervals, as a picture."""
    frame = what_if_frames.steps(asked, found)
    if frame.empty:
        return
    finding.heading("Time per token by TP size")
    best = frame.loc[frame["TPOT (ms)"].idxmin()]
    chart(
        pictures.steps(frame),
        "what-if-tpot",
        f"Predicted TPOT is shortest at TP={best['TP']} with {best['TPOT (ms)']:.2f} ms",
        frame,
    )
    finding.caption("Hollow: predicted, with its 80 % interval. Filled squares: measured.")


def steps_in_figures(asked: Question, found: Answers) -> None:
    """TPOT, tok/s and memory by TP size, and what was measured beside them."""
    frame = what_if_frames.steps(asked, found)
    if frame.empty:
        return
    measured = [] if frame["measured (ms)"].isna().all() else ["measured (ms)", "residual (%)"]
    table(
        frame.round(2),
        "what-if-steps",
        f"{len(frame)} predicted steps",
        key="what-if-steps",
        column_order=["TP", *_STEP_COLUMNS, *measured, "nearest measurement"],
        column_config=_STEP_COLUMNS,
    )
    with st.expander("Each size in words"):
        _in_words(found)
    for row in frame.dropna(subset=["measured (ms)"]).to_dict("records"):
        finding.say(
            f"- TP={row['TP']}: measured {row['measured (ms)']:.2f} ms, the prediction is "
            f"{row['residual (%)']:+.1f} % off."
        )


def terms(found: Answers) -> None:
    """Where the predicted time goes."""
    frame = what_if_frames.parts(found)
    if frame.empty:
        return
    finding.heading("Where the time would go")
    words = [dominant_sentence(one) for one in found.predictions.values()]
    order = list(what_if_frames.TERMS.values())
    chart(pictures.terms(frame, order), "what-if-terms", words[-1], frame)
    for line in words:
        finding.say(f"- {line}")


def speedups(asked: Question, found: Answers, calibration: Calibration) -> None:
    """Against one GPU, and against replicas on the same GPUs."""
    frame = what_if_frames.speedups(asked, found, calibration)
    if frame.empty:
        return
    finding.heading("Against one GPU, and against replicas")
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
        finding.caption("Grey strokes: as many times as GPUs. Dashed: no gain.")
    why = [] if (frame["why no replicas"] == "").all() else ["why no replicas"]
    table(
        frame.round(3),
        "what-if-speedups",
        f"{len(frame)} layouts",
        key="what-if-speedups-table",
        column_order=["TP", *_SPEEDUP_COLUMNS, *why],
        column_config=_SPEEDUP_COLUMNS,
    )


def loads(asked: Question, calibration: Calibration) -> None:
    """Throughput over concurrency for every TP size."""
    frame = what_if_frames.loads(asked, calibration)
    if frame.empty or frame["requests"].nunique() < 2:
        return
    finding.heading("At other loads")
    top = frame.loc[frame["tok/s"].idxmax()]
    chart(
        pictures.loads(frame, what_if_frames.labels(asked.sizes)),
        "what-if-loads",
        f"Predicted throughput reaches {top['tok/s']:,.0f} tok/s with {top['TP']} at "
        f"{top['requests']} requests",
        frame,
    )
    finding.caption("A line ends where weights and cache no longer fit.")


def other_links(asked: Question) -> None:
    """What another link would do to the measured point."""
    finding.heading("Another link")
    anchor = asked.anchor
    if anchor is None or anchor.setup.tp < 2:
        st.info(
            "Choose a measured point with TP above 1 under Start from: a change of the link is "
            "predicted as a difference to it, never from nothing."
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
    finding.say(f"{link_sentence(change)} {badge('predicted')}")
    finding.caption(
        "The change is quoted as 0.6 to 1.4 times itself: over five tested cases its error was 22 "
        "% in the median and 56 % at worst. The old latency must be that of the kernel really used."
    )
    send(change.gain, f"{setup.card.label}, TP={setup.tp}: {link.label}")


def sizes(asked: Question, calibration: Calibration) -> None:
    """From which model size on a TP size pays."""
    finding.heading("From which model size on does it pay?")
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
    finding.say(f"- {said} {badge('predicted')}")
    finding.caption(
        "Built-in dense shapes, same card, link, engine and load. Hollow: weights and cache do not "
        "fit on one GPU. Outside the calibration's sizes the curve is a direction, not a number."
    )


def to_roi(asked: Question, found: Answers, calibration: Calibration) -> None:
    """The predicted gain as a candidate of the ROI page."""
    predictions = found.predictions
    sizes_ = [size for size in sorted(predictions) if size > 1]
    if 1 not in predictions or not sizes_:
        return
    finding.heading("Weigh it in money")
    codes = [str(size) for size in sizes_]
    words = {code: f"TP={code} instead of one GPU" for code in codes}
    tp = int(choice("roi-tp", "Candidate", codes, codes[0], words))
    gain = speedup(predictions[1], predictions[tp], calibration)
    send(gain, f"{asked.name} on {asked.setup.card.label}, TP={tp} instead of one GPU")


def send(gain: Ratio, words: str) -> None:
    """A link to ROI with the gain as a range; a predicted gain never yields Buy."""
    finding.say(
        f"{words}: {100 * (gain.low - 1):+.0f} to {100 * (gain.high - 1):+.0f} % "
        f"{badge('predicted')}"
    )
    page_link("roi", "Send to ROI", **roi_query(gain, words))
    finding.caption(
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
