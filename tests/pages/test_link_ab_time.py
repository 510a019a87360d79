"""Link A/B over time: telemetry, errors, alerts, drills, and before and after an upgrade."""

from typing import Any

import pytest
from serving_runs import EVALUATION, arm_result, row, said
from sqlalchemy import Engine

from db import jobs, runs, scenarios
from models.result import EvaluationRef, Result
from pages import PAGES, Entry
from pages.widgets.serving_evidence import DRILL_PAGE
from pages.widgets.serving_loads import sweep_cells

OLD = "11111111-2222-3333-4444-555555555555"


@pytest.fixture(autouse=True)
def _in_the_navigation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAGES, "link-ab", Entry("Link A/B", "Explain", "What changed?"))


def alts(at: Any) -> str:
    return " ".join(item.proto.alt for item in at.get("vega_lite_chart"))


def specs_of(at: Any) -> list[str]:
    return [item.proto.spec for item in at.get("vega_lite_chart")]


def gpu_rows(uuid: str, index: int, n: int = 2300) -> list[dict[str, Any]]:
    return [
        {
            "t": 1000.0 + t / 2,
            "uuid": uuid,
            "index": index,
            "power_w": 300.0 + index,
            "utilization_pct": 99,
            "throttle_reasons": [],
        }
        for t in range(n)
    ]


def test_a_long_record_of_two_gpus_keeps_both(database: Engine, open_page: Any) -> None:
    # as a worker stores them: the GPUs take turns
    pairs = zip(gpu_rows("GPU-a", 0), gpu_rows("GPU-b", 1), strict=True)
    telemetry = [one for pair in pairs for one in pair]
    for arm, factor in (("link-off", 1.2), ("link-on", 1.0)):
        runs.store(database, arm_result(arm, factor, telemetry=telemetry))
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception
    series = next(text for text in specs_of(at) if "GPU 0" in text and "power" in text)
    assert "link-on \\u00b7 GPU 1" in series or "link-on · GPU 1" in series


def on_cpu(arm: str, factor: float) -> Result:
    result = arm_result(arm, factor, tp=1)
    result.spec = {**result.spec, "device": "cpu"}
    result.telemetry = [
        {"t": 1000.0 + t, "cpu_pct": 80.0 + t, "cpu_mhz": 2400.0, "load_1min": 2.0}
        for t in range(5)
    ]
    result.measurements = [
        item for item in result.measurements if item.metric not in ("sm_clock", "energy_per_token")
    ]
    return result


def test_without_gpus_the_processors_are_drawn(database: Engine, open_page: Any) -> None:
    runs.store(database, on_cpu("tp1", 1.2))
    runs.store(database, on_cpu("other", 1.0))
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception
    assert "processor load (%): from 80 to 84" in alts(at)
    assert "Throttle reasons" not in said(at)
    card = next(item.value for item in at.table if "dimension" in item.value)
    seen = card.loc[card["dimension"].str.contains("Observability"), "evidence"].iloc[0]
    assert "load of the host's processors was sampled" in seen


def test_failed_requests_of_each_round_are_drawn(database: Engine, open_page: Any) -> None:
    runs.store(database, arm_result("link-off", 1.2))
    broken = arm_result("link-on", 1.0)
    for item in broken.measurements:
        if item.metric == "failed" and item.round == 1:
            item.value = 3.0
    runs.store(database, broken)
    at = open_page("link-ab", evaluation=EVALUATION)
    assert "Failed requests in all rounds: link-off 0, link-on 6" in alts(at)


def test_failed_requests_meet_no_service_level(database: Engine, open_page: Any) -> None:
    runs.store(database, arm_result("link-off", 1.2))
    failing = arm_result("link-on", 1.0)
    for item in failing.measurements:
        if item.metric == "failed" and item.round == 1 and item.dims.get("concurrency") == 4:
            item.value = 5.0  # of 45: a share of 89 % is good, whatever its latencies
    runs.store(database, failing)
    text = said(open_page("link-ab", slo_ttft="1000", slo_tpot="50", slo_share="95"))
    level = "TTFT 1000 ms and TPOT 50 ms for 95% of requests"
    assert f"**link-off**: All measured loads up to concurrency 4 meet {level}." in text
    assert f"**link-on**: Concurrency 1 meets {level}, 4 does not" in text


def test_no_failed_request_is_said(database: Engine, open_page: Any) -> None:
    for arm, factor in (("link-off", 1.2), ("link-on", 1.0)):
        runs.store(database, arm_result(arm, factor))
    words = said(open_page("link-ab", evaluation=EVALUATION))
    assert "No request failed in the 12 rounds and workloads of both arms." in words


def test_alerts_are_proposed_from_soak_and_telemetry(database: Engine, open_page: Any) -> None:
    dims = {"concurrency": 4, "input_len": 1024, "output_len": 256, "scenario": "soak"}
    for arm, factor in (("link-off", 1.2), ("link-on", 1.0)):
        runs.store(database, arm_result(arm, factor))
        rows = [row("ttft", "p99", 200 + w, "ms", w, dims) for w in range(5)]
        rows += [row("failed", "value", w == 3, "", w, dims) for w in range(5)]
        rows += [row("completed", "value", 9, "", w, dims) for w in range(5)]
        soak = arm_result(arm, 1.0, kind="soak", measurements=rows, samples=[], telemetry=[])
        runs.store(database, soak)
    at = open_page("link-ab", evaluation=EVALUATION)
    tables = [item.value for item in (*at.dataframe, *at.table)]
    table = next(value for value in tables if "alarm" in value).set_index("watch")
    assert float(table.loc["P99 time to first token", "value"]) == 306  # 1.5 x 204
    assert float(table.loc["Failed requests", "value"]) == 20  # twice 1 of 10
    assert float(table.loc["SM clock under load", "value"]) == 1881  # 5 % under 1980
    assert float(table.loc["GPU temperature", "value"]) == 65


def test_a_drill_is_recorded_on_the_page(database: Engine, open_page: Any) -> None:
    for arm, factor in (("link-off", 1.2), ("link-on", 1.0)):
        runs.store(database, arm_result(arm, factor))
    at = open_page("link-ab", evaluation=EVALUATION)
    at.text_input(key="ab-drill-what").set_value("back on 570, 14 min").run()
    at.button(key="ab-drill-save").click().run()
    assert not at.exception
    (kept,) = scenarios.list_scenarios(database, DRILL_PAGE)
    state = scenarios.load(database, kept["id"])["state"]
    assert state["what"] == "back on 570, 14 min"
    assert state["date"] == str(at.date_input(key="ab-drill-day").value)
    card = next(item.value for item in at.table if "dimension" in item.value)
    seen = card.loc[card["dimension"].str.contains("Compatibility"), "evidence"].iloc[0]
    assert "back on 570, 14 min" in seen


def with_driver(arm: str, factor: float, driver: str, evaluation: str) -> Result:
    result = arm_result(arm, factor)
    result.host = {**result.host, "driver": driver}
    result.evaluation = EvaluationRef(id=evaluation, arm=arm, order=0)
    moment = "2026-11-01T10:00:00Z" if evaluation == OLD else "2026-11-20T10:00:00Z"
    data = result.model_dump(by_alias=True) | {"started_at": moment, "finished_at": moment}
    return Result.model_validate(data)


def test_an_upgrade_is_shown_before_and_after(database: Engine, open_page: Any) -> None:
    for evaluation, driver, slower in ((OLD, "570.9", 1.1), (EVALUATION, "580.1", 1.0)):
        for arm, factor in (("link-off", 1.2), ("link-on", 1.0)):
            runs.store(database, with_driver(arm, factor * slower, driver, evaluation))
    for evaluation in (EVALUATION, OLD):  # whichever of the two is looked at
        at = open_page("link-ab", evaluation=evaluation)
        assert not at.exception
        card = next(item.value for item in at.table if "dimension" in item.value)
        mine = card[card["dimension"].str.contains("Compatibility")].iloc[0]
        assert (
            "link-on before (driver 570.9, vLLM 0.25.1) and after (driver 580.1"
            in (mine["evidence"])
        )
        assert "-9.1 %" in mine["evidence"]
        assert "better" in mine["evidence"]
        labels = [item.label for item in at.expander]
        assert "Before and after: link-on" in labels


def test_another_arm_of_that_name_is_no_before(database: Engine, open_page: Any) -> None:
    for arm, factor in (("link-off", 1.2), ("link-on", 1.0)):
        other = with_driver(arm, factor, "570.9", OLD)
        other.spec["arm"]["engine_args"] = {"max-num-seqs": 1}
        runs.store(database, other)
        runs.store(database, with_driver(arm, factor, "580.1", EVALUATION))
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not [item for item in at.expander if item.label.startswith("Before and after")]
    card = next(item.value for item in at.table if "dimension" in item.value)
    missing = card.loc[card["dimension"].str.contains("Compatibility"), "missing"].iloc[0]
    assert "before and after a driver, engine or firmware change" in missing


def test_two_requests_for_what_is_missing_are_two(database: Engine, open_page: Any) -> None:
    for arm, factor in (("link-off", 1.2), ("link-on", 1.0)):
        runs.store(database, arm_result(arm, factor))
    at = open_page("link-ab", evaluation=EVALUATION)
    at.pills(key="ab-fill").set_value(["abnormal"]).run()
    at.button(key="ab-queue").click().run()
    first = len(jobs.list_jobs(database))
    at.pills(key="ab-fill").set_value(["pressure"]).run()
    at.button(key="ab-queue").click().run()
    assert not at.exception
    scenarios_asked = {
        load["scenario"] for job in jobs.list_jobs(database) for load in job["spec"]["workloads"]
    }
    assert scenarios_asked == {"abnormal", "pressure"}
    assert len(jobs.list_jobs(database)) == 2 * first == 4


def test_p99_of_each_latency_against_concurrency(database: Engine, open_page: Any) -> None:
    for arm, factor in (("link-off", 1.2), ("link-on", 1.0)):
        runs.store(database, arm_result(arm, factor, concurrencies=(1, 4, 8)))
    at = open_page("link-ab", evaluation=EVALUATION)
    assert "time to first token, P99 (ms)" in " ".join(specs_of(at))
    at.selectbox(key="ab-tail").set_value("tpot").run()
    assert not at.exception
    assert "time per output token, p99 (ms)" in " ".join(specs_of(at)).lower()


def test_loads_of_other_lengths_are_no_points_of_the_sweep() -> None:
    cells = [
        (None, 1, None, 1024, 256),
        (None, 4, None, 1024, 256),
        (None, 4, None, 64, 32),
        ("long_output", 4, None, 1024, 1024),
        (None, 8, None, 1024, 256),
    ]
    assert [cell[1] for cell in sweep_cells(cells)] == [1, 4, 8]
    assert sweep_cells([]) == []
