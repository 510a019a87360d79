"""The tables. A change here needs a migration beside it: a test compares the two."""

from datetime import datetime
from typing import Any

from sqlalchemy import Double, ForeignKey, Index, LargeBinary, MetaData, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from db.types import BigKey, Document, PlainText, UtcTime


class Base(DeclarativeBase):
    """Names of constraints are fixed, so that a migration can find them on both databases."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it as a class variable
        str: PlainText,
        float: Double,  # SQLAlchemy 2.0 and 2.1 differ in what they would choose
        datetime: UtcTime,
        dict[str, Any]: Document,
        list[Any]: Document,
        bytes: LargeBinary,
    }


class Host(Base):
    """One machine, known by the hash of its name."""

    __tablename__ = "hosts"

    id: Mapped[str] = mapped_column(primary_key=True)
    facts: Mapped[dict[str, Any]]
    boot_id: Mapped[str | None]
    first_seen_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]


class Study(Base):
    """A named body of results and what its author says of them."""

    __tablename__ = "studies"

    id: Mapped[str] = mapped_column(primary_key=True)
    title: Mapped[str]
    origin: Mapped[str]
    source: Mapped[str]
    summary: Mapped[str]
    claims: Mapped[list[Any]]
    limits: Mapped[list[Any]]
    notes: Mapped[list[Any]]
    facts: Mapped[dict[str, Any]]
    updated_at: Mapped[datetime]


class Seed(Base):
    """A shipped file that was read, by content: a changed file is read again."""

    __tablename__ = "seeds"

    name: Mapped[str] = mapped_column(primary_key=True)
    sha256: Mapped[str]
    study: Mapped[str | None]
    seeded_at: Mapped[datetime]


class Run(Base):
    """One arm on one workload. Columns that lists need stand first, documents last."""

    __tablename__ = "runs"
    __table_args__ = (
        Index(None, "kind", "created_at"),
        Index(None, "study", "created_at"),
        Index(None, "evaluation_id"),
    )

    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    origin: Mapped[str] = mapped_column(index=True)
    validity: Mapped[str] = mapped_column(index=True)
    title: Mapped[str | None]
    study: Mapped[str | None]
    evaluation_id: Mapped[str | None]
    arm: Mapped[str | None]
    arm_order: Mapped[int | None]
    start: Mapped[int | None]
    # evaluation, arm and workload in one: results of the same key are rounds of one run
    merge_key: Mapped[str | None] = mapped_column(unique=True)
    tool: Mapped[str]
    tool_version: Mapped[str | None]
    host_id: Mapped[str | None] = mapped_column(ForeignKey("hosts.id"), index=True)
    host_label: Mapped[str | None]  # the host in a few words
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(index=True)
    headline: Mapped[str]
    seed: Mapped[str | None] = mapped_column(
        ForeignKey("seeds.name", ondelete="SET NULL"), index=True
    )
    reasons: Mapped[list[Any]]
    warnings: Mapped[list[Any]]
    artifacts: Mapped[list[Any]]
    said: Mapped[dict[str, Any]]
    spec: Mapped[dict[str, Any]]
    host: Mapped[dict[str, Any]]
    environment: Mapped[dict[str, Any]]
    topology: Mapped[dict[str, Any] | None]


class Round(Base):
    """One repetition inside a run, and which result brought it."""

    __tablename__ = "rounds"
    __table_args__ = (UniqueConstraint("run_number", "round"),)

    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    run_number: Mapped[int] = mapped_column(
        BigKey, ForeignKey("runs.number", ondelete="CASCADE"), index=True
    )
    round: Mapped[int | None]  # null: the result does not say
    source_round: Mapped[int | None]  # as the result numbered it
    part: Mapped[int]  # 0 for the first result of the run, 1 for the next
    result_id: Mapped[str] = mapped_column(index=True)
    job_id: Mapped[str | None] = mapped_column(index=True)
    validity: Mapped[str]
    reasons: Mapped[list[Any]]
    seed: Mapped[int | None] = mapped_column(BigKey)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    boot_id: Mapped[str | None]
    environment: Mapped[dict[str, Any] | None]  # where it differs from the run's


class Measurement(Base):
    """One number with its definition."""

    __tablename__ = "measurements"
    __table_args__ = (Index(None, "metric", "run_number"),)

    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    run_number: Mapped[int] = mapped_column(
        BigKey, ForeignKey("runs.number", ondelete="CASCADE"), index=True
    )
    part: Mapped[int]
    round: Mapped[int | None]
    metric: Mapped[str]
    statistic: Mapped[str]
    unit: Mapped[str]
    value: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    n: Mapped[int | None] = mapped_column(BigKey)
    definition: Mapped[str]
    relative_to: Mapped[str | None]
    dims: Mapped[str]  # JSON with sorted keys: few distinct texts, each parsed once


class Samples(Base):
    """A list of raw values, packed: see ``db.packing``."""

    __tablename__ = "samples"

    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    run_number: Mapped[int] = mapped_column(
        BigKey, ForeignKey("runs.number", ondelete="CASCADE"), index=True
    )
    part: Mapped[int]
    round: Mapped[int | None]
    metric: Mapped[str]
    unit: Mapped[str]
    dims: Mapped[str]
    count: Mapped[int]
    data: Mapped[bytes]


class Telemetry(Base):
    """The telemetry rows of one result, packed: see ``db.packing``."""

    __tablename__ = "telemetry"

    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    run_number: Mapped[int] = mapped_column(
        BigKey, ForeignKey("runs.number", ondelete="CASCADE"), index=True
    )
    part: Mapped[int]
    count: Mapped[int]
    data: Mapped[bytes]


class RawFile(Base):
    """The bytes a run came from, secrets removed, under the hash of what arrived."""

    __tablename__ = "raw_files"

    sha256: Mapped[str] = mapped_column(primary_key=True)  # of the bytes as they arrived
    stored_sha256: Mapped[str] = mapped_column(index=True)  # differs where secrets were removed
    size: Mapped[int] = mapped_column(BigKey)
    data: Mapped[bytes]


class RunFile(Base):
    """Which runs a raw file brought: one file may hold several, one run may have several."""

    __tablename__ = "run_files"

    run_number: Mapped[int] = mapped_column(
        BigKey, ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True
    )
    sha256: Mapped[str] = mapped_column(
        ForeignKey("raw_files.sha256"), primary_key=True, index=True
    )
    name: Mapped[str]
    part: Mapped[int]


class Job(Base):
    """One entry of the queue; the latest event stands in it, so that a list needs no join."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "state", "number"),
        Index(None, "evaluation_id", "state"),
    )

    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(unique=True)
    token: Mapped[str | None] = mapped_column(unique=True)
    kind: Mapped[str]
    title: Mapped[str]
    state: Mapped[str]
    reason: Mapped[str]
    evaluation_id: Mapped[str | None]
    position: Mapped[int]  # place in its evaluation
    uses_cpu: Mapped[bool]  # measures on the CPU: alone on its host
    uses_gpus: Mapped[list[Any]]  # names as the spec has them; "*" is every GPU
    worker_id: Mapped[str | None]
    host_id: Mapped[str | None]
    boot_id: Mapped[str | None]
    pid: Mapped[int | None]
    pgid: Mapped[int | None]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    heartbeat_at: Mapped[datetime | None]
    held_since: Mapped[datetime | None]  # when another program's GPU first held it up
    cancel_requested: Mapped[bool]
    time_limit_s: Mapped[float | None]
    run_id: Mapped[str | None] = mapped_column(index=True)
    stage: Mapped[str | None]
    fraction: Mapped[float | None]
    message: Mapped[str | None]
    eta_s: Mapped[float | None]
    live: Mapped[list[Any] | None]  # the machine's state while the job runs, a row a device
    spec: Mapped[dict[str, Any]]
    evaluation: Mapped[dict[str, Any] | None]
    log_tail: Mapped[str]


class JobEvent(Base):
    """One line that a runner said."""

    __tablename__ = "job_events"
    __table_args__ = (Index(None, "job_number", "number"),)

    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    job_number: Mapped[int] = mapped_column(BigKey, ForeignKey("jobs.number", ondelete="CASCADE"))
    t: Mapped[float]
    type: Mapped[str]
    stage: Mapped[str | None]
    fraction: Mapped[float | None]
    message: Mapped[str | None]
    eta_s: Mapped[float | None]
    level: Mapped[str | None]
    data: Mapped[Any | None] = mapped_column(Document)


class Worker(Base):
    """A worker process and when it was last heard of."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    host_id: Mapped[str]
    boot_id: Mapped[str | None]
    pid: Mapped[int]
    job_id: Mapped[str | None]
    busy_gpus: Mapped[dict[str, Any] | None]  # UUID -> programs on it; null: not known
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]


class Incident(Base):
    """Something that went wrong with a machine or a GPU; open until a person clears it."""

    __tablename__ = "incidents"
    __table_args__ = (Index(None, "host_id", "cleared_at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    host_id: Mapped[str]
    gpu: Mapped[str | None]  # UUID or index; null: every GPU of the host
    kind: Mapped[str]
    text: Mapped[str]
    job_id: Mapped[str | None]
    boot_id: Mapped[str | None]
    opened_at: Mapped[datetime]
    cleared_at: Mapped[datetime | None]


class Scenario(Base):
    """What a person set on a page, by name."""

    __tablename__ = "scenarios"
    __table_args__ = (UniqueConstraint("page", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    page: Mapped[str]
    state: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
