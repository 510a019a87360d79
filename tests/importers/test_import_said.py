"""What a person adds, and the bundle that carries all of a machine to another."""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from importers import files, own_zip, recognise
from importers.files import File
from importers.said import missing, with_said
from models.errors import UnreadableFile
from models.result import Result

FIXTURES = Path(__file__).parent / "fixtures"


def read(name: str) -> list[Result]:
    return recognise.read((FIXTURES / name).read_bytes(), name).results


def test_what_is_missing_depends_on_the_file() -> None:
    assert missing(read("vllm/0.8/good.json")[0]) == [
        "gpu", "tp", "link", "interconnect", "engine_version",
    ]  # fmt: skip
    assert missing(read("vllm/0.33/detailed.json")[0]) == ["link", "interconnect", "engine_version"]
    assert missing(read("nccl-tests/2.17/good.txt")[0]) == ["link", "interconnect"]
    assert missing(read("vllm-engine/0.11/latency.json")[0]) == []


def test_an_answer_is_marked_and_fills_only_what_the_file_leaves_out() -> None:
    (original,) = read("vllm/0.33/detailed.json")
    answers = {"gpu": "H100", "tp": 8, "link": "off", "engine_version": "0.33.0"}
    said = with_said(original, answers)
    assert said.said == {"link": "off", "engine_version": "0.33.0"}
    assert said.host == {"gpus": [{"name": "H200"}]}, "the file names its GPU"
    assert said.spec["arm"] == {"tp": 2, "link": "off"}
    assert original.said == {}
    assert "link" not in original.spec["arm"]


def test_no_answer_changes_nothing() -> None:
    (original,) = read("vllm/0.8/good.json")
    assert with_said(original, {"gpu": "", "tp": None, "link": ""}) is original


def test_the_version_settles_the_definition() -> None:
    (chat,) = read("vllm/0.12/failed.json")
    before = {row.metric: row.definition for row in chat.measurements}
    assert before["ttft"] == "vllm:ttft:0"
    for version, ttft, tpot in (("0.12.0", 1, 1), ("0.33.1", 2, 2)):
        said = with_said(chat, {"engine_version": version})
        after = {row.metric: row.definition for row in said.measurements}
        assert (after["ttft"], after["tpot"]) == (f"vllm:ttft:{ttft}", f"vllm:tpot:{tpot}")
        assert "no_version" not in {notice.code for notice in said.warnings}


def test_a_link_that_is_said_becomes_the_arm_of_an_all_reduce() -> None:
    (run,) = read("nccl-tests/2.17/good.txt")
    said = with_said(run, {"link": "on", "interconnect": "NVLink"})
    assert {row.dims.get("link") for row in said.find("allreduce_latency")} == {"on"}
    assert said.spec["arm"] == {"link": "on", "interconnect": "NVLink"}


def raw(name: str) -> dict[str, Any]:
    data = (FIXTURES / name).read_bytes()
    return {"name": Path(name).name, "sha256": hashlib.sha256(data).hexdigest(), "data": data}


def test_a_bundle_brings_results_and_raw_files_back() -> None:
    first = read("vllm/0.33/detailed.json")[0]
    second, third = read("nccl-tests/2.17/mpirun_two_runs.txt")
    shared = raw("nccl-tests/2.17/mpirun_two_runs.txt")
    data = own_zip.pack([
        (first, [raw("vllm/0.33/detailed.json"), raw("vllm/0.8/good.json")]),
        (second, [shared]),
        (third, [shared]),
    ])  # fmt: skip
    assert own_zip.looks_like(data)
    readings = files.read_each(list(files.expand([File("all.zip", data)])))
    assert [reading.results for reading in readings] == [[first], [second, third]]
    assert readings[1].raw == (shared["name"], shared["data"])
    name, several = readings[0].raw
    assert name == "raw-files.zip"
    with zipfile.ZipFile(io.BytesIO(several)) as inner:
        assert inner.namelist() == ["0-detailed.json", "1-good.json"]
        assert inner.read("0-detailed.json") == raw("vllm/0.33/detailed.json")["data"]


def test_a_run_without_raw_files_is_kept_as_its_own_json() -> None:
    (run,) = read("vllm/0.8/good.json")
    data = own_zip.pack([(run, [])])
    (reading,) = files.read_each(list(files.expand([File("all.zip", data)])))
    assert reading.results == [run]
    assert json.loads(reading.raw[1])[0]["id"] == run.id


def changed(data: bytes, **entries: bytes | None) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            content = entries.get(name.partition("/")[0].partition(".")[0], old.read(name))
            if content is not None:
                new.writestr(name, content)
    return stream.getvalue()


def test_a_damaged_or_newer_bundle_is_refused() -> None:
    (run,) = read("vllm/0.8/good.json")
    data = own_zip.pack([(run, [raw("vllm/0.8/good.json")])])
    newer = json.dumps({"format": own_zip.FORMAT, "version": 2, "runs": []}).encode()
    for broken, code in (
        (changed(data, results=None), "damaged"),
        (changed(data, raw=None), "damaged"),
        (changed(data, results=b"{"), "damaged"),
        (changed(data, manifest=newer), "too_new"),
    ):
        with pytest.raises(UnreadableFile) as caught:
            list(files.expand([File("all.zip", broken)]))
        assert caught.value.detail == code


def test_a_raw_file_in_utf_16_is_kept_as_utf_8() -> None:
    text = (FIXTURES / "vllm/0.8/good.json").read_text()
    (reading,) = files.read_each([File("a/b.json", text.encode("utf-16"))])
    assert reading.raw == ("b.json", text.encode())
