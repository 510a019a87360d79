"""The few statements that SQLite and PostgreSQL spell differently."""

from typing import Any

from sqlalchemy import Connection, Delete, Insert, Table, Update, text
from sqlalchemy.orm import DeclarativeBase

from db.engine import is_sqlite


def table_of(model: type[DeclarativeBase]) -> Table:
    """The table behind a model, for statements that need no objects."""
    table = model.__table__
    assert isinstance(table, Table)  # noqa: S101 - for the type checker: models map tables only
    return table


def upsert(
    connection: Connection,
    model: type[DeclarativeBase],
    values: dict[str, Any],
    *,
    key: list[str],
    update: list[str] | None = None,
) -> Insert:
    """Insert a row, or where the key is there update these columns (none: leave it alone)."""
    table = table_of(model)
    # both dialects' inserts have the same methods, but no common type; loaded when needed, since
    # a start on SQLite need not wait for PostgreSQL's
    insert: Any
    if is_sqlite(connection):
        from sqlalchemy.dialects import sqlite

        insert = sqlite.insert(table)
    else:
        from sqlalchemy.dialects import postgresql

        insert = postgresql.insert(table)
    statement: Any = insert.values(values)
    if update:
        changes = {name: statement.excluded[name] for name in update}
        done: Insert = statement.on_conflict_do_update(index_elements=key, set_=changes)
    else:
        done = statement.on_conflict_do_nothing(index_elements=key)
    return done


def changed(connection: Connection, statement: Update | Delete) -> int:
    """Carry out a change and say how many rows it met."""
    return int(connection.execute(statement).rowcount)


def lock(connection: Connection, key: int) -> None:
    """Let one transaction at a time pass here, until it ends.

    SQLite's writers are alone anyway.
    """
    if not is_sqlite(connection):
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
