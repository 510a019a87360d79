"""The queue's entries from their form to their end."""

import json

import pytest

from db import jobs, runs
from models.errors import InvalidSpec, NotFound

SPEC = {"kind": "topology", "time_limit_s": 60}


def claimed(engine, worker="w1", host="h1"):
    jobs.heartbeat(engine, worker, pid=1, host=host)
    return jobs.claim(engine, worker)


def test_a_new_job_has_every_field(engine):
    job_id = jobs.enqueue(
        engine, SPEC, title="Read the links", evaluation={"id": "e1", "arm": "on"}, order=2
    )
    job = jobs.job(engine, job_id)
    assert job.pop("created_at").tzinfo is not None
    assert job == {
        "id": job_id,
        "kind": "topology",
        "title": "Read the links",
        "state": "queued",
        "reason": "",
        "spec": SPEC,
        "evaluation": {"id": "e1", "arm": "on"},
        "order": 2,
        "time_limit_s": 60,
        "cancel_requested": False,
        "log_tail": "",
        **dict.fromkeys(
            ("worker_id", "host", "boot_id", "pid", "pgid", "started_at", "finished_at",
             "heartbeat_at", "run_id", "stage", "fraction", "message", "eta_s", "live")
        ),
    }  # fmt: skip


def test_the_same_token_is_the_same_job(engine):
    first = jobs.enqueue(engine, SPEC, token="form-1")
    assert jobs.enqueue(engine, {"kind": "p2p"}, token="form-1") == first
    assert jobs.enqueue(engine, SPEC, token="form-2") != first
    assert jobs.enqueue(engine, SPEC) != jobs.enqueue(engine, SPEC)
    assert jobs.counts(engine)["queued"] == 4


def test_a_limit_of_its_own_goes_before_the_spec_s(engine):
    job_id = jobs.enqueue(engine, SPEC, time_limit_s=5)
    assert jobs.job(engine, job_id)["time_limit_s"] == 5


def test_secrets_never_get_in(engine):
    spec = {**SPEC, "hf_token": "hidden", "env": {"API_KEY": "hidden"}, "num_key_value_heads": 8}
    job_id = jobs.enqueue(
        engine,
        spec,
        evaluation={"id": "e", "password": "hidden"},
        title="Serving at http://me:hidden@host",
    )
    told = {"total_token_throughput": 5.5, "server": "http://me:hidden@host"}
    events = [
        {"type": "log", "message": "HF_TOKEN=hidden"},
        {"type": "stage", "stage": "asking http://me:hidden@host"},
        {"type": "round", "data": told},
    ]
    jobs.add_events(engine, job_id, events)
    jobs.finish(engine, job_id, "failed", reason="x_key=hidden", log_tail="AUTH=hidden")
    everything = json.dumps([jobs.job(engine, job_id), jobs.events(engine, job_id)], default=str)
    assert "hidden" not in everything
    assert jobs.job(engine, job_id)["spec"]["num_key_value_heads"] == 8
    assert jobs.events(engine, job_id)[-1]["data"]["total_token_throughput"] == 5.5


def test_from_claim_to_end(engine, make_result):
    job_id = jobs.enqueue(engine, SPEC)
    job = claimed(engine)
    assert job is not None
    assert (job["id"], job["state"], job["worker_id"], job["host"]) == (
        job_id,
        "running",
        "w1",
        "h1",
    )
    jobs.started(engine, job_id, pid=42, pgid=43)
    running = jobs.job(engine, job_id)
    assert (running["pid"], running["pgid"]) == (42, 43)
    run_id = runs.store(engine, make_result(), job_id=job_id)
    jobs.finish(engine, job_id, "succeeded", run_id=run_id, log_tail="x" * 50_000)
    ended = jobs.job(engine, job_id)
    assert (ended["state"], ended["run_id"]) == ("succeeded", run_id)
    assert len(ended["log_tail"]) == 20_000
    assert ended["finished_at"] >= ended["started_at"] >= ended["created_at"]


def test_the_first_end_counts(engine):
    job_id = jobs.enqueue(engine, SPEC)
    claimed(engine)
    jobs.finish(engine, job_id, "timed_out", reason="limit")
    jobs.finish(engine, job_id, "succeeded", reason="late")
    job = jobs.job(engine, job_id)
    assert (job["state"], job["reason"]) == ("timed_out", "limit")


def test_states_have_names(engine):
    job_id = jobs.enqueue(engine, SPEC)
    with pytest.raises(InvalidSpec):
        jobs.finish(engine, job_id, "done")


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: jobs.job(engine, "none"),
        lambda engine: jobs.started(engine, "none", pid=1, pgid=1),
        lambda engine: jobs.finish(engine, "none", "failed"),
        lambda engine: jobs.request_cancel(engine, "none"),
        lambda engine: jobs.events(engine, "none"),
        lambda engine: jobs.add_events(engine, "none", [{"type": "log"}]),
    ],
)
def test_a_job_that_is_not_there(sqlite_engine, call):
    with pytest.raises(NotFound, match="no such job"):
        call(sqlite_engine)


def test_cancel_while_queued_ends_at_once(engine):
    job_id = jobs.enqueue(engine, SPEC)
    jobs.request_cancel(engine, job_id)
    job = jobs.job(engine, job_id)
    assert job["state"] == "cancelled"
    assert job["reason"] == "Cancelled before it started."
    assert claimed(engine) is None


def test_cancel_while_running_is_for_the_worker(engine):
    job_id = jobs.enqueue(engine, SPEC)
    claimed(engine)
    beat = {"pid": 1, "host": "h1", "job_id": job_id}
    assert jobs.heartbeat(engine, "w1", **beat) is False
    jobs.request_cancel(engine, job_id)
    assert jobs.job(engine, job_id)["state"] == "running"
    assert jobs.heartbeat(engine, "w1", **beat) is True
    jobs.finish(engine, job_id, "cancelled")
    jobs.request_cancel(engine, job_id)  # too late, and no harm
    assert jobs.job(engine, job_id)["state"] == "cancelled"


def test_events_in_order_and_the_latest_stage_in_the_job(engine):
    job_id = jobs.enqueue(engine, SPEC)
    rows = [
        {"t": 1.0, "type": "stage", "stage": "warm-up", "fraction": 0.1, "message": "clock",
         "eta_s": 9.0, "level": "info", "data": None},
        {"t": 2.0, "type": "stage", "stage": "measure", "fraction": None, "message": "3 KB",
         "eta_s": None, "level": "info", "data": None},
        {"t": 3.0, "type": "round", "stage": "measure", "fraction": None, "message": "",
         "eta_s": None, "level": "info", "data": {"round": 0, "median": 6.5, "odd": float("nan")}},
        {"t": 4.0, "type": "log", "stage": "", "fraction": None, "message": "half \x00 \ud800 line",
         "eta_s": None, "level": "warning", "data": None},
    ]  # fmt: skip
    jobs.add_events(engine, job_id, rows[:1])
    jobs.add_events(engine, job_id, rows[1:])
    jobs.add_events(engine, job_id, [])
    found = jobs.events(engine, job_id)
    assert [row["t"] for row in found] == [1.0, 2.0, 3.0, 4.0]
    assert found[2]["data"] == {"round": 0, "median": 6.5, "odd": None}
    assert found[3]["message"].startswith("half \ufffd")
    assert jobs.events(engine, job_id, after=found[2]["id"]) == found[3:]
    job = jobs.job(engine, job_id)
    shown = [job[name] for name in ("stage", "fraction", "message", "eta_s")]
    assert shown == ["measure", None, "3 KB", None]


def test_lists_and_counts(engine):
    ids = [jobs.enqueue(engine, SPEC, title=str(n)) for n in range(5)]
    jobs.request_cancel(engine, ids[0])
    assert [job["title"] for job in jobs.list_jobs(engine)] == ["4", "3", "2", "1", "0"]
    assert [job["title"] for job in jobs.list_jobs(engine, limit=2)] == ["4", "3"]
    assert [job["id"] for job in jobs.list_jobs(engine, states=["cancelled"])] == ids[:1]
    assert jobs.list_jobs(engine, states=[]) == []
    assert jobs.counts(engine) == {
        "queued": 4, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 1, "timed_out": 0,
        "lost": 0,
    }  # fmt: skip
