"""Runs: storing, reading back, listing, deleting. The one door to them for everybody else."""

from sqlalchemy import Engine, update
from sqlalchemy import delete as delete_from

from db.data_version import version
from db.engine import writing
from db.files import drop_unused, find_by_sha256, hashes_of, of_same_file, raw
from db.frames import count, list_runs, measurements, rounds, samples, telemetry
from db.loading import head, heads, load, number_of
from db.schema import Job, Run
from db.statements import changed
from db.storing import store, store_all

__all__ = [
    "count",
    "delete",
    "find_by_sha256",
    "head",
    "heads",
    "list_runs",
    "load",
    "measurements",
    "of_same_file",
    "raw",
    "rounds",
    "samples",
    "store",
    "store_all",
    "telemetry",
    "version",
]


def delete(engine: Engine, run_id: str) -> None:
    """Remove a run with all that belongs to it; files that other runs came from stay.

    Raises:
        NotFound: There is no such run.
    """
    with writing(engine) as connection:
        number = number_of(connection, run_id)
        hashes = hashes_of(connection, [number])
        changed(connection, update(Job).where(Job.run_id == run_id).values(run_id=None))
        changed(connection, delete_from(Run).where(Run.number == number))  # rows below go with it
        drop_unused(connection, hashes)
