"""What must never happen: a shell, a foreign visitor's socket, a stored secret.

Foreign text on pages: ``tests/pages/test_hostile_text.py``. Read-only mode:
``tests/pages/test_read_only.py``.
"""

import ast
import http.client
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from db import jobs, runs
from db.engine import connect
from db.migrations import upgrade
from importers import own_zip
from models.errors import InvalidSpec
from models.result import dump
from runners.serving_paste import allowed_model, parse_serve_line
from runners.spec import parse_spec
from settings import ROOT, settings
from tests.e2e.e2e_support import Server, free_port

FOLDERS = ("db", "importers", "models", "pages", "runners", "worker", "scripts")
PROGRAM = [
    ROOT / "app.py",
    ROOT / "settings.py",
    *sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")),
]

# calls that run text as a program, read objects out of bytes, or put HTML into a page
FORBIDDEN = re.compile(
    r"^(os\.(system|popen|spawn\w*)|subprocess\.(getoutput|getstatusoutput)|eval|exec"
    r"|(pickle|cPickle|dill|shelve|marshal|joblib)\.\w+|yaml\.(load|unsafe_load)|st\.html"
    r"|.*\.unsafe_allow_javascript|components\.(html|iframe)|st\.components\..*|torch\.load)$"
)
FORBIDDEN_ARGUMENTS = {"shell", "unsafe_allow_html", "unsafe_allow_javascript", "allow_pickle"}

HOSTILE = [
    "$(touch {marker})",
    "`touch {marker}`",
    "; touch {marker} #",
    '"; touch {marker}; "',
    "'; touch {marker}; '",
    "&& touch {marker}",
    "| tee {marker}",
    "\ntouch {marker}\n",
    "--config={marker}",
    "-rf",
    "<script>alert(1)</script>",
    "../../../etc/passwd",
    "/etc/passwd",
    "a\x00b",
    "x" * 1_000_000,
]


def hostile(folder: Path) -> list[str]:
    return [text.replace("{marker}", str(folder / "marker")) for text in HOSTILE]


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.parametrize("path", PROGRAM, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_becomes_a_program_or_markup(path: Path) -> None:
    for name, call in calls(path):
        assert not FORBIDDEN.match(name), f"{path.name}:{call.lineno} calls {name}"
        for argument in call.keywords:
            is_off = isinstance(argument.value, ast.Constant) and argument.value.value is False
            assert argument.arg not in FORBIDDEN_ARGUMENTS or is_off, f"{path}:{call.lineno}"


def test_the_search_above_finds_what_it_is_for(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    lines = ["os.system('ls')", "pickle.loads(b'')", "st.html('x')", "run('ls', shell=True)"]
    bad.write_text("\n".join(lines))
    names = [name for name, _ in calls(bad)]
    assert [bool(FORBIDDEN.match(name)) for name in names] == [True, True, True, False]
    assert "shell" in FORBIDDEN_ARGUMENTS


def test_the_server_is_set_up_for_this_machine_alone() -> None:
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["server"]["address"] == "127.0.0.1"
    assert set(config["server"]["allowedHosts"]) == {"127.0.0.1", "localhost"}
    assert config["client"]["showErrorDetails"] == "type"  # no traceback for visitors
    assert config["browser"]["gatherUsageStats"] is False
    assert "server.address" not in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.fixture
def server(data_dir: Path) -> Iterator[Server]:
    port = free_port()
    made = Server(f"http://127.0.0.1:{port}", data_dir, None, dict(os.environ), port)  # type: ignore[arg-type]
    made.start()
    yield made
    made.process.kill()
    made.process.wait()


def handshake(server: Server, host: str, origin: str) -> int:
    """The answer to a browser that asks for the page's socket."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.putrequest("GET", "/_stcore/stream", skip_host=True, skip_accept_encoding=True)
        for name, value in (
            ("Host", host),
            ("Origin", origin),
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ):
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_server_listens_on_loopback_and_to_its_own_pages(server: Server) -> None:
    family = [psutil.Process(server.process.pid)]
    family += family[0].children(recursive=True)
    listening = {
        one.laddr.ip
        for process in family
        for one in process.net_connections("inet")
        if one.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    own = f"127.0.0.1:{server.port}"
    assert handshake(server, own, f"http://{own}") == 101
    # another site's script in the same browser, and a name that somebody points at 127.0.0.1
    assert handshake(server, own, "http://evil.example") == 403
    assert handshake(server, "evil.example", "http://evil.example") == 403


def test_models_come_from_allowed_folders_or_are_ids(tmp_path: Path) -> None:
    root, outside = tmp_path / "models", tmp_path / "outside"
    (root / "mine").mkdir(parents=True)
    outside.mkdir()
    for folder in (root / "mine", outside):
        (folder / "config.json").touch()
    (root / "way-out").symlink_to(outside)
    assert allowed_model("mine", [root]) == str(root / "mine")
    for name in [*hostile(tmp_path), str(outside), "mine/../../outside", "way-out", "", "  ", "~"]:
        with pytest.raises(InvalidSpec) as caught:
            allowed_model(name, [root])
        assert caught.value.sentence
    assert not (tmp_path / "marker").exists()


def test_a_pasted_line_is_taken_apart_without_a_shell(tmp_path: Path) -> None:
    for text in hostile(tmp_path)[:10]:
        line = f"vllm serve owner/name --max-model-len 4096 {text}"
        try:
            pasted = parse_serve_line(line)
        except InvalidSpec:
            continue
        assert pasted.model == "owner/name"
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("field", ["dtype", "link", "device", "sizes_bytes", "gpus", "modes"])
def test_a_spec_with_hostile_fields_is_refused(field: str, tmp_path: Path) -> None:
    base = {"kind": "allreduce", "device": "cpu", "ranks": 2, "sizes_bytes": [1024]}
    parse_spec(base)
    for text in hostile(tmp_path):
        with pytest.raises(InvalidSpec) as caught:
            parse_spec({**base, field: text})
        assert len(str(caught.value)) < 5_000  # a megabyte is not said back


SECRETS = {
    "FOO_TOKEN": "tok-5f0c1d2e-not-to-be-seen",
    "AWS_SECRET_ACCESS_KEY": "aws-77aa88bb-not-to-be-seen",
    "NCCL_AUTH_FILE": "nccl-aa11-not-to-be-seen",
    "VLLM_API_KEY": "vllm-bb22-not-to-be-seen",
    "OMP_PASSWORD": "omp-cc33-not-to-be-seen",
    "TORCH_CREDENTIALS": "torch-dd44-not-to-be-seen",
    "HF_TOKEN": "hf_ee55eeeeeeeeeeeeeeeeeeeeeenottobeseen",
}


def test_a_run_leaves_no_secret_anywhere(data_dir: Path) -> None:
    """A real run on the CPU through a real worker, with secrets in its environment and its spec."""
    engine = connect(settings().url)
    upgrade(engine)
    spec = {
        "kind": "allreduce",
        "device": "cpu",
        "ranks": 2,
        "sizes_bytes": [1024],
        "rounds": 1,
        "time_limit_s": 100,
    }
    title = f"Sweep for https://me:{SECRETS['FOO_TOKEN']}@example.org"
    job_id = jobs.enqueue(engine, spec, title=title)
    done = subprocess.run(
        [sys.executable, "-m", "worker", "--exit-when-idle", "0"],
        cwd=ROOT,
        env={**os.environ, **SECRETS, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    job = jobs.job(engine, job_id)
    assert job["state"] == "succeeded", job["reason"]
    run = runs.load(engine, job["run_id"])
    # the right things are there: it did look at the environment
    assert run.environment["variables"]["OMP_NUM_THREADS"] == "1"
    bundle = own_zip.pack([(run, runs.raw(engine, run.id))])
    engine.dispose()
    places: dict[str, bytes] = {
        "worker output": (done.stdout + done.stderr).encode(),
        "export": json.dumps(dump(run)).encode(),
        "bundle": own_zip_content(bundle),
    }
    files = [path for path in data_dir.rglob("*") if path.is_file()]
    places |= {str(path.relative_to(data_dir)): path.read_bytes() for path in files}
    assert any(name.endswith(".sqlite") for name in places)
    assert any(name.endswith("log.txt") for name in places)
    for name, content in places.items():
        for variable, secret in SECRETS.items():
            assert secret.encode() not in content, f"{variable} is in {name}"


def own_zip_content(bundle: bytes) -> bytes:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return b"\n".join(archive.read(name) for name in archive.namelist())


def test_a_worker_s_own_settings_stay_its_own(data_dir: Path, monkeypatch: Any) -> None:
    """The database's password is nobody else's business, not even a runner's."""
    from worker.process import _environment

    monkeypatch.setenv("LINKWORTH_DATABASE_URL", "postgresql://me:pw-not-to-be-seen@host/db")
    assert not [name for name in _environment("j") if name.startswith("LINKWORTH_DATA")]
