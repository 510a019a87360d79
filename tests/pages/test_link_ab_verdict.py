"""Link A/B: what vetoes a verdict, what confounds it, what it holds for, what can be shown."""

from typing import Any

import numpy as np
import pytest
from serving_runs import EVALUATION, arm_result, row, said
from sqlalchemy import Engine

from db import runs
from models.result import EvaluationRef, Result, Samples
from pages import PAGES, Entry
from pages.widgets.serving_arms import figures, groups, rounds_of
from pages.widgets.serving_compare import rows_of, table_of
from pages.widgets.serving_confounds import confounds, speculation
from pages.widgets.serving_machine import _beside


@pytest.fixture(autouse=True)
def _in_the_navigation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAGES, "link-ab", Entry("Link A/B", "Explain", "What changed?"))


def both(engine: Engine, first: str = "link-off", second: str = "link-on") -> Any:
    by_name = {arm.name: arm for arm in {g.code: g for g in groups(engine)}[EVALUATION].arms}
    return by_name[first], by_name[second]


def spec_of(arm: str, **changes: Any) -> dict[str, Any]:
    """The spec of `arm_result`, with a changed arm."""
    spec = arm_result(arm, 1.0).spec
    return {**spec, "arm": {**spec["arm"], **changes}}


def logprobs(level: float) -> list[Samples]:
    """Answers of the fixed prompts, before the load."""
    return [
        Samples(
            metric="output_logprob", unit="", dims={"prompt": n, "phase": "before"},
            values=[level, level - 1, level - 2],
        )
        for n in (1, 2)
    ]  # fmt: skip


def with_outputs(result: Result, level: float) -> Result:
    result.samples += logprobs(level)
    return result


def test_outputs_that_differ_veto_the_verdict(database: Engine, open_page: Any) -> None:
    runs.store(database, with_outputs(arm_result("link-off", 1.2), -1.0))
    runs.store(database, with_outputs(arm_result("link-on", 1.0), -3.0))
    at = open_page("link-ab")
    assert not at.exception
    words = said(at)
    assert "**No verdict.** Outputs differ" in words
    assert "2.00 nats" in words
    assert "better" not in words.split("Scorecard")[0]
    table = at.dataframe[0].value
    assert set(table["verdict"]) == {"vetoed"}
    alts = [item.proto.alt for item in at.get("vega_lite_chart")]
    assert not any(text.startswith("Largest change") for text in alts)
    assert "meets TTFT" not in words
    assert "Under load" not in [item.value for item in at.subheader]


def test_outputs_that_agree_leave_the_verdict(database: Engine, open_page: Any) -> None:
    runs.store(database, with_outputs(arm_result("link-off", 1.2), -1.0))
    runs.store(database, with_outputs(arm_result("link-on", 1.0), -1.01))
    words = said(open_page("link-ab"))
    assert "No verdict" not in words
    assert "better" in words
    assert "outputs were not checked" not in words


def test_an_arm_that_is_not_a_number_vetoes_with_its_own_reason(
    database: Engine, open_page: Any
) -> None:
    runs.store(database, arm_result("link-off", 1.2))
    runs.store(database, arm_result("link-on", 0.5, validity="invalid"))
    at = open_page("link-ab")
    words = said(at)
    assert "**No verdict.** link-on is invalid. Output check before the load: NaN" in words
    assert set(at.dataframe[0].value["verdict"]) == {"vetoed"}


def test_an_arm_whose_requests_all_failed_vetoes_too(database: Engine, open_page: Any) -> None:
    why = "Round 0, concurrency 4: no request succeeded, so the tool's zeros are no measurements."
    runs.store(database, arm_result("link-off", 1.2))
    dims = {"concurrency": 4, "input_len": 1024, "output_len": 256, "scenario": "online"}
    failed = [row("failed", "value", 40, "", 0, dims), row("ttft", "median", 1, "ms", 0, dims)]
    runs.store(
        database,
        arm_result("link-on", 1.0, validity="invalid", reasons=[why], measurements=failed),
    )
    assert "**No verdict.** link-on has no valid round: Round 0" in said(open_page("link-ab"))


def test_rounds_of_two_runs_of_an_arm_are_numbered_on(database: Engine) -> None:
    for arm, factor in (("link-off", 1.2), ("link-on", 1.0)):
        runs.store(database, arm_result(arm, factor, rounds=(0,)))  # a quick look
        again = arm_result(arm, factor, rounds=(0, 1, 2))  # what was missing: another start
        again.spec["workloads"] = [{"concurrency": 4, "num_prompts": 41}]
        runs.store(database, again)
    arms = both(database)
    frames = figures(database, arms[0]), figures(database, arms[1])
    assert frames[0]["run_id"].nunique() == 2
    cell = next(cell for cell in frames[0]["cell"] if cell[1] == 4)
    found = rounds_of(frames[0], "tpot", "median", cell)
    assert [(item.round, item.start) for item in found] == [(0, 0), (1, 1), (2, 1), (3, 1)]
    rows = rows_of(*frames, arms, is_paired=True)
    compared = next(r for r in rows if (r.metric, r.statistic, r.cell) == ("tpot", "median", cell))
    assert compared.result is not None
    assert (compared.result.n_reference, compared.result.n_other) == (4, 4)
    # each run's samples are held against that run's figures
    for run_id in arms[0].run_ids:
        items = [
            {**item, "run": run_id}
            for item in runs.samples(database, run_id, metric="tpot")
            if item["dims"]["concurrency"] == 4
        ]
        for item in items:
            lines = _beside(arms[0], frames[0], cell, "tpot", item)
            assert lines
            assert max(abs(line["difference (%)"]) for line in lines) < 0.01


def test_an_arm_against_itself_prints_the_smallest_change_it_can_show(
    database: Engine, open_page: Any
) -> None:
    rng = np.random.default_rng(3)
    for name in ("A", "A again"):
        result = arm_result(name, 1.0, spec=spec_of("link-on"))
        for item in result.measurements:
            if item.value and item.metric in ("output_throughput", "tpot", "ttft"):
                item.value *= float(rng.normal(1, 0.01))
        runs.store(database, result)
    words = said(open_page("link-ab", evaluation=EVALUATION))
    assert "A against A: both arms are one configuration" in words
    assert "smallest change that so many rounds can show here: output throughput" in words


def test_an_arm_against_itself_needs_three_rounds(database: Engine, open_page: Any) -> None:
    for name in ("A", "A again"):
        runs.store(database, arm_result(name, 1.0, rounds=(0,), spec=spec_of("link-on")))
    words = said(open_page("link-ab", evaluation=EVALUATION))
    assert "With three rounds or more an arm" in words
    assert "only its direction counts" in words


def test_conditions_and_what_the_finding_does_not_say(database: Engine, open_page: Any) -> None:
    runs.store(database, arm_result("link-off", 1.2))
    runs.store(database, arm_result("link-on", 1.0))
    words = said(open_page("link-ab", evaluation=EVALUATION))
    assert "It holds for: own/model; concurrency 1, 1024 in, 256 out; concurrency 4" in words
    assert "1x Example GPU; driver 580.1, vLLM 0.25.1; 3 rounds an arm" in words
    assert "It does not say what another model" in words
    assert "outputs were not checked; whether it holds for hours" in words


def stored(engine: Engine, left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    runs.store(engine, arm_result("link-off", 1.2, **left))
    runs.store(engine, arm_result("link-on", 1.0, **right))
    return confounds(engine, both(engine))


def test_link_and_kernel_that_change_together_are_named(database: Engine) -> None:
    found = stored(database, {}, {})
    assert len(found) == 1
    assert found[0].startswith("Link and vLLM's own all-reduce change together")


def test_the_third_arm_has_no_such_confound(database: Engine) -> None:
    third = spec_of("link-on", custom_all_reduce=False)
    assert stored(database, {}, {"spec": third}) == []


def test_more_than_one_change_is_named(database: Engine) -> None:
    other = spec_of("link-on", tp=1, gpus=[0], engine_args={"max-num-seqs": 8})
    found = stored(database, {"spec": spec_of("link-on")}, {"spec": other})
    assert len(found) == 1
    assert "in 2 things at once (TP size 2 against 1; --max-num-seqs default against 8)" in found[0]


def test_another_driver_and_thread_count_are_named(database: Engine) -> None:
    def server(threads: int) -> dict[str, Any]:
        workers = [f"cpus 0-31, OMP_NUM_THREADS {threads}"]
        return {
            "server": {"vllm": "0.25.1", "workers": workers},
            "variables": {"OMP_NUM_THREADS": str(threads)},
        }

    host = {"gpus": [{"index": 0, "name": "Example GPU"}], "driver": "570.9"}
    same = {"spec": spec_of("link-on")}
    found = " ".join(
        stored(
            database,
            {**same, "environment": server(1)},
            {**same, "environment": server(16), "host": host},
        )
    )
    assert "OMP_NUM_THREADS differs (1 against 16)" in found
    assert "OMP_NUM_THREADS of the servers' processes differs (1 against 16)" in found
    assert "driver differs (580.1 against 570.9)" in found


def test_confounds_come_before_other_warnings(database: Engine, open_page: Any) -> None:
    runs.store(database, arm_result("link-off", 1.2, validity="suspect", reasons=["It was hot."]))
    runs.store(database, arm_result("link-on", 1.0))
    words = said(open_page("link-ab", evaluation=EVALUATION))
    assert words.index("change together") < words.index("It was hot.") < words.index("better")


def test_acceptance_is_that_of_all_rounds(database: Engine) -> None:
    """One round's luck is no difference, and one that lasts is."""
    for arm, rates in (("link-off", (74.0, 70.0, 70.5)), ("link-on", (71.5, 71.5, 71.6))):
        result = arm_result(arm, 1.0)
        dims = {"concurrency": 4, "input_len": 1024, "output_len": 256, "scenario": "online"}
        for number, rate in enumerate(rates):
            result.measurements.append(
                row("spec_decode_acceptance_rate", "value", rate, "%", number, dims)
            )
        runs.store(database, result)
    arms = both(database)
    rows = rows_of(figures(database, arms[0]), figures(database, arms[1]), arms, is_paired=True)
    assert speculation(rows, arms) == []  # 71.5 against 71.5 on average
    assert "acceptance" in " ".join(table_of(rows, arms)["figure"]).lower()


def test_an_arm_without_evaluation_has_no_confounds_made_up(database: Engine) -> None:
    loose = arm_result("x", 1.0)
    loose.evaluation = EvaluationRef(id=EVALUATION, arm="bare", order=0)
    loose.spec = {}
    runs.store(database, loose)
    runs.store(database, arm_result("link-on", 1.0))
    assert all("things at once" not in text for text in confounds(
        database, both(database, "bare", "link-on")
    ))  # fmt: skip
