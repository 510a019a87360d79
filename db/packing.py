"""Lists as bytes: one row a list, never a row a value, and never pickle.

Samples are little-endian float64, telemetry is JSON by column; both go through zlib at its fastest
level (a serving round has 41,000 gaps, and storing it must not be felt).
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from db.types import finite

_LEVEL = 1


def pack_values(values: Sequence[float] | NDArray[np.float64]) -> bytes:
    """Numbers as bytes."""
    return zlib.compress(np.asarray(values, dtype="<f8").tobytes(), _LEVEL)


def unpack_values(data: bytes) -> NDArray[np.float64]:
    """The numbers of ``pack_values``, shape (k,)."""
    return np.frombuffer(zlib.decompress(data), dtype="<f8").astype(np.float64)


def pack_rows(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as bytes, by column: neighbours in time are alike and compress well."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [finite(row.get(name)) for row in rows] for name in names}
    text = json.dumps({"n": len(rows), "columns": columns}, separators=(",", ":"), allow_nan=False)
    return zlib.compress(text.encode(), _LEVEL)


def unpack_rows(data: bytes) -> list[dict[str, Any]]:
    """The rows of ``pack_rows``; a field that a row did not have is null."""
    content = json.loads(zlib.decompress(data))
    columns: dict[str, list[Any]] = content["columns"]
    return [{name: column[i] for name, column in columns.items()} for i in range(content["n"])]


def pack_file(data: bytes) -> bytes:
    """A file's bytes, compressed."""
    return zlib.compress(data, _LEVEL)


def unpack_file(data: bytes) -> bytes:
    """The bytes of ``pack_file``."""
    return zlib.decompress(data)


def pack_dims(dims: Mapping[str, Any]) -> str:
    """Dimensions as one text, the same for the same dimensions."""
    return json.dumps(dict(dims), sort_keys=True, separators=(",", ":"), allow_nan=False)


def unpack_dims(text: str) -> dict[str, Any]:
    """The dimensions of ``pack_dims``."""
    found: dict[str, Any] = json.loads(text)
    return found
