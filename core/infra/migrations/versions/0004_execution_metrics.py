"""What executions used and cost, and their totals by day and month; what ended before cost nothing.

Revision ID: 0004
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ID = sa.String(36)
AMOUNTS = (
    "executions",
    "seconds",
    "cpu_ms",
    "memory_mb_seconds",
    "bytes_read",
    "bytes_written",
    "network_bytes",
    "records",
    "tasks",
    "driver_cost",
    "executors_cost",
    "read_cost",
    "write_cost",
    "network_cost",
)


def _amounts() -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in AMOUNTS]


KEYS = ("organization_id", "grain", "start", "project_id", "job_id", "agent_id")
LARGEST = 10**14
ENDED = sa.text("state IN ('COMPLETED', 'FAILED', 'CANCELLED') AND completed_at IS NOT NULL")
TIME = sa.DateTime(timezone=True)
EXECUTIONS = sa.table(
    "executions",
    *(sa.column(name) for name in ("id", "attempt", "organization_id", "project_id", "job_id", "agent_id")),
    sa.column("started_at", TIME),
    sa.column("completed_at", TIME),
    sa.column("metrics", sa.JSON()),
)


def upgrade() -> None:
    bills, totals = _create()
    found = list(map(_bill, op.get_bind().execute(sa.select(EXECUTIONS).where(ENDED)).mappings()))
    if found:
        op.bulk_insert(bills, found)
        op.bulk_insert(totals, list(_totals(found)))


def _create() -> tuple[sa.Table, sa.Table]:
    bills = op.create_table(
        "execution_bills",
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("executor_count", sa.BigInteger(), nullable=False),
        sa.Column("executor_seconds", sa.BigInteger(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("driver_instance", sa.String(), nullable=False),
        sa.Column("executor_instance", sa.String(), nullable=False),
        *_amounts(),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_execution_bills_organization_id"),
        sa.PrimaryKeyConstraint("execution_id", "attempt", name="pk_execution_bills"),
    )
    op.create_index("ix_execution_bills_ended", "execution_bills", ["organization_id", "ended_at"])
    totals = op.create_table(
        "totals",
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("grain", sa.String(5), nullable=False),
        sa.Column("start", sa.Date(), nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        *_amounts(),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_totals_organization_id"),
        sa.PrimaryKeyConstraint(*KEYS, name="pk_totals"),
    )
    return bills, totals


def _bill(execution: Any) -> dict[str, Any]:
    """What was reported of an execution that ended before there were bills."""
    metrics, ended = execution["metrics"], execution["completed_at"]
    lasted = (ended - (execution["started_at"] or ended)).total_seconds()
    measured = {
        "executions": 1,
        "seconds": _whole(metrics.get("duration_seconds", lasted)),
        "cpu_ms": _whole(metrics.get("total_cpu_time_seconds")) * 1000,
        "bytes_written": _whole(metrics.get("output_file_size_bytes")),
        "records": _whole(metrics.get("records_processed")),
    }
    return {
        **{name: execution[name] for name in ("attempt", "organization_id", "project_id", "job_id", "agent_id")},
        "execution_id": execution["id"],
        "ended_at": ended,
        "executor_count": _whole(metrics.get("executor_count")),
        "executor_seconds": 0,
        **dict.fromkeys(("provider", "region", "driver_instance", "executor_instance"), "local"),
        "currency": "USD",
        **dict.fromkeys(AMOUNTS, 0),
        **measured,
    }


def _totals(bills: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    sums: dict[tuple[Any, ...], Counter[str]] = {}
    for bill in bills:
        day: date = bill["ended_at"].date()
        for grain, start in (("day", day), ("month", day.replace(day=1))):
            key = (bill["organization_id"], grain, start, bill["project_id"], bill["job_id"], bill["agent_id"])
            sums.setdefault(key, Counter()).update({name: bill[name] for name in AMOUNTS})
    for key, amounts in sums.items():
        yield dict(zip(KEYS, key, strict=True)) | {name: amounts[name] for name in AMOUNTS}


def _whole(value: object) -> int:
    return round(min(max(value, 0), LARGEST)) if isinstance(value, int | float) else 0


def downgrade() -> None:
    op.drop_table("totals")
    op.drop_table("execution_bills")
