"""The shipped studies of served models on two H200, as Link A/B and ROI tell them."""

from collections.abc import Callable

from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from pages.widgets.serving_arms import groups

Page = Callable[..., AppTest]


def said(at: AppTest) -> str:
    kinds = (at.markdown, at.caption, at.info, at.warning, at.error, at.success)
    text = "\n".join(str(element.value) for kind in kinds for element in kind)
    return text.replace("\\", "")


def code_of(engine: Engine, shape: str) -> str:
    (code,) = [g.code for g in groups(engine) if "served model" in g.label and shape in g.label]
    return code


def test_link_ab_opens_on_what_was_measured_and_is_sure(page: Page, first_start: Engine) -> None:
    at = page("link_ab")
    chosen = {box.label: box.value for box in at.selectbox}
    assert chosen["Evaluation"] == code_of(first_start, "14B")
    text = said(at)
    assert (
        "tp2-link-on instead of tp2-link-off: output throughput 19 to 52 % higher; time to first "
        "token 18 to 58 % shorter (not shown in 1 of 3 workloads); time per output token 16 to 28 "
        "% shorter"
    ) in text
    assert (
        "Does TP=2 pay here? For the speed of an answer, against one GPU, it pays at every "
        "concurrency measured; for the output of the same GPUs, against 2 single GPUs, it pays at "
        "every concurrency measured."
    ) in text
    assert (
        "output throughput: +19.4 % [+17.6, +21.2] at concurrency 1 (TP=2 against TP=2 without "
        "the link); +28.6 % [+26.9, +30.4] at 4 (TP=2 against TP=2 without the link); +34.8 % "
        "[+32.9, +36.8] at 16 (TP=2 against 2 single GPUs)."
    ) in text
    assert (
        "Link and kernel in decode, time per output token: -16.1 % at concurrency 1 (link 48 %, "
        "kernel 52 %), -18.7 % at 4 (link 51 %, kernel 49 %), -27.7 % at 16 (link 83 %, kernel "
        "17 %)."
    ) in text
    assert (
        "Times to first token: all rounds pooled. Gaps between chunks: those of 1 of 3 rounds, "
        "the others' were not kept"
    ) in text
    assert "Read with it: 6 warnings" in text
    assert "Their idle power is part of the energy figures. (and 1 more like it)" in text
    assert "OMP_NUM_THREADS of the servers' processes differs (unset against 1, unset)" in text
    assert "ranks differs" not in text  # another number of GPUs was asked for
    (table,) = [frame.value for frame in at.dataframe if "question" in frame.value]
    assert len(table) == 15
    assert (table[["concurrency 1", "concurrency 4", "concurrency 16"]] != "").all(axis=None)


def test_link_ab_says_of_the_small_shape_that_nothing_is_shown(
    page: Page, first_start: Engine
) -> None:
    at = page("link_ab", evaluation=code_of(first_start, "1.5B"))
    text = said(at)
    assert (
        "Does TP=2 pay here? For the speed of an answer, against one GPU, it is not shown either "
        "way at concurrency 1 and 4, pays at 16; for the output of the same GPUs, against 2 single "
        "GPUs, it is not shown either way at every concurrency measured."
    ) in text
    assert "output throughput: nothing at concurrency 1 (one GPU is best)" in text
    assert "To be read with care, tp1: Output throughput, concurrency 16" in text


def test_roi_weighs_the_link_between_the_best_layouts(page: Page, first_start: Engine) -> None:
    at = page("roi")
    chosen = {box.label: box.value for box in at.selectbox}
    assert chosen["Evidence"] == code_of(first_start, "14B")
    assert (chosen["Baseline"], chosen["Candidate"]) == ("2xtp1", "tp2-link-on")
    text = said(at)
    assert (
        "Of the layouts of 2 GPUs that were measured, 2 single GPUs had the most output at "
        "concurrency 16 without the link, TP=2 with it"
    ) in text
    assert "gain of **+34.8 %**" in text
    others = page("roi", base="tp2-link-off")
    assert "gain of **+52.4 %**" in said(others)
    assert "had the most output" not in said(others)
