"""What lets a page keep what it made: the version of the data, and reading only what it needs."""

import pytest

from db import hosts, jobs, runs
from models.errors import NotFound
from models.result import Measurement

ROW = Measurement(
    metric="allreduce_latency",
    statistic="p90",
    unit="us",
    value=7.0,
    round=0,
    dims={"bytes": 3072},
    definition="linkworth:allreduce-graph:1",
)


def test_version_changes_with_results_and_deletions(engine, make_result):
    versions = [runs.version(engine)]
    first = runs.store(engine, make_result(evaluation="e1", arm="on"))
    versions.append(runs.version(engine))
    # one more round of the same run
    assert runs.store(engine, make_result(evaluation="e1", arm="on")) == first
    versions.append(runs.version(engine))
    newest = runs.store(engine, make_result())
    versions.append(runs.version(engine))
    # the newest goes and another takes its place: as many runs and rounds as before
    runs.delete(engine, newest)
    runs.store(engine, make_result())
    versions.append(runs.version(engine))
    assert len(set(versions)) == len(versions)


def test_version_stays_while_the_queue_moves(engine, make_result):
    runs.store(engine, make_result())
    before = runs.version(engine)
    job_id = jobs.enqueue(engine, {"kind": "topology"})
    jobs.heartbeat(engine, "w", pid=1, host="h", job_id=job_id)
    jobs.add_events(engine, job_id, [{"type": "log", "message": "x"}])
    hosts.remember(engine, {"hostname": "h", "gpus": []})
    assert runs.version(engine) == before


def test_heads_are_runs_without_their_numbers(engine, make_result):
    ids = [runs.store(engine, make_result(title=title)) for title in ("a", "b")]
    asked = [ids[1], "not there", ids[0]]
    found = runs.heads(engine, asked)
    assert list(found) == [ids[1], ids[0]]
    empty = {"measurements": [], "samples": [], "telemetry": []}
    for run_id, head in found.items():
        assert head == runs.load(engine, run_id).model_copy(update=empty)
    assert runs.heads(engine, []) == {}
    assert runs.head(engine, ids[0]) == found[ids[0]]
    with pytest.raises(NotFound):
        runs.head(engine, "not there")


def test_measurements_of_some_statistics(engine, make_result):
    result = make_result()
    runs.store(engine, result.model_copy(update={"measurements": [*result.measurements, ROW]}))
    assert list(runs.measurements(engine, statistics=["p90"])["value"]) == [7.0]
    assert "p90" not in set(runs.measurements(engine, statistics=["median"])["statistic"])


def test_runs_of_some_hosts(engine, make_result):
    mine = runs.store(engine, make_result(host={"hostname": "abc", "gpus": []}))
    runs.store(engine, make_result(host={"hostname": "def", "gpus": []}))
    assert list(runs.list_runs(engine, hosts=["abc"])["id"]) == [mine]
    assert runs.count(engine, hosts=["abc", "def"]) == 2
    assert runs.count(engine, hosts=[]) == 0
    assert list(runs.list_runs(engine, ids=[mine, "not there"])["id"]) == [mine]
    planned = runs.store(engine, make_result(evaluation="e1", arm="on"))
    assert list(runs.list_runs(engine, evaluations=["e1", "e2"])["id"]) == [planned]
