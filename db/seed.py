"""The studies that are shipped with the code: read into the database once, and when they change.

A file is known by its name and the hash of its bytes. An unchanged file is left alone, so a run
that a person deleted stays deleted; a changed one replaces its runs. A file that can no longer be
stored stops nothing: it is passed by, and what is in the database stays.
"""

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import Connection, Engine, delete, insert, select

from db import files, studies
from db.engine import reading, writing
from db.schema import Run, Seed
from db.statements import changed, lock
from db.storing import store_seed
from models.errors import DatabaseUnavailable, LinkworthError, UnreadableFile
from models.result import Bundle, utc_now

_log = logging.getLogger(__name__)
_SEED_LOCK = 0x73656564  # app and worker may start together


def seed(engine: Engine, data_dir: Path, read_published: Callable[[bytes], Bundle]) -> list[str]:
    """Read the shipped studies that are new or changed.

    Args:
        engine: The database, migrated.
        data_dir: The folder with ``published/*.json`` and ``studies/*.json``.
        read_published: Reads a published study; those of ``studies`` are bundles already.

    Returns:
        Names of the files that were read, relative to ``data_dir``.

    Raises:
        DatabaseUnavailable: Nothing of the file at hand was stored; earlier ones are.
    """
    with reading(engine) as connection:
        rows = connection.execute(select(Seed.name, Seed.sha256))
        known = {row.name: row.sha256 for row in rows}
    readers = (("published", read_published), ("studies", _read_bundle))
    done: list[str] = []
    for folder, read in readers:
        for path in sorted((data_dir / folder).glob("*.json")):
            name = f"{folder}/{path.name}"
            data = path.read_bytes()
            if known.get(name) == hashlib.sha256(data).hexdigest():
                continue
            try:
                if _replace(engine, name, data, read(data)):
                    done.append(name)
            except DatabaseUnavailable:
                raise
            except LinkworthError as error:
                _log.error("The shipped study %s was passed by: %s", name, error)
    return done


def _read_bundle(data: bytes) -> Bundle:
    try:
        return Bundle.model_validate_json(data)
    except ValidationError as error:
        raise UnreadableFile(
            "A shipped study does not have the shape of one.",
            "Restore the folder data from the repository.",
            detail=str(error),
        ) from error


def _replace(engine: Engine, name: str, data: bytes, bundle: Bundle) -> bool:
    """Put a file's runs in the place of its former ones; False where another was faster."""
    sha256 = hashlib.sha256(data).hexdigest()
    with writing(engine) as connection:
        lock(connection, _SEED_LOCK)
        if connection.execute(select(Seed.sha256).where(Seed.name == name)).scalar() == sha256:
            return False
        _remove(connection, name)
        study_id = bundle.study.id if bundle.study else None
        connection.execute(
            insert(Seed).values(name=name, sha256=sha256, study=study_id, seeded_at=utc_now())
        )
        if bundle.study is not None:
            studies.save_in(connection, bundle.study)
        results = [
            result
            if result.study is not None or study_id is None
            else result.model_copy(update={"study": study_id})
            for result in bundle.results
        ]
        store_seed(connection, results, raw=data, name=name)
    return True


def _remove(connection: Connection, name: str) -> None:
    numbers = list(connection.execute(select(Run.number).where(Run.seed == name)).scalars())
    hashes = files.hashes_of(connection, numbers)
    changed(connection, delete(Run).where(Run.number.in_(numbers)))
    files.drop_unused(connection, hashes)
    changed(connection, delete(Seed).where(Seed.name == name))
