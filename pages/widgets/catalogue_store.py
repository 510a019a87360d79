"""The person's edits of the catalogue: kept in the database, laid over the shipped figures."""

from typing import Any

from db import scenarios
from db.engine import Engine
from importers.catalogue import KINDS, catalogue, read_entry
from models.errors import InvalidSpec, LinkworthError
from models.prices import Catalogue
from pages.widgets import store

PAGE = "catalogue"
Rows = dict[str, dict[str, Any]]


def edits(engine: Engine) -> dict[str, Rows]:
    """The person's rows by kind and key."""
    found: dict[str, Rows] = {kind: {} for kind in KINDS}
    for row in scenarios.list_scenarios(engine, PAGE):
        if row["name"] in KINDS:
            rows = scenarios.load(engine, row["id"])["state"].get("rows", {})
            found[row["name"]] = {str(key): dict(value) for key, value in rows.items()}
    return found


def current(engine: Engine) -> tuple[Catalogue, str]:
    """The catalogue as it is used, and a sentence where edits had to be left out."""
    mine = edits(engine)
    try:
        return catalogue(mine), ""
    except LinkworthError as error:
        return catalogue(), f"Your edits of the catalogue are left out: {error.sentence}"


def keep(engine: Engine, kind: str, key: str, row: dict[str, Any]) -> None:
    """Keep an edited or added row.

    Raises:
        InvalidSpec: A part is missing or impossible, or the key is no identifier.
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    if not key or not all(ch.isascii() and (ch.isalnum() or ch == "-") for ch in key):
        raise InvalidSpec(
            "A key has letters, digits and dashes only.", "Such as cloud-my-provider-h100."
        )
    read_entry(kind, key, row)
    _write(engine, kind, {**edits(engine)[kind], key: row})


def restore(engine: Engine, kind: str, key: str | None = None) -> None:
    """Take back an edit, or all of a kind: the shipped figure counts again, an added one is gone.

    Raises:
        ReadOnly: Demo mode.
    """
    store.refuse_read_only()
    rows = edits(engine)[kind]
    _write(engine, kind, {} if key is None else {k: v for k, v in rows.items() if k != key})


def _write(engine: Engine, kind: str, rows: Rows) -> None:
    scenarios.save(engine, kind, PAGE, {"rows": rows})
