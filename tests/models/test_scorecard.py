"""Ten dimensions, each with evidence or a gap; a check list ticked from the same facts."""

from dataclasses import replace

import pytest

from models.scorecard import DIMENSIONS, Evidence, Finding, Soak, scorecard
from models.scorecard_checks import checklist, thresholds

ARMS = ("link off", "link on")
GAIN = Finding("output_throughput", "value", "concurrency 4", "+14 % [+12, +16]: better.", "better")
FULL = Evidence(
    arms=ARMS,
    validity={"link off": "valid", "link on": "valid"},
    tp={"link off": 2, "link on": 2},
    findings=(
        GAIN,
        Finding("ttft", "p99", "concurrency 4", "-23 % [-30, -15]: better.", "better"),
        Finding("tpot", "median", "concurrency 4", "-5 % [-6, -4]: better.", "better"),
        Finding("itl", "p99", "concurrency 4", "-9 % [-12, -5]: better.", "better"),
    ),
    scenarios=frozenset({"single_stream", "online", "long_output", "short_output"}),
    concurrencies=frozenset({1, 4}),
    outputs="Outputs agree within 0.02 nats.",
    abnormal={"link off": (4, 0), "link on": (4, 0)},
    soaks=(Soak("link off", 8, 9000, 0, 0, 0), Soak("link on", 8, 9900, 0, 0, 0)),
    preemptions={"link off": 12, "link on": 12},
    has_phases=True,
    cause="No slowdown to explain.",
    has_telemetry=True,
    stacks=("driver 580, vLLM 0.25",),
    before_after=("link on before (driver 570) and after (driver 580): same within 2 %.",),
    drill="2026-11-28, back on driver 570 in 14 minutes",
    cost="buy: net gain in 9 months",
    energy="1.9 and 1.7 J a token",
    failures=0,
)


def by_code(evidence: Evidence) -> dict[str, str]:
    return {card.code: card.status for card in scorecard(evidence)}


def test_without_anything_every_dimension_is_open_and_says_what_is_missing() -> None:
    cards = scorecard(Evidence(arms=ARMS))
    assert [card.code for card in cards] == [code for code, _, _ in DIMENSIONS]
    assert len(cards) == 10
    assert {card.status for card in cards} == {"not measured yet"}
    assert all(card.missing for card in cards)
    assert {check.done for check in checklist(Evidence(arms=ARMS))} == {None}


def test_with_everything_every_dimension_is_shown() -> None:
    assert set(by_code(FULL).values()) == {"shown"}
    assert all(check.done for check in checklist(FULL))
    assert len(checklist(FULL)) == 6


@pytest.mark.parametrize(
    ("change", "code", "status"),
    [
        ({"validity": {"link off": "valid", "link on": "invalid"}}, "function", "fails"),
        ({"outputs_wrong": True}, "function", "fails"),
        ({"outputs": None}, "function", "partly"),
        ({"soaks": (Soak("link on", 8, 9, 0, 0, 1),)}, "stability", "fails"),
        ({"abnormal": {"link off": (4, 0), "link on": (3, 1)}}, "stability", "fails"),
        ({"soaks": ()}, "stability", "partly"),
        ({"soaks": tuple(replace(s, hours=0.1) for s in FULL.soaks)}, "stability", "partly"),
        ({"before_after": ()}, "compatibility", "partly"),
        ({"drill": None}, "compatibility", "partly"),
        ({"has_phases": False}, "observability", "partly"),
        ({"cost": None}, "cost", "partly"),
        ({"scenarios": frozenset({"online"})}, "fit", "partly"),
        ({"findings": (replace(GAIN, verdict="published"),)}, "throughput", "partly"),
        ({"findings": (GAIN,)}, "ttft", "not measured yet"),
    ],
)
def test_each_gap_shows_in_its_dimension_only(
    change: dict[str, object], code: str, status: str
) -> None:
    states = by_code(replace(FULL, **change))
    assert states[code] == status
    others = {name: state for name, state in states.items() if name != code}
    if "findings" not in change and "outputs_wrong" not in change:
        assert set(others.values()) == {"shown"}


def test_each_workload_is_told_once_by_its_typical_figure_and_its_tail() -> None:
    def row(metric: str, statistic: str, cell: str = "concurrency 1") -> Finding:
        return Finding(metric, statistic, cell, f"of {metric} {statistic}.", "better")

    found = (
        row("output_throughput", "value"),
        row("total_token_throughput", "value"),
        *(row("ttft", statistic) for statistic in ("mean", "median", "p99")),
        row("ttft", "mean", "concurrency 4"),
        *(row("tpot", statistic) for statistic in ("mean", "p99")),
        row("itl", "p99"),
    )
    cards = {card.code: card.evidence for card in scorecard(replace(FULL, findings=found))}
    assert cards["throughput"] == ("concurrency 1: of output_throughput value.",)
    assert cards["ttft"] == (
        "concurrency 1: median of ttft median; P99 of ttft p99.",
        "concurrency 4: mean of ttft mean.",
    )
    assert cards["tpot"] == ("concurrency 1: mean of tpot mean.",)
    assert cards["itl"] == ("concurrency 1: P99 of itl p99.",)


def test_wrong_outputs_veto_every_figure() -> None:
    cards = {card.code: card for card in scorecard(replace(FULL, outputs_wrong=True))}
    for code in ("throughput", "ttft", "tpot", "itl"):
        assert cards[code].status == "fails"
        assert "better" not in " ".join(cards[code].evidence)
    assert [check.done for check in checklist(replace(FULL, outputs_wrong=True))][:2] == [False] * 2


def test_a_gap_names_the_runs_that_would_fill_it() -> None:
    fills = {card.code: card.fill for card in scorecard(replace(FULL, soaks=(), abnormal={}))}
    assert set(fills["stability"]) == {"soak", "abnormal"}
    again = {c.code: c.fill for c in scorecard(replace(FULL, before_after=()))}
    assert again["compatibility"] == ("again",)
    fit = {c.code: c.fill for c in scorecard(replace(FULL, scenarios=frozenset({"online"})))}
    assert set(fit["fit"]) == {"long_output", "short_output"}


def test_thresholds_come_from_what_was_seen_and_nothing_else() -> None:
    assert thresholds() == []
    found = thresholds(
        ttft_p99_ms=[100, 120], failed_pct=[0, 0.2], sm_clock_mhz=[1900, 2000, 1980],
        temperature_c=[61, 66],
    )  # fmt: skip
    values = {item.name: item.value for item in found}
    assert values["P99 time to first token"] == 180
    assert values["Failed requests"] == 1.0
    assert values["SM clock under load"] == pytest.approx(0.95 * 1980)
    assert values["GPU temperature"] == 71
    assert not next(item for item in found if item.unit == "MHz").above
