"""Usage and costs of executions. Bills stay when their jobs and projects are deleted."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base
from core.tables.shared import Sharing


class Amounts:
    """Amounts that are summed up over executions, as integers so that sums are exact. Costs are in millionths.

    Memory is in megabytes (10^6 bytes) times seconds; `network_bytes` is the traffic of fetching. `executions` is 1 for
    a first attempt and 0 for others: a retried execution counts once, though each attempt is charged.
    """

    executions: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[int] = mapped_column(BigInteger)
    cpu_ms: Mapped[int] = mapped_column(BigInteger)
    memory_mb_seconds: Mapped[int] = mapped_column(BigInteger)
    bytes_read: Mapped[int] = mapped_column(BigInteger)
    bytes_written: Mapped[int] = mapped_column(BigInteger)
    network_bytes: Mapped[int] = mapped_column(BigInteger)
    records: Mapped[int] = mapped_column(BigInteger)
    tasks: Mapped[int] = mapped_column(BigInteger)
    driver_cost: Mapped[int] = mapped_column(BigInteger)
    executors_cost: Mapped[int] = mapped_column(BigInteger)
    read_cost: Mapped[int] = mapped_column(BigInteger)
    write_cost: Mapped[int] = mapped_column(BigInteger)
    network_cost: Mapped[int] = mapped_column(BigInteger)


class ExecutionBill(Amounts, Sharing, Base):
    """The bill of one attempt that has ended, at the prices of that time."""

    __tablename__ = "execution_bills"
    __table_args__ = (Index("ix_execution_bills_ended", "organization_id", "ended_at"),)
    execution_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    project_id: Mapped[str] = mapped_column(String(36))
    job_id: Mapped[str] = mapped_column(String(36))
    agent_id: Mapped[str] = mapped_column(String(36))
    ended_at: Mapped[datetime]
    executor_count: Mapped[int] = mapped_column(BigInteger)
    executor_seconds: Mapped[int] = mapped_column(BigInteger)
    provider: Mapped[str]
    region: Mapped[str]
    currency: Mapped[str]
    driver_instance: Mapped[str]
    executor_instance: Mapped[str]


class Total(Amounts, Base):
    """The sum of one job's and agent's bills of one day or month (UTC)."""

    __tablename__ = "totals"
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    grain: Mapped[str] = mapped_column(String(5), primary_key=True)
    start: Mapped[date] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    agent_id: Mapped[str] = mapped_column(String(36), primary_key=True)


class OverheadTotal(Base):
    """The time in an hour (UTC) in which an organization's drivers started Spark or waited, and its cost."""

    __tablename__ = "overhead_totals"
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    start: Mapped[datetime] = mapped_column(primary_key=True)
    start_ms: Mapped[int] = mapped_column(BigInteger)
    idle_ms: Mapped[int] = mapped_column(BigInteger)
    cost: Mapped[int] = mapped_column(BigInteger)
