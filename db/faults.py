"""What the database complains of, in words for people."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from models.errors import DatabaseUnavailable

# SQLite's primary result codes; extended ones carry them in their low byte
_SQLITE: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_BUSY: (
        "Another program holds the database locked.",
        "Close it, or wait a moment, and try again.",
    ),
    sqlite3.SQLITE_LOCKED: (
        "Another program holds the database locked.",
        "Close it, or wait a moment, and try again.",
    ),
    sqlite3.SQLITE_READONLY: (
        "The database can be read but not written.",
        "Check the permissions of the data folder, or set LINKWORTH_DATA_DIR to another one.",
    ),
    sqlite3.SQLITE_PERM: (
        "The database may not be opened by this user.",
        "Check the permissions of the data folder, or set LINKWORTH_DATA_DIR to another one.",
    ),
    sqlite3.SQLITE_IOERR: (
        "The disk failed while the database was used.",
        "Check the disk and the free space on it, then try again.",
    ),
    sqlite3.SQLITE_FULL: (
        "The disk of the database is full, so nothing was saved.",
        "Free some space or delete runs that are no longer needed, then try again.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "The database file cannot be opened.",
        "Check that its folder exists and may be written, or set LINKWORTH_DATA_DIR.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "The database file is damaged.",
        "Move it away and restore a backup; a fresh one is made where none is found.",
    ),
    sqlite3.SQLITE_NOTADB: (
        "The database file is not a database.",
        "Move it away and restore a backup; a fresh one is made where none is found.",
    ),
}
_NO_TABLES = (
    "The database has not been set up yet.",
    "Restart the app: it sets the database up when it starts.",
)
_UNREACHABLE = (
    "The database server cannot be reached.",
    "Check that it runs and that LINKWORTH_DATABASE_URL names it rightly.",
)
_POSTGRES: dict[str, tuple[str, str]] = {
    "25006": (
        "The database can be read but not written.",
        "Check the rights of the database user, or whether the server is a standby.",
    ),
    "42501": (
        "The database user may not do this.",
        "Give it the right to create and change tables in this database.",
    ),
    "28": (
        "The database server refused the user name or password.",
        "Check LINKWORTH_DATABASE_URL.",
    ),
    "3D": (
        "There is no such database on the server.",
        "Create it, or mend LINKWORTH_DATABASE_URL.",
    ),
    "42P01": _NO_TABLES,
    "42703": _NO_TABLES,
    "53": (
        "The database server has run out of disk, memory or connections, so nothing was saved.",
        "Free some, then try again.",
    ),
    "55": _SQLITE[sqlite3.SQLITE_BUSY],
    "57": ("The database server is starting or stopping.", "Wait a moment and try again."),
    "40": ("Another program changed the same rows.", "Try again."),
}


def sentence_for(error: exc.DBAPIError) -> tuple[str, str] | None:
    """Sentence and next step for a fault of the database; None for a mistake of ours."""
    original = error.orig
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", None)
        found = _SQLITE.get(code & 0xFF) if code is not None else None
        if found is None and "no such " in str(original):
            return _NO_TABLES
        return found
    state = getattr(original, "sqlstate", None)
    if isinstance(state, str):
        return next((_POSTGRES[key] for key in (state, state[:2]) if key in _POSTGRES), None)
    # without a state, the connection failed or broke before the server could answer
    return _UNREACHABLE if isinstance(error, exc.OperationalError | exc.InterfaceError) else None


@contextmanager
def told() -> Iterator[None]:
    """Turn faults of the database into a sentence; mistakes of ours pass as they are.

    Raises:
        DatabaseUnavailable: Locked, read-only, full, damaged, out of reach, or not set up.
    """
    try:
        yield
    except exc.DBAPIError as error:
        words = sentence_for(error)
        if words is None:
            raise
        # the original only: SQLAlchemy's text repeats every value of the statement
        raise DatabaseUnavailable(*words, detail=repr(error.orig)) from error
    except exc.TimeoutError as error:
        raise DatabaseUnavailable(
            "Every connection to the database is in use.", "Try again.", detail=str(error)
        ) from error
