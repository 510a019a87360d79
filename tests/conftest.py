"""Every test works on a data folder of its own; in CI a skip is a failure."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import settings as settings_module
from db.engine import Engine, connect
from db.migrations import upgrade

REQUIRE_ALL = os.environ.get("LINKWORTH_REQUIRE_ALL") == "1"

# hundreds of programs are started here, and each would compile all that it imports
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that the end of a run is shared out in small pieces."""

    def place(item: pytest.Item) -> tuple[int, int]:
        kind = 0 if _in_a_browser(item.nodeid) else 1 if item.get_closest_marker("vllm") else 2
        return kind, -sizes[item.path]

    sizes = Counter(item.path for item in items)
    items.sort(key=place)


def _in_a_browser(nodeid: str) -> bool:
    return nodeid.startswith("tests/e2e/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each file stays with one worker, and all of the browser's with the same.

    A browser, an app and its worker keep two cores busy: two of them at a time only wait longer.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneBrowser(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "tests/e2e" if _in_a_browser(nodeid) else super()._split_scope(nodeid)

    return OneBrowser(config, log)


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
