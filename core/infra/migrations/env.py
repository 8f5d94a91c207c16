"""Run by Alembic, inside the transaction that `core.infra.migrations.migrate` began."""

from __future__ import annotations

from alembic import context

from core.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=context.config.attributes["version_table"],
)
context.run_migrations()
