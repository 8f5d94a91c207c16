"""Run by Alembic, inside the transaction that `core.infra.migrations.migrate` began."""

from __future__ import annotations

from alembic import context

from core.tables import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
