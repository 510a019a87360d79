"""The connection, and every fault of a database as a sentence."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import event, text

from db import jobs, runs
from db.engine import available, connect, reading, writing
from models.errors import DatabaseUnavailable

SPEC = {"kind": "topology"}


def test_pragmas_hold_on_every_connection(sqlite_engine):
    with reading(sqlite_engine) as first, reading(sqlite_engine) as second:
        for connection in (first, second):
            values = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
            }
            assert values == {
                "journal_mode": "wal",
                "foreign_keys": 1,
                "synchronous": 1,  # NORMAL
                "busy_timeout": 10_000,
            }


def test_a_new_file_is_opened_while_another_program_writes_it(tmp_path, open_engine):
    """The switch to WAL is refused at once then, whatever the patience: app and worker meet so."""
    path = tmp_path / "new.sqlite"
    writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    engine = open_engine(f"sqlite:///{path}")
    asked = threading.Event()
    connect_as_before = engine.dialect.connect

    def connect_and_tell(*arguments, **options):
        made = connect_as_before(*arguments, **options)
        asked.set()
        return made

    engine.dialect.connect = connect_and_tell
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(available, engine)
        assert asked.wait(10)
        with pytest.raises(TimeoutError):
            opened.result(0.2)  # it waits
        writer.execute("COMMIT")
        opened.result(10)
    writer.close()
    with reading(engine) as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_database_that_answers_is_available(engine):
    assert available(engine) is None  # it raises where the database does not answer


def test_the_folder_of_a_new_file_is_made(tmp_path, open_engine):
    available(open_engine(f"sqlite:///{tmp_path / 'a' / 'b' / 'new.sqlite'}"))
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnavailable, match=r"data folder .* cannot be created") as caught:
        connect(f"sqlite:///{tmp_path / 'file' / 'x' / 'new.sqlite'}")
    assert "LINKWORTH_DATA_DIR" in caught.value.next_step


@pytest.mark.parametrize("url", ["no url", "mongo://host/name", "postgresql+nothing://h/n", ""])
def test_an_address_that_is_none_is_told(url):
    with pytest.raises(DatabaseUnavailable, match="not the address of a database"):
        connect(url)


def test_a_transaction_is_whole_or_nothing(engine):
    job = jobs.enqueue(engine, SPEC)

    def breaks_off():
        with writing(engine) as connection:
            connection.execute(text("DELETE FROM jobs"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaks_off()
    assert jobs.job(engine, job)["state"] == "queued"


def test_a_reader_sees_one_state_while_another_writes(sqlite_engine):
    with reading(sqlite_engine) as connection:
        before = connection.execute(text("SELECT count(*) FROM jobs")).scalar()
        jobs.enqueue(sqlite_engine, SPEC)
        assert connection.execute(text("SELECT count(*) FROM jobs")).scalar() == before


def test_locked(url, open_engine):
    holder, engine = open_engine(url), open_engine(url, busy_timeout_s=0.05)
    first = jobs.enqueue(engine, SPEC)
    with writing(holder) as connection:
        if holder.dialect.name == "postgresql":
            connection.execute(text("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(DatabaseUnavailable, match="holds the database locked") as caught:
            jobs.enqueue(engine, SPEC, title="second")
        assert caught.value.next_step
    assert [job["id"] for job in jobs.list_jobs(engine)] == [first]
    jobs.enqueue(engine, SPEC, title="second")  # and it goes on
    assert len(jobs.list_jobs(engine)) == 2


def test_read_only_file(sqlite_url, sqlite_engine, open_engine):
    job = jobs.enqueue(sqlite_engine, SPEC)
    path = sqlite_url.removeprefix("sqlite:///")
    engine = open_engine(f"sqlite:///file:{path}?mode=ro&uri=true")
    assert jobs.job(engine, job)["id"] == job
    with pytest.raises(DatabaseUnavailable, match="read but not written"):
        jobs.enqueue(engine, SPEC)


@pytest.mark.postgres
def test_read_only_server(postgres_url, open_engine):
    engine = open_engine(postgres_url)

    @event.listens_for(engine, "connect")
    def _read_only(connection, _record):
        connection.read_only = True

    assert jobs.list_jobs(engine) == []
    with pytest.raises(DatabaseUnavailable, match="read but not written"):
        jobs.enqueue(engine, SPEC)


def test_full_disk_stores_nothing_and_loses_nothing(sqlite_url, open_engine, make_result):
    kept = runs.store(open_engine(sqlite_url), make_result())
    engine = open_engine(sqlite_url)

    @event.listens_for(engine, "connect")
    def _small(connection, _record):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 2}")

    noise = [float(i * 7919 % 10_007) for i in range(20_000)]
    big = make_result()
    big.samples[0].values = noise
    with pytest.raises(DatabaseUnavailable, match="disk of the database is full"):
        runs.store(engine, big, raw=b"raw bytes")
    fresh = open_engine(sqlite_url)
    assert list(runs.list_runs(fresh)["id"]) == [kept]
    assert len(runs.measurements(fresh)) == 1
    with reading(fresh) as connection:
        assert connection.execute(text("SELECT count(*) FROM raw_files")).scalar() == 0
        assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"
    assert runs.store(fresh, big) == big.id  # with space it goes in


def test_a_file_that_is_no_database(tmp_path, open_engine):
    path = tmp_path / "notes.txt"
    path.write_text("These are notes and no database. " * 100)
    with pytest.raises(DatabaseUnavailable, match="not a database"):
        available(open_engine(f"sqlite:///{path}"))
    assert path.read_text().startswith("These are notes")


def test_a_damaged_file(sqlite_url, open_engine, make_result):
    engine = open_engine(sqlite_url)
    for number in range(30):
        runs.store(engine, make_result(value=number))
    with engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.exec_driver_sql("BEGIN")
    engine.dispose()
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)  # all but the header's page
    path.write_bytes(content)
    with pytest.raises(DatabaseUnavailable, match="damaged"):
        runs.list_runs(engine)


def test_a_database_without_tables(empty_url, open_engine):
    with pytest.raises(DatabaseUnavailable, match="not been set up"):
        jobs.list_jobs(open_engine(empty_url))


def test_a_server_that_is_not_there(open_engine):
    engine = open_engine("postgresql://me:very-hidden@127.0.0.1:9/none")
    with pytest.raises(DatabaseUnavailable, match="cannot be reached") as caught:
        available(engine)
    assert "very-hidden" not in f"{caught.value} {caught.value.detail}"


@pytest.mark.postgres
def test_a_database_that_is_not_there(postgres_server, open_engine):
    with pytest.raises(DatabaseUnavailable):
        available(open_engine(postgres_server("no_such_database")))


@pytest.mark.postgres
def test_a_server_that_drops_us(postgres_url, open_engine, make_result):
    engine, other = open_engine(postgres_url), open_engine(postgres_url)
    job = jobs.enqueue(engine, SPEC)

    def is_dropped():
        with writing(engine) as connection:
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar()
            connection.execute(text("DELETE FROM jobs"))
            with writing(other) as killer:
                killer.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            connection.execute(text("SELECT 1"))

    with pytest.raises(DatabaseUnavailable, match=r"starting or stopping|cannot be reached"):
        is_dropped()
    assert jobs.job(engine, job)["state"] == "queued"
    assert runs.store(engine, make_result())  # the next call connects anew


def test_mistakes_of_ours_are_not_dressed_up(sqlite_engine):
    from sqlalchemy.exc import IntegrityError

    with pytest.raises(IntegrityError), writing(sqlite_engine) as connection:
        connection.execute(text("INSERT INTO hosts (id) VALUES ('x')"))


def test_an_old_driver_without_codes_still_tells_missing_tables():
    from sqlalchemy.exc import OperationalError

    from db.faults import sentence_for

    error = OperationalError("SELECT 1", {}, sqlite3.OperationalError("no such table: jobs"))
    words = sentence_for(error)
    assert words is not None
    assert "set up" in words[0]


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("53100", "nothing was saved"),
        ("57P03", "starting"),
        ("28P01", "password"),
        ("3D000", "no such database"),
        ("55P03", "locked"),
        ("42501", "may not"),
        ("40001", "same rows"),
    ],
)
def test_what_a_server_says(state, word):
    import psycopg
    from sqlalchemy.exc import OperationalError

    from db.faults import sentence_for

    original = psycopg.errors.lookup(state)("as the server says it")
    words = sentence_for(OperationalError("SELECT 1", {}, original))
    assert words is not None
    assert word in words[0]
