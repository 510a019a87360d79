"""Ways in which a result file arrives damaged: what the fuzz test does to good files."""

import json
import random
from collections.abc import Callable
from typing import Any

# values that a broken tool or an editor may leave in a JSON file
ODD = (
    None, True, "", "N/A", "nan", "12,5", -1, 0, 1e308, -1e308, 10**400, 2**63, 0.1, [], {}, [None],
    [[]], {"unit": None}, "\x00", "é" * 300, float("nan"), float("inf"),
)  # fmt: skip


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _drop_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(line for line in lines if rng.random() > 0.2)


def _flip(data: bytes, rng: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(rng.randrange(1, 20)):
        if found:
            found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def _digits(data: bytes, rng: random.Random) -> bytes:
    table = bytes.maketrans(b"0123456789", bytes(rng.sample(b"0123456789.,-eE ", 10)))
    return data.translate(table)


def _double(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[: rng.randrange(len(data) + 1)] + data[at:]


def _spaces(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b" ", b"\n> ", b"\n\n", b"\t")))


def _wide(data: bytes, rng: random.Random) -> bytes:
    return data.decode("utf-8", errors="replace").encode(
        rng.choice(("utf-16", "utf-16-le", "utf-8-sig", "utf-32"))
    )


def _wrap(data: bytes, rng: random.Random) -> bytes:
    return rng.choice(
        (
            b"[" + data + b"]",
            b"[" * 2000 + data,
            data + data,
            b'{"a":' * 500 + data,
            b"<html>" + data,
        )
    )


def _values(data: bytes, rng: random.Random) -> bytes:
    """Replace values anywhere in a JSON file; a text is left as it is."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return _flip(data, rng)
    for _ in range(rng.randrange(1, 8)):
        content = _replaced(content, rng)
    return json.dumps(content).encode()


def _replaced(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return rng.choice(ODD)
    if isinstance(value, dict):
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _replaced(value[key], rng)}
    place = rng.randrange(len(value))
    return [*value[:place], _replaced(value[place], rng), *value[place + 1 :]]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _cut, _drop_lines, _flip, _digits, _double, _spaces, _wide, _wrap, _values, _values, _values,
)  # fmt: skip


def mutated(data: bytes, seed: int) -> bytes:
    """One damaged copy of a file; the same seed damages it the same way."""
    rng = random.Random(seed)
    for _ in range(rng.randrange(1, 4)):
        data = rng.choice(MUTATIONS)(data, rng)
    return data
