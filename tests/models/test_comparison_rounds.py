"""The rounds of one arm, and what else differs between two."""

import numpy as np
import pytest

from models.confounds import acceptance_warning, environment_difference, environment_warning
from models.errors import InvalidSpec
from models.rounds import (
    Round,
    quantile_label,
    round_warnings,
    rounds_for_width,
    starts_differ,
    summary,
    values,
)


def rounds(*values: float) -> list[Round]:
    return [Round(v, i) for i, v in enumerate(values)]


def codes(*values: float) -> set[str]:
    return {notice.code for notice in round_warnings(rounds(*values))}


def test_summary_of_three_rounds():
    found = summary(rounds(10, 12, 11))
    assert (found.n, found.median, found.mean, found.low, found.high) == (3, 11, 11, 10, 12)
    assert found.spread == pytest.approx(1 / 11)


def test_what_cannot_be_told_is_none():
    assert summary([]).median is None
    assert summary(rounds(5)).spread is None
    assert summary(rounds(0, 0)).spread is None
    assert summary([Round(5, 0, valid=False)]).n == 0


def test_values_come_in_the_order_of_rounds():
    assert values([Round(2, 1), Round(1, 0), Round(9, 2, valid=False)]).tolist() == [1, 2]


@pytest.mark.parametrize(("width", "n"), [(0.05, 3), (0.02, 7)])
def test_rounds_for_a_width_use_t_and_not_196(width, n):
    assert rounds_for_width(0.01, width) == n


def test_two_arms_need_more_rounds_than_one():
    assert rounds_for_width(0.01, 0.02, arms=2) > rounds_for_width(0.01, 0.02)
    assert rounds_for_width(0.0, 0.02) == 2
    assert rounds_for_width(5.0, 0.001) is None
    for spread, width in ((-1, 0.1), (0.1, 0)):
        with pytest.raises(InvalidSpec):
            rounds_for_width(spread, width)


def test_calm_rounds_raise_no_warning():
    assert codes(100, 101, 99.5, 100.2, 99.9, 100.4) == set()


def test_each_warning_is_raised_by_its_cause():
    assert codes(100, 101) == {"few_rounds"}
    assert "spread" in codes(100, 140, 80, 120)
    assert "first_round" in codes(60, 100, 101, 99.5)
    assert "drift" in codes(100, 103, 105, 108, 110, 113)
    failed = round_warnings([*rounds(1, 1, 1), Round(5, 3, valid=False)], "link off")
    assert [notice.code for notice in failed] == ["invalid_rounds"]
    assert failed[0].text == "link off: 1 of 4 rounds failed."


def test_a_cold_first_round_as_once_seen():
    assert "first_round" in codes(93.7, 199.4, 198.0, 199.9)


def test_noise_rarely_raises_a_warning():
    rng = np.random.default_rng(4)
    raised = sum(bool(codes(*rng.normal(100, 1, 6))) for _ in range(200))
    assert raised <= 10


def test_starts_differ_only_against_their_own_rounds():
    def started(groups: list[list[float]]) -> list[Round]:
        flat = [(v, s) for s, group in enumerate(groups) for v in group]
        return [Round(v, i, start=s) for i, (v, s) in enumerate(flat)]

    assert starts_differ([started([[100, 101], [80, 81]])])
    assert not starts_differ([started([[100, 104], [101, 103]])])
    assert not starts_differ([started([[100], [80]])])  # one round a start: cannot be told
    assert not starts_differ([rounds(100, 80)])  # starts not known
    assert starts_differ([started([[100, 100], [80, 80]])])
    assert not starts_differ([started([[100, 100], [100, 100]])])
    assert not starts_differ([started([[0, 0], [0, 0]])])


def test_equal_starts_are_seldom_called_different():
    rng = np.random.default_rng(8)
    called = 0
    for _ in range(300):
        arms = [
            [Round(v, i, start=i // 3) for i, v in enumerate(rng.normal(100, 2, 9))]
            for _ in range(2)
        ]
        called += starts_differ(arms)
    assert called / 300 <= 0.09


@pytest.mark.parametrize(
    ("statistic", "n", "label"),
    [
        ("p99", 40, "p99 (the largest of 40)"),
        ("p99", 100, "p99"),
        ("p99", None, "p99"),
        ("p95", 10, "p95 (the largest of 10)"),
        ("median", 3, "median"),
    ],
)
def test_a_percentile_of_few_is_the_largest(statistic, n, label):
    assert quantile_label(statistic, n) == label


def test_environments_differ_in_more_than_the_link():
    a = {"OMP_NUM_THREADS": "50", "NCCL_P2P_DISABLE": "1", "versions": {"torch": "2.13"}}
    b = {"versions": {"torch": "2.12"}, "python": "3.12"}
    different = environment_difference(a, b)
    assert different == {
        "OMP_NUM_THREADS": ("50", None),
        "python": (None, "3.12"),
        "versions.torch": ("2.13", "2.12"),
    }
    said = environment_warning(a, b)
    assert "OMP_NUM_THREADS: 50 against not said" in said.text
    assert environment_warning({"NCCL_P2P_DISABLE": "1"}, {}) is None


def test_acceptance_that_differs_is_named():
    assert "73.7 %" in acceptance_warning(73.7, 70.4).text
    assert acceptance_warning(74.6, 75.0) is None
    assert acceptance_warning(None, 75.0) is None
