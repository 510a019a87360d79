"""Shipped studies: read once, read again when they change, never in the way."""

import json
import logging
from pathlib import Path

import pytest

from db import runs, studies
from db.seed import seed
from models.errors import UnreadableFile
from models.result import Bundle, Measurement, Result, Study, Tool

ROOT = Path(__file__).parents[2]
IDS = ("5d7a3f0e-3a53-4a52-8d0b-6f0a3d2b7c11", "5d7a3f0e-3a53-4a52-8d0b-6f0a3d2b7c12")


def bundle(origin="published", title="A study", study="a-study", ids=IDS):
    return Bundle(
        study=Study(id=study, title=title, origin=origin, source="somebody"),
        results=[
            Result(
                id=run_id,
                kind="allreduce",
                origin=origin,
                tool=Tool(name="x"),
                measurements=[
                    Measurement(metric="allreduce_latency", unit="us", value=28, definition="x:1")
                ],
            )
            for run_id in ids
        ],
    )


def read(data):
    """Stands in for the importer: the file holds the title, or says that it is none."""
    title = json.loads(data)["title"]
    if title == "broken":
        raise UnreadableFile("This is no study.")
    return bundle(title=title)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "published").mkdir()
    (tmp_path / "studies").mkdir()
    (tmp_path / "published" / "one.json").write_text('{"title": "A study"}')
    return tmp_path


def test_read_once(engine, folder):
    assert seed(engine, folder, read) == ["published/one.json"]
    assert seed(engine, folder, read) == []
    assert runs.count(engine, origins=["published"]) == 2
    assert set(runs.list_runs(engine)["study"]) == {"a-study"}  # from the file's study
    assert studies.study(engine, "a-study").title == "A study"
    (file,) = runs.raw(engine, IDS[0])
    assert (file["name"], file["data"]) == ("published/one.json", b'{"title": "A study"}')


def test_a_changed_file_replaces_its_runs(engine, folder, make_result):
    seed(engine, folder, read)
    own = runs.store(engine, make_result(study="a-study"))
    (folder / "published" / "one.json").write_text('{"title": "Mended"}')
    assert seed(engine, folder, read) == ["published/one.json"]
    assert studies.study(engine, "a-study").title == "Mended"
    assert set(runs.list_runs(engine)["id"]) == {*IDS, own}


def test_a_deleted_run_stays_deleted(engine, folder):
    seed(engine, folder, read)
    runs.delete(engine, IDS[0])
    assert seed(engine, folder, read) == []
    assert list(runs.list_runs(engine)["id"]) == [IDS[1]]


def test_bundles_of_measured_studies_are_read_directly(engine, folder):
    ids = ("5d7a3f0e-3a53-4a52-8d0b-6f0a3d2b7c13",)
    content = bundle(origin="measured", study="b-study", ids=ids).model_dump_json(by_alias=True)
    (folder / "studies" / "two.json").write_text(content)
    assert seed(engine, folder, read) == ["published/one.json", "studies/two.json"]
    assert runs.load(engine, ids[0]).origin == "measured"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("published/bad.json", '{"title": "broken"}'),
        ("studies/bad.json", "{}{"),
        # brings results that are there already
        ("published/twice.json", '{"title": "Twice"}'),
    ],
)
def test_a_file_that_cannot_be_stored_stops_nothing(engine, folder, caplog, name, content):
    seed(engine, folder, read)
    (folder / name).write_text(content)
    with caplog.at_level(logging.ERROR):
        assert seed(engine, folder, read) == []
    assert name in caplog.text
    assert runs.count(engine) == 2
    assert studies.study(engine, "a-study").title == "A study"


def test_the_shipped_studies(engine):
    published = pytest.importorskip("importers.published")
    assert len(seed(engine, ROOT / "data", published.read)) >= 3
    assert seed(engine, ROOT / "data", published.read) == []
    listed = {row["id"]: row["n_runs"] for row in studies.list_studies(engine)}
    assert {"nvlink-on-4x3090", "tp-on-5090-and-b200", "two-gpu-interconnect-evaluation"} <= set(
        listed
    )
    assert all(listed.values())
