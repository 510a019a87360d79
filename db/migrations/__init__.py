"""Brings a database to the schema of this code; Alembic is loaded only when there is work."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from db.engine import is_sqlite, reading, writing
from models.errors import DatabaseTooNew

if TYPE_CHECKING:
    from alembic.config import Config

# The newest file of versions/: a test holds them together.
HEAD = "0003"

_LOCK = 0x4C696E6B  # advisory lock on PostgreSQL: app and worker may start together


def upgrade(engine: Engine) -> None:
    """Migrate to the newest schema: everything in one transaction, data kept.

    Raises:
        DatabaseTooNew: A newer version of the code wrote this database.
        DatabaseUnavailable: It cannot be reached or written.
    """
    if version(engine) == HEAD:
        return
    from alembic import command

    with writing(engine) as connection:
        if not is_sqlite(engine):
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        found = _version(connection)  # again: another process may have been faster
        _refuse_newer(found)
        if found != HEAD:
            command.upgrade(_config(connection), "head")


def version(engine: Engine) -> str | None:
    """The revision of a database; None for an empty one.

    Raises:
        DatabaseTooNew: A newer version of the code wrote this database.
        DatabaseUnavailable: It cannot be reached.
    """
    with reading(engine) as connection:
        found = _version(connection)
    _refuse_newer(found)
    return found


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _refuse_newer(found: str | None) -> None:
    # revisions are numbers that count up, so that an old program can tell
    if found is not None and found > HEAD:
        raise DatabaseTooNew(
            "This database was written by a newer version of Linkworth, and this one would "
            "damage it.",
            "Start the newer version, or set LINKWORTH_DATA_DIR to another folder.",
            detail=f"revision {found}, known up to {HEAD}",
        )


def _config(connection: Connection | None = None) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
