"""Which queued job a worker may start now: the rule that keeps measurements apart.

- A GPU serves one job at a time, whether a spec names it by index or by UUID.
- A job that measures on the CPU is alone among such jobs on its host.
- An open incident on a GPU keeps jobs off it until a person clears it.
- A GPU that another program uses holds a job up for ``BUSY_PATIENCE_S`` at most: who waits for a
  desktop's programs to go may wait for ever. The run that then starts is suspect.
- Jobs of one evaluation run one after the other, in their order: arms side by side would share
  the CPU and the links, and the interleaving of the plan would be lost.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Text, func, select, type_coerce, update

from db.engine import is_sqlite, reading, writing
from db.job_rows import job_columns, job_dict
from db.schema import Host, Incident, Job, Worker
from db.statements import changed, lock
from models.result import utc_now

ALL_GPUS = "*"
BUSY_PATIENCE_S = 600.0
_CLAIM_LOCK = 0x636C61696D  # claims pass one by one: two jobs on one GPU are different rows
_SILENCE = timedelta(minutes=1)
_NOT_MEASURING = frozenset({"topology"})
_FIRST_PAGE, _PAGE = 20, 1000
_CANDIDATE = (
    Job.number,
    Job.evaluation_id,
    Job.position,
    Job.uses_cpu,
    Job.held_since,
    type_coerce(Job.uses_gpus, Text).label("uses_gpus"),
)


def resources(spec: Mapping[str, Any]) -> tuple[list[str], bool]:
    """GPUs that a spec names (``["*"]``: all of the host's), and whether it measures on the CPU."""
    if spec.get("kind") in _NOT_MEASURING:
        return [], False
    arm = spec.get("arm")
    named = spec.get("gpus") or (arm.get("gpus") if isinstance(arm, Mapping) else None) or []
    if named:
        return [str(gpu) for gpu in named], False
    device = spec.get("device", "cuda" if spec.get("kind") == "serving" else "cpu")
    if device == "cuda" and not spec.get("base_url"):
        return [ALL_GPUS], False
    return [], True


def claim(
    engine: Engine,
    worker_id: str,
    *,
    busy_gpus: Collection[str] = (),
    busy_patience_s: float = BUSY_PATIENCE_S,
) -> dict[str, Any] | None:
    """Take the first queued job that may start on this worker's host.

    Args:
        engine: The database.
        worker_id: A worker that has sent a heartbeat: its host is known from it.
        busy_gpus: UUIDs or indices of GPUs that other programs use.
        busy_patience_s: How long such a GPU holds a job up, seconds.

    Returns:
        The job, now running and leased to the worker, or None. ``shared_gpus`` in it names the
        GPUs that other programs still use.
    """
    with writing(engine) as connection:
        lock(connection, _CLAIM_LOCK)
        worker = connection.execute(
            select(Worker.host_id, Worker.boot_id).where(Worker.id == worker_id)
        ).first()
        host_id, boot_id = (worker.host_id, worker.boot_id) if worker else (None, None)
        host = _Occupied(connection, host_id, busy_gpus)
        now = utc_now()
        patience = timedelta(seconds=busy_patience_s)
        for candidate in _queued(connection):
            if host.obstacle(candidate):
                continue
            shared, since = host.shared(candidate), candidate.held_since
            # a long queue waits for the same GPU: no statement for each of its jobs
            if shared and since is not None and now - since < patience:
                continue
            if not _still_queued(connection, candidate.number):
                continue
            if shared and not _has_waited(connection, candidate, now, busy_patience_s):
                continue
            changed(
                connection,
                update(Job)
                .where(Job.number == candidate.number)
                .values(
                    state="running",
                    worker_id=worker_id,
                    host_id=host_id,
                    boot_id=boot_id,
                    started_at=now,
                    heartbeat_at=now,
                ),
            )
            row = connection.execute(
                select(*job_columns()).where(Job.number == candidate.number)
            ).one()
            return {**job_dict(row), "shared_gpus": shared}
    return None


def _has_waited(connection: Connection, job: Any, now: datetime, patience_s: float) -> bool:
    """Whether other programs have held a job up for long enough; its wait begins here.

    The jobs of an evaluation wait once for all of them: they meet the same programs.
    """
    since = job.held_since
    if since is None and job.evaluation_id is not None:
        since = connection.execute(
            select(func.min(Job.held_since)).where(Job.evaluation_id == job.evaluation_id)
        ).scalar()
    if job.held_since is None:
        since = since or now
        changed(connection, update(Job).where(Job.number == job.number).values(held_since=since))
    return bool(now - since >= timedelta(seconds=patience_s))


def in_use(engine: Engine, host_id: str) -> dict[str, int]:
    """GPUs of a host that other programs use, as its idle workers last saw them: UUID -> programs.

    Empty where nobody looks: a worker that measures, or that may not ask the driver.
    """
    with reading(engine) as connection:
        seen = _seen_busy(connection, host_id)
        host = _Occupied(connection, host_id)
        return {uuid: count for uuid, count in seen.items() if not host.is_taken(uuid)}


def _seen_busy(connection: Connection, host_id: str) -> dict[str, int]:
    rows = connection.execute(
        select(Worker.busy_gpus).where(
            Worker.host_id == host_id,
            Worker.heartbeat_at >= utc_now() - _SILENCE,
            Worker.busy_gpus.is_not(None),
        )
    ).scalars()
    return {str(uuid): int(count) for busy in rows for uuid, count in (busy or {}).items()}


def waiting_for(engine: Engine, job_id: str) -> str | None:
    """Why a queued job has not started, one sentence.

    None where nothing holds it up but the queue, where no worker is alive, and for other states.
    """
    with reading(engine) as connection:
        job = connection.execute(
            select(*_CANDIDATE).where(Job.id == job_id, Job.state == "queued")
        ).first()
        # a worker that has been silent for long is no answer to the question
        host_ids = connection.execute(
            select(Worker.host_id).where(Worker.heartbeat_at >= utc_now() - _SILENCE).distinct()
        ).scalars()
        if job is None:
            return None
        obstacles = [_why(connection, host_id, job) for host_id in host_ids.all()]
    return None if None in obstacles else next(iter(obstacles), None)


def _why(connection: Connection, host_id: str, job: Any) -> str | None:
    host = _Occupied(connection, host_id, _seen_busy(connection, host_id))
    found = host.obstacle(job)
    shared = host.shared(job)
    if found is not None or not shared:
        return found
    text = f"Waits for {host.words(shared)}, in use by another program."
    if job.held_since is not None:
        until = job.held_since + timedelta(seconds=BUSY_PATIENCE_S)
        text += f" It starts at {until:%H:%M} UTC at the latest; its run is then marked suspect."
    return text


def _queued(connection: Connection) -> Iterator[Any]:
    """Queued jobs in the order they came: a few first, because the first one mostly fits."""
    last, size = 0, _FIRST_PAGE
    while True:
        page = connection.execute(
            select(*_CANDIDATE)
            .where(Job.state == "queued", Job.number > last)
            .order_by(Job.number)
            .limit(size)
        ).all()
        yield from page
        if len(page) < size:
            return
        last, size = page[-1].number, _PAGE


def _still_queued(connection: Connection, number: int) -> bool:
    """Lock the row; a job that is being cancelled at this moment is passed by."""
    if is_sqlite(connection):
        return True  # its writers are alone
    statement = select(Job.number).where(Job.number == number, Job.state == "queued")
    return connection.execute(statement.with_for_update(skip_locked=True)).first() is not None


class _Occupied:
    """What is in use on one host, by GPU UUID where the host's list is known."""

    def __init__(
        self, connection: Connection, host_id: str | None, busy_gpus: Collection[str] = ()
    ) -> None:
        self._connection = connection
        self._uuids, self._elsewhere = _known_gpus(connection, host_id)
        self._busy = {self._same(name) for name in busy_gpus}
        self._taken: set[str] = set()
        self._aside: set[str] = set()
        self._cpu = False
        self._turns: dict[str, int | None] = {}
        self._verdicts: dict[str, str | None] = {}
        self._shared: dict[str, list[str]] = {}
        running = connection.execute(
            select(Job.host_id, Job.evaluation_id, Job.uses_gpus, Job.uses_cpu).where(
                Job.state == "running"
            )
        ).all()
        self._running_evaluations = {row.evaluation_id for row in running} - {None}
        for row in running:
            if row.host_id == host_id:
                self._taken |= {self._same(name) for name in row.uses_gpus}
                self._cpu = self._cpu or row.uses_cpu
        for gpu in connection.execute(
            select(Incident.gpu).where(Incident.host_id == host_id, Incident.cleared_at.is_(None))
        ).scalars():
            self._aside.add(ALL_GPUS if gpu is None else self._same(gpu))

    def obstacle(self, job: Any) -> str | None:
        """What stands in the job's way on this host, one sentence; None: it may start."""
        if job.uses_cpu and self._cpu:
            return "Waits for another measurement on the CPU to end."
        if job.uses_gpus not in self._verdicts:  # a long queue names few different GPUs
            self._verdicts[job.uses_gpus] = self._gpu_obstacle(json.loads(job.uses_gpus))
        found = self._verdicts[job.uses_gpus]
        if found is None and job.evaluation_id is not None and not self._has_its_turn(job):
            return "Waits for its turn in the evaluation."
        return found

    def shared(self, job: Any) -> list[str]:
        """GPUs that the job wants and other programs use."""
        if not self._busy:
            return []
        if job.uses_gpus not in self._shared:
            wanted = {self._same(name) for name in json.loads(job.uses_gpus)}
            busy = sorted(gpu for gpu in self._busy if _overlap(wanted, {gpu}))
            self._shared[job.uses_gpus] = busy
        return self._shared[job.uses_gpus]

    def is_taken(self, gpu: str) -> bool:
        """Whether a job of ours uses a GPU."""
        return _overlap({self._same(gpu)}, self._taken)

    def words(self, gpus: Collection[str]) -> str:
        """GPUs by index where the host's list has them: GPU 0 and 1."""
        by_uuid = {uuid: index for index, uuid in self._uuids.items()}
        names = sorted(by_uuid.get(gpu, gpu) for gpu in gpus)
        return "GPU " + ", ".join(names[:-1]) + (" and " if names[1:] else "") + names[-1]

    def _gpu_obstacle(self, names: list[str]) -> str | None:
        wanted = {self._same(name) for name in names}
        if wanted & self._elsewhere:
            return "Waits for the host that has its GPU."
        if _overlap(wanted, self._aside):
            return "A GPU that it needs is set aside after an incident: clear it on Hardware."
        if _overlap(wanted, self._taken):
            return "Waits for a GPU that another job uses."
        return None

    def _has_its_turn(self, job: Any) -> bool:
        name = job.evaluation_id
        if name in self._running_evaluations:
            return False
        if name not in self._turns:
            self._turns[name] = self._connection.execute(
                select(func.min(Job.position)).where(
                    Job.evaluation_id == name, Job.state == "queued"
                )
            ).scalar()
        return bool(job.position == self._turns[name])

    def _same(self, name: object) -> str:
        """One name a GPU: its UUID where the host's list has it."""
        return self._uuids.get(str(name), str(name))


def _known_gpus(connection: Connection, host_id: str | None) -> tuple[dict[str, str], set[str]]:
    """Index -> UUID of this host's GPUs, and the UUIDs that only other hosts have."""
    uuids: dict[str, str] = {}
    others: set[str] = set()
    for row in connection.execute(select(Host.id, Host.facts)):
        for gpu in row.facts.get("gpus") or []:
            uuid = gpu.get("uuid") if isinstance(gpu, Mapping) else None
            if uuid is None:
                continue
            if row.id != host_id:
                others.add(str(uuid))
            elif gpu.get("index") is not None:
                uuids[str(gpu["index"])] = str(uuid)
    return uuids, others - set(uuids.values())


def _overlap(wanted: set[str], others: set[str]) -> bool:
    """Whether two sets of GPUs meet; ``ALL_GPUS`` in either meets any GPU of the other."""
    if not wanted or not others:
        return False
    return ALL_GPUS in wanted or ALL_GPUS in others or bool(wanted & others)
