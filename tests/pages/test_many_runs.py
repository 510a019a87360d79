"""A lab with more runs than a page offers: it says so, and a link to an older one still works."""

import pytest
from streamlit.testing.v1 import AppTest

from db import jobs, runs
from models.result import Gpu, Measurement, Result, Tool
from pages.widgets import hardware_source, offered, speedup_cases, speedup_promise

HERE = {"hostname": "aaaa1111bbbb2222", "gpus": [{"index": 0, "uuid": "GPU-a", "name": "A GPU"}]}
ELSEWHERE = {"hostname": "cccc3333dddd4444", "gpus": []}


@pytest.fixture
def look(database):
    """Open a page alone under a URL: look("allreduce", runs="…")."""

    def opened(slug, **query):
        at = AppTest.from_string(
            f"from pages.{slug}_page import render\nrender()", default_timeout=30
        )
        for name, value in query.items():
            at.query_params[name] = value
        return at.run()

    return opened


def captions(at):
    return "\n".join(each.value for each in at.caption)


def sweep(title):
    rows = [
        Measurement(
            metric="allreduce_latency",
            statistic="median",
            unit="us",
            value=6.5 + size / 1e4,
            round=0,
            dims={"bytes": size, "mode": "graph", "ranks": 2},
            definition="linkworth:allreduce-graph:1",
        )
        for size in (1024, 4096, 16384)
    ]
    return result("allreduce", title=title, measurements=rows, spec={"kind": "allreduce"})


def result(kind, **fields):
    fields = {"origin": "measured", "host": HERE, **fields}
    return Result(kind=kind, tool=Tool(name="linkworth"), **fields)


def machine(title, host=HERE):
    gpus = [Gpu(index=n, name="A GPU", uuid=f"GPU-{n}") for n in range(2)]
    links = [["X", "NV4"], ["NV4", "X"]]
    return result("topology", title=title, host=host, gpus=gpus, links=links)


def step(model):
    row = Measurement(
        metric="decode_step",
        statistic="median",
        unit="ms",
        value=2.0,
        round=0,
        dims={"tp": 1, "batch": 1, "kv_len": 1024, "clock": "replay", "model": model},
        definition="linkworth:decode-replay:1",
    )
    spec = {"kind": "decode", "device": "cuda", "tp": 1, "model_name": model}
    return result("decode", title=model, measurements=[row], spec=spec)


def test_allreduce_offers_the_newest_and_finds_an_older_one(database, look, monkeypatch):
    monkeypatch.setattr(offered, "NEWEST", 1)
    old = runs.store(database, sweep("The old one"))
    runs.store(database, sweep("The new one"))
    at = look("allreduce")
    assert "The newest 1 of 2 AllReduce runs are offered" in captions(at)
    options = at.multiselect(key="allreduce-runs").options
    assert any("The new one" in words for words in options)
    assert not any("The old one" in words for words in options)
    # what came with the app is always there
    assert any("published" in words for words in options)
    at = look("allreduce", runs=old)
    assert at.multiselect(key="allreduce-runs").value == [old]
    assert "hold no all-reduce" not in captions(at)


def test_nothing_is_said_where_all_are_offered(database, look):
    runs.store(database, sweep("The only one"))
    assert "are offered" not in captions(look("allreduce"))


def test_curves_follow_a_new_round_of_the_same_run(database, look):
    plan = {"evaluation": {"id": "e1", "arm": "on"}}
    run_id = runs.store(database, Result.model_validate({**_plain(sweep("It")), **plan}))
    before = look("allreduce", runs=run_id)
    second = Result.model_validate({**_plain(sweep("It")), **plan})
    second.measurements = [
        row.model_copy(update={"value": row.value + 4.0}) for row in second.measurements
    ]
    assert runs.store(database, second) == run_id
    after = look("allreduce", runs=run_id)

    def alt_of(at):
        (alt,) = [
            chart.proto.alt
            for chart in at.get("vega_lite_chart")
            if chart.proto.alt.startswith("Latency from")
        ]
        return alt

    assert alt_of(before) != alt_of(after)


def _plain(one):
    fields = one.model_dump(mode="json", by_alias=True)
    del fields["id"]
    return fields


def test_speedup_says_how_many_are_left_out_and_shows_the_one_asked_for(
    database, look, monkeypatch
):
    monkeypatch.setattr(speedup_cases, "MOST_RUNS", 1)
    old = runs.store(database, step("old-model"))
    runs.store(database, step("new-model"))
    at = look("speedup")
    labels = at.multiselect(key="speedup-cases").options
    assert any("new-model" in label for label in labels)
    assert not any("old-model" in label for label in labels)
    assert "1 older ones are not" in captions(at)
    at = look("speedup", runs=old)
    (code,) = at.multiselect(key="speedup-cases").value
    assert "old-model" in next(
        case.label for case in speedup_cases.build(database, [old]) if case.code == code
    )


def test_the_promise_holds_of_what_came_with_the_app_however_much_is_newer(database, monkeypatch):
    before = speedup_promise.gains(database)
    monkeypatch.setattr(speedup_promise, "MOST_RUNS", 12)
    shipped = runs.list_runs(database, kinds=["serving"], shipped=True)
    assert len(shipped) <= 12
    assert not before.empty
    assert speedup_promise.gains(database)["change"].tolist() == before["change"].tolist()


def test_hardware_shows_an_older_machine_by_its_link(database, look, monkeypatch):
    old = runs.store(database, machine("The old machine", ELSEWHERE))
    runs.store(database, machine("The new machine"))
    monkeypatch.setattr(
        hardware_source,
        "known",
        lambda: runs.list_runs(database, kinds=["topology"], origins=["measured"], limit=1),
    )
    at = look("hardware", runs=old)
    assert not at.exception
    (chosen,) = [box for box in at.selectbox if box.label == "Machine"]
    assert chosen.value == old
    assert len(chosen.options) == 2


def test_hardware_opens_on_this_machine_however_many_others_are_newer(database, look, monkeypatch):
    mine = runs.store(database, machine("My machine"))
    for number in range(3):
        runs.store(database, machine(f"Another {number}", ELSEWHERE))
    jobs.heartbeat(database, "w", pid=1, host=str(HERE["hostname"]))
    monkeypatch.setattr(
        hardware_source,
        "known",
        lambda: runs.list_runs(database, kinds=["topology"], origins=["measured"], limit=2),
    )
    at = look("hardware")
    (chosen,) = [box for box in at.selectbox if box.label == "Machine"]
    assert chosen.value == mine
