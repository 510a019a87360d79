"""The connection to the database: pragmas, transactions, and faults told in words."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from db.faults import told
from models.errors import DatabaseUnavailable

__all__ = ["Connection", "Engine", "available", "connect", "reading", "writing"]

_SWITCH_PAUSE_S = 0.02
_WRITES = "linkworth_writes"  # execution option: this transaction will write


def connect(url: str, *, busy_timeout_s: float = 10.0) -> Engine:
    """An engine for a SQLAlchemy URL; the folder of an SQLite file is created.

    Args:
        url: ``sqlite:///path`` or ``postgresql://…``.
        busy_timeout_s: How long a write waits for another program's write.

    Raises:
        DatabaseUnavailable: The URL cannot be read, or its folder cannot be created.
    """
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(parsed, busy_timeout_s)
        return create_engine(
            parsed,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args=_postgres_arguments(busy_timeout_s)
            if parsed.get_backend_name() == "postgresql"
            else {},
        )
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        raise DatabaseUnavailable(
            "LINKWORTH_DATABASE_URL is not the address of a database.",
            "Write it as sqlite:///folder/file.sqlite or postgresql://user:password@host/name.",
            detail=type(error).__name__,
        ) from error


def available(engine: Engine) -> None:
    """Check that the database answers.

    Raises:
        DatabaseUnavailable: A sentence that says why not.
    """
    with reading(engine) as connection:
        # reads the file's header, which a plain SELECT 1 does not
        statement = "PRAGMA schema_version" if is_sqlite(engine) else "SELECT 1"
        connection.execute(text(statement)).all()


def is_sqlite(engine: Engine | Connection) -> bool:
    """Whether this is SQLite, where one writer at a time is the rule."""
    return engine.dialect.name == "sqlite"


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One transaction that sees one state of the database."""
    with told(), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction that changes everything in its body, or nothing.

    On SQLite it takes the write lock at once: a transaction that reads first and writes later
    would fail, not wait, when another one wrote in between.
    """
    with (
        told(),
        engine.connect().execution_options(**{_WRITES: True}) as connection,
        connection.begin(),
    ):
        yield connection


def _postgres_arguments(busy_timeout_s: float) -> dict[str, Any]:
    return {
        "connect_timeout": 5,
        "options": f"-c lock_timeout={int(busy_timeout_s * 1000)} -c timezone=UTC",
    }


def _sqlite(url: URL, busy_timeout_s: float) -> Engine:
    in_memory = url.database in (None, "", ":memory:")
    if not in_memory and not str(url.database).startswith("file:"):
        _make_folder(Path(str(url.database)).parent)
    engine = create_engine(
        url,
        hide_parameters=True,
        connect_args={"timeout": busy_timeout_s, "check_same_thread": False},
        **({"poolclass": StaticPool} if in_memory else {}),
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        # the driver's own transactions start late and skip DDL: ours are explicit
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={int(busy_timeout_s * 1000)}")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA synchronous=NORMAL")
        if cursor.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
            _switch_to_wal(cursor, busy_timeout_s)
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _switch_to_wal(cursor: Any, patience_s: float) -> None:
    """Readers and a writer side by side; a file that may not be written stays as it is."""
    import sqlite3

    deadline = time.monotonic() + patience_s
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            code = error.sqlite_errorcode & 0xFF
            if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                return
            # while another program writes, SQLite refuses this one thing without waiting
            if code != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(_SWITCH_PAUSE_S)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnavailable(
            f"The data folder {folder} cannot be created: {error.strerror}.",
            "Set LINKWORTH_DATA_DIR to a folder that you may write.",
            detail=repr(error),
        ) from error
