"""Runs carry their host in a few words, so that a list need not read every host document."""

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Add the column and fill it for the runs that are there."""
    op.add_column("runs", sa.Column("host_label", sa.Text(), nullable=True))
    runs = sa.table(
        "runs", sa.column("number"), sa.column("host", sa.Text()), sa.column("host_label")
    )
    connection = op.get_bind()
    for number, host in connection.execute(sa.select(runs.c.number, runs.c.host)).all():
        words = _label(json.loads(host))
        if words:
            connection.execute(
                runs.update().where(runs.c.number == number).values(host_label=words)
            )


def _label(facts: dict[str, Any]) -> str | None:
    """As ``db.hosts.label`` was when this migration was written."""
    names: dict[str, int] = {}
    for gpu in facts.get("gpus") or []:
        name = gpu.get("name") if isinstance(gpu, dict) else gpu
        if name:
            names[str(name)] = names.get(str(name), 0) + 1
    if names:
        return ", ".join(f"{n} x {name}" if n > 1 else name for name, n in names.items())
    for key in ("gpu", "gpu_name", "device", "cpu_model", "name", "hostname"):
        if facts.get(key):
            return str(facts[key])
    return None
