"""Demo mode: nothing is started, stored or deleted, whatever a session or an address says."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from streamlit.testing.v1 import AppTest

from db import hosts, jobs, runs
from db.engine import reading
from db.schema import Base
from models.errors import ReadOnly
from models.result import Result, Tool
from pages import PAGES
from pages.widgets import live_job, store
from settings import ROOT, settings

OpenPage = Callable[..., AppTest]

CHANGING = {
    "jobs": {"enqueue", "request_cancel", "finish", "add_events", "claim", "started"},
    "runs": {"store", "store_all", "delete"},
    "studies": {"save"},
    "scenarios": {"save", "delete"},
    "hosts": {"remember", "add_incident", "clear_incident"},
}
# private steps of a function that refuses first; its name stands beside each
BEHIND = {
    "_store_file": "store",
    "_store_singly": "store",
    "_write": "keep and restore",
}
FILES = sorted((ROOT / "pages").rglob("*.py"))


def changing_functions(path: Path) -> Iterator[tuple[ast.FunctionDef, str]]:
    """The innermost functions of a module that change the database, with what they call."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        module, _, function = name.rpartition(".")
        if function not in CHANGING.get(module, ()) and name != "_start_worker":
            continue
        around = [one for one in functions if call in list(ast.walk(one))]
        if around:
            yield max(around, key=lambda one: one.lineno), name


def refuses(function: ast.FunctionDef) -> bool:
    """Whether it asks for read-only mode by itself, before anybody else may forget to."""
    called = {ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.AST)}
    return any("refuse_read_only()" in one or "settings().read_only" in one for one in called)


def test_every_function_that_changes_something_asks_first() -> None:
    found = 0
    for path in FILES:
        for function, name in changing_functions(path):
            found += 1
            assert refuses(function) or function.name in BEHIND, f"{path.name}: {name}"
    assert found >= 10, "the search has lost what it searches for"


def everything(engine: Engine) -> dict[str, int]:
    """How many rows each table has."""
    with reading(engine) as connection:
        return {
            table.name: connection.execute(text(f"SELECT count(*) FROM {table.name}")).scalar_one()  # noqa: S608
            for table in Base.metadata.sorted_tables
        }


@pytest.fixture
def demo(database: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A database with a run, a job and an incident of its own, in demo mode."""
    run = Result(kind="allreduce", origin="measured", title="Mine", tool=Tool(name="linkworth"))
    runs.store(database, run, raw=b"mine")
    spec = {"kind": "allreduce", "device": "cpu", "ranks": 2, "sizes_bytes": [1024]}
    jobs.enqueue(database, spec, title="Waits")
    hosts.remember(database, {"hostname": "abc"})
    jobs.heartbeat(database, "w", pid=1, host="abc")
    hosts.add_incident(database, host="abc", kind="reboot", text="It went down.")
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings.cache_clear()
    yield database
    settings.cache_clear()


def addresses(engine: Engine) -> dict[str, str]:
    """Whatever a person might write into an address to get more than a look."""
    run_id = str(runs.list_runs(engine, origins=["measured"], text="Mine")["id"].iloc[0])
    job_id = jobs.list_jobs(engine)[0]["id"]
    return {
        "run": run_id,
        "runs": run_id,
        "read_only": "0",
        "LINKWORTH_READ_ONLY": "0",
        "start": "1",
        "delete": "1",
        "view": "import",
        "check": job_id,
        "job": job_id,
    }


@pytest.mark.parametrize("slug", PAGES)
def test_no_button_of_a_page_changes_anything(demo: Engine, open_page: OpenPage, slug: str) -> None:
    query = addresses(demo)
    before = everything(demo)
    at = open_page(slug, **query)
    assert not at.exception
    for key in [button.key for button in at.button]:
        again = open_page(slug, **query)
        for name in ("read_only", "settings", "token-allreduce", "hardware-token", "p2p-token"):
            again.session_state[name] = "0"
        buttons = [button for button in again.button if button.key == key]
        if buttons:
            buttons[0].click().run()
            assert not again.exception, (slug, key, again.exception)
    assert everything(demo) == before, slug


def test_what_starts_or_ends_is_not_even_offered(demo: Engine, open_page: OpenPage) -> None:
    query = addresses(demo)
    keys: list[str] = []
    for slug in PAGES:
        keys += [str(button.key) for button in open_page(slug).button]
    keys += [str(button.key) for button in open_page("runs", run=query["run"]).button]
    offered = [
        key
        for key in keys
        if "cancel" in key or key.startswith(("start", "run-delete", "clear-", "read-machine"))
    ]
    assert offered == []


def test_jobs_are_watched_and_not_ended(demo: Engine, open_page: OpenPage) -> None:
    job_id = jobs.list_jobs(demo)[0]["id"]
    at = open_page("new-run", jobs=job_id)
    assert any("Waits" in block.value for block in at.markdown)
    with pytest.raises(ReadOnly):
        live_job.cancel(job_id)
    assert not jobs.job(demo, job_id)["cancel_requested"]


def test_the_settings_of_a_process_are_read_once(
    demo: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page cannot switch the mode off by setting the variable."""
    with pytest.raises(ReadOnly):
        store.refuse_read_only()
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "0")
    with pytest.raises(ReadOnly):
        store.refuse_read_only()
