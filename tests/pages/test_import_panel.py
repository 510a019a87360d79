"""Import: looked at before it is stored, completed by a person, never stored twice."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import runs
from settings import settings

FIXTURES = Path(__file__).parents[1] / "importers" / "fixtures"
PANEL = """
from pages.widgets import import_panel, store
import_panel.render(store.engine())
"""

Panel = Callable[[], AppTest]


@pytest.fixture
def panel(empty_database: Engine) -> Panel:
    def opened() -> AppTest:
        return AppTest.from_string(PANEL, default_timeout=30).run()

    return opened


def paste(at: AppTest, name: str) -> AppTest:
    at.text_area[0].set_value((FIXTURES / name).read_text())
    at.button("import-read").click().run()
    assert not at.exception
    return at


def upload(at: AppTest, *names: str) -> AppTest:
    at.file_uploader[0].set_value(
        [(Path(name).name, (FIXTURES / name).read_bytes(), "text/plain") for name in names]
    )
    at.button("import-read").click().run()
    assert not at.exception
    return at


def texts(at: AppTest, kind: str) -> str:
    return " ".join(element.value for element in getattr(at, kind))


def test_it_says_what_can_be_read(panel: Panel) -> None:
    at = panel()
    assert not at.exception
    assert "GuideLLM" in texts(at, "caption")
    at.button("import-read").click().run()
    assert "Drop a file or paste a text first." in texts(at, "info")


def test_a_paste_is_shown_before_it_is_stored(panel: Panel, empty_database: Engine) -> None:
    at = paste(panel(), "vllm/0.33/console_cut.txt")
    assert "1 result in 1 file, 0 not understood" in texts(at, "markdown")
    overview = at.dataframe[0].value
    assert overview["state"].tolist() == ["new"]
    assert "engine version" in overview["missing"][0]
    assert "The table is cut" in overview["looks wrong"][0]
    assert "The table is cut" in texts(at, "warning")
    assert "The file does not say" in texts(at, "caption")
    assert runs.count(empty_database) == 0


def test_what_a_person_says_is_stored_and_marked(panel: Panel, empty_database: Engine) -> None:
    at = paste(panel(), "vllm/0.33/console_good.txt")
    at.text_input("import-said-gpu").set_value("NVIDIA H200")
    at.number_input("import-said-tp").set_value(2)
    at.selectbox("import-said-link").set_value("on")
    at.text_input("import-said-engine_version").set_value("0.33.1")
    at.button("import-store").click().run()
    assert not at.exception
    assert "1 run was stored." in texts(at, "success")
    (run_id,) = runs.list_runs(empty_database)["id"]
    run = runs.load(empty_database, run_id)
    assert run.said == {"gpu": "NVIDIA H200", "tp": 2, "link": "on", "engine_version": "0.33.1"}
    assert run.spec["arm"] == {"tp": 2, "link": "on"}
    assert run.find("tpot", "mean")[0].definition == "vllm:tpot:2"
    assert runs.raw(empty_database, run_id)[0]["name"] == "pasted text"


def test_the_same_bytes_are_refused_with_a_link(panel: Panel, empty_database: Engine) -> None:
    paste(panel(), "vllm/0.8/good.json").button("import-store").click().run()
    at = paste(panel(), "vllm/0.8/good.json")
    assert at.dataframe[0].value["state"].tolist() == ["already stored"]
    assert "is already stored" in texts(at, "info")
    assert "nothing new to store" in texts(at, "info")
    assert runs.count(empty_database) == 1


def test_several_files_at_once(panel: Panel, empty_database: Engine) -> None:
    names = ("vllm/0.8/good.json", "guidellm/0.8/good.json", "vllm/0.12/all_failed.json")
    at = upload(panel(), *names)
    overview = at.dataframe[0].value
    assert overview["state"].tolist() == ["new", "new", "not understood"]
    assert "No request succeeded" in texts(at, "error")
    at.button("import-store").click().run()
    assert "2 runs were stored." in texts(at, "success")
    tools = set(runs.list_runs(empty_database)["tool"])
    assert tools == {"vllm", "guidellm"}


def test_a_sweep_as_zip_becomes_two_runs_of_three_rounds(
    panel: Panel, empty_database: Engine, tmp_path: Path
) -> None:
    packed = shutil.make_archive(str(tmp_path / "sweep"), "zip", FIXTURES / "vllm/0.33/sweep")
    at = panel()
    at.file_uploader[0].set_value([("sweep.zip", Path(packed).read_bytes(), "application/zip")])
    at.button("import-read").click().run()
    at.button("import-store").click().run()
    assert not at.exception
    listed = runs.list_runs(empty_database)
    assert sorted(listed["arm"]) == ["tensor_parallel_size=1", "tensor_parallel_size=2"]
    for run_id in listed["id"]:
        assert runs.rounds(empty_database, run_id)["round"].tolist() == [0, 1, 2]
        assert len(runs.raw(empty_database, run_id)) == 3


def test_secrets_are_not_kept_in_the_raw_file(panel: Panel, empty_database: Engine) -> None:
    at = paste(panel(), "nccl-tests/json3/good.json")
    at.button("import-store").click().run()
    (run_id,) = runs.list_runs(empty_database)["id"]
    data = runs.raw(empty_database, run_id)[0]["data"]
    assert b"hf_" not in data
    assert b"nope" not in data
    assert b"nccl_version" in data


def test_a_run_without_a_number_is_shown_and_not_stored(
    panel: Panel, empty_database: Engine
) -> None:
    whole = (FIXTURES / "nccl-tests/2.17/good.txt").read_text()
    at = panel()
    at.text_area[0].set_value(whole + "$ ./all_reduce_perf -b 8\n" + whole.split("#       size")[0])
    at.button("import-read").click().run()
    assert at.dataframe[0].value["state"].tolist() == ["new", "holds no number"]
    at.button("import-store").click().run()
    assert "1 results held no number" in texts(at, "caption")
    assert runs.count(empty_database) == 1


def test_a_demo_looks_and_stores_nothing(
    panel: Panel, empty_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings.cache_clear()
    at = paste(panel(), "vllm/0.8/good.json")
    at.button("import-store").click().run()
    assert "demo" in texts(at, "error")
    assert runs.count(empty_database) == 0
