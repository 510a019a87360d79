"""Every test works on a data folder of its own; in CI a skip is a failure."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import settings as settings_module
from db.engine import Engine, connect
from db.migrations import upgrade

REQUIRE_ALL = os.environ.get("LINKWORTH_REQUIRE_ALL") == "1"

# hundreds of programs are started here, and each would compile all that it imports
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    # an expected failure (xfail) also reports "skipped"; benchmarks have a run of their own
    exempt = hasattr(report, "wasxfail") or "benchmark" in getattr(item, "fixturenames", ())
    if REQUIRE_ALL and report.skipped and not exempt:
        report.outcome = "failed"
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"skipped where nothing may be: {reason}"


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh data folder; the person's own is never touched."""
    for name in [name for name in os.environ if name.startswith("LINKWORTH_")]:
        if name != "LINKWORTH_REQUIRE_ALL":
            monkeypatch.delenv(name)
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("LINKWORTH_DATA_DIR", str(folder))
    monkeypatch.setenv("LINKWORTH_START_WORKER", "0")
    settings_module.settings.cache_clear()
    yield folder
    settings_module.settings.cache_clear()


@pytest.fixture(scope="session")
def whole() -> Callable[[Engine], None]:
    """Closes an engine on SQLite so that all of its database is in its one file."""

    def close(engine: Engine) -> None:
        with engine.connect() as connection:
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.exec_driver_sql("BEGIN")
        engine.dispose()

    return close


@pytest.fixture(scope="session")
def migrated_file(
    tmp_path_factory: pytest.TempPathFactory, whole: Callable[[Engine], None]
) -> Path:
    """A database with the newest schema, to be copied: quicker than migrating for each test."""
    path = tmp_path_factory.mktemp("migrated") / "template.sqlite"
    engine = connect(f"sqlite:///{path}")
    upgrade(engine)
    whole(engine)
    return path
