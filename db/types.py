"""Column types that read the same on SQLite and PostgreSQL."""

import json
import math
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, Text
from sqlalchemy.types import TypeDecorator

# SQLite numbers rows by itself only in a column of exactly this type
BigKey = BigInteger().with_variant(Integer, "sqlite")


def finite(value: Any) -> Any:
    """A copy of nested data in which what JSON cannot hold is null or text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if value is None or isinstance(value, str | int):
        return value
    return str(value)


def plain(text: str) -> str:
    """A text that both databases take: no NUL, no half of a surrogate pair."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


class UtcTime(TypeDecorator[datetime]):
    """Moments with a zone, always UTC; SQLite keeps them without and they get it back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Python to database."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time needs a time zone")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Database to Python."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class PlainText(TypeDecorator[str]):
    """Text of any origin: a child's last log lines hold every byte there is."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Python to database."""
        return None if value is None else plain(value)


class Document(TypeDecorator[Any]):
    """Nested data as JSON text; unknown numbers are null, the order of keys is kept."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Python to database."""
        if value is None:
            return None
        return json.dumps(finite(value), allow_nan=False, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Database to Python."""
        return None if value is None else json.loads(value)
