"""Run by Alembic for each command; the connection comes from ``db.migrations.upgrade``."""

from alembic import context

from db.schema import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    compare_type=True,
)
context.run_migrations()
