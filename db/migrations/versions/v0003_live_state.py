"""What is so at this moment: GPUs that others use, jobs held up by them, a job's machine."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Add the columns; nothing is known of the past."""
    op.add_column("workers", sa.Column("busy_gpus", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("held_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("jobs", sa.Column("live", sa.Text(), nullable=True))
