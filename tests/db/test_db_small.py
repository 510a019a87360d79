"""Packing, hosts, incidents, studies, scenarios, reference tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from db import hosts, packing, reference, runs, scenarios, studies
from models.errors import InvalidSpec, NotFound, UnreadableFile
from models.result import Claim, Study


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=50))
def test_packed_values_come_back_exactly(values):
    assert packing.unpack_values(packing.pack_values(values)).tolist() == values


def test_packed_values_can_be_changed_by_the_reader():
    values = packing.unpack_values(packing.pack_values([1.0, 2.0]))
    values += 1
    assert values.tolist() == [2.0, 3.0]


def test_a_million_samples_take_less_than_eight_bytes_each():
    values = np.round(np.random.default_rng(1).lognormal(2, 0.1, 100_000), 3)
    assert len(packing.pack_values(values)) < 8 * 100_000


def test_dims_are_one_text_whatever_their_order():
    assert packing.pack_dims({"b": 1, "a": None}) == packing.pack_dims({"a": None, "b": 1})
    assert packing.unpack_dims(packing.pack_dims({"bytes": 3072, "mode": "graph"})) == {
        "bytes": 3072, "mode": "graph",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"gpus": [{"name": "H200"}] * 2, "cpu_model": "A CPU"}, "2 x H200"),
        ({"gpus": [{"name": "A"}, {"name": "B"}, {"name": "A"}]}, "2 x A, B"),
        ({"gpus": ["RTX 3090"]}, "RTX 3090"),
        ({"gpus": [], "cpu_model": "A CPU"}, "A CPU"),
        ({"gpu": "RTX 5090"}, "RTX 5090"),
        ({}, None),
    ],
)
def test_a_host_in_a_few_words(facts, words):
    assert hosts.label(facts) == words


def test_hosts_are_remembered_by_the_hash_of_their_name(engine):
    assert hosts.remember(engine, {"cpu_model": "unknown host"}) is None
    assert hosts.remember(engine, {"hostname": "h1", "boot_id": "b1", "cores": 4}) == "h1"
    hosts.remember(engine, {"hostname": "h1", "boot_id": "b2", "cores": 8})
    (host,) = hosts.list_hosts(engine)
    assert (host["id"], host["boot_id"], host["facts"]["cores"]) == ("h1", "b2", 8)
    assert host["label"] == "h1"
    assert host["last_seen_at"] >= host["first_seen_at"]


def test_incidents_stay_open_until_cleared(engine):
    first = hosts.add_incident(engine, host="h1", gpu=0, kind="reboot", text="It went down.")
    hosts.add_incident(engine, host="h2", kind="survivor", text="It hung.", job_id="j", boot_id="b")
    assert len(hosts.open_incidents(engine)) == 2
    (incident,) = hosts.open_incidents(engine, host_id="h1")
    assert (incident["id"], incident["gpu"], incident["text"]) == (first, "0", "It went down.")
    hosts.clear_incident(engine, first)
    hosts.clear_incident(engine, first)  # a second click does no harm
    assert [row["host"] for row in hosts.open_incidents(engine)] == ["h2"]
    with pytest.raises(NotFound):
        hosts.clear_incident(engine, "none")


STUDY = Study(
    id="my-lab",
    title="My lab",
    origin="measured",
    source="here",
    claims=[Claim(claim="It is faster.", check=None)],
    limits=["One host."],
    facts={"model": {"layers": 28}},
)


def test_a_study_comes_back_as_it_was_and_counts_its_runs(engine, make_result):
    studies.save(engine, STUDY)
    assert studies.study(engine, "my-lab") == STUDY
    runs.store(engine, make_result(study="my-lab"))
    runs.store(engine, make_result(study="my-lab", kind="decode"))
    studies.save(engine, STUDY.model_copy(update={"title": "Our lab"}))
    (listed,) = studies.list_studies(engine)
    assert (listed["title"], listed["n_runs"], listed["kinds"]) == (
        "Our lab", 2, ["allreduce", "decode"],
    )  # fmt: skip
    with pytest.raises(NotFound, match="no such study"):
        studies.study(engine, "none")


def test_scenarios(engine):
    first = scenarios.save(engine, " Two cards ", "roi", {"price": 1200.0})
    scenarios.save(engine, "Two cards", "what_if", {})
    assert scenarios.save(engine, "Two cards", "roi", {"price": 900.0}) == first
    (listed,) = scenarios.list_scenarios(engine, "roi")
    assert (listed["id"], listed["name"]) == (first, "Two cards")
    loaded = scenarios.load(engine, first)
    assert loaded["state"] == {"price": 900.0}
    assert loaded["updated_at"] >= loaded["created_at"]
    scenarios.delete(engine, first)
    assert scenarios.list_scenarios(engine, "roi") == []
    with pytest.raises(NotFound):
        scenarios.load(engine, first)
    with pytest.raises(NotFound):
        scenarios.delete(engine, first)
    with pytest.raises(InvalidSpec, match="needs a name"):
        scenarios.save(engine, "  ", "roi", {})


def test_the_allreduce_reference_as_its_readme_describes_it():
    table = reference.allreduce_reference()
    assert len(table) == 9291
    assert list(table.columns) == [
        "system", "aic_path", "device", "library_version", "mode", "num_gpus", "bytes",
        "latency_us", "dtype",
    ]  # fmt: skip
    assert not table.isna().any().any()
    assert set(table["mode"]) == {"", "vllm_graph", "vllm_eager", "sglang_graph", "sglang_eager"}
    noise = table[
        (table["system"] == "a100_sxm") & (table["num_gpus"] == 8) & (table["bytes"] == 4096)
        & (table["mode"] == "vllm_graph")
    ]  # fmt: skip
    assert noise["latency_us"].round(1).tolist() == [14.8]
    assert not table["device"].str.contains("3090|4090|5090|A6000|MI300|PCIe").any()


def test_the_serving_points_as_their_readme_describes_them():
    table = reference.silicon_rows()
    assert 2900 < len(table) < 3050
    assert "" not in set(table["precision"])
    assert "bf16" in set(table["precision"])
    assert (table["backend_version"] == "").any()
    assert table["tp_size"].dtype == "int64"
    assert (table["silicon_tpot_ms"] > 0).all()


def test_a_reference_table_is_the_caller_s_own():
    own = reference.allreduce_reference()
    own["latency_us"] = 0.0
    assert (reference.allreduce_reference()["latency_us"] > 0).all()


def test_a_missing_reference_table_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    reference._silicon.cache_clear()
    with pytest.raises(UnreadableFile, match=r"silicon_tp_sample\.csv cannot be read"):
        reference.silicon_rows()
