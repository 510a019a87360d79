"""From nothing, from the version before with data in it, and never from a newer one."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import column, inspect, text
from sqlalchemy import table as sql_table

from db import jobs, migrations, runs
from db.engine import reading, writing
from db.packing import pack_values
from db.schema import Base
from models.errors import DatabaseTooNew, DatabaseUnavailable

RUN_ID = "6a0f5a0e-6c35-4a0e-9a55-0f6d6a1d2c33"
LABELLED_ID = "7b1f5a0e-6c35-4a0e-9a55-0f6d6a1d2c34"
ROOT = Path(__file__).parents[2]


def to_revision(engine, revision):
    with writing(engine) as connection:
        command.upgrade(migrations._config(connection), revision)


TWO_GPUS = '{"gpus":[{"index":0,"name":"A GPU"},{"index":1,"name":"A GPU"}]}'


def insert(connection, table, **values):
    connection.execute(sql_table(table, *(column(name) for name in values)).insert(), values)


def fill_previous_version(engine, host=TWO_GPUS):
    """Rows as version 0001 wrote them, in plain SQL: today's models know another schema."""
    now = "2026-11-01 10:00:00"
    place = {"run_number": 1, "part": 0, "round": 0}
    with writing(engine) as connection:
        insert(
            connection, "runs",
            id=RUN_ID, kind="allreduce", origin="measured", validity="valid", tool="linkworth",
            created_at=now, headline="6.5 us at 3 KB", reasons="[]", warnings="[]", artifacts="[]",
            said="{}", spec="{}", host=host, environment="{}",
        )  # fmt: skip
        insert(connection, "rounds", **place, result_id=RUN_ID, validity="valid", reasons="[]")
        insert(
            connection, "measurements",
            **place, metric="allreduce_latency", statistic="median", unit="us", value=6.5,
            definition="linkworth:allreduce-graph:1", dims='{"bytes":3072}',
        )  # fmt: skip
        insert(
            connection, "samples",
            **place, metric="allreduce_latency", unit="us", dims="{}", count=2,
            data=pack_values([6.4, 6.6]),
        )  # fmt: skip
        insert(
            connection, "jobs",
            id="job-1", kind="topology", title="", state="queued", reason="", position=0,
            uses_cpu=False, uses_gpus="[]", created_at=now, cancel_requested=False,
            spec='{"kind":"topology"}', log_tail="",
        )  # fmt: skip


def add_labelled_run(engine):
    """A run as version 0002 wrote it: the host's label stands in it."""
    with writing(engine) as connection:
        assert connection.execute(text("SELECT host_label FROM runs")).scalar() == "2 x A GPU"
        insert(
            connection, "runs",
            id=LABELLED_ID, kind="decode", origin="imported", validity="valid", tool="linkworth",
            created_at="2026-11-02 10:00:00", headline="", reasons="[]", warnings="[]",
            artifacts="[]", said="{}", spec="{}", host="{}", environment="{}",
            host_label="a label of its time",
        )  # fmt: skip


def test_from_nothing_to_the_schema_of_the_models(empty_url, open_engine):
    engine = open_engine(empty_url)
    assert migrations.version(engine) is None
    migrations.upgrade(engine)
    migrations.upgrade(engine)  # nothing to do
    assert migrations.version(engine) == migrations.HEAD
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_head_is_the_newest_step_and_steps_count_up():
    scripts = ScriptDirectory.from_config(migrations._config())
    assert scripts.get_heads() == [migrations.HEAD]
    revisions = [step.revision for step in scripts.walk_revisions()][::-1]
    assert revisions == sorted(revisions)
    assert len(revisions) >= 2


EARLIER = sorted(
    step.revision
    for step in ScriptDirectory.from_config(migrations._config()).walk_revisions()
    if step.revision != migrations.HEAD
)


@pytest.mark.parametrize("revision", EARLIER)
def test_every_version_before_keeps_its_data(empty_url, open_engine, revision):
    engine = open_engine(empty_url)
    to_revision(engine, "0001")
    fill_previous_version(engine)
    to_revision(engine, revision)
    if revision >= "0002":
        add_labelled_run(engine)
    migrations.upgrade(engine)
    assert migrations.version(engine) == migrations.HEAD
    run = runs.load(engine, RUN_ID)
    assert [row.value for row in run.measurements] == [6.5]
    assert run.samples[0].values == [6.4, 6.6]
    labels = dict(runs.list_runs(engine)[["id", "host"]].itertuples(index=False))
    assert labels.pop(LABELLED_ID, "a label of its time") == "a label of its time"
    assert labels == {RUN_ID: "2 x A GPU"}
    jobs.heartbeat(engine, "worker", pid=1, host="h")
    claimed = jobs.claim(engine, "worker")
    assert claimed is not None
    assert claimed["id"] == "job-1"


def test_a_step_that_fails_leaves_the_database_as_it_was(empty_url, open_engine):
    engine = open_engine(empty_url)
    to_revision(engine, "0001")
    fill_previous_version(engine, host="no JSON")
    with pytest.raises(ValueError, match="Expecting value"):
        migrations.upgrade(engine)
    assert migrations.version(engine) == "0001"
    with reading(engine) as connection:
        columns = {column["name"] for column in inspect(connection).get_columns("runs")}
        assert "host_label" not in columns
        assert connection.execute(text("SELECT host FROM runs")).scalar() == "no JSON"


def test_a_newer_database_is_refused_and_left_alone(engine):
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    try:
        with pytest.raises(DatabaseTooNew, match="newer version of Linkworth") as caught:
            migrations.upgrade(engine)
        assert "newer version" in caught.value.next_step
        assert isinstance(caught.value, DatabaseUnavailable)
        with reading(engine) as connection:
            version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        assert version == "9999"
    finally:
        with writing(engine) as connection:
            connection.execute(
                text("UPDATE alembic_version SET version_num = :head"), {"head": migrations.HEAD}
            )


def test_two_starts_at_once(empty_url, open_engine):
    engines = [open_engine(empty_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrations.upgrade, engines))
    assert migrations.version(engines[0]) == migrations.HEAD


def test_a_start_without_work_does_not_load_alembic(sqlite_url):
    code = (
        "import sys; from db.engine import connect; from db import migrations;"
        f"migrations.upgrade(connect({sqlite_url!r}));"
        "sys.exit('alembic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
