"""What a link is worth where each side takes its best layout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.layout_worth import FIGURES, worth, worth_sentences
from models.layouts import layout_of
from models.rounds import Round

ARMS = {
    "tp1": {"tp": 1, "gpus": [0]},
    "2xtp1": {"tp": 1, "replicas": 2, "gpus": [0, 1]},
    "on": {"tp": 2, "link": "on", "gpus": [0, 1]},
    "library": {"tp": 2, "link": "on", "custom_all_reduce": False, "gpus": [0, 1]},
    "off": {"tp": 2, "link": "off", "gpus": [0, 1]},
}
# tok/s: without the link TP=2 is best at 1 request, two single GPUs at 16
OUTPUT = {
    "tp1": {1: 110, 16: 1345},
    "2xtp1": {1: 111, 16: 1500},
    "on": {1: 171, 16: 2020},
    "library": {1: 158, 16: 1900},
    "off": {1: 143, 16: 1326},
}
TPOT = {
    "tp1": {1: 8.86, 16: 9.7},
    "2xtp1": {1: 8.85, 16: 9.27},
    "on": {1: 5.62, 16: 6.86},
    "library": {1: 6.16, 16: 7.24},
    "off": {1: 6.70, 16: 9.48},
}


def layouts(arms):
    return {name: layout_of({"arm": arm}) for name, arm in arms.items()}


def rounds_of(table, spread=0.002):
    def rounds(arm, name, statistic, cap):
        assert (name, statistic) in FIGURES
        value = table.get(name, {}).get(arm, {}).get(cap)
        if value is None:
            return []
        return [Round(value * (1 + spread * k), k) for k in (-1, 0, 1)]

    return rounds


def found(arms=ARMS, caps=(1, 16), output=OUTPUT, **more):
    table = {"output_throughput": output, "tpot": TPOT}
    return worth(layouts(arms), caps, rounds_of(table), is_paired=True, **more)


def test_each_side_takes_its_best_layout_at_each_load():
    chosen = [(w.figure[0], w.concurrency, w.without, w.best) for w in found()]
    assert chosen == [
        ("output_throughput", 1, "off", "on"),
        ("output_throughput", 16, "2xtp1", "on"),
        ("tpot", 1, "off", "on"),
        ("tpot", 16, "2xtp1", "on"),
    ]
    gains = [w.result.change_pct for w in found()]
    assert gains == pytest.approx(
        [100 * (171 / 143 - 1), 100 * (2020 / 1500 - 1), -16.1194, -25.9978], rel=1e-4
    )


def test_the_sentence_names_both_layouts_and_the_load():
    first, second = worth_sentences(found())
    assert first == (
        "What the link is worth on 2 GPUs, the best measured layout with it against the best "
        "without, "
        "output throughput: +19.6 % [+19.6, +19.6] at concurrency 1 (TP=2 against TP=2 without "
        "the link); +34.7 % [+34.7, +34.7] at 16 (TP=2 against 2 single GPUs)."
    )
    assert "time per output token: -16.1 %" in second


def test_a_link_that_no_best_layout_uses_is_worth_nothing():
    slow = OUTPUT | {"on": {1: 90, 16: 100}, "library": {1: 90, 16: 100}}
    one, two = found(output=slow)[:2]
    assert (one.without, one.best, one.result) == ("off", "off", None)
    assert (two.without, two.best, two.result) == ("2xtp1", "2xtp1", None)
    assert worth_sentences([one, two]) == [
        "What the link is worth on 2 GPUs, the best measured layout with it against the best "
        "without, "
        "output throughput: nothing at concurrency 1 (TP=2 without the link is best); nothing at "
        "16 (2 single GPUs is best)."
    ]


def test_of_two_that_are_level_the_one_without_the_link_is_taken():
    level = {arm: {1: 100, 16: 100} for arm in ARMS}
    assert {(w.best, w.result) for w in found(output=level)[:2]} == {("tp1", None)}


@pytest.mark.parametrize(
    "names",
    [
        ["tp1", "2xtp1", "off"],  # nothing with the link
        ["tp1", "on", "library"],  # nothing on both GPUs without it
        ["on", "library"],
        [],
    ],
)
def test_arms_that_cannot_tell_it_tell_nothing(names):
    assert found({name: ARMS[name] for name in names}) == []
    assert worth_sentences([]) == []


def test_a_figure_that_one_side_lacks_is_left_out():
    only_linked = {"on": OUTPUT["on"]}
    assert [w.figure[0] for w in found(output=only_linked)] == ["tpot", "tpot"]


def test_a_load_that_all_gpus_never_had_without_the_link_is_left_out():
    # one GPU alone was measured at 16 requests, both without the link only at 1
    output = OUTPUT | {"2xtp1": {1: 111}, "off": {1: 143}}
    told = [w.concurrency for w in found(output=output) if w.figure[0] == "output_throughput"]
    assert told == [1]


def test_two_arms_that_may_not_be_compared_give_no_answer():
    told = found(may_compare=lambda without, best: without != "2xtp1")
    assert [(w.figure[0], w.concurrency) for w in told] == [("output_throughput", 1), ("tpot", 1)]


def test_arms_on_other_gpus_are_none_of_its_choices():
    elsewhere = ARMS | {"2xtp1": {"tp": 1, "replicas": 2, "gpus": [2, 3]}}
    # at 16 requests one GPU alone has more output than two without a link
    assert [w.without for w in found(elsewhere)] == ["off", "tp1", "off", "off"]


def test_four_gpus_are_judged_on_all_four():
    arms = {
        "tp2": {"tp": 2, "link": "on"},
        "2xtp2": {"tp": 2, "replicas": 2, "link": "on"},
        "4xtp1": {"tp": 1, "replicas": 4},
        "tp4": {"tp": 4, "link": "on"},
    }
    output = {"tp2": {4: 10}, "2xtp2": {4: 30}, "4xtp1": {4: 20}, "tp4": {4: 25}}
    table = {"output_throughput": output}
    (one,) = worth(layouts(arms), [4], rounds_of(table), is_paired=True)
    assert (one.n_gpus, one.without, one.best) == (4, "4xtp1", "2xtp2")


@given(
    values=st.fixed_dictionaries(
        {arm: st.floats(1, 1e5, allow_nan=False, allow_infinity=False) for arm in ARMS}
    )
)
def test_the_best_of_all_is_never_worse_than_the_best_without(values):
    output = {arm: {1: value} for arm, value in values.items()}
    told = worth(layouts(ARMS), [1], rounds_of({"output_throughput": output}, 0.0), is_paired=True)
    (one,) = told
    assert one.without in ("tp1", "2xtp1", "off")
    assert values[one.best] == max(values.values())
    if one.result is None:
        assert one.best == one.without
    else:
        assert one.result.change_pct >= 0
