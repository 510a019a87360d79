"""Machines and what went wrong with them."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, select, update

from db.engine import reading, writing
from db.schema import Host, Incident, Run, Seed
from db.statements import changed, upsert
from models.errors import NotFound
from models.result import utc_now
from models.secrets import scrub


def host_id(facts: Mapping[str, Any]) -> str | None:
    """How a host is known: the hash of its name; None where the facts do not say."""
    name = facts.get("hostname")
    return str(name) if name else None


def label(facts: Mapping[str, Any]) -> str | None:
    """A host in a few words: its GPUs, else its processor."""
    names: dict[str, int] = {}
    for gpu in facts.get("gpus") or []:
        name = gpu.get("name") if isinstance(gpu, Mapping) else gpu
        if name:
            names[str(name)] = names.get(str(name), 0) + 1
    if names:
        return ", ".join(f"{n} x {name}" if n > 1 else name for name, n in names.items())
    for key in ("gpu", "gpu_name", "device", "cpu_model", "name", "hostname"):
        if facts.get(key):
            return str(facts[key])
    return None


def remember(engine: Engine, facts: Mapping[str, Any]) -> str | None:
    """Keep what a probe found; the queue resolves GPU indices with it.

    Returns:
        The host's id, or None where the facts name no host.
    """
    with writing(engine) as connection:
        return remember_in(connection, facts, fresh=True)


def remember_in(connection: Connection, facts: Mapping[str, Any], *, fresh: bool) -> str | None:
    """As ``remember``, inside a transaction; facts that are not fresh never replace any."""
    name = host_id(facts)
    if name is None:
        return None
    now = utc_now()
    values = {
        "id": name,
        "facts": scrub(facts),
        "boot_id": facts.get("boot_id"),
        "first_seen_at": now,
        "last_seen_at": now,
    }
    update_columns = ["facts", "boot_id", "last_seen_at"] if fresh else None
    connection.execute(upsert(connection, Host, values, key=["id"], update=update_columns))
    return name


def list_hosts(engine: Engine) -> list[dict[str, Any]]:
    """Hosts, last seen first: id, label, facts, boot_id, first_seen_at, last_seen_at.

    The machines of shipped studies are left out: nobody can start anything there.
    """
    # asked by the seeds' names: "is not null" would read every run there is
    seeds = select(Seed.name)
    shipped = select(Run.host_id).where(Run.seed.in_(seeds), Run.host_id.is_not(None))
    with reading(engine) as connection:
        rows = connection.execute(
            select(Host.id, Host.facts, Host.boot_id, Host.first_seen_at, Host.last_seen_at)
            .where(Host.id.not_in(shipped))
            .order_by(Host.last_seen_at.desc(), Host.id)
        )
        return [{"label": label(row["facts"]), **row} for row in rows.mappings()]


def facts(engine: Engine, host_id: str) -> dict[str, Any]:
    """What is known of one host, a shipped study's too; empty where nothing is."""
    with reading(engine) as connection:
        found = connection.execute(select(Host.facts).where(Host.id == host_id)).scalar()
    return dict(found or {})


def add_incident(
    engine: Engine,
    *,
    host: str,
    kind: str,
    text: str,
    gpu: str | int | None = None,
    job_id: str | None = None,
    boot_id: str | None = None,
    opened_at: datetime | None = None,
) -> str:
    """Set a GPU aside until a person clears it.

    Args:
        engine: The database.
        host: The host's id.
        kind: A word for programs, such as ``reboot`` or ``survivor``.
        text: What happened, one sentence.
        gpu: UUID or index; None sets every GPU of the host aside.
        job_id: The job that ran.
        boot_id: Boot during which it happened.
        opened_at: When; None: now.

    Returns:
        The incident's id.
    """
    incident_id = str(uuid.uuid4())
    with writing(engine) as connection:
        connection.execute(
            upsert(
                connection,
                Incident,
                {
                    "id": incident_id,
                    "host_id": host,
                    "gpu": None if gpu is None else str(gpu),
                    "kind": kind,
                    "text": text,
                    "job_id": job_id,
                    "boot_id": boot_id,
                    "opened_at": opened_at or utc_now(),
                },
                key=["id"],
            )
        )
    return incident_id


def open_incidents(engine: Engine, host_id: str | None = None) -> list[dict[str, Any]]:
    """Incidents that nobody has cleared, newest first, of one host or of all."""
    statement = (
        select(
            Incident.id,
            Incident.host_id.label("host"),
            Incident.gpu,
            Incident.kind,
            Incident.text,
            Incident.job_id,
            Incident.boot_id,
            Incident.opened_at,
        )
        .where(Incident.cleared_at.is_(None))
        .order_by(Incident.opened_at.desc(), Incident.id)
    )
    if host_id is not None:
        statement = statement.where(Incident.host_id == host_id)
    with reading(engine) as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def clear_incident(engine: Engine, incident_id: str) -> None:
    """A person has looked after it: the GPU may work again.

    Raises:
        NotFound: There is no such incident.
    """
    with writing(engine) as connection:
        found = connection.execute(select(Incident.id).where(Incident.id == incident_id))
        if found.first() is None:
            raise NotFound("There is no such incident any more.")
        changed(
            connection,
            update(Incident)
            .where(Incident.id == incident_id, Incident.cleared_at.is_(None))
            .values(cleared_at=utc_now()),
        )
