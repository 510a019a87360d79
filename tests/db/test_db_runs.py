"""Results go in and come out the same; lists, files, secrets, deletion."""

import hashlib
import json

import numpy as np
import pytest
from sqlalchemy import func, select

from db import hosts, jobs, runs
from db.engine import reading
from db.schema import Base
from models.errors import DuplicateFile, NotFound
from models.result import Artifact, Gpu, Measurement, Notice, Result, Tool, dump

KEPT = ("jobs", "hosts", "studies", "seeds", "workers", "alembic_version")


def n_rows(engine, *without):
    with reading(engine) as connection:
        return {
            table.name: n
            for table in Base.metadata.sorted_tables
            if table.name not in without
            and (n := connection.execute(select(func.count()).select_from(table)).scalar())
        }


def test_a_result_comes_back_as_it_was(engine, make_result):
    result = make_result(
        (0, 1),
        title="A sweep",
        study="my-lab",
        validity="suspect",
        reasons=["The clock fell."],
        warnings=[Notice(code="few_rounds", text="Only two rounds.")],
        artifacts=[Artifact(name="nccl.log", sha256="0" * 64)],
        said={"tp": 2, "link": None},
        telemetry=[{"uuid": "GPU-1", "power_w": 310.5}, {"uuid": "GPU-1", "throttle": ["sw"]}],
    )
    run_id = runs.store(engine, result)
    assert run_id == result.id
    loaded = runs.load(engine, run_id)
    # rows of telemetry share their columns: a field that one lacks is null
    assert loaded.telemetry == [
        {"uuid": "GPU-1", "power_w": 310.5, "throttle": None},
        {"uuid": "GPU-1", "power_w": None, "throttle": ["sw"]},
    ]
    assert dump(loaded.model_copy(update={"telemetry": result.telemetry})) == dump(result)


def test_a_topology_comes_back_as_it_was(engine):
    result = Result(
        kind="topology",
        origin="measured",
        tool=Tool(name="linkworth"),
        gpus=[Gpu(index=0, name="GPU0", uuid="GPU-a"), Gpu(index=1, name="GPU1")],
        links=[["X", "NV4"], ["NV4", "X"]],
        nics=0,
        complete=True,
    )
    assert dump(runs.load(engine, runs.store(engine, result))) == dump(result)


def test_a_published_range_has_no_value_and_unknown_is_not_zero(engine):
    result = Result(
        kind="serving",
        origin="published",
        tool=Tool(name="vllm"),
        measurements=[
            Measurement(
                metric="output_throughput", statistic="change_pct", unit="%", low=8, high=10,
                relative_to="link off", definition="published:gain:1",
            )
        ],
    )  # fmt: skip
    run_id = runs.store(engine, result)
    assert runs.load(engine, run_id).measurements == result.measurements
    (row,) = runs.measurements(engine).to_dict("records")
    assert np.isnan(row["value"])
    assert (row["low"], row["high"], row["relative_to"]) == (8, 10, "link off")
    assert row["concurrency"] is None


def test_samples_and_telemetry(engine, make_result):
    rows = [{"uuid": "GPU-1", "power_w": 310.5, "t": n} for n in range(3)]
    run_id = runs.store(engine, make_result((0, 1), n_samples=1000), telemetry=rows)
    found = runs.samples(engine, run_id, metric="allreduce_latency")
    assert [item["round"] for item in found] == [0, 1]
    assert found[0]["values"].dtype == np.float64
    assert found[0]["values"][:2].tolist() == [6.53, 6.54]
    assert found[0]["dims"]["bytes"] == 3072
    assert runs.samples(engine, run_id, metric="ttft") == []
    assert runs.telemetry(engine, run_id).to_dict("records") == rows
    assert runs.telemetry(engine, runs.store(engine, make_result())).empty


def test_raw_bytes_are_kept_and_known_by_their_hash(engine, make_result):
    data = b"# nccl-tests\n" * 100
    run_id = runs.store(engine, make_result(), raw=data, raw_name="sweep.txt")
    sha = hashlib.sha256(data).hexdigest()
    assert runs.raw(engine, run_id) == [{"name": "sweep.txt", "sha256": sha, "data": data}]
    assert runs.find_by_sha256(engine, sha.upper()) == run_id
    assert runs.find_by_sha256(engine, "0" * 64) is None


def test_runs_of_one_file_know_each_other(engine, make_result):
    alone = runs.store(engine, make_result(), raw=b"one", raw_name="one.txt")
    ids = runs.store_all(engine, [make_result(), make_result(), make_result()], raw=b"three")
    bare = runs.store(engine, make_result())
    assert runs.of_same_file(engine, ids[1]) == ids
    assert runs.of_same_file(engine, alone) == [alone]
    assert runs.of_same_file(engine, bare) == []
    assert runs.of_same_file(engine, "gone") == []
    runs.delete(engine, ids[0])
    assert runs.of_same_file(engine, ids[1]) == ids[1:]


def test_the_same_bytes_twice(engine, make_result):
    run_id = runs.store(engine, make_result(), raw=b"bytes")
    before = n_rows(engine)
    with pytest.raises(DuplicateFile, match="already stored") as caught:
        runs.store(engine, make_result(), raw=b"bytes", raw_name="again.json")
    assert caught.value.detail == run_id
    assert n_rows(engine) == before


def test_the_same_result_twice(engine, make_result):
    result = make_result()
    runs.store(engine, result, raw=b"bytes")
    with pytest.raises(DuplicateFile) as caught:
        runs.store(engine, result, raw=b"other bytes")
    assert caught.value.detail == result.id
    assert runs.count(engine) == 1


def test_a_worker_may_store_its_result_again(engine, make_result):
    """It was killed between storing and finishing; the next one need not know."""
    result = make_result()
    job_id = jobs.enqueue(engine, {"kind": "topology"})
    first = runs.store(engine, result, job_id=job_id, raw=b"bytes")
    before = n_rows(engine)
    assert runs.store(engine, result, job_id=job_id, raw=b"bytes") == first
    assert n_rows(engine) == before


def test_a_file_of_several_results_is_stored_whole_or_not_at_all(engine, make_result):
    results = [make_result(value=n) for n in (1, 2, 3)]
    assert runs.store_all(engine, results, raw=b"three", raw_name="three.json") == [
        result.id for result in results
    ]
    assert [len(runs.raw(engine, result.id)) for result in results] == [1, 1, 1]
    before = n_rows(engine)
    with pytest.raises(DuplicateFile):
        runs.store_all(engine, [make_result(), results[0]], raw=b"two")
    assert n_rows(engine) == before
    # the file goes with the last of its runs
    for result in results:
        assert runs.find_by_sha256(engine, hashlib.sha256(b"three").hexdigest()) is not None
        runs.delete(engine, result.id)
    assert n_rows(engine, *KEPT) == {}


def test_secrets_of_a_result_never_get_in(engine, make_result):
    result = make_result(
        environment={"variables": {"HF_TOKEN": "hidden", "NCCL_DEBUG": "INFO"}},
        spec={"kind": "serving", "api_key": "hidden", "engine_args": {"max_num_seqs": 8}},
        host={"hostname": "h1", "admin_password": "hidden"},
        title="Server http://me:hidden@host",
        validity="suspect",
        reasons=["http://me:hidden@host did not answer."],
        warnings=[Notice(code="x", text="API_KEY=hidden was refused.")],
        said={"engine_version": "https://me:hidden@host/wheel"},
    )
    raw = json.dumps({"env": {"HF_TOKEN": "hidden"}, "total_input_tokens": 5}).encode()
    run_id = runs.store(engine, result, raw=raw)
    loaded = runs.load(engine, run_id)
    (file,) = runs.raw(engine, run_id)
    everything = json.dumps(
        [dump(loaded), hosts.list_hosts(engine), runs.rounds(engine, run_id).to_dict("records")],
        default=str,
    )
    assert loaded.title == "Server http://(removed)@host"
    assert "hidden" not in everything
    assert loaded.environment == {"variables": {"NCCL_DEBUG": "INFO"}}
    assert loaded.spec["engine_args"] == {"max_num_seqs": 8}
    assert json.loads(file["data"]) == {"env": {}, "total_input_tokens": 5}
    assert file["sha256"] == hashlib.sha256(file["data"]).hexdigest()
    # found by what arrived and by what was kept, and refused a second time either way
    assert runs.find_by_sha256(engine, hashlib.sha256(raw).hexdigest()) == run_id
    assert runs.find_by_sha256(engine, file["sha256"]) == run_id
    with pytest.raises(DuplicateFile):
        runs.store(engine, make_result(), raw=raw)


def test_delete_takes_everything_of_the_run_and_nothing_else(engine, make_result):
    kept = runs.store(engine, make_result(), raw=b"kept", telemetry=[{"t": 1}])
    before = n_rows(engine, *KEPT)
    job_id = jobs.enqueue(engine, {"kind": "topology"})
    gone = runs.store(engine, make_result((0, 1)), job_id=job_id, raw=b"gone", telemetry=[{"t": 1}])
    jobs.finish(engine, job_id, "succeeded", run_id=gone)
    runs.delete(engine, gone)
    assert n_rows(engine, *KEPT) == before
    assert list(runs.list_runs(engine)["id"]) == [kept]
    assert jobs.job(engine, job_id)["run_id"] is None
    assert runs.raw(engine, kept)[0]["data"] == b"kept"
    runs.store(engine, make_result(), raw=b"gone")  # its bytes may come again


@pytest.mark.parametrize(
    "call", [runs.load, runs.delete, runs.samples, runs.telemetry, runs.rounds]
)
def test_a_run_that_is_not_there(sqlite_engine, call):
    with pytest.raises(NotFound, match="no such run"):
        call(sqlite_engine, "none")


def test_an_imported_file_does_not_overwrite_what_a_probe_found(engine, make_result):
    hosts.remember(engine, {"hostname": "h1", "gpus": [{"index": 0, "uuid": "GPU-new"}]})
    old = {"hostname": "h1", "gpus": [{"index": 0, "uuid": "GPU-old"}]}
    runs.store(engine, make_result(host=old, origin="imported"))
    assert hosts.list_hosts(engine)[0]["facts"]["gpus"][0]["uuid"] == "GPU-new"
    runs.store(engine, make_result(host=old), job_id="a-job")
    assert hosts.list_hosts(engine)[0]["facts"]["gpus"][0]["uuid"] == "GPU-old"


def test_what_json_cannot_hold_is_unknown(engine, make_result):
    run_id = runs.store(
        engine, make_result(host={"hostname": "h1", "load": float("nan"), "note": "a\x00b"})
    )
    assert runs.load(engine, run_id).host["load"] is None
    runs.store(engine, make_result(title="a\x00b"), telemetry=[{"power_w": float("inf")}])
