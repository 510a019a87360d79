"""What comes through the door, and in which words the rest is refused."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from importers import archive, files, own, recognise, text
from importers.__main__ import main
from importers.files import File
from models.errors import UnreadableFile
from models.result import Bundle, Result, dumps, json_schema

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = Path(__file__).parent / "fixtures"
GOOD = (FIXTURES / "vllm/0.8/good.json").read_bytes()
TABLE = (FIXTURES / "vllm/0.33/console_good.txt").read_bytes()


def refusal(data: bytes) -> UnreadableFile:
    with pytest.raises(UnreadableFile) as caught:
        recognise.read(data)
    return caught.value


def one(data: bytes) -> Result:
    (result,) = recognise.read(data).results
    return result


@pytest.mark.parametrize(
    "encoded",
    [
        GOOD.decode().encode("utf-8-sig"),
        GOOD.decode().encode("utf-16"),
        GOOD.decode().encode("utf-16-le"),
        GOOD.decode().encode("utf-16-be"),
        GOOD.decode().encode("utf-32"),
        GOOD.replace(b"\n", b"\r\n"),
        b"\n\n" + GOOD + b"\n\x00",
    ],
    ids=["utf-8-bom", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "crlf", "padding"],
)
def test_every_encoding_gives_the_same_run(encoded: bytes) -> None:
    assert one(encoded).id == one(GOOD).id


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"", "empty", "This file is empty."),
        (b" \n\n", "empty", "This file is empty."),
        (b"\x1b[0m", "empty", "This file holds no text."),
        ((FIXTURES / "other/login_page.json").read_bytes(), "web_page", "This is a web page"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(64), "binary", "This is a binary file"),
        (GOOD[:300], "truncated", "This JSON file ends in the middle"),
        (GOOD.replace(b"20.0", b"20,0", 1), "malformed", "This is not valid JSON: line"),
        (b'{"a": ' + b"9" * 6000 + b"}", "malformed", "a number that no computer can store"),
        (b"[" * 900 + b"]" * 900, "too_deep", "nested deeper than 40 levels"),
        (b'{"a":' * 30_000, "too_deep", "nested deeper than 40 levels"),
        (b'{"hello": "world"}', "unknown_format", "no result file that Linkworth knows"),
        (b"{}", "unknown_format", "no result file that Linkworth knows"),
        (b"[1, 2, 3]", "unknown_format", "no result file that Linkworth knows"),
        (b"Dear colleague, the new cards are fast.", "unknown_format", "no result file"),
        ((FIXTURES / "other/metrics.txt").read_bytes(), "not_a_result", "counters of a running"),
        ((FIXTURES / "other/decimal_commas.txt").read_bytes(), "decimal_comma", "100,50"),
        (
            TABLE + (FIXTURES / "nccl-tests/2.17/good.txt").read_bytes(),
            "two_formats",
            "two kinds of output",
        ),
    ],
)
def test_the_right_sentence(data: bytes, code: str, words: str) -> None:
    error = refusal(data)
    assert error.detail == code
    assert words in error.sentence
    assert error.sentence.endswith(".")


def test_an_unknown_file_is_told_what_was_looked_for() -> None:
    step = refusal(b"{}").next_step
    for name in ("vLLM serving JSON", "GuideLLM CSV", "nccl-tests", "GPU link table", "exports"):
        assert name in step


def test_nan_and_infinity_are_missing_values() -> None:
    result = one(GOOD.replace(b"100.5", b"NaN").replace(b"140.0", b"-Infinity"))
    assert result.find("ttft", "mean") == []
    assert result.find("ttft", "p99") == []
    assert [notice.text for notice in result.warnings if notice.code == "not_finite"] == [
        "2 values are NaN or Infinity: they count as missing."
    ]
    text = result.model_dump_json()
    assert "NaN" not in text.replace("NaN or Infinity", "")


def test_an_infinite_request_rate_stays() -> None:
    result = one(GOOD.replace(b'"inf"', b"Infinity"))
    assert result.measurements[0].dims["request_rate"] == "inf"


def test_a_value_that_is_a_text_is_no_number() -> None:
    result = one(GOOD.replace(b"512.0", b'"512.0"').replace(b"2560.0", b"true"))
    assert result.find("output_throughput") == []
    assert result.find("total_token_throughput") == []


def test_a_large_file_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_BYTES", 500)
    error = refusal(GOOD)
    assert error.detail == "too_large"
    assert "files above 0 kB are not read" in error.sentence


@pytest.mark.slow
def test_a_file_of_100_mb_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.write(b'{"completed": 1, "itls": [')
        for _ in range(100):
            stream.write(b"0.0123456789," * 80_660)
        stream.write(b"0]}")
    assert path.stat().st_size > 100_000_000
    ended = subprocess.run(
        [sys.executable, "-m", "importers", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("This file has 105 MB; files above 67 MB are not read.")
    assert ended.stderr.count("\n") == 1


def test_our_own_export_comes_back_without_loss() -> None:
    first = recognise.read(GOOD).results + recognise.read(TABLE).results
    exported = dumps(first)
    assert dumps(recognise.read(exported.encode()).results) == exported
    single = json.dumps(json.loads(exported)[0])
    assert recognise.read(single.encode()).results == first[:1]
    lines = "\n".join(json.dumps(item) for item in json.loads(exported))
    assert recognise.read(lines.encode()).results == first


def test_a_bundle_keeps_its_study_and_warnings() -> None:
    published = ROOT / "data/published/nvlink-on-4x3090.json"
    bundle = recognise.read(published.read_bytes(), published.name)
    assert bundle.study is not None
    exported = bundle.model_dump_json(by_alias=True)
    back = recognise.read(exported.encode())
    assert back == bundle


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "data/published").glob("*.json")))
def test_published_studies_come_through_the_same_door(name: str) -> None:
    bundle = recognise.read((ROOT / "data/published" / name).read_bytes(), name)
    assert bundle.study is not None
    assert {result.origin for result in bundle.results} <= {"published", "described"}


def test_an_export_that_was_edited_or_is_newer_is_refused() -> None:
    item = json.loads(dumps(recognise.read(GOOD).results))[0]
    newer = refusal(json.dumps({**item, "schema": 2}).encode())
    assert newer.detail == "too_new"
    edited = refusal(json.dumps({**item, "validity": "excellent"}).encode())
    assert "validity" in edited.sentence
    assert own.looks_like([item, item])


def test_results_have_the_published_schema() -> None:
    import jsonschema

    schema = json_schema()
    for path in sorted(FIXTURES.rglob("*.*")):
        if not path.is_file():
            continue
        try:
            bundle = recognise.read(path.read_bytes(), path.name)
        except UnreadableFile:
            continue
        for item in json.loads(dumps(bundle.results)):
            jsonschema.validate(item, schema)


def test_the_same_record_twice_is_one_result() -> None:
    readings = files.read_each([File("a.json", GOOD), File("b.json", GOOD + b"\n")])
    assert [len(reading.results) for reading in readings] == [1, 0]
    assert readings[1].bundle is not None
    assert readings[1].bundle.warnings[-1].code == "duplicate"


def packed(entries: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in entries.items():
            target.writestr(name, content)
    return stream.getvalue()


def test_a_zip_is_its_files() -> None:
    data = packed({
        "runs/a.json": GOOD, "runs/b.txt": TABLE, "notes.txt": b"nothing", "empty/": b"",
        "__MACOSX/a.json": b"junk", "runs/.hidden.json": b"junk",
    })  # fmt: skip
    expanded = list(files.expand([File("mine.zip", data)]))
    assert [file.name for file in expanded] == [
        "mine/notes.txt",
        "mine/runs/a.json",
        "mine/runs/b.txt",
    ]
    readings = files.read_each(expanded)
    assert [len(reading.results) for reading in readings] == [0, 1, 1]
    assert readings[0].error is not None


@pytest.mark.parametrize(
    "name", ["../a.json", "/etc/a.json", "x/../../a.json", "C:/a.json", "a\\b"]
)
def test_names_that_lead_out_of_a_zip_are_left_out(name: str) -> None:
    assert list(archive.members(packed({name: GOOD, "b.json": GOOD}))) == [("b.json", GOOD)]


def test_a_zip_bomb_and_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 10_000)
    with pytest.raises(UnreadableFile, match="larger than"):
        list(archive.members(packed({"bomb.txt": bytes(100_000)})))
    monkeypatch.setattr(archive, "MAX_TOTAL", 15_000)
    many = packed({"a.txt": bytes(9_000), "b.txt": bytes(9_000)})
    with pytest.raises(UnreadableFile, match="unpacks to more than"):
        list(archive.members(many))
    monkeypatch.setattr(archive, "MAX_MEMBERS", 1)
    with pytest.raises(UnreadableFile, match="1 are the limit"):
        list(archive.members(many))


def test_a_damaged_zip_is_refused() -> None:
    whole = packed({"a.json": GOOD})
    for data in (whole[:-30], whole[:60] + bytes(40) + whole[100:]):
        with pytest.raises(UnreadableFile) as caught:
            list(archive.members(data))
        assert caught.value.detail == "damaged"


def test_progress_names_every_file() -> None:
    told: list[tuple[int, str]] = []
    files.read_each(
        [File("a.json", GOOD), File("b.txt", TABLE)], lambda done, name: told.append((done, name))
    )
    assert told == [(0, "a.json"), (1, "b.txt"), (2, "")]


def test_command_prints_an_array(capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(FIXTURES / name) for name in ("vllm/0.8/good.json", "vllm/0.33/console_good.txt")]
    assert main(names) == 0
    printed = capsys.readouterr()
    results = Bundle(results=json.loads(printed.out)).results
    assert [result.tool.name for result in results] == ["vllm", "vllm"]
    assert printed.err == ""


def test_command_names_what_it_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("nothing")
    assert main([str(FIXTURES / "vllm/0.8/good.json"), str(other)]) == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)) == 1
    assert printed.err.startswith(f"{other}: This is no result file")


@pytest.mark.parametrize(
    "name",
    [
        "vllm/0.12/all_failed.json",
        "other/login_page.json",
        "vllm/0.8/cut.json",
        "no-such-file.json",
    ],
)
def test_command_refuses_with_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FIXTURES / name)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert len(printed.err) > 20


def test_command_takes_a_folder_and_a_zip(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([str(FIXTURES / "vllm/0.33/sweep")]) == 0
    folder = json.loads(capsys.readouterr().out)
    assert len(folder) == 6
    root = FIXTURES / "vllm/0.33/sweep"
    packed_up = packed(
        {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    )
    target = tmp_path / "sweep.zip"
    target.write_bytes(packed_up)
    assert main([str(target)]) == 0
    assert json.loads(capsys.readouterr().out) == folder


def test_an_empty_folder_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == "There is no file to read.\n"
