"""The studies that are measured and shipped: whole, sound, without a machine's traces."""

import json
import re

import pytest
from shipped import FOLDER, ROOT, bundle

from db import hosts, runs, studies
from db.seed import seed
from importers import published, recognise
from models.result import json_schema

IDS = (
    *("allreduce-on-2-h200", "decode-on-h200", "hardware-2-h200", "one-h200", "two-h200"),
    *("served-14b-on-2-h200", "served-1-5b-on-2-h200"),
)
N_RUNS = dict(zip(IDS, (6, 11, 3, 4, 10, 7, 9), strict=True))
# folders of machines, home folders, and what a file's owner or a registry would be called
TRACES = re.compile(
    r"/(?:work|root|opt|tmp|home|usr|mnt|var|srv)\b|[A-Z]:\\\\|\broot@|://(?!\w*github)"
    r"|(?i:password|api_key|secret|access_token)"
)


def test_every_shipped_file_is_told_of_here():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(IDS)


@pytest.mark.parametrize("study_id", IDS)
def test_a_study_validates_and_says_its_conditions(study_id):
    data = (FOLDER / f"{study_id}.json").read_bytes()
    assert len(data) < 1_500_000
    found = bundle(study_id)
    assert found.study.id == study_id
    assert found.study.origin == "measured"
    assert found.study.summary
    assert found.study.limits
    assert all(claim.check for claim in found.study.claims)
    assert len({result.id for result in found.results}) == N_RUNS[study_id]
    known = set(json_schema()["properties"])
    for raw, result in zip(json.loads(data)["results"], found.results, strict=True):
        assert set(raw) <= known
        assert result.study == study_id
        assert result.validity != "invalid"
        assert not any(row.value for row in result.find("wrong_values"))
        if result.origin == "measured":
            assert re.fullmatch(r"[0-9a-f]{16}", result.host["hostname"])
            assert result.host["boot_id"]
    assert recognise.read(data, f"{study_id}.json").results == found.results


@pytest.mark.parametrize("study_id", IDS)
def test_a_study_holds_no_trace_of_where_it_was_made(study_id):
    text = (FOLDER / f"{study_id}.json").read_text(encoding="utf-8")
    assert TRACES.findall(text) == []
    for result in bundle(study_id).results:
        # a machine whose name is in a dictionary would be known by the hash of it
        assert result.host.get("hostname") != "5bce98f73f3ed0c8"


def test_seeded_into_an_empty_database_they_load_back_as_shipped(sqlite_engine):
    done = seed(sqlite_engine, ROOT / "data", published.read)
    assert {f"studies/{study_id}.json" for study_id in IDS} <= set(done)
    assert seed(sqlite_engine, ROOT / "data", published.read) == []
    listed = {row["id"]: row["n_runs"] for row in studies.list_studies(sqlite_engine)}
    assert {study_id: listed[study_id] for study_id in IDS} == N_RUNS
    for study_id in IDS:
        shipped = bundle(study_id)
        assert studies.study(sqlite_engine, study_id) == shipped.study
        for result in shipped.results:
            loaded = runs.load(sqlite_engine, result.id)
            assert loaded.measurements == result.measurements
            assert loaded.samples == result.samples
            assert loaded.warnings == result.warnings
            assert loaded.telemetry == result.telemetry
            assert loaded.evaluation == result.evaluation
    # they are of other machines: nothing here may be taken for the reader's own
    assert hosts.list_hosts(sqlite_engine) == []
    hosts.remember(sqlite_engine, {"hostname": "mine", "gpus": []})
    assert [host["id"] for host in hosts.list_hosts(sqlite_engine)] == ["mine"]


def test_shipped_runs_can_be_listed_apart(sqlite_engine, make_result):
    seed(sqlite_engine, ROOT / "data", published.read)
    mine = runs.store(sqlite_engine, make_result())
    assert list(runs.list_runs(sqlite_engine, shipped=False)["id"]) == [mine]
    everything = runs.count(sqlite_engine)
    assert runs.count(sqlite_engine, shipped=True) == everything - 1
    assert mine not in set(runs.list_runs(sqlite_engine, shipped=True)["id"])


def test_what_a_round_notes_of_itself_is_no_changed_condition(sqlite_engine, make_result):
    first, second = (
        {
            "python": "3.12.3",
            "gpu_clocks": [{"round": 0, "before_mhz": clock}],
            "variables": {"NCCL_DEBUG_FILE": f"nccl-{clock}.log"},
        }
        for clock in (1980, 1965)
    )
    run_id = runs.store(sqlite_engine, make_result(evaluation="e", environment=first))
    runs.store(sqlite_engine, make_result(evaluation="e", environment=second))
    assert runs.load(sqlite_engine, run_id).warnings == []
