"""The shipped catalogues of `data/`: prices, cards, failure priors. Their reader, and edits on top.

A person's edits come from the database as plain rows and are laid over the shipped ones here;
`data/` itself is never written.
"""

import tomllib
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from models.errors import LinkworthError, UnreadableFile
from models.prices import Catalogue, read_card, read_price, read_prior

DATA = Path(__file__).resolve().parents[1] / "data"
FILES = {"prices": "prices.toml", "cards": "gpus.toml", "priors": "failure_priors.toml"}
KINDS = tuple(FILES)

Rows = dict[str, dict[str, Any]]
_Entry = TypeVar("_Entry")


def read_rows(path: Path) -> Rows:
    """Rows of one catalogue file, dates as ISO text.

    Raises:
        UnreadableFile: The file is not there, not TOML, or holds something other than tables.
    """
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UnreadableFile(
            f"The catalogue {path.name} cannot be read.",
            "Restore the file from the distribution.",
            detail=str(error),
        ) from None
    for key, row in content.items():
        if not isinstance(row, dict):
            raise UnreadableFile(f"The catalogue {path.name}: {key!r} is no table of figures.")
    return {
        key: {
            name: value.isoformat() if isinstance(value, date) else value
            for name, value in row.items()
        }
        for key, row in content.items()
    }


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Rows]:
    return {kind: read_rows(DATA / name) for kind, name in FILES.items()}


def shipped_rows(kind: str) -> Rows:
    """Shipped rows of one kind: prices, cards or priors; a copy, free to change."""
    return {key: dict(row) for key, row in _shipped()[kind].items()}


def catalogue(edits: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None) -> Catalogue:
    """The catalogue with a person's edits on top.

    Args:
        edits: Kind -> key -> row; a row replaces the shipped one of its key, or is added.

    Raises:
        InvalidSpec: A row lacks a part, or has an impossible one; the sentence names it.
    """
    edits = edits or {}
    return Catalogue(
        prices=_entries("prices", edits, read_price),
        cards=_entries("cards", edits, read_card),
        priors=_entries("priors", edits, read_prior),
    )


def _entries(
    kind: str,
    edits: Mapping[str, Mapping[str, Mapping[str, Any]]],
    read: Callable[[str, dict[str, Any]], _Entry],
) -> dict[str, _Entry]:
    rows = shipped_rows(kind) | {key: dict(row) for key, row in edits.get(kind, {}).items()}
    return {key: read(key, row) for key, row in rows.items()}


def read_entry(kind: str, key: str, row: dict[str, Any]) -> object:
    """One entry of a kind, checked as the whole catalogue is.

    Raises:
        InvalidSpec: A part is missing or impossible.
        LinkworthError: No such kind.
    """
    readers: dict[str, Callable[[str, dict[str, Any]], object]] = {
        "prices": read_price,
        "cards": read_card,
        "priors": read_prior,
    }
    if kind not in readers:
        raise LinkworthError(f"There is no catalogue of {kind!r}.")
    return readers[kind](key, row)
