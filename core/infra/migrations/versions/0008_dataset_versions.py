"""Dataset versions have a format, locations and a snapshot, and so have the inputs that executions froze.

Revision ID: 0008
"""

from __future__ import annotations

from typing import Any, cast

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

EXECUTIONS = sa.table("executions", sa.column("id", sa.String), sa.column("inputs", sa.JSON))


def upgrade() -> None:
    op.alter_column("dataset_versions", "paths", new_column_name="locations")
    op.add_column("dataset_versions", sa.Column("format", sa.String(), nullable=False, server_default="parquet"))
    op.add_column("dataset_versions", sa.Column("snapshot", sa.String(), nullable=True))
    op.execute(
        "UPDATE dataset_versions SET format = "
        "(SELECT datasets.format FROM datasets WHERE datasets.id = dataset_versions.dataset_id)"
    )
    _rename_in_inputs("paths", "locations")


def downgrade() -> None:
    _rename_in_inputs("locations", "paths")
    op.drop_column("dataset_versions", "snapshot")
    op.drop_column("dataset_versions", "format")
    op.alter_column("dataset_versions", "locations", new_column_name="paths")


def _rename_in_inputs(old: str, new: str) -> None:
    connection = op.get_bind()
    for id_, inputs in connection.execute(sa.select(EXECUTIONS)).all():
        changed = {path: _rename(value, old, new) for path, value in cast(dict[str, Any], inputs).items()}
        if changed != inputs:
            connection.execute(sa.update(EXECUTIONS).where(EXECUTIONS.c.id == id_).values(inputs=changed))


def _rename(value: Any, old: str, new: str) -> Any:
    if not isinstance(value, dict) or old not in value:
        return value
    fields = cast(dict[str, Any], value)
    return {new if name == old else name: each for name, each in fields.items()}
