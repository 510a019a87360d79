"""The raw bytes that runs came from: kept compressed, without secrets, under their hash."""

import hashlib
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, or_, select

from db.engine import reading
from db.packing import pack_file, unpack_file
from db.schema import RawFile, Run, RunFile
from db.statements import changed
from models.errors import DuplicateFile
from models.secrets import scrub_bytes


@dataclass(frozen=True)
class PreparedFile:
    """A raw file, ready to be stored."""

    name: str
    sha256: str
    stored_sha256: str
    size: int
    data: bytes


def prepare(data: bytes, name: str) -> PreparedFile:
    """Hash, clean and compress the bytes: outside any transaction, because it takes time."""
    cleaned = scrub_bytes(data)
    arrived = hashlib.sha256(data).hexdigest()
    return PreparedFile(
        name=name,
        sha256=arrived,
        stored_sha256=arrived if cleaned is data else hashlib.sha256(cleaned).hexdigest(),
        size=len(cleaned),
        data=pack_file(cleaned),
    )


def keep(connection: Connection, file: PreparedFile) -> None:
    """Store a file.

    Raises:
        DuplicateFile: The same bytes are there; ``detail`` is the id of their first run.
    """
    first = run_of(connection, file.sha256)
    if first is not None:
        raise DuplicateFile(
            f"The file {file.name} is already stored.",
            "Open the run that it brought, or delete that run first.",
            detail=first,
        )
    connection.execute(
        insert(RawFile).values(
            sha256=file.sha256,
            stored_sha256=file.stored_sha256,
            size=file.size,
            data=file.data,
        )
    )


def link(connection: Connection, file: PreparedFile, run_number: int, part: int) -> None:
    """Note that a run came from a file."""
    there = select(RunFile.sha256).where(
        RunFile.run_number == run_number, RunFile.sha256 == file.sha256
    )
    if connection.execute(there).first() is None:
        connection.execute(
            insert(RunFile).values(
                run_number=run_number, sha256=file.sha256, name=file.name, part=part
            )
        )


def run_of(connection: Connection, sha256: str) -> str | None:
    """Id of the first run that came from these bytes, as they arrived or as they are kept."""
    return connection.execute(
        select(Run.id)
        .join(RunFile, RunFile.run_number == Run.number)
        .join(RawFile, RawFile.sha256 == RunFile.sha256)
        .where(or_(RawFile.sha256 == sha256, RawFile.stored_sha256 == sha256))
        .order_by(Run.number)
        .limit(1)
    ).scalar()


def drop_unused(connection: Connection, hashes: list[str]) -> None:
    """Remove those of these files that no run came from any more."""
    used = select(RunFile.sha256).where(RunFile.sha256.in_(hashes))
    changed(
        connection, delete(RawFile).where(RawFile.sha256.in_(hashes), RawFile.sha256.not_in(used))
    )


def hashes_of(connection: Connection, run_numbers: list[int]) -> list[str]:
    """The files that these runs came from."""
    return list(
        connection.execute(
            select(RunFile.sha256).where(RunFile.run_number.in_(run_numbers)).distinct()
        ).scalars()
    )


def raw(engine: Engine, run_id: str) -> list[dict[str, Any]]:
    """The raw files of a run: name, sha256 (of the bytes given here) and data."""
    with reading(engine) as connection:
        rows = connection.execute(
            select(RunFile.name, RawFile.stored_sha256, RawFile.data)
            .join(RawFile, RawFile.sha256 == RunFile.sha256)
            .join(Run, Run.number == RunFile.run_number)
            .where(Run.id == run_id)
            .order_by(RunFile.part, RunFile.name)
        ).all()
    return [
        {"name": row.name, "sha256": row.stored_sha256, "data": unpack_file(row.data)}
        for row in rows
    ]


def find_by_sha256(engine: Engine, sha: str) -> str | None:
    """Id of the first run that came from the file with this hash; None where there is none."""
    with reading(engine) as connection:
        return run_of(connection, sha.lower())


def of_same_file(engine: Engine, run_id: str) -> list[str]:
    """Ids of the runs that one file brought together with this one, in its order.

    Returns:
        This run's id among them; empty where it came from no file.
    """
    file = (
        select(RunFile.sha256)
        .join(Run, Run.number == RunFile.run_number)
        .where(Run.id == run_id)
        .order_by(RunFile.part)
        .limit(1)
    )
    with reading(engine) as connection:
        return list(
            connection.execute(
                select(Run.id)
                .join(RunFile, RunFile.run_number == Run.number)
                .where(RunFile.sha256 == file.scalar_subquery())
                .order_by(Run.number)
            ).scalars()
        )
