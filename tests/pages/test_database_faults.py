"""A database that is locked, read-only, full, newer or gone: a sentence, and nothing is lost."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text
from streamlit.testing.v1 import AppTest

import app
import settings as settings_module
from db import engine as db_engine
from db import jobs, runs
from db.engine import reading, writing
from models.result import Result, Tool
from pages import PAGES
from pages.widgets import store
from settings import settings

OpenPage = Callable[..., AppTest]
FILE = Path(__file__).parents[1] / "importers" / "fixtures" / "nccl-tests" / "2.17" / "good.txt"
DELETE = """
from pages.widgets import run_detail
run_detail._confirm_delete({run_id!r}, "The run")
"""
# answers in the fragment's place when the database has gone between two of its looks
WATCH = """
from db import jobs
from models.errors import DatabaseUnavailable
from pages.widgets import live_job
asked = []
there = jobs.job
def gone(engine, job_id):
    asked.append(job_id)
    if len(asked) > 1:
        raise DatabaseUnavailable("The database server cannot be reached.", "Check that it runs.")
    return there(engine, job_id)
jobs.job = gone
try:
    live_job.watch([{job_id!r}], key="here")
finally:
    jobs.job = there
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "connect", partial(store.connect, busy_timeout_s=0.05))


@contextmanager
def locked() -> Iterator[None]:
    """Another program writes, for as long as the block lasts."""
    holder = sqlite3.connect(settings().url.removeprefix("sqlite:///"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    yield
    holder.execute("COMMIT")
    holder.close()


@contextmanager
def full() -> Iterator[None]:
    """The file may not grow any more."""

    def limit(connection: sqlite3.Connection, *_: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    engine = store.engine()
    engine.dispose()
    event.listen(engine, "connect", limit)
    yield
    event.remove(engine, "connect", limit)
    engine.dispose()


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same file under an address that may not write."""
    path = settings().url.removeprefix("sqlite:///")
    monkeypatch.setenv("LINKWORTH_DATABASE_URL", f"sqlite:///file:{path}?mode=ro&uri=true")
    settings_module.settings.cache_clear()


def said(at: AppTest) -> str:
    """The errors' sentences; there is no traceback."""
    assert not at.exception
    return "\n".join(each.value for each in at.error)


def a_run(title: str = "Mine") -> Result:
    return Result(kind="decode", origin="imported", title=title, tool=Tool(name="linkworth"))


def test_a_start_while_another_program_writes_counts_once_it_has_gone(
    empty_database: Engine, open_page: OpenPage
) -> None:
    at = open_page("new-run")
    at.number_input("rounds").set_value(7).run()
    with locked():
        at.button("start").click().run()
        assert "holds the database locked" in said(at)
        assert jobs.list_jobs(empty_database) == []
    assert at.number_input("rounds").value == 7  # the form is as it was
    at.button("start").click().run()
    assert not said(at)
    (job,) = jobs.list_jobs(empty_database)
    assert jobs.job(empty_database, job["id"])["spec"]["rounds"] == 7


@pytest.mark.parametrize("slug", PAGES)
def test_every_page_is_read_while_another_program_writes(
    first_start: Engine, open_page: OpenPage, slug: str
) -> None:
    with locked():
        at = open_page(slug)
    assert not said(at)
    assert at.title[0].value == PAGES[slug].title


@pytest.mark.parametrize("slug", PAGES)
def test_every_page_is_read_from_a_file_that_may_not_be_written(
    first_start: Engine, open_page: OpenPage, slug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only(monkeypatch)
    at = open_page(slug)
    assert not said(at)
    assert at.title[0].value == PAGES[slug].title


def test_a_start_on_a_file_that_may_not_be_written(
    empty_database: Engine, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only(monkeypatch)
    at = open_page("new-run")
    at.button("start").click().run()
    assert "can be read but not written" in said(at)
    assert jobs.list_jobs(empty_database) == []


@pytest.mark.parametrize("fault", [locked, full])
def test_an_import_is_whole_or_not_there_and_may_be_tried_again(
    empty_database: Engine, open_page: OpenPage, fault: Callable[[], Iterator[None]]
) -> None:
    at = open_page("runs", view="import")
    # what does not pack: a few lines would find room in the file as it is
    remarks = "".join(f"# {hashlib.sha256(bytes([n])).hexdigest()}\n" for n in range(256))
    at.text_area[0].set_value(FILE.read_text() + remarks)
    at.button("import-read").click().run()
    with fault():
        at.button("import-store").click().run()
        words = "locked" if fault is locked else "full, so nothing was saved"
        assert words in said(at)
        assert runs.count(empty_database) == 0
    with reading(empty_database) as connection:
        assert connection.execute(text("SELECT count(*) FROM raw_files")).scalar() == 0
    at.button("import-store").click().run()
    assert not said(at)
    assert runs.count(empty_database) == 1


def test_a_delete_while_another_program_writes(empty_database: Engine) -> None:
    run_id = runs.store(empty_database, a_run())
    at = AppTest.from_string(DELETE.format(run_id=run_id)).run()
    with locked():
        at.button("run-delete-yes").click().run()
        assert "holds the database locked" in said(at)
    assert runs.count(empty_database) == 1
    at.button("run-delete-yes").click().run()
    assert runs.count(empty_database) == 0


def test_a_run_that_another_session_deleted_meanwhile(
    empty_database: Engine, open_page: OpenPage
) -> None:
    run_id = runs.store(empty_database, a_run())
    at = AppTest.from_string(DELETE.format(run_id=run_id)).run()
    page = open_page("runs", run=run_id)
    runs.delete(empty_database, run_id)
    at.button("run-delete-yes").click().run()
    assert "no such run any more" in said(at)
    assert "no such run any more" in said(page.run())


def test_a_watched_job_says_when_the_database_goes(empty_database: Engine) -> None:
    job_id = jobs.enqueue(empty_database, {"kind": "topology"})
    at = AppTest.from_string(WATCH.format(job_id=job_id)).run()
    assert "The database server cannot be reached." in said(at)


def test_a_newer_database_is_left_alone_and_told_on_every_page(
    empty_database: Engine, open_page: OpenPage
) -> None:
    run_id = runs.store(empty_database, a_run())
    with writing(empty_database) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    try:
        app._try_prepare()
        for slug in PAGES:
            at = open_page(slug)
            assert "newer version of Linkworth" in said(at)
            assert len(at.button) == 1  # nothing of the page is drawn but "Try again"
    finally:
        store.note_problem(None)
    with reading(empty_database) as connection:
        assert (
            connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"
        )
        assert connection.execute(text("SELECT id FROM runs")).scalars().all() == [run_id]


def test_a_full_disk_at_the_start_is_told_and_mended_by_trying_again(
    empty_database: Engine, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(empty_database) as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    connect = db_engine.connect

    def small(url: str, **options: float) -> Engine:
        made = connect(url, **options)

        @event.listens_for(made, "connect")
        def _limit(connection: sqlite3.Connection, _record: object) -> None:
            connection.execute(f"PRAGMA max_page_count={pages}")

        return made

    monkeypatch.setattr(db_engine, "connect", small)
    try:
        app._try_prepare()  # the shipped studies do not fit
        at = open_page("overview")
        assert "full, so nothing was saved" in said(at)
        monkeypatch.setattr(db_engine, "connect", connect)
        at.button("retry-start").click().run()
        assert not said(at)
    finally:
        store.note_problem(None)
    assert runs.count(empty_database, shipped=True) > 0
