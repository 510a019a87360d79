"""Which pairs of arms answer a question, and what their changes say of TP, link and kernel."""

import math
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.comparison import compare
from models.layout_gain import changes, movement, sentences, split_words, verdicts
from models.layouts import ORDER, Layout, QuestionCode, alike, layout_of, questions
from models.rounds import Round

ARMS = {
    "tp1": {"tp": 1},
    "2xtp1": {"tp": 1, "replicas": 2},
    "on": {"tp": 2, "link": "on"},
    "library": {"tp": 2, "link": "on", "custom_all_reduce": False},
    "off": {"tp": 2, "link": "off"},
}
# ms a token at 1 and 16 requests at a time: the kernel is worth more at 1 than at 16
TPOT = {
    "tp1": {1: 8.6, 16: 10.4},
    "2xtp1": {1: 8.6, 16: 9.4},
    "on": {1: 5.6, 16: 7.5},
    "library": {1: 6.0, 16: 7.6},
    "off": {1: 6.6, 16: 9.5},
}


def layouts(**arms):
    return {name: layout_of({"arm": arm}) for name, arm in (arms or ARMS).items()}


def rounds_of(table, spread=0.002):
    """Three rounds around a value a metric, arm and concurrency."""

    def rounds(arm, name, statistic, cap):
        value = table.get(name, {}).get(arm, {}).get(cap)
        if value is None:
            return []
        return [Round(value * (1 + spread * k), k) for k in (-1, 0, 1)]

    return rounds


def told(table, caps=(1, 16), **arms):
    return changes(questions(layouts(**arms)), caps, rounds_of(table), is_paired=True)


def test_an_arm_is_read_from_its_spec():
    assert layout_of({"arm": {"tp": 2, "replicas": 2, "link": "on"}}) == Layout(2, 2, True, True)
    assert layout_of({"arm": {"tp": 2, "link": "off"}}) == Layout(2, 1, False, False)
    # one GPU sums nothing: neither switch makes it another layout
    alone = layout_of({"arm": {"tp": 1, "link": "off", "custom_all_reduce": False}})
    assert alone == Layout(1, 1, True, True)


@pytest.mark.parametrize(
    "spec", [{}, {"arm": None}, {"arm": {"tp": "2"}}, {"arm": {"tp": 0}}, {"arm": {"tp": True}}]
)
def test_what_says_no_layout_has_none(spec):
    assert layout_of(spec) is None


def test_five_arms_answer_five_questions():
    asked = [(q.code, q.reference, q.other) for q in questions(layouts())]
    assert asked == [
        ("larger", "tp1", "on"),
        ("replicas", "2xtp1", "on"),
        ("both", "off", "on"),
        ("link", "off", "library"),
        ("kernel", "library", "on"),
    ]
    assert [code for code, *_ in asked] == list(ORDER) == list(get_args(QuestionCode))


def test_four_gpus_ask_of_each_size_against_the_next_and_against_replicas():
    arms = {
        "tp1": {"tp": 1},
        "4xtp1": {"tp": 1, "replicas": 4},
        "tp2": {"tp": 2, "link": "on"},
        "2xtp2": {"tp": 2, "replicas": 2, "link": "on"},
        "tp4": {"tp": 4, "link": "on"},
        "tp4-off": {"tp": 4, "link": "off"},
    }
    asked = {(q.code, q.reference, q.other): q.words for q in questions(layouts(**arms))}
    assert asked == {
        ("larger", "tp1", "tp2"): "TP=2 instead of one GPU",
        ("larger", "tp2", "tp4"): "TP=4 instead of TP=2",
        ("replicas", "4xtp1", "2xtp2"): "2 x TP=2 instead of 4 single GPUs, on the same 4 GPUs",
        ("replicas", "2xtp2", "tp4"): "TP=4 instead of 2 x TP=2, on the same 4 GPUs",
        ("replicas", "4xtp1", "tp4"): "TP=4 instead of 4 single GPUs, on the same 4 GPUs",
        ("both", "tp4-off", "tp4"): "TP=4: the link on instead of off",
    }


def asked(**arms):
    return [(q.code, q.reference, q.other, q.words) for q in questions(layouts(**arms))]


def test_a_size_without_any_link_is_asked_about_as_it_is():
    off = {"tp": 2, "link": "off"}
    assert asked(tp1=ARMS["tp1"], pair=ARMS["2xtp1"], off=off) == [
        ("larger", "tp1", "off", "TP=2 without the link instead of one GPU"),
        (
            *("replicas", "pair", "off"),
            "TP=2 without the link instead of 2 single GPUs, on the same 2 GPUs",
        ),
    ]
    # a larger size with the link is no more than a size larger than one without it
    four = asked(tp1=ARMS["tp1"], off=off, four={"tp": 4, "link": "on"})
    assert ("larger", "tp1", "four", "TP=4 instead of one GPU") in four
    assert not [row for row in four if row[1:3] == ("off", "four")]
    # two sizes without it are
    apart = asked(off=off, four={"tp": 4, "link": "off"})
    assert apart == [
        ("larger", "off", "four", "TP=4 without the link instead of TP=2 without the link")
    ]


def test_replicas_of_several_gpus_have_a_link_too():
    two = {"tp": 2, "replicas": 2}
    found = asked(
        on={**two, "link": "on"},
        library={**two, "link": "on", "custom_all_reduce": False},
        off={**two, "link": "off"},
    )
    assert found == [
        ("both", "off", "on", "2 x TP=2: the link on instead of off"),
        ("link", "off", "library", "2 x TP=2, the link alone: the library sums in both"),
        ("kernel", "library", "on", "2 x TP=2, the engine's own all-reduce over the link"),
    ]


def test_eight_gpus_make_a_chain_of_replicas():
    arms = {
        "8xtp1": {"tp": 1, "replicas": 8},
        "4xtp2": {"tp": 2, "replicas": 4, "link": "on"},
        "2xtp4": {"tp": 4, "replicas": 2, "link": "on"},
        "tp8": {"tp": 8, "link": "on"},
    }
    assert [row[1:3] for row in asked(**arms)] == [
        ("8xtp1", "4xtp2"),
        ("4xtp2", "2xtp4"),
        ("2xtp4", "tp8"),
        ("4xtp2", "tp8"),
        ("8xtp1", "tp8"),
    ]


def test_a_link_is_judged_on_one_pair_of_gpus():
    across = {"tp": 2, "link": "on", "gpus": [0, 2]}
    bridged = {"tp": 2, "link": "on", "gpus": [0, 1]}
    off = {"tp": 2, "link": "off", "gpus": [0, 1]}
    (link,) = asked(across=across, bridged=bridged, off=off)
    assert link[:3] == ("both", "off", "bridged")
    assert asked(across=across, off=off) == []
    # where one does not say which, it is taken at its word
    assert len(asked(on={"tp": 2, "link": "on"}, off=off)) == 1


def test_another_model_is_another_thing():
    small = {"model": "small", "arm": {"tp": 1}}
    large = {name: {"model": "large", "arm": arm} for name, arm in ARMS.items()}
    assert list(alike({"small": small, **large})) == list(ARMS)


def test_figures_of_two_meanings_are_not_compared():
    pair = {"tp1": ARMS["tp1"], "on": ARMS["on"]}

    def found(second):
        return changes(
            questions(layouts(**pair)),
            [1],
            rounds_of({"tpot": TPOT}),
            is_paired=True,
            definition=lambda arm, *_: second if arm == "on" else "vllm:tpot:2",
        )

    assert len(found("vllm:tpot:2")) == 1
    assert found("sglang:tpot:1") == []


def test_splits_of_two_sizes_say_which_they_are_of():
    four = {f"{name}-4": {**ARMS[name], "tp": 4} for name in ("on", "library", "off")}
    two = {name: ARMS[name] for name in ("on", "library", "off")}
    table = {**TPOT, **{f"{name}-4": TPOT[name] for name in two}}
    said = [text for text in sentences(told({"tpot": table}, **two, **four)) if "kernel 4" in text]
    assert [text.partition(" in decode")[0] for text in said] == [
        "Link and kernel of TP=2", "Link and kernel of TP=4",
    ]  # fmt: skip


def test_arms_with_other_flags_are_left_out():
    flags = {"max-model-len": 1536}
    specs = {name: {"arm": {**arm, "engine_args": flags}} for name, arm in ARMS.items()}
    eager = {"arm": {"tp": 1, "engine_args": {**flags, "enforce-eager": True}}}
    assert list(alike({"eager": eager, **specs})) == list(ARMS)
    assert alike({}) == {}
    assert alike({"published": {}, "nothing": {"arm": None}}) == {}


def test_one_arm_asks_nothing():
    assert questions({}) == []
    assert questions(layouts(tp1={"tp": 1})) == []


def test_the_whole_is_told_by_question_and_concurrency():
    said = sentences(told({"tpot": TPOT}))
    assert said[0].startswith(
        "Does TP=2 pay here? For the speed of an answer, against one GPU, it pays at every"
    )
    by_question = {text.partition(":")[0]: text for text in said}
    larger = by_question["TP=2 instead of one GPU"]
    assert larger.startswith("TP=2 instead of one GPU: time per output token -34.9 % [")
    assert "at concurrency 1, -27.9 % [" in larger
    assert larger.endswith("at 16 (the effect shrinks with concurrency).")
    (both,) = [text for text in said if "the link on instead of off" in text]
    assert both.startswith("TP=2: the link on instead of off: time per output token -15.2 % [")
    assert "the effect grows with concurrency" in both


def test_the_gain_is_split_into_link_and_kernel():
    said = sentences(told({"tpot": TPOT}))
    link, whole = math.log(6.0 / 6.6), math.log(5.6 / 6.6)
    assert round(100 * link / whole) == 58
    assert said[1] == (
        "Link and kernel in decode, time per output token: -15.2 % at concurrency 1 (link 58 %, "
        "kernel 42 %), -21.1 % at 16 (link 94 %, kernel 6 %)."
    )


def test_a_kernel_that_slows_takes_no_share():
    table = {"tpot": {"on": {1: 6.2}, "library": {1: 6.0}, "off": {1: 6.6}}}
    assert sentences(told(table, caps=(1,)))[0] == (
        "Link and kernel in decode, time per output token: -6.1 % at concurrency 1 (all of it the "
        "link; the kernel changes it by +3.3 %)."
    )


def test_what_is_not_shown_is_not_split():
    table = {"tpot": {"on": {1: 6.0}, "library": {1: 6.0}, "off": {1: 6.01}}}
    assert not [text for text in sentences(told(table, caps=(1,))) if text.startswith("Link and")]


def test_replicas_are_judged_by_output():
    table = {
        "tpot": TPOT,
        "output_throughput": {
            "2xtp1": {1: 110, 4: 430, 16: 1600},
            "on": {1: 170, 4: 430.5, 16: 1500},
        },
    }
    (said,) = verdicts(told(table, caps=(1, 4, 16)))
    assert said == (
        "Does TP=2 pay here? For the speed of an answer, against one GPU, it pays at every "
        "concurrency measured; for the output of the same GPUs, against 2 single GPUs, it pays at "
        "concurrency 1, changes nothing (2 %) at 4, costs at 16."
    )


def test_what_is_said_of_several_layouts_is_said_once():
    arms = {
        "8xtp1": {"tp": 1, "replicas": 8},
        "4xtp2": {"tp": 2, "replicas": 4},
        "2xtp4": {"tp": 4, "replicas": 2},
        "tp8": {"tp": 8},
    }
    speed = {name: {1: value} for name, value in zip(arms, (90, 100, 130, 120), strict=True)}
    said = verdicts(told({"output_throughput": speed}, caps=(1,), **arms))
    assert said[-1] == (
        "Does TP=8 pay here? For the output of the same GPUs, against 2 x TP=4, it costs at "
        "concurrency 1; for the output of the same GPUs, against 4 x TP=2 and 8 single GPUs, it "
        "pays at concurrency 1."
    )
    assert len(said) == 3


def test_two_rounds_give_a_direction():
    two = [Round(8.6, 0), Round(8.7, 1)], [Round(5.6, 0), Round(5.7, 1)]
    asked = questions(layouts(tp1=ARMS["tp1"], on=ARMS["on"]))
    found = changes(
        asked,
        [1],
        lambda arm, name, statistic, cap: two[arm == "on"] if name == "tpot" else [],
        is_paired=True,
    )
    verdict, change = sentences(found)
    assert "against one GPU, it looks better at concurrency 1." in verdict
    assert change == (
        "TP=2 instead of one GPU: time per output token -34.7 % (direction only) at concurrency 1."
    )


def test_a_change_that_turns_round_says_so():
    def result(low, high):
        rounds = [Round(1.0, k) for k in range(3)], [Round(v, k) for k, v in enumerate((low, high))]
        return compare("tpot", rounds[0], [*rounds[1], Round((low + high) / 2, 2)], is_paired=True)

    assert movement(result(0.80, 0.81), result(1.20, 1.21)) == "it turns round with concurrency"
    assert movement(result(0.80, 0.9), result(0.84, 0.94)) == ""
    # equal rounds have an interval without width, and a rounding error is no movement
    assert movement(result(0.8, 0.8), result(0.8 + 1e-15, 0.8 + 1e-15)) == ""


@given(
    off=st.floats(1, 100),
    link=st.floats(0.2, 0.97),
    kernel=st.floats(0.2, 0.97),
)
def test_shares_of_two_gains_are_the_whole(off, link, kernel):
    values = {"off": off, "library": off * link, "on": off * link * kernel}
    rounds = {name: [Round(v * f, k) for k, f in enumerate((0.999, 1, 1.001))]
              for name, v in values.items()}  # fmt: skip
    whole, first, second = (
        compare("tpot", rounds[a], rounds[b], is_paired=True)
        for a, b in (("off", "on"), ("off", "library"), ("library", "on"))
    )
    said = split_words(whole, first, second)
    shares = [int(word) for word in re.findall(r"(\d+) %", said)]
    assert len(shares) == 2
    assert 99 <= sum(shares) <= 101
    assert min(shares) >= 0
