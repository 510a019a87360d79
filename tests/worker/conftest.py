import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.engine import Engine, connect
from settings import settings
from tests.worker.scripted_context import context_of
from worker.context import Context


@pytest.fixture
def engine(data_dir: Path, migrated_file: Path) -> Iterator[Engine]:
    shutil.copy(migrated_file, settings().url.removeprefix("sqlite:///"))
    made = connect(settings().url, busy_timeout_s=2.0)
    yield made
    made.dispose()


@pytest.fixture
def context(engine: Engine) -> Iterator[Context]:
    made = context_of(engine, settings().files_dir)
    yield made
    made.stop.close()
