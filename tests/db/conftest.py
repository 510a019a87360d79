"""Both databases for every test of the store: one PostgreSQL server a session, emptied per test."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from db import migrations
from db.engine import Engine, connect, writing
from db.schema import Base
from models.result import EvaluationRef, Measurement, Result, Samples, Tool

_USER = "postgres"


def _programs() -> Path | None:
    """Folder of initdb and postgres: Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


def _as_user(command: list[str]) -> list[str]:
    # the server refuses to run as root
    return ["runuser", "-u", _USER, "--", *command] if os.geteuid() == 0 else command


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Callable[[str], str]]:
    """A server on a socket in a folder of its own; gives the URL of a database by its name."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL's server programs are not installed (apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="lw-pg-"))  # short: a socket's path has a limit
    if os.geteuid() == 0:
        owner = pwd.getpwnam(_USER)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": folder}
    initdb = [str(programs / "initdb"), "-D", str(data), "-U", _USER, "-A", "trust", "--no-sync"]
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    control = [str(programs / "pg_ctl"), "-D", str(data), "-w"]
    try:
        subprocess.run(_as_user([*initdb, "-E", "UTF8", "--locale=C"]), **quiet)
        log = str(folder / "log")
        subprocess.run(_as_user([*control, "-l", log, "-o", options, "start"]), **quiet)
        try:
            yield lambda name: f"postgresql://{_USER}@/{name}?host={folder}"
        finally:
            subprocess.run(_as_user([*control, "-m", "immediate", "stop"]), **quiet)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def new_postgres(postgres_server: Callable[[str], str]) -> Callable[[], str]:
    """Makes an empty database and gives its URL."""
    made: list[str] = []

    def make() -> str:
        name = f"test_{len(made)}"
        made.append(name)
        engine = connect(postgres_server("postgres"))
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE template0"))
        engine.dispose()
        return postgres_server(name)

    return make


@pytest.fixture(scope="session")
def migrated_postgres(new_postgres: Callable[[], str]) -> str:
    """URL of the database that the tests share."""
    url = new_postgres()
    engine = connect(url)
    migrations.upgrade(engine)
    engine.dispose()
    return url


@pytest.fixture
def sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """A database file of the test's own, migrated."""
    path = tmp_path / "linkworth.sqlite"
    shutil.copy(migrated_file, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(migrated_postgres: str) -> str:
    """The shared PostgreSQL database, emptied."""
    engine = connect(migrated_postgres)
    with writing(engine) as connection:
        # a few rows at most: quicker than TRUNCATE, which makes new files for every table
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())
    engine.dispose()
    return migrated_postgres


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    """A migrated and empty database, on each of the two backends."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without any table."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.sqlite'}"
    return str(request.getfixturevalue("new_postgres")())


@pytest.fixture
def open_engine() -> Iterator[Callable[..., Engine]]:
    """``connect`` whose engines are closed with the test."""
    engines: list[Engine] = []

    def make(url: str, **options: Any) -> Engine:
        engines.append(connect(url, **options))
        return engines[-1]

    yield make
    for engine in engines:
        engine.dispose()


@pytest.fixture
def engine(url: str, open_engine: Callable[..., Engine]) -> Engine:
    """An engine on each of the two backends."""
    return open_engine(url)


@pytest.fixture
def sqlite_engine(sqlite_url: str, open_engine: Callable[..., Engine]) -> Engine:
    """An engine where the backend does not matter."""
    return open_engine(sqlite_url)


@pytest.fixture
def make_result() -> Callable[..., Result]:
    """A small AllReduce result; ``rounds`` numbers its rounds, the rest is passed on."""

    def make(
        rounds: tuple[int | None, ...] = (0,),
        *,
        value: float = 6.53,
        evaluation: str | None = None,
        arm: str = "link-on",
        n_samples: int = 3,
        **fields: Any,
    ) -> Result:
        dims = {"bytes": 3072, "mode": "graph", "link": "on", "ranks": 2}
        common: dict[str, Any] = {"metric": "allreduce_latency", "unit": "us", "dims": dims}
        return Result(
            **{
                "kind": "allreduce",
                "origin": "measured",
                "tool": Tool(name="linkworth", version="0.1.0"),
                "spec": {"kind": "allreduce", "device": "cpu", "ranks": 2},
                "host": {"hostname": "0123abcd", "boot_id": "boot-1", "cpu_model": "A CPU"},
                "environment": {"python": "3.11.2", "variables": {"NCCL_DEBUG": "INFO"}},
                "started_at": "2026-11-29T13:12:05Z",
                "finished_at": "2026-11-29T13:13:05Z",
                "evaluation": EvaluationRef(id=evaluation, arm=arm) if evaluation else None,
                "measurements": [
                    Measurement(
                        **common,
                        statistic="median",
                        value=value,
                        n=n_samples,
                        round=number,
                        definition="linkworth:allreduce-graph:1",
                    )
                    for number in rounds
                ],
                "samples": [
                    Samples(
                        **common,
                        round=number,
                        values=[value + 0.01 * i for i in range(n_samples)],
                    )
                    for number in rounds
                ],
                **fields,
            }
        )

    return make
