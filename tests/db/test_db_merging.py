"""Results of one evaluation, arm and workload are rounds of one run."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from db import jobs, runs
from models.result import Artifact, EvaluationRef, Measurement, Notice


def values(engine, run_id):
    frame = runs.measurements(engine, run_ids=[run_id])
    return dict(zip(frame["round"], frame["value"], strict=True))


def serving_spec(number, **fields):
    return {"kind": "serving", "round": number, "seed": 1000 + number, **fields}


def test_rounds_are_numbered_on_and_everything_is_appended(engine, make_result):
    first = runs.store(
        engine, make_result((0, 1), evaluation="e1", value=1.0), raw=b"1", telemetry=[{"t": 1}]
    )
    second = runs.store(
        engine, make_result((0, 1), evaluation="e1", value=2.0), raw=b"2", telemetry=[{"t": 2}]
    )
    assert second == first
    assert runs.count(engine) == 1
    assert values(engine, first) == {0: 1.0, 1: 1.0, 2: 2.0, 3: 2.0}
    assert [item["round"] for item in runs.samples(engine, first)] == [0, 1, 2, 3]
    assert [item["part"] for item in runs.samples(engine, first)] == [0, 0, 1, 1]
    assert list(runs.telemetry(engine, first)["t"]) == [1, 2]
    assert [file["data"] for file in runs.raw(engine, first)] == [b"1", b"2"]
    assert runs.list_runs(engine)["headline"].tolist() == ["1.5 us at 3 KB (graph)"]


@pytest.mark.parametrize(
    "other",
    [
        {"evaluation": "e2"},
        {"arm": "link-off"},
        {"spec": {"kind": "allreduce", "ranks": 4}},
        {"evaluation": None},
    ],
)
def test_what_is_another_run(engine, make_result, other):
    spec = {"kind": "allreduce", "ranks": 2}
    runs.store(engine, make_result(evaluation="e1", spec=spec))
    runs.store(engine, make_result(**{"evaluation": "e1", "spec": spec, **other}))
    assert runs.count(engine) == 2


def test_runs_outside_an_evaluation_stand_alone(engine, make_result):
    for _ in range(2):
        runs.store(engine, make_result())
    assert runs.count(engine) == 2


def test_round_seed_order_and_token_are_no_workload(engine, make_result):
    specs = [
        {"kind": "serving", "round": n, "seed": n, "order": n, "token": str(n), "model": "m"}
        for n in range(3)
    ]
    ids = {runs.store(engine, make_result(evaluation="e1", spec=spec)) for spec in specs}
    assert len(ids) == 1
    assert runs.rounds(engine, ids.pop())["seed"].tolist() == [0, 1, 2]


def test_a_round_keeps_the_number_of_the_plan(engine, make_result):
    """Round 0 of this arm never came: its others still pair with those of the other arm."""
    for number in (2, 1):
        run_id = runs.store(
            engine, make_result((0,), evaluation="e1", value=number, spec=serving_spec(number))
        )
    assert values(engine, run_id) == {2: 2.0, 1: 1.0}


def test_a_plan_s_number_that_is_taken_is_numbered_on(engine, make_result):
    for value in (1.0, 2.0):
        run_id = runs.store(
            engine, make_result((4,), evaluation="e1", value=value, spec=serving_spec(4))
        )
    assert values(engine, run_id) == {4: 1.0, 5: 2.0}


def test_results_that_number_no_round_count_as_one_each(engine, make_result):
    for value in (1.0, 2.0, 3.0):
        run_id = runs.store(engine, make_result((None,), evaluation="e1", value=value))
    assert values(engine, run_id) == {0: 1.0, 1: 2.0, 2: 3.0}


def test_a_value_over_all_rounds_of_a_result_stays_apart_by_part(engine, make_result):
    for value in (1.0, 2.0):
        run_id = runs.store(engine, make_result((None, 0), evaluation="e1", value=value))
    frame = runs.measurements(engine, run_ids=[run_id])
    assert frame[frame["round"].isna()]["part"].tolist() == [0, 1]
    assert frame["round"].dropna().tolist() == [0, 1]


def test_numbers_of_a_lone_result_are_its_own(engine, make_result):
    run_id = runs.store(engine, make_result((5, 3)))
    assert values(engine, run_id) == {5: 6.53, 3: 6.53}


def test_an_invalid_round_shows_in_the_run_and_is_named(engine, make_result):
    wrong = {"validity": "invalid", "reasons": ["Values were wrong."]}
    run_id = runs.store(engine, make_result((0, 1), evaluation="e1"))
    runs.store(engine, make_result(evaluation="e1", **wrong))
    run = runs.load(engine, run_id)
    assert run.validity == "invalid"
    assert run.reasons == ["Round 2: Values were wrong."]
    assert runs.rounds(engine, run_id)["validity"].tolist() == ["valid", "valid", "invalid"]
    # a better round later does not wash it off
    runs.store(engine, make_result(evaluation="e1"))
    runs.store(engine, make_result(evaluation="e1", **wrong))
    run = runs.load(engine, run_id)
    assert (run.validity, run.reasons) == ("invalid", ["Rounds 2 and 4: Values were wrong."])


def test_the_first_result_s_reason_is_named_once_others_join(engine, make_result):
    run_id = runs.store(
        engine, make_result(evaluation="e1", validity="suspect", reasons=["The clock fell."])
    )
    assert runs.load(engine, run_id).reasons == ["The clock fell."]
    runs.store(engine, make_result(evaluation="e1"))
    run = runs.load(engine, run_id)
    assert (run.validity, run.reasons) == ("suspect", ["Round 0: The clock fell."])


def test_a_reason_that_all_results_share_needs_no_number(engine, make_result):
    for _ in range(2):
        run_id = runs.store(
            engine, make_result(evaluation="e1", validity="suspect", reasons=["Few rounds."])
        )
    assert runs.load(engine, run_id).reasons == ["Few rounds."]


def test_a_failed_round_without_numbers_takes_its_place(engine, make_result):
    failed = make_result((), evaluation="e1", validity="invalid", reasons=["The server died."])
    run_id = runs.store(engine, failed)
    assert runs.list_runs(engine)["headline"].tolist() == ["The server died."]
    runs.store(engine, make_result(evaluation="e1"))
    assert runs.rounds(engine, run_id)["round"].tolist() == [0, 1]
    assert runs.load(engine, run_id).reasons == ["Round 0: The server died."]
    assert runs.list_runs(engine)["headline"].tolist() == ["6.53 us at 3 KB (graph)"]


def test_warnings_artifacts_answers_and_times_are_united(engine, make_result):
    a, b = Notice(code="a", text="A."), Notice(code="b", text="B.")
    log = Artifact(name="nccl.log", sha256="0" * 64)
    run_id = runs.store(
        engine,
        make_result(evaluation="e1", warnings=[a], artifacts=[log], said={"tp": 2}),
    )
    runs.store(
        engine,
        make_result(
            evaluation="e1",
            warnings=[a, b],
            artifacts=[log, Artifact(name="nccl.log", sha256="1" * 64)],
            said={"tp": 4, "link": "on"},
            started_at="2026-11-29T10:00:00Z",
            finished_at="2026-11-29T15:00:00Z",
        ),
    )
    run = runs.load(engine, run_id)
    assert run.warnings == [a, b]
    assert len(run.artifacts) == 2
    assert run.said == {"tp": 2, "link": "on"}
    assert (run.started_at.hour, run.finished_at.hour) == (10, 15)


def test_other_conditions_are_told_and_kept(engine, make_result):
    run_id = runs.store(engine, make_result(evaluation="e1"))
    other = {"python": "3.13.0", "variables": {"NCCL_DEBUG": "INFO"}}
    runs.store(engine, make_result(evaluation="e1", environment=other))
    run = runs.load(engine, run_id)
    assert [notice.code for notice in run.warnings] == ["conditions_changed"]
    assert run.warnings[0].text == ("Round 1 ran under other conditions than the first: python.")
    assert runs.rounds(engine, run_id)["environment"].tolist() == [None, other]


def test_a_round_of_another_host_is_doubted(engine, make_result):
    run_id = runs.store(engine, make_result(evaluation="e1"))
    runs.store(engine, make_result(evaluation="e1", host={}))  # failed before it looked
    assert runs.load(engine, run_id).validity == "valid"
    runs.store(engine, make_result(evaluation="e1", host={"hostname": "another"}))
    run = runs.load(engine, run_id)
    assert run.validity == "suspect"
    assert run.reasons == ["Round 2: It ran on another host than the first."]


def test_results_that_arrive_at_once_become_one_run(url, open_engine, make_result):
    engines = [open_engine(url) for _ in range(4)]
    results = [make_result(evaluation="e1", value=float(n)) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        ids = set(pool.map(runs.store, engines, results))
    assert len(ids) == 1
    found = values(engines[0], ids.pop())
    assert list(found) == [0, 1, 2, 3]
    assert sorted(found.values()) == [0.0, 1.0, 2.0, 3.0]


def test_a_repeated_store_of_a_merged_result_changes_nothing(engine, make_result):
    job_id = jobs.enqueue(engine, {"kind": "topology"})
    run_id = runs.store(engine, make_result(evaluation="e1"))
    again = make_result(evaluation="e1")
    for _ in range(2):
        assert runs.store(engine, again, job_id=job_id) == run_id
    assert len(runs.rounds(engine, run_id)) == 2


def test_results_of_one_file_merge_too(engine, make_result):
    results = [make_result(evaluation="e1", value=n) for n in (1.0, 2.0)]
    (run_id,) = runs.store_all(engine, results, raw=b"file")
    assert values(engine, run_id) == {0: 1.0, 1: 2.0}
    assert len(runs.raw(engine, run_id)) == 1


def test_a_merged_run_loads_as_one_result(engine, make_result):
    evaluation = EvaluationRef(id="e1", arm="link-on", order=3, start=0)
    first = make_result().model_copy(update={"evaluation": evaluation})
    runs.store(engine, first)
    second = make_result((0,)).model_copy(
        update={"evaluation": evaluation.model_copy(update={"order": 5, "start": 1})}
    )
    second.measurements.append(
        Measurement(metric="calls_per_step", unit="", value=57, round=0, definition="x:1")
    )
    runs.store(engine, second)
    run = runs.load(engine, first.id)
    assert run.evaluation == evaluation
    assert [(row.metric, row.round) for row in run.measurements] == [
        ("allreduce_latency", 0),
        ("allreduce_latency", 1),
        ("calls_per_step", 1),
    ]
