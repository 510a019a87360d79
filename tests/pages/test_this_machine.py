"""Which machine is this one: the one whose worker is heard, whatever results were imported."""

import socket
from datetime import timedelta

import pytest
from sqlalchemy import update

from db import hosts, jobs, runs
from db.engine import writing
from db.schema import Worker
from importers import own_zip
from importers.files import File, expand, read_each
from models.machine import hidden_name
from models.result import Gpu, Result, Tool, utc_now
from pages.widgets import hardware_source, import_store, this_machine

HERE, THERE = "aaaa1111bbbb2222", "cccc3333dddd4444"


def facts(host, card):
    gpus = [{"index": n, "uuid": f"GPU-{host[:4]}-{n}", "name": card} for n in range(2)]
    return {"hostname": host, "boot_id": f"boot-{host[:4]}", "gpus": gpus}


def reading(host, card):
    """What `python -m runners.topology` brings from a machine."""
    known = facts(host, card)
    return Result(
        kind="topology",
        origin="measured",
        title=f"2x {card}",
        tool=Tool(name="linkworth"),
        host=known,
        gpus=[Gpu(index=gpu["index"], name=card, uuid=gpu["uuid"]) for gpu in known["gpus"]],
        links=[["X", "NV4"], ["NV4", "X"]],
    )


def import_bundle(engine, *results):
    """A bundle of another Linkworth, dropped on Import."""
    data = own_zip.pack((result, []) for result in results)
    readings = read_each(list(expand([File("bundle.zip", data)])))
    outcome = import_store.store(engine, readings, {}, lambda _n, _name: None)
    assert len(outcome.stored) == len(results)


@pytest.fixture
def here(empty_database):
    """A worker that has read its machine, and has just been heard of."""
    hosts.remember(empty_database, facts(HERE, "NVIDIA GeForce RTX 3090"))
    jobs.heartbeat(empty_database, "w", pid=1, host=HERE)
    return empty_database


def test_a_bundle_of_another_machine_changes_nothing(here, open_page):
    runs.store(here, reading(HERE, "NVIDIA GeForce RTX 3090"))
    import_bundle(here, reading(THERE, "NVIDIA H200"))
    assert this_machine.host_id() == HERE
    assert [gpu["uuid"] for gpu in this_machine.gpus()] == ["GPU-aaaa-0", "GPU-aaaa-1"]
    assert {row["id"] for row in hosts.list_hosts(here)} == {HERE, THERE}
    at = open_page("hardware")
    assert not at.exception
    (chosen,) = [box for box in at.selectbox if box.label == "Machine"]
    assert hardware_source.is_here(runs.load(here, chosen.value))
    (other,) = runs.list_runs(here, hosts=[THERE])["id"]
    assert not hardware_source.is_here(runs.load(here, other))
    shown = open_page("hardware", runs=other)
    words = "\n".join(each.value for each in (*shown.markdown, *shown.caption, *shown.info))
    assert "This is the machine that Linkworth runs on." not in words


def test_new_run_offers_the_gpus_of_this_machine_alone(here, open_page):
    import_bundle(here, reading(THERE, "NVIDIA H200"))
    at = open_page("new-run", kind="allreduce", devices="cuda")
    assert not at.exception
    offered = "\n".join(
        option for box in (*at.multiselect, *at.selectbox) for option in map(str, box.options)
    )
    assert "RTX 3090" in offered
    assert "H200" not in offered


def test_a_bundle_before_the_first_worker_makes_no_machine(empty_database):
    import_bundle(empty_database, reading(THERE, "NVIDIA H200"))
    assert this_machine.host_id() is None
    assert this_machine.facts() == {}
    assert this_machine.gpus() == []


def test_an_old_result_of_this_machine_does_not_take_its_facts_back(here):
    """Its GPUs were others then: a card was replaced since."""
    import_bundle(here, reading(HERE, "NVIDIA TITAN V"))
    assert {gpu["name"] for gpu in this_machine.gpus()} == {"NVIDIA GeForce RTX 3090"}


def test_the_first_worker_replaces_what_an_import_said_of_its_machine(empty_database):
    import_bundle(empty_database, reading(HERE, "NVIDIA TITAN V"))
    hosts.remember(empty_database, facts(HERE, "NVIDIA GeForce RTX 3090"))
    jobs.heartbeat(empty_database, "w", pid=1, host=HERE)
    assert {gpu["name"] for gpu in this_machine.gpus()} == {"NVIDIA GeForce RTX 3090"}


def test_of_several_workers_the_one_beside_the_app_counts(empty_database):
    mine = hidden_name(socket.gethostname())
    jobs.heartbeat(empty_database, "far", pid=1, host=THERE)
    assert this_machine.host_id() == THERE
    hosts.remember(empty_database, facts(mine, "NVIDIA B200"))
    jobs.heartbeat(empty_database, "near", pid=2, host=mine)
    assert this_machine.host_id() == mine
    assert {gpu["name"] for gpu in this_machine.gpus()} == {"NVIDIA B200"}


@pytest.mark.parametrize(
    ("silent", "known"), [(timedelta(days=1), HERE), (timedelta(days=8), None)]
)
def test_a_silent_worker_counts_for_a_week(here, silent, known):
    with writing(here) as connection:
        connection.execute(update(Worker).values(heartbeat_at=utc_now() - silent))
    import_bundle(here, reading(THERE, "NVIDIA H200"))
    assert this_machine.host_id() == known


def test_the_machine_of_a_shipped_study_may_be_this_one(first_start):
    """Its results came with the code; its worker is heard here all the same."""
    shipped = runs.list_runs(first_start, kinds=["topology"], origins=["measured"], shipped=True)
    host = runs.load(first_start, str(shipped["id"].iloc[0])).host
    jobs.heartbeat(first_start, "w", pid=1, host=str(host["hostname"]))
    assert this_machine.host_id() == host["hostname"]
    hosts.remember(first_start, host)
    assert this_machine.gpus() == host["gpus"]
