"""Which job may start beside which."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import event, select, update

from db import hosts, jobs
from db.claims import resources
from db.engine import reading, writing
from db.schema import Job
from models.result import utc_now

GPUS = [{"index": n, "uuid": f"GPU-{n}{n}{n}{n}", "name": "A GPU"} for n in range(4)]
CPU = {"kind": "allreduce", "device": "cpu", "ranks": 2}


def gpu_spec(*gpus, kind="allreduce"):
    return {"kind": kind, "device": "cuda", "gpus": list(gpus)}


def serving(*gpus, **fields):
    return {"kind": "serving", "arm": {"gpus": list(gpus)}, **fields}


@pytest.fixture
def workers(engine):
    """Three workers on host h1 and one on h2, with what their hosts have."""
    hosts.remember(engine, {"hostname": "h1", "gpus": GPUS})
    hosts.remember(engine, {"hostname": "h2", "gpus": [{"index": 0, "uuid": "GPU-far-away"}]})
    for name in ("a", "b", "c"):
        jobs.heartbeat(engine, name, pid=1, host="h1", boot_id="boot-7")
    jobs.heartbeat(engine, "z", pid=1, host="h2")
    return engine


def claim(engine, worker, **options):
    job = jobs.claim(engine, worker, **options)
    return None if job is None else job["id"]


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        (CPU, ([], True)),
        (gpu_spec(0, "GPU-1111"), (["0", "GPU-1111"], False)),
        (serving(2, 3), (["2", "3"], False)),
        ({"kind": "serving", "arm": {"gpus": []}}, (["*"], False)),
        ({"kind": "serving", "base_url": "http://127.0.0.1:1"}, ([], True)),
        ({"kind": "topology"}, ([], False)),
        ({"kind": "decode"}, ([], True)),
    ],
)
def test_what_a_spec_needs(spec, needs):
    assert resources(spec) == needs


def test_first_come_first_served(workers):
    ids = [jobs.enqueue(workers, {"kind": "topology"}) for _ in range(3)]
    assert [claim(workers, name) for name in "abc"] == ids
    assert claim(workers, "a") is None


def test_a_claim_is_a_lease_of_host_and_boot(workers):
    jobs.enqueue(workers, CPU)
    job = jobs.claim(workers, "a")
    assert job is not None
    assert (job["worker_id"], job["host"], job["boot_id"]) == ("a", "h1", "boot-7")
    assert job["heartbeat_at"] is not None
    assert job["started_at"] is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (gpu_spec(0, 1), gpu_spec(1, 2)),
        (gpu_spec(1), gpu_spec("GPU-1111")),
        (gpu_spec("GPU-2222"), serving(2)),
        (serving(0), {"kind": "serving", "arm": {}}),
        ({"kind": "serving", "arm": {}}, gpu_spec(3)),
        (CPU, CPU),
        (CPU, {"kind": "decode", "device": "cpu"}),
    ],
)
def test_these_never_run_together(workers, first, second):
    one, two = jobs.enqueue(workers, first), jobs.enqueue(workers, second)
    assert claim(workers, "a") == one
    assert claim(workers, "b") is None
    jobs.finish(workers, one, "failed")
    assert claim(workers, "b") == two


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (gpu_spec(0, 1), gpu_spec(2, 3)),
        (gpu_spec(0), CPU),
        (CPU, {"kind": "topology"}),
        (gpu_spec(0), {"kind": "topology"}),
    ],
)
def test_these_run_together(workers, first, second):
    ids = [jobs.enqueue(workers, first), jobs.enqueue(workers, second)]
    assert [claim(workers, "a"), claim(workers, "b")] == ids


def test_a_blocked_job_does_not_hold_up_the_others(workers):
    one = jobs.enqueue(workers, gpu_spec(0))
    waiting = [jobs.enqueue(workers, gpu_spec(0)) for _ in range(120)]  # more than one page
    last = jobs.enqueue(workers, gpu_spec(1))
    assert claim(workers, "a") == one
    assert claim(workers, "b") == last
    jobs.finish(workers, one, "succeeded")
    assert claim(workers, "a") == waiting[0]


def test_hosts_do_not_block_each_other(workers):
    ids = [jobs.enqueue(workers, CPU) for _ in range(2)]
    jobs.enqueue(workers, gpu_spec(0))
    assert claim(workers, "a") == ids[0]
    assert claim(workers, "z") == ids[1]


def test_a_gpu_of_another_host_is_left_to_it(workers):
    job = jobs.enqueue(workers, gpu_spec("GPU-far-away"))
    assert claim(workers, "a") is None
    assert claim(workers, "z") == job


def test_a_gpu_that_nobody_knows_is_tried(workers):
    """Its runner says in a sentence what is missing; a job that waits for ever says nothing."""
    job = jobs.enqueue(workers, gpu_spec("GPU-9999"))
    assert claim(workers, "a") == job


def test_what_others_use_is_busy(workers):
    jobs.enqueue(workers, gpu_spec(0))
    free = jobs.enqueue(workers, gpu_spec(1))
    assert claim(workers, "a", busy_gpus=["GPU-0000"]) == free


def test_another_program_holds_a_job_up_for_so_long_and_no_longer(workers):
    job = jobs.enqueue(workers, gpu_spec(0))
    assert claim(workers, "a", busy_gpus=["GPU-0000"]) is None
    first = jobs.job(workers, job)
    assert first["state"] == "queued"
    assert claim(workers, "a", busy_gpus=["GPU-0000"], busy_patience_s=3600) is None
    found = jobs.claim(workers, "a", busy_gpus=["GPU-0000", "GPU-1111"], busy_patience_s=0)
    assert found is not None
    assert (found["id"], found["shared_gpus"]) == (job, ["GPU-0000"])


def test_the_jobs_of_an_evaluation_wait_once_for_all_of_them(workers):
    def put(order):
        return jobs.enqueue(workers, gpu_spec(0), evaluation={"id": "e1", "arm": "x"}, order=order)

    first, second = put(0), put(1)
    busy = {"busy_gpus": ["GPU-0000"]}
    assert claim(workers, "a", **busy) is None
    with writing(workers) as connection:  # an hour later
        since = utc_now() - timedelta(hours=1)
        connection.execute(update(Job).where(Job.id == first).values(held_since=since))
    assert claim(workers, "a", **busy) == first
    jobs.finish(workers, first, "succeeded")
    assert claim(workers, "a", **busy) == second


def test_a_long_queue_that_waits_for_a_busy_gpu_costs_no_statement_a_job(workers):
    """Every worker asks again and again for as long as the other program stays."""
    statements = []
    event.listen(workers, "before_cursor_execute", lambda *said: statements.append(said[2]))

    def statements_of_a_claim():
        statements.clear()
        assert claim(workers, "a", busy_gpus=["GPU-0000"]) is None
        return len(statements)

    jobs.enqueue(workers, gpu_spec(0))
    statements_of_a_claim()  # its wait begins
    one = statements_of_a_claim()
    ids = [jobs.enqueue(workers, gpu_spec(0)) for _ in range(15)]
    statements_of_a_claim()
    assert statements_of_a_claim() == one
    free = jobs.enqueue(workers, gpu_spec(1))  # and who waits for nobody passes them
    assert claim(workers, "a", busy_gpus=["GPU-0000"]) == free
    with reading(workers) as connection:
        waits = connection.execute(select(Job.held_since).where(Job.id.in_(ids))).scalars().all()
    assert None not in waits


def test_asking_again_does_not_begin_the_wait_anew(workers):
    job = jobs.enqueue(workers, gpu_spec(0))

    def held_since():
        assert claim(workers, "a", busy_gpus=["GPU-0000"]) is None
        with reading(workers) as connection:
            return connection.execute(select(Job.held_since).where(Job.id == job)).scalar()

    since = held_since()
    assert since is not None
    assert held_since() == since


def test_a_gpu_that_became_free_is_shared_with_nobody(workers):
    job = jobs.enqueue(workers, gpu_spec(0))
    assert claim(workers, "a", busy_gpus=["GPU-0000"]) is None
    found = jobs.claim(workers, "a")
    assert found is not None
    assert (found["id"], found["shared_gpus"]) == (job, [])


def test_a_whole_host_is_busy_where_one_gpu_is(workers):
    jobs.enqueue(workers, serving())
    assert claim(workers, "a", busy_gpus=["GPU-3333"]) is None
    found = jobs.claim(workers, "a", busy_gpus=["GPU-3333"], busy_patience_s=0)
    assert found is not None
    assert found["shared_gpus"] == ["GPU-3333"]


def test_a_job_held_up_by_another_program_says_so_and_until_when(workers):
    job = jobs.enqueue(workers, gpu_spec(0, 2))
    busy = {"GPU-0000": 1, "GPU-2222": 2}
    for name, host in (("a", "h1"), ("b", "h1"), ("c", "h1")):
        jobs.heartbeat(workers, name, pid=1, host=host, busy_gpus=busy)
    hosts.remember(workers, {"hostname": "h2", "gpus": []})
    jobs.heartbeat(workers, "z", pid=1, host="h1", busy_gpus=busy)
    said = jobs.waiting_for(workers, job)
    assert said == "Waits for GPU 0 and 2, in use by another program."
    assert claim(workers, "a", busy_gpus=busy) is None
    said = str(jobs.waiting_for(workers, job))
    assert re.search(r"It starts at \d\d:\d\d UTC at the latest; its run is then marked sus", said)
    assert jobs.in_use(workers, "h1") == busy
    for name in ("a", "b", "c", "z"):
        jobs.heartbeat(workers, name, pid=1, host="h1")  # busy now, or cannot tell
    assert jobs.waiting_for(workers, job) is None
    assert jobs.in_use(workers, "h1") == {}


def test_our_own_jobs_are_no_other_program(workers):
    jobs.enqueue(workers, gpu_spec(1))
    assert claim(workers, "a") is not None
    jobs.heartbeat(workers, "b", pid=1, host="h1", busy_gpus={"GPU-1111": 1, "GPU-2222": 1})
    assert jobs.in_use(workers, "h1") == {"GPU-2222": 1}


def test_an_incident_sets_its_gpu_aside_until_it_is_cleared(workers):
    incident = hosts.add_incident(workers, host="h1", gpu=0, kind="survivor", text="It hung.")
    job = jobs.enqueue(workers, gpu_spec("GPU-0000"))
    other = jobs.enqueue(workers, gpu_spec(1))
    assert claim(workers, "a") == other
    assert claim(workers, "b") is None
    hosts.clear_incident(workers, incident)
    assert claim(workers, "b") == job


def test_an_incident_of_the_whole_host_sets_all_its_gpus_aside(workers):
    hosts.add_incident(workers, host="h1", kind="reboot", text="It went down.")
    jobs.enqueue(workers, gpu_spec(0))
    jobs.enqueue(workers, {"kind": "serving", "arm": {}})
    cpu = jobs.enqueue(workers, CPU)
    assert claim(workers, "a") == cpu
    assert claim(workers, "b") is None


def test_a_job_that_waits_says_why(engine):
    hosts.remember(engine, {"hostname": "h1", "gpus": GPUS})
    first = jobs.enqueue(engine, gpu_spec(0))
    assert jobs.waiting_for(engine, first) is None  # no worker: the page says so itself
    jobs.heartbeat(engine, "a", pid=1, host="h1")
    assert jobs.waiting_for(engine, first) is None
    cases = {
        jobs.enqueue(engine, gpu_spec("GPU-0000")): "a GPU that another job uses",
        jobs.enqueue(engine, gpu_spec(1)): "set aside after an incident",
        jobs.enqueue(engine, gpu_spec(2), evaluation={"id": "e", "arm": "x"}, order=1): "its turn",
        jobs.enqueue(engine, gpu_spec(3), evaluation={"id": "e", "arm": "x"}, order=0): None,
    }
    hosts.add_incident(engine, host="h1", gpu=1, kind="survivor", text="It hung.")
    assert claim(engine, "a") == first
    for job, words in cases.items():
        said = jobs.waiting_for(engine, job)
        assert said is None if words is None else words in str(said)
    assert jobs.waiting_for(engine, first) is None  # it runs


def test_a_cpu_job_that_waits_says_why_until_a_host_is_free(workers):
    jobs.enqueue(workers, CPU)
    second = jobs.enqueue(workers, CPU)
    assert claim(workers, "a") is not None
    assert jobs.waiting_for(workers, second) is None  # host h2 could take it
    jobs.enqueue(workers, CPU)
    assert claim(workers, "z") == second
    third = jobs.list_jobs(workers, states=["queued"])[0]["id"]
    assert "on the CPU" in str(jobs.waiting_for(workers, third))
    elsewhere = jobs.enqueue(workers, gpu_spec("GPU-far-away"))
    assert jobs.waiting_for(workers, elsewhere) is None


def test_jobs_of_an_evaluation_run_in_their_order_one_by_one(workers):
    def put(order, gpu):
        return jobs.enqueue(
            workers, gpu_spec(gpu), evaluation={"id": "e1", "arm": "x"}, order=order
        )

    third, first, second = put(2, 2), put(0, 0), put(1, 1)
    between = jobs.enqueue(workers, gpu_spec(3))
    assert claim(workers, "a") == first
    assert claim(workers, "b") == between
    assert claim(workers, "c") is None
    jobs.finish(workers, first, "succeeded")
    assert claim(workers, "c") == second
    jobs.finish(workers, second, "failed")
    assert claim(workers, "c") == third


def test_a_blocked_job_of_an_evaluation_is_not_overtaken_by_its_own(workers):
    evaluation = {"id": "e1", "arm": "x"}
    blocker = jobs.enqueue(workers, gpu_spec(0))
    jobs.enqueue(workers, gpu_spec(0), evaluation=evaluation, order=0)
    jobs.enqueue(workers, gpu_spec(1), evaluation=evaluation, order=1)
    assert claim(workers, "a") == blocker
    assert claim(workers, "b") is None


def test_a_worker_that_never_beat_gets_work_too(engine):
    """By hand or in a test; its host is unknown, so it shares it with others unknown."""
    job = jobs.enqueue(engine, CPU)
    jobs.enqueue(engine, CPU)
    assert claim(engine, "stranger") == job
    assert claim(engine, "stranger") is None
