"""Link A/B on the published studies, on measured arms, and on nothing."""

from typing import Any

import pytest
from serving_runs import EVALUATION, arm_result, row, said
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import jobs, runs, scenarios
from models.errors import ReadOnly
from models.result import Notice
from pages import PAGES, Entry
from pages.widgets import serving_scorecard
from pages.widgets.serving_arms import figures, groups, rounds_of
from pages.widgets.serving_compare import rows_of, table_of
from pages.widgets.serving_confounds import speculation
from pages.widgets.serving_evidence import DRILL_PAGE, gather
from pages.widgets.serving_headline import headline
from settings import settings

PUBLISHED = "nvlink-on-4x3090"
RANGES = "two-gpu-interconnect-evaluation"


@pytest.fixture(autouse=True)
def _in_the_navigation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAGES, "link-ab", Entry("Link A/B", "Explain", "What changed?"))


@pytest.fixture
def measured(database: Engine) -> Engine:
    runs.store(database, arm_result("link-off", 1.2))
    runs.store(database, arm_result("link-on", 1.0))
    return database


def arms_of(engine: Engine, group: str, first: str, second: str) -> tuple[Any, Any]:
    members = {g.code: g for g in groups(engine)}[group].arms
    by_name = {arm.name: arm for arm in members}
    return by_name[first], by_name[second]


def card_of(at: AppTest) -> Any:
    """The scorecard: the table whose rows are dimensions."""
    return next(item.value for item in at.table if "dimension" in item.value)


def compared(engine: Engine, group: str, first: str, second: str) -> Any:
    arms = arms_of(engine, group, first, second)
    rows = rows_of(figures(engine, arms[0]), figures(engine, arms[1]), arms, is_paired=False)
    return arms, rows, table_of(rows, arms)


def test_nothing_to_compare_says_what_to_do(empty_database: Engine, open_page: Any) -> None:
    at = open_page("link-ab")
    assert not at.exception
    assert "Two served arms are needed" in at.info[0].value


def test_the_published_study_is_there_from_a_first_start(database: Engine, open_page: Any) -> None:
    at = open_page("link-ab", evaluation=PUBLISHED)
    assert not at.exception
    words = said(at)
    assert "published" in words
    assert "direction only" in words
    assert "One round per configuration" in words  # the study's own confounds come first
    assert "+22.4 % instead of +25.5 %" in words
    assert len(at.get("vega_lite_chart")) >= 2


@pytest.mark.parametrize(
    ("group", "first", "second", "words"),
    [
        (
            PUBLISHED,
            "B",
            "A",
            "A (TP=2 on the NVLink pair) instead of B (TP=2 across pairs): output throughput 25 "
            "to 53 % higher; time to first token 41 to 45 % shorter; time per output token 15 to "
            "30 % shorter. The direction counts, not the size: fewer than 3 rounds an arm.",
        ),
        (
            RANGES,
            "link off",
            "link on",
            "link on instead of link off: output throughput +8 to +10 % at concurrency 1, "
            "+13 to +15 % at concurrency 4; time to first token -23 % at concurrency 4; latency "
            "(kind not stated), p99 -50 % at concurrency 4. As its author printed it, without "
            "values to check it by.",
        ),
    ],
)
def test_the_answer_in_one_sentence(
    database: Engine, group: str, first: str, second: str, words: str
) -> None:
    arms, rows, _ = compared(database, group, first, second)
    assert headline(arms, rows) == words


def test_the_published_tables_to_the_printed_digit(database: Engine) -> None:
    arms, _, table = compared(database, PUBLISHED, "B", "A")
    by = table.set_index(["workload", "figure"])
    one, four = "concurrency 1, 1024 in, 256 out", "concurrency 4, 1024 in, 256 out"
    speed = "Output throughput (tok/s)"
    assert list(by.loc[(one, speed), ["B", "A"]]) == ["52.6", "66.0"]
    assert list(by.loc[(four, "Time to first token, median (ms)"), ["B", "A"]]) == ["994", "551"]
    assert list(by.loc[(four, "Time per output token, median (ms)"), ["B", "A"]]) == [
        "27.1",
        "19.0",
    ]
    # the author's 25.4 comes from 66.0 / 52.6 = 25.5: ours, and the author's beside it
    assert by.loc[(one, speed), "change (%)"] == 25.5
    assert by.loc[(one, speed), "printed by the author"] == "+25.4 %"
    assert "it is +25.5 %" in by.loc[(one, speed), "note"]
    printed = table[table["printed by the author"] != ""]
    agreeing = printed[printed["note"] == ""]
    assert len(printed) == 4
    assert len(agreeing) == 3
    _, _, other = compared(database, PUBLISHED, "A", "C")
    printed = other[other["printed by the author"] != ""]
    assert list(printed["printed by the author"]) == ["-13 %", "-29.7 %", "+36 %", "+29 %"]
    assert set(printed["note"]) == {""}
    assert arms[0].origin == "published"


def test_the_other_studys_ranges_stay_ranges_and_no_value_is_made_up(database: Engine) -> None:
    _, _, table = compared(database, RANGES, "link off", "link on")
    assert list(table["printed by the author"]) == ["+8 to +10 %", "+13 to +15 %", "-23 %", "-50 %"]
    assert set(table["link on"]) == {""}
    assert list(table["link off"])[:2] == ["40.41", "104.87"]
    assert table["change (%)"].isna().all()
    assert set(table["verdict"]) == {"as printed"}


def test_the_ranges_on_the_page(database: Engine, open_page: Any) -> None:
    at = open_page("link-ab", evaluation=RANGES)
    assert not at.exception
    words = said(at)
    assert "+13 to +15 %" in words
    assert "a last one of 2" in words  # ten requests at four
    alts = [item.proto.alt for item in at.get("vega_lite_chart")]
    assert any("+160 %" in text for text in alts)  # batching beside the link


def test_measured_arms_are_compared_with_intervals(measured: Engine, open_page: Any) -> None:
    at = open_page("link-ab")
    assert not at.exception
    words = said(at)
    assert "better" in words
    assert "● measured" in words
    assert "Link: prefill and decode take 540 ms more a request at the same compute rate" in words
    assert "agree with the tool's own within 0.5 %" in words
    assert "Throttle reasons seen: sw power cap." in words
    alts = " ".join(item.proto.alt for item in at.get("vega_lite_chart"))
    assert "P99 of time to first token" in alts
    assert at.selectbox(key="ab-figure").value == "tpot:median"


def test_a_link_names_the_arms_by_their_runs(measured: Engine, open_page: Any) -> None:
    listed = runs.list_runs(measured, kinds=["serving"], origins=["measured"])
    ids = dict(zip(listed["arm"], listed["id"], strict=True))
    at = open_page("link-ab", runs=f"{ids['link-on']},{ids['link-off']}")
    assert not at.exception
    assert at.selectbox(key=f"ab-a-{EVALUATION}").value == f"{EVALUATION}|link-on"
    assert at.selectbox(key=f"ab-b-{EVALUATION}").value == f"{EVALUATION}|link-off"


def test_two_arms_of_different_studies_may_meet(database: Engine, open_page: Any) -> None:
    at = open_page("link-ab", evaluation="any", a=f"{PUBLISHED}|A", b=f"{RANGES}|link off")
    assert not at.exception
    assert "The two arms share no figure" in said(at)


def test_the_same_arm_twice_is_asked_about(measured: Engine, open_page: Any) -> None:
    code = f"{EVALUATION}|link-on"
    at = open_page("link-ab", evaluation=EVALUATION, a=code, b=code)
    assert not at.exception
    assert "Choose two different arms." in said(at)


def test_an_invalid_arm_vetoes_and_is_not_compared(database: Engine, open_page: Any) -> None:
    runs.store(database, arm_result("link-off", 1.2))
    runs.store(database, arm_result("link-on", 0.5, validity="invalid"))
    at = open_page("link-ab")
    assert not at.exception
    words = said(at)
    assert "link-on is invalid and enters no decision." in words
    assert "Output check before the load: NaN" in words
    arms, rows, _ = compared(database, EVALUATION, "link-off", "link-on")
    assert all(item.result.change_pct is None for item in rows if item.result)
    evidence = gather(
        database, arms, (figures(database, arms[0]), figures(database, arms[1])), rows
    )
    assert evidence.outputs_wrong


def test_invalid_rounds_are_shown_and_left_out(database: Engine) -> None:
    runs.store(database, arm_result("link-on", 1.0, rounds=(0, 1)))
    runs.store(database, arm_result("link-on", 9.0, rounds=(0, 1), validity="invalid"))
    listed = {g.code: g for g in groups(database)}
    (arm,) = listed[EVALUATION].arms
    frame = figures(database, arm)
    cell = next(c for c in frame["cell"] if c[1] == 4)
    found = rounds_of(frame, "tpot", "median", cell)
    assert [item.valid for item in found].count(True) == 2
    assert [item.valid for item in found].count(False) == 2


def test_speculation_that_differs_is_warned_of_once_a_workload(database: Engine) -> None:
    arms, rows, _ = compared(database, PUBLISHED, "A", "C")
    found = speculation(rows, arms)
    assert len(found) == 2
    assert "-16.7 % instead of -13.0 %" in found[0]


def test_the_scorecard_fills_itself_and_queues_what_is_missing(
    measured: Engine, open_page: Any
) -> None:
    at = open_page("link-ab", evaluation=EVALUATION)
    dimensions = list(card_of(at)["dimension"])
    assert "✓ Throughput" in dimensions
    assert "◐ Stability" in dimensions
    at.button(key="ab-queue").click().run()
    assert not at.exception
    queued = jobs.list_jobs(measured)
    assert {job["evaluation"]["arm"] for job in queued} == {"link-off", "link-on"}
    scenarios_asked = {
        load["scenario"] for job in queued for load in job["spec"].get("workloads", [])
    }
    assert {"abnormal", "long_output", "short_output", "pressure"} <= scenarios_asked
    assert {job["evaluation"]["id"] for job in queued} == {EVALUATION}
    before = len(queued)
    at.button(key="ab-queue").click().run()
    assert len(jobs.list_jobs(measured)) == before


def test_published_arms_queue_nothing_here(database: Engine, open_page: Any) -> None:
    at = open_page("link-ab", evaluation=PUBLISHED)
    assert "cannot be queued from here" in said(at)
    assert not [button for button in at.button if button.key == "ab-queue"]


def test_a_rollback_drill_is_kept_and_shown(measured: Engine, open_page: Any) -> None:
    serving_scorecard.record_drill(measured, EVALUATION, "2026-11-28", "back on 570 in 14 min")
    assert len(scenarios.list_scenarios(measured, DRILL_PAGE)) == 1
    at = open_page("link-ab", evaluation=EVALUATION)
    assert any("2026-11-28, back on 570 in 14 min" in text for text in card_of(at)["evidence"])


def test_a_demo_records_and_queues_nothing(
    measured: Engine, open_page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings.cache_clear()
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception
    assert not [button for button in at.button if button.key in ("ab-queue", "ab-drill-save")]
    with pytest.raises(ReadOnly):
        serving_scorecard.record_drill(measured, EVALUATION, "2026-11-28", "x")
    with pytest.raises(ReadOnly):
        serving_scorecard.queue(measured, [], "x")


def test_a_tool_that_contradicts_its_requests_is_named(database: Engine, open_page: Any) -> None:
    lying = arm_result("link-on", 1.0)
    for item in lying.measurements:
        if item.metric == "ttft" and item.statistic == "mean":
            item.value = (item.value or 0) * 1.1
    lying.warnings.append(Notice(code="recomputed_differs", text="mean TTFT differs by -9.1 %"))
    runs.store(database, arm_result("link-off", 1.2))
    runs.store(database, lying)
    at = open_page("link-ab")
    assert "figures differ by more than 0.5 %" in said(at)
    assert "mean TTFT differs by -9.1 %" in said(at)


def test_soak_windows_become_drift_charts(measured: Engine, open_page: Any) -> None:
    dims = {"concurrency": 4, "input_len": 1024, "output_len": 256, "scenario": "soak"}
    for arm in ("link-off", "link-on"):
        rows = [row("tpot", "median", 14 + w / 10, "ms", w, dims) for w in range(5)]
        rows += [row("failed", "value", 0, "", w, dims) for w in range(5)]
        rows += [row("completed", "value", 9, "", w, dims) for w in range(5)]
        rows += [
            row(name, "value", value, unit, None, {})
            for name, value, unit in (("soak_hours", 8.0, "h"), ("incidents", 0, ""))
        ]
        rows.append(row("completed", "value", 45, "", None, dims))
        runs.store(
            measured,
            arm_result(arm, 1.0, kind="soak", measurements=rows, samples=[], telemetry=[]),
        )
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception
    alts = " ".join(item.proto.alt for item in at.get("vega_lite_chart"))
    assert "14 at first, 14.4 at last" in alts
    assert any("link-on: 8 h, 45 requests, 0 failed" in text for text in card_of(at)["evidence"])
