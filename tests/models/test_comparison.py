"""Two arms compared: words, intervals, and how often they would be wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from models import comparison
from models.comparison import compare, interval, judge, paired, welch
from models.errors import InvalidSpec
from models.rounds import Round

TRIALS = 20_000


def rounds(*values: float, starts: list[int] | None = None, seeds: bool = True) -> list[Round]:
    return [
        Round(v, i, start=starts[i] if starts else None, seed=1000 + i if seeds else None)
        for i, v in enumerate(values)
    ]


def words_of_trials(effect: float, cv: float, n: int, *, is_paired: bool, seed: int):
    rng = np.random.default_rng(seed)
    log_a = rng.normal(0, cv, (TRIALS, n))
    log_b = rng.normal(np.log1p(effect), cv, (TRIALS, n))
    low, high = interval(*(paired if is_paired else welch)(log_a, log_b))
    return judge(low, high, "higher")


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("is_paired", [False, True])
def test_without_an_effect_better_and_worse_are_rare(n, is_paired):
    said = words_of_trials(0.0, 0.03, n, is_paired=is_paired, seed=n)
    assert np.mean((said == "better") | (said == "worse")) <= 0.055


@pytest.mark.parametrize(("is_paired", "least"), [(False, 0.90), (True, 0.80)])
def test_an_effect_of_5_percent_is_found_with_3_rounds_of_1_percent(is_paired, least):
    said = words_of_trials(0.05, 0.01, 3, is_paired=is_paired, seed=5)
    assert np.mean(said == "better") >= least


@pytest.mark.parametrize("is_paired", [False, True])
def test_an_effect_of_1_percent_with_many_rounds_is_the_same(is_paired):
    said = words_of_trials(0.01, 0.01, 100, is_paired=is_paired, seed=6)
    assert np.mean(said == "same") >= 0.99


def test_welch_agrees_with_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, 5), rng.normal(0.5, 3, 7)
    low, high = interval(*welch(a, b))
    theirs = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert (float(low), float(high)) == pytest.approx((theirs.low, theirs.high))


def test_paired_agrees_with_scipy():
    rng = np.random.default_rng(0)
    a = rng.normal(0, 1, 6)
    b = a + rng.normal(0.5, 0.1, 6)
    low, high = interval(*paired(a, b))
    theirs = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (float(low), float(high)) == pytest.approx((theirs.low, theirs.high))


def test_same_comes_before_better():
    # all the interval above 0, and all of it inside the margin
    found = compare(
        "output_throughput",
        rounds(100.0, 100.01, 99.99),
        rounds(101.0, 101.01, 100.99),
        is_paired=True,
    )
    assert found.verdict == "same"
    assert found.low_pct > 0
    assert found.words == "+1.0 % [+1.0, +1.0]: same within 2 %."


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("output_throughput", "better"), ("ttft", "worse"), ("duration", "differs")],
)
def test_direction_belongs_to_the_metric(name, verdict):
    found = compare(name, rounds(100, 101, 99), rounds(110, 111, 109), is_paired=False)
    assert found.verdict == verdict
    assert found.change_pct == pytest.approx(10, abs=0.1)


def test_not_shown_says_how_many_rounds_would_settle_it():
    found = compare("tpot", rounds(10.0, 10.4, 9.6), rounds(9.7, 10.1, 9.3), is_paired=False)
    assert found.verdict == "not_shown"
    assert found.rounds_needed > 3
    assert f"about {found.rounds_needed} rounds" in found.words


def test_an_effect_at_the_margin_takes_many_rounds_and_none_is_said_above_the_limit():
    assert comparison.rounds_to_settle(0.0198, 10.0, df_a_round=2) is None
    few = comparison.rounds_to_settle(0.05, 0.01, df_a_round=1)
    many = comparison.rounds_to_settle(0.05, 0.05, df_a_round=1)
    assert 3 <= few < many


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_rounds_give_a_direction_and_no_interval(n):
    found = compare("tpot", rounds(*[10.0] * n), rounds(*[9.0] * n), is_paired=True)
    assert found.verdict == "direction_only"
    assert (found.low_pct, found.high_pct) == (None, None)
    assert found.change_pct == pytest.approx(-10)
    assert "direction only" in found.words
    assert {notice.code for notice in found.warnings} == {"few_rounds"}


def test_pairing_uses_round_and_seed_and_leaves_lone_rounds_out():
    drift = [1.0, 1.2, 1.4, 1.6]
    reference = [Round(100 * d, i, seed=i) for i, d in enumerate(drift)]
    other = [Round(105 * d, i, seed=i) for i, d in enumerate(drift)][::-1]
    found = compare("output_throughput", reference, other[:-1], is_paired=True)
    assert (found.n_reference, found.n_other) == (3, 3)
    assert found.paired
    assert found.verdict == "better"  # the drift cancels
    loose = compare("output_throughput", reference, other[:-1], is_paired=False)
    assert loose.verdict == "not_shown"


def test_rounds_with_other_seeds_are_no_pairs():
    reference = [Round(100, i, seed=i) for i in range(3)]
    other = [Round(105, i, seed=50 + i) for i in range(3)]
    assert compare("ttft", reference, other, is_paired=True).verdict == "direction_only"


def test_invalid_rounds_never_enter():
    bad = [*rounds(100, 101, 99), Round(1e9, 3, seed=1003, valid=False)]
    with_bad = compare("ttft", bad, rounds(110, 111, 109), is_paired=False)
    without = compare("ttft", bad[:3], rounds(110, 111, 109), is_paired=False)
    assert with_bad.change_pct == without.change_pct
    assert "invalid_rounds" in {notice.code for notice in with_bad.warnings}


def test_starts_that_differ_become_the_unit():
    fast, slow = [100.0, 100.2, 99.9], [80.0, 80.1, 79.8]
    starts = [0] * 3 + [1] * 3 + [2] * 3
    reference = rounds(*fast, *slow, *fast, starts=starts)
    other = rounds(*slow, *fast, *slow, starts=starts)
    found = compare("output_throughput", reference, other, is_paired=True)
    assert found.unit == "start"
    assert (found.n_reference, found.n_other) == (3, 3)
    assert found.verdict == "not_shown"  # rounds alone would have cried "worse"
    assert "starts_differ" in {notice.code for notice in found.warnings}


def test_two_starts_that_differ_give_a_direction_only():
    starts = [0] * 3 + [1] * 3
    reference = rounds(100, 100.2, 99.9, 80, 80.1, 79.9, starts=starts)
    other = rounds(105, 105.2, 104.9, 85, 85.1, 84.9, starts=starts)
    found = compare("output_throughput", reference, other, is_paired=False)
    assert (found.unit, found.verdict) == ("start", "direction_only")
    assert "fewer than 3 starts" in found.words


def test_starts_that_do_not_differ_leave_rounds_as_the_unit():
    starts = [0, 0, 1, 1]
    reference = rounds(100, 101, 100.5, 99.8, starts=starts)
    other = rounds(110, 111, 109, 110.5, starts=starts)
    assert compare("ttft", reference, other, is_paired=False).unit == "round"


def test_values_of_zero_have_no_ratio():
    found = compare("failed", rounds(0, 0, 0), rounds(1, 0, 2), is_paired=False)
    assert (found.verdict, found.change_pct) == ("direction_only", None)
    assert compare("ttft", [], rounds(1, 2, 3), is_paired=False).change_pct is None


def test_two_definitions_are_never_compared():
    with pytest.raises(InvalidSpec, match="defined differently"):
        compare(
            "tpot",
            rounds(1, 2, 3),
            rounds(1, 2, 3),
            is_paired=False,
            definitions=("vllm:tpot:1", "other:tpot:1"),
        )


def test_identical_rounds_are_the_same():
    found = compare("completed", rounds(40, 40, 40), rounds(40, 40, 40), is_paired=True)
    assert found.verdict == "same"
    assert found.change_pct == 0


@settings(max_examples=60, deadline=None)
@given(
    a=st.lists(st.floats(0.1, 1e4), min_size=3, max_size=8),
    b=st.lists(st.floats(0.1, 1e4), min_size=3, max_size=8),
)
def test_swapping_the_arms_turns_the_sign(a, b):
    one = compare("ttft", rounds(*a), rounds(*b), is_paired=False)
    other = compare("ttft", rounds(*b), rounds(*a), is_paired=False)
    assert np.log1p(one.change_pct / 100) == pytest.approx(
        -np.log1p(other.change_pct / 100), abs=1e-9
    )
    assert one.low_pct <= one.change_pct <= one.high_pct
    mirrored = {"better": "worse", "worse": "better"}
    assert mirrored.get(one.verdict, one.verdict) == other.verdict


@settings(max_examples=30, deadline=None)
@given(factor=st.floats(1e-3, 1e3))
def test_the_unit_of_measurement_does_not_matter(factor):
    a, b = [10.0, 10.5, 9.7], [12.0, 12.1, 11.8]
    one = compare("ttft", rounds(*a), rounds(*b), is_paired=True)
    scaled = compare(
        "ttft", rounds(*[v * factor for v in a]), rounds(*[v * factor for v in b]), is_paired=True
    )
    assert scaled.change_pct == pytest.approx(one.change_pct)
    assert scaled.low_pct == pytest.approx(one.low_pct)


def test_smallest_change_that_can_be_shown():
    # by hand: t(0.975, 4) = 2.776; 2.776 * 1 % * sqrt(2/3)
    assert comparison.smallest_change_pct(0.01, 3, is_paired=False) == pytest.approx(
        2.267, abs=1e-3
    )
    # t(0.975, 2) = 4.303; 4.303 * 1 % / sqrt(3)
    assert comparison.smallest_change_pct(0.01, 3, is_paired=True) == pytest.approx(2.484, abs=1e-3)
    with pytest.raises(InvalidSpec):
        comparison.smallest_change_pct(0.01, 1, is_paired=True)


def test_smallest_change_shown_is_half_the_interval():
    found = compare("ttft", rounds(99, 100, 101), rounds(99, 100, 101), is_paired=False)
    assert comparison.smallest_shown_pct(found) == pytest.approx(found.high_pct, rel=1e-9)
    # equal spreads in both arms: Welch is the formula for a given spread
    planned = comparison.smallest_change_pct(0.01, 3, is_paired=False)
    assert comparison.smallest_shown_pct(found) == pytest.approx(planned, rel=0.02)
    few = compare("ttft", rounds(99, 100), rounds(99, 100), is_paired=False)
    assert comparison.smallest_shown_pct(few) is None


@pytest.mark.parametrize("is_paired", [False, True])
def test_the_page_says_what_the_trials_say(is_paired):
    """`compare` as pages call it, on a few of the trials that set the error rates."""
    rng = np.random.default_rng(11)
    for _ in range(40):
        log_a, log_b = rng.normal(0, 0.03, 3), rng.normal(0.02, 0.03, 3)
        low, high = interval(*(paired if is_paired else welch)(log_a, log_b))
        found = compare(
            "output_throughput",
            rounds(*np.exp(log_a)),
            rounds(*np.exp(log_b)),
            is_paired=is_paired,
        )
        assert found.verdict == str(judge(low, high, "higher"))
