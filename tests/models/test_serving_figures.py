"""Figures of served requests: hand-worked numbers, limits, and causes."""

import math

import numpy as np
import pytest

from models.errors import InvalidSpec, UnreadableFile
from models.result import Measurement, Result, Tool
from models.serving import (
    disagreements,
    ecdf,
    figures,
    goodput_share,
    output_distance,
    overlap_share,
    pool,
    pooled_acceptance,
    requests_of,
)
from models.serving_causes import Breakdown, breakdown, compute_ratio, name_cause
from models.serving_energy import energy, foreign_load_pct, median_in
from models.serving_slo import (
    Point,
    Slo,
    capacity,
    drain_note,
    per_acceptance,
    percentiles_over_time,
    scaling,
)
from models.serving_words import cell_widths, paired_change, study_sentences, t_95

# two requests: 3 tokens after 0.1 s with gaps of 0.02, and one token after 0.2 s; one failed
DETAIL = {
    "ttfts": [0.1, 0.2, 0.0],
    "itls": [[0.02, 0.02], [], []],
    "output_lens": [3, 1, 0],
    "input_lens": [8, 8, 8],
    "latencies": [0.14, 0.2, 0.0],
    "start_times": [10.0, 10.1, 10.1],
    "errors": ["", "", "refused"],
    "duration": 0.3,
}


def test_statistics_of_three_requests_by_hand() -> None:
    found = figures(requests_of(DETAIL))
    assert found["completed", "value"] == 2
    assert found["failed", "value"] == 1
    assert found["ttft", "mean"] == pytest.approx(150)
    assert found["ttft", "median"] == pytest.approx(150)
    assert found["ttft", "std"] == pytest.approx(50)
    # the one-token request has no time per further token
    assert found["tpot", "median"] == pytest.approx(20)
    assert found["itl", "mean"] == pytest.approx(20)
    assert found["e2el", "p99"] == pytest.approx(140 + 0.99 * 60)
    # from 10.0 to 10.3
    assert found["duration", "value"] == pytest.approx(0.3)
    assert found["output_throughput", "value"] == pytest.approx(4 / 0.3)
    assert found["total_token_throughput", "value"] == pytest.approx(20 / 0.3)


def test_without_latencies_the_last_gap_ends_the_request() -> None:
    old = {k: v for k, v in DETAIL.items() if k not in ("latencies", "start_times")}
    requests = requests_of(old)
    assert requests.e2el_s.tolist() == pytest.approx([0.14, 0.2])
    assert requests.span_s is None
    assert figures(requests)["duration", "value"] == 0.3


def test_missing_or_uneven_lists_are_refused() -> None:
    with pytest.raises(UnreadableFile, match="itls"):
        requests_of({k: v for k, v in DETAIL.items() if k != "itls"})
    with pytest.raises(UnreadableFile, match="length"):
        requests_of({**DETAIL, "output_lens": [3]})


def test_nothing_succeeded_gives_counts_only() -> None:
    dead = {**DETAIL, "errors": ["x", "x", "x"]}
    assert figures(requests_of(dead)) == {("completed", "value"): 0, ("failed", "value"): 3}


def test_replicas_are_pooled_over_the_union_of_their_time() -> None:
    late = {**DETAIL, "start_times": [10.2, 10.3, 10.3]}
    parts = [requests_of(DETAIL), requests_of(late)]
    both = pool(parts)
    assert both.completed == 4
    assert figures(both)["output_throughput", "value"] == pytest.approx(8 / 0.5)
    assert overlap_share(parts) == pytest.approx(0.1 / 0.5)
    assert overlap_share(parts[:1]) is None


def test_only_real_disagreements_are_named() -> None:
    ours = {("ttft", "mean"): 100.4, ("tpot", "mean"): 10.0, ("itl", "mean"): 5.0}
    theirs = {("ttft", "mean"): 100.0, ("tpot", "mean"): 12.0, ("e2el", "mean"): 1.0}
    assert disagreements(ours, theirs) == {("tpot", "mean"): pytest.approx(10 / 12 - 1)}


def test_small_helpers() -> None:
    values, share = ecdf([3, 1, 2, 2])
    assert values.tolist() == [1, 2, 2, 3]
    assert share.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert goodput_share([10, 30], [5, 5], ttft_limit_ms=20, tpot_limit_ms=6) == 0.5
    assert goodput_share([10], [], ttft_limit_ms=20, tpot_limit_ms=6) is None
    assert output_distance([-1, -2], [-1.5, -2]) == 0.25
    assert output_distance([-1], [-1, -2]) is None


def test_requests_that_failed_met_no_service_level() -> None:
    slo = Slo(ttft_ms=100, tpot_ms=20, share=0.9)
    ten = ([50.0] * 10, [10.0] * 10)
    assert capacity([Point(1, [ten], 60, [1])], slo).shares == {1: 10 / 11}
    lost = capacity([Point(1, [ten], 60, [0]), Point(4, [ten, ten], 90, [0, 2])], slo)
    assert (lost.concurrency, lost.next_failed) == (1, 4)  # 10 of 12 in the second round
    # a round in which all failed has no latencies, and is no round that is not known
    assert capacity([Point(1, [ten, ([], [])], 60, [0, 8])], slo).shares == {1: 0.0}
    assert capacity([Point(1, [([], [])], 60)], slo).shares == {}


def test_capacity_is_never_between_measured_loads() -> None:
    slo = Slo(ttft_ms=100, tpot_ms=20, share=0.9)
    fast, slow = [[50.0] * 10, [10.0] * 10], [[500.0] * 10, [10.0] * 10]
    points = [
        Point(4, [(fast[0], fast[1]), (fast[0], fast[1])], 180),
        Point(1, [(fast[0], fast[1])], 60),
        Point(16, [(fast[0], fast[1]), (slow[0], slow[1])], 400),  # one bad round is enough
    ]
    found = capacity(points, slo)
    assert (found.concurrency, found.next_failed, found.tok_s) == (4, 16, 180)
    assert "between the two it is not known" in found.words
    assert capacity(points[:2], slo).next_failed is None
    nothing = capacity([Point(1, [(slow[0], slow[1])])], slo)
    assert nothing.concurrency is None
    assert "Not even concurrency 1" in nothing.words
    assert capacity([], slo).concurrency is None
    with pytest.raises(InvalidSpec):
        Slo(ttft_ms=0, tpot_ms=1)


def test_the_third_studys_scaling_by_hand() -> None:
    # published: 104.87 / 40.41 = 2.595, 29.15 / 23.57 = 1.237
    found = scaling({1: 40.41, 4: 104.87}, {1: 23.57, 4: 29.15})
    assert found is not None
    assert found.throughput_pct == pytest.approx(159.5, abs=0.05)
    assert found.tpot_pct == pytest.approx(23.7, abs=0.05)
    assert scaling({1: 40.41}, {}) is None


def test_ten_requests_at_four_do_not_fill_the_last_wave() -> None:
    assert "last one of 2" in (drain_note(10, 4) or "")
    assert drain_note(12, 4) is None
    assert drain_note(None, 4) is None


def test_speculation_is_divided_out() -> None:
    # published: (66.0 / 2.47) / (52.6 / 2.41) = 1.224
    first, second = per_acceptance(66.0, 2.47), per_acceptance(52.6, 2.41)
    assert first is not None
    assert second is not None
    assert first / second == pytest.approx(1.224, abs=0.001)
    assert per_acceptance(66.0, None) is None


def test_drift_windows() -> None:
    rows = percentiles_over_time([0, 1, 10, 11], [1, 3, 5, 7], 10)
    assert [(row["t_s"], row["median"], row["n"]) for row in rows] == [(0, 2, 2), (10, 6, 2)]
    assert percentiles_over_time([], [], 10) == []


BASE = Breakdown(client=1, queue=0, prefill=50, decode=500)


@pytest.mark.parametrize(
    ("other", "tp", "compute", "name"),
    [
        (Breakdown(1, 0, 50, 505), 2, 1.0, "none"),
        (Breakdown(300, 0, 50, 500), 2, 1.0, "queue"),
        (Breakdown(1, 400, 50, 500), 2, None, "queue"),
        (Breakdown(1, 0, 100, 1000), 1, None, "compute"),
        (Breakdown(1, 0, 100, 1000), 2, 0.5, "compute"),
        (Breakdown(1, 0, 100, 1000), 2, 0.99, "link"),
        (Breakdown(1, 0, 100, 1000), 2, None, "compute or link"),
        (Breakdown(None, None, None, None), 2, None, "unknown"),
    ],
)
def test_a_cause_is_named_only_where_the_parts_tell(
    other: Breakdown, tp: int, compute: float | None, name: str
) -> None:
    assert name_cause(BASE, other, tp=tp, compute=compute).name == name


def test_compute_rate_from_clocks_or_from_a_busy_host() -> None:
    assert compute_ratio(clock_mhz=(2000, 1000)) == 0.5
    assert compute_ratio(foreign_pct=(0, 60)) == pytest.approx(0.4)
    assert compute_ratio() is None


def phase(name: str, value: float, round_: int) -> Measurement:
    return Measurement(
        metric="phase_time", statistic="mean", unit="ms", value=value, round=round_,
        dims={"phase": name}, definition="x",
    )  # fmt: skip


def test_phases_are_averaged_over_rounds() -> None:
    rows = [phase("queue", 10, 0), phase("queue", 30, 1), phase("decode", 5, 0)]
    assert breakdown(rows) == Breakdown(client=None, queue=20, prefill=None, decode=5)


def test_energy_from_counters_or_power() -> None:
    counted = [
        {"t": t, "uuid": "GPU-a", "energy_mj": 1000 * 300 * t, "power_w": 1} for t in (0, 10)
    ]
    found = energy(counted, 2, 6)
    assert found is not None
    assert (found.joules, found.method) == (pytest.approx(1200), "counter")
    still = [{"t": t, "uuid": "GPU-a", "energy_mj": 5, "power_w": 100 + t} for t in (0, 10)]
    found = energy(still, 0, 10)
    assert found is not None
    assert (found.joules, found.method) == (pytest.approx(1050), "power")
    assert energy(counted, -5, 6) is None  # not sampled that far back
    assert energy([], 0, 1) is None
    assert median_in(still, "power_w", 0, 4) == {"GPU-a": 100}


def test_foreign_load_is_what_the_test_did_not_use() -> None:
    rows = [
        {"t": 0, "cpu_busy_s": 100, "cpu_total_s": 1000, "cpu_own_s": 10},
        {"t": 10, "cpu_busy_s": 115, "cpu_total_s": 1020, "cpu_own_s": 20},
    ]
    assert foreign_load_pct(rows, 0, 10) == pytest.approx(25)
    assert foreign_load_pct(rows, 0, 20) is None


def serving(arm: str, tpots: list[float]) -> Result:
    rows = [
        Measurement(
            metric="tpot", statistic="median", unit="ms", value=value, round=number,
            dims={"concurrency": 4, "scenario": "online"}, definition="vllm:tpot:2",
        )
        for number, value in enumerate(tpots)
    ]  # fmt: skip
    return Result(
        kind="serving", origin="measured", tool=Tool(name="vllm"), measurements=rows,
        evaluation={"id": "e", "arm": arm}, spec={"model_name": "small"},
    )  # fmt: skip


def test_widths_and_sentences_of_a_study() -> None:
    # mean 10, deviation 0.1: width 2 x 4.303 x 0.1 / sqrt(3) / 10 = 4.97 %
    first, second = serving("graphs", [9.9, 10.0, 10.1]), serving("eager", [19.8, 20.0, 20.2])
    (width,) = cell_widths(first).values()
    assert width == pytest.approx(4.97, abs=0.01)
    assert t_95(2) == 4.303
    sentences = study_sentences([first, second])
    assert (
        "small, concurrency 4: eager against graphs: Time per output token +100.0 %"
        in (sentences[0])
    )
    assert "4.97" not in sentences[-1]
    assert "5.0 % of its mean (2 cells)" in sentences[-1]


def test_a_study_of_layouts_is_told_by_question() -> None:
    arms = {
        "tp1": ([8.5, 8.6, 8.7], {"tp": 1}),
        "tp2": ([5.5, 5.6, 5.7], {"tp": 2, "link": "on"}),
        "tp2-off": ([6.5, 6.6, 6.7], {"tp": 2, "link": "off"}),
        "eager": ([25.0, 25.1, 25.2], {"tp": 1, "engine_args": {"enforce-eager": True}}),
    }
    results = [serving(name, tpots) for name, (tpots, _) in arms.items()]
    for result, (_, arm) in zip(results, arms.values(), strict=True):
        result.spec["arm"] = arm
    said = study_sentences(results)
    assert said[0] == (
        "small: Does TP=2 pay here? For the speed of an answer, against one GPU, it pays at "
        "concurrency 4."
    )
    assert said[1].startswith("small: TP=2 instead of one GPU: time per output token -34.9 % [")
    assert said[2].startswith("small: TP=2: the link on instead of off: time per output token -15")
    assert said[3].startswith(
        "small: What the link is worth on 2 GPUs, the best measured layout with it"
    )
    # what is no layout is held against the first arm, as ever
    assert said[4].startswith("small, concurrency 4: eager against tp1: Time per output token +191")
    assert len(said) == 6


def test_a_paired_change_needs_shared_rounds() -> None:
    assert paired_change({0: 1.0}, {1: 2.0}) is None
    value, low, high, count = paired_change({0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0}) or (0, 0, 0, 0)
    assert (value, low, high, count) == (pytest.approx(100), None, None, 2)
    change = paired_change(dict.fromkeys(range(3), 1.0), {0: 2.0, 1: 2.1, 2: 1.9})
    assert change is not None
    assert change[1] is not None
    assert change[2] is not None
    assert change[1] < change[0] < change[2]
    assert math.isfinite(float(np.mean(change[:3])))


def test_acceptance_of_replicas_is_that_of_all_their_drafts() -> None:
    def counts(drafts: int, drafted: int, accepted: int) -> dict[str, int]:
        return {
            "spec_decode_num_drafts": drafts,
            "spec_decode_draft_tokens": drafted,
            "spec_decode_accepted_tokens": accepted,
        }

    # 150 of 200 tokens in 100 drafts, and 20 of 100 in 50: 170 of 300, and 1 + 170 / 150
    rate, length = pooled_acceptance([counts(100, 200, 150), counts(50, 100, 20)]) or (0, 0)
    assert rate == pytest.approx(100 * 170 / 300)
    assert length == pytest.approx(1 + 170 / 150)
    assert pooled_acceptance([counts(1, 2, 1), {}]) is None
    assert pooled_acceptance([]) is None
    assert pooled_acceptance([counts(0, 0, 0)]) is None
