"""The tables of the first version."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# plain types: a migration must not change when the code's own types do
TEXT = sa.Text()
TIME = sa.DateTime(timezone=True)
KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "hosts",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("facts", TEXT, nullable=False),
        sa.Column("boot_id", TEXT, nullable=True),
        sa.Column("first_seen_at", TIME, nullable=False),
        sa.Column("last_seen_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hosts")),
    )
    op.create_table(
        "incidents",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("host_id", TEXT, nullable=False),
        sa.Column("gpu", TEXT, nullable=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("job_id", TEXT, nullable=True),
        sa.Column("boot_id", TEXT, nullable=True),
        sa.Column("opened_at", TIME, nullable=False),
        sa.Column("cleared_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incidents")),
    )
    op.create_index(op.f("ix_incidents_host_id_cleared_at"), "incidents", ["host_id", "cleared_at"])
    op.create_table(
        "jobs",
        sa.Column("number", KEY, autoincrement=True, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("token", TEXT, nullable=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("title", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("evaluation_id", TEXT, nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("uses_cpu", sa.Boolean(), nullable=False),
        sa.Column("uses_gpus", TEXT, nullable=False),
        sa.Column("worker_id", TEXT, nullable=True),
        sa.Column("host_id", TEXT, nullable=True),
        sa.Column("boot_id", TEXT, nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("pgid", sa.Integer(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("heartbeat_at", TIME, nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("time_limit_s", sa.Double(), nullable=True),
        sa.Column("run_id", TEXT, nullable=True),
        sa.Column("stage", TEXT, nullable=True),
        sa.Column("fraction", sa.Double(), nullable=True),
        sa.Column("message", TEXT, nullable=True),
        sa.Column("eta_s", sa.Double(), nullable=True),
        sa.Column("spec", TEXT, nullable=False),
        sa.Column("evaluation", TEXT, nullable=True),
        sa.Column("log_tail", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_jobs")),
        sa.UniqueConstraint("id", name=op.f("uq_jobs_id")),
        sa.UniqueConstraint("token", name=op.f("uq_jobs_token")),
    )
    op.create_index(op.f("ix_jobs_evaluation_id_state"), "jobs", ["evaluation_id", "state"])
    op.create_index(op.f("ix_jobs_run_id"), "jobs", ["run_id"])
    op.create_index(op.f("ix_jobs_state_number"), "jobs", ["state", "number"])
    op.create_table(
        "raw_files",
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("stored_sha256", TEXT, nullable=False),
        sa.Column("size", KEY, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_raw_files")),
    )
    op.create_index(op.f("ix_raw_files_stored_sha256"), "raw_files", ["stored_sha256"])
    op.create_table(
        "scenarios",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("page", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scenarios")),
        sa.UniqueConstraint("page", "name", name=op.f("uq_scenarios_page_name")),
    )
    op.create_table(
        "seeds",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("study", TEXT, nullable=True),
        sa.Column("seeded_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_seeds")),
    )
    op.create_table(
        "studies",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("title", TEXT, nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("summary", TEXT, nullable=False),
        sa.Column("claims", TEXT, nullable=False),
        sa.Column("limits", TEXT, nullable=False),
        sa.Column("notes", TEXT, nullable=False),
        sa.Column("facts", TEXT, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_studies")),
    )
    op.create_table(
        "workers",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("host_id", TEXT, nullable=False),
        sa.Column("boot_id", TEXT, nullable=True),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("job_id", TEXT, nullable=True),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("heartbeat_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_table(
        "job_events",
        sa.Column("number", KEY, autoincrement=True, nullable=False),
        sa.Column("job_number", KEY, nullable=False),
        sa.Column("t", sa.Double(), nullable=False),
        sa.Column("type", TEXT, nullable=False),
        sa.Column("stage", TEXT, nullable=True),
        sa.Column("fraction", sa.Double(), nullable=True),
        sa.Column("message", TEXT, nullable=True),
        sa.Column("eta_s", sa.Double(), nullable=True),
        sa.Column("level", TEXT, nullable=True),
        sa.Column("data", TEXT, nullable=True),
        sa.ForeignKeyConstraint(
            ["job_number"],
            ["jobs.number"],
            name=op.f("fk_job_events_job_number"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_job_events")),
    )
    op.create_index(op.f("ix_job_events_job_number_number"), "job_events", ["job_number", "number"])
    op.create_table(
        "runs",
        sa.Column("number", KEY, autoincrement=True, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("validity", TEXT, nullable=False),
        sa.Column("title", TEXT, nullable=True),
        sa.Column("study", TEXT, nullable=True),
        sa.Column("evaluation_id", TEXT, nullable=True),
        sa.Column("arm", TEXT, nullable=True),
        sa.Column("arm_order", sa.Integer(), nullable=True),
        sa.Column("start", sa.Integer(), nullable=True),
        sa.Column("merge_key", TEXT, nullable=True),
        sa.Column("tool", TEXT, nullable=False),
        sa.Column("tool_version", TEXT, nullable=True),
        sa.Column("host_id", TEXT, nullable=True),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("headline", TEXT, nullable=False),
        sa.Column("seed", TEXT, nullable=True),
        sa.Column("reasons", TEXT, nullable=False),
        sa.Column("warnings", TEXT, nullable=False),
        sa.Column("artifacts", TEXT, nullable=False),
        sa.Column("said", TEXT, nullable=False),
        sa.Column("spec", TEXT, nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("environment", TEXT, nullable=False),
        sa.Column("topology", TEXT, nullable=True),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_runs_host_id")),
        sa.ForeignKeyConstraint(
            ["seed"], ["seeds.name"], name=op.f("fk_runs_seed"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_runs")),
        sa.UniqueConstraint("id", name=op.f("uq_runs_id")),
        sa.UniqueConstraint("merge_key", name=op.f("uq_runs_merge_key")),
    )
    op.create_index(op.f("ix_runs_created_at"), "runs", ["created_at"])
    op.create_index(op.f("ix_runs_evaluation_id"), "runs", ["evaluation_id"])
    op.create_index(op.f("ix_runs_host_id"), "runs", ["host_id"])
    op.create_index(op.f("ix_runs_kind_created_at"), "runs", ["kind", "created_at"])
    op.create_index(op.f("ix_runs_origin"), "runs", ["origin"])
    op.create_index(op.f("ix_runs_seed"), "runs", ["seed"])
    op.create_index(op.f("ix_runs_study_created_at"), "runs", ["study", "created_at"])
    op.create_index(op.f("ix_runs_validity"), "runs", ["validity"])
    op.create_table(
        "measurements",
        sa.Column("number", KEY, autoincrement=True, nullable=False),
        sa.Column("run_number", KEY, nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=True),
        sa.Column("metric", TEXT, nullable=False),
        sa.Column("statistic", TEXT, nullable=False),
        sa.Column("unit", TEXT, nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("n", KEY, nullable=True),
        sa.Column("definition", TEXT, nullable=False),
        sa.Column("relative_to", TEXT, nullable=True),
        sa.Column("dims", TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_number"],
            ["runs.number"],
            name=op.f("fk_measurements_run_number"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_measurements")),
    )
    op.create_index(
        op.f("ix_measurements_metric_run_number"), "measurements", ["metric", "run_number"]
    )
    op.create_index(op.f("ix_measurements_run_number"), "measurements", ["run_number"])
    op.create_table(
        "rounds",
        sa.Column("number", KEY, autoincrement=True, nullable=False),
        sa.Column("run_number", KEY, nullable=False),
        sa.Column("round", sa.Integer(), nullable=True),
        sa.Column("source_round", sa.Integer(), nullable=True),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("result_id", TEXT, nullable=False),
        sa.Column("job_id", TEXT, nullable=True),
        sa.Column("validity", TEXT, nullable=False),
        sa.Column("reasons", TEXT, nullable=False),
        sa.Column("seed", KEY, nullable=True),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("boot_id", TEXT, nullable=True),
        sa.Column("environment", TEXT, nullable=True),
        sa.ForeignKeyConstraint(
            ["run_number"], ["runs.number"], name=op.f("fk_rounds_run_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_rounds")),
        sa.UniqueConstraint("run_number", "round", name=op.f("uq_rounds_run_number_round")),
    )
    op.create_index(op.f("ix_rounds_job_id"), "rounds", ["job_id"])
    op.create_index(op.f("ix_rounds_result_id"), "rounds", ["result_id"])
    op.create_index(op.f("ix_rounds_run_number"), "rounds", ["run_number"])
    op.create_table(
        "run_files",
        sa.Column("run_number", KEY, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_number"],
            ["runs.number"],
            name=op.f("fk_run_files_run_number"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["sha256"], ["raw_files.sha256"], name=op.f("fk_run_files_sha256")),
        sa.PrimaryKeyConstraint("run_number", "sha256", name=op.f("pk_run_files")),
    )
    op.create_index(op.f("ix_run_files_sha256"), "run_files", ["sha256"])
    op.create_table(
        "samples",
        sa.Column("number", KEY, autoincrement=True, nullable=False),
        sa.Column("run_number", KEY, nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=True),
        sa.Column("metric", TEXT, nullable=False),
        sa.Column("unit", TEXT, nullable=False),
        sa.Column("dims", TEXT, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_number"], ["runs.number"], name=op.f("fk_samples_run_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_samples")),
    )
    op.create_index(op.f("ix_samples_run_number"), "samples", ["run_number"])
    op.create_table(
        "telemetry",
        sa.Column("number", KEY, autoincrement=True, nullable=False),
        sa.Column("run_number", KEY, nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_number"],
            ["runs.number"],
            name=op.f("fk_telemetry_run_number"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_telemetry")),
    )
    op.create_index(op.f("ix_telemetry_run_number"), "telemetry", ["run_number"])
