"""The overhead of an organization: the time of its drivers that belongs to no execution, and its cost.

Drivers start Spark before an execution takes them, and wait for the next one. Bills of executions have none of that.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.infra.database import build_upsert
from core.lifecycle.usage.bills import SECONDS_PER_HOUR, multiply
from core.lifecycle.usage.periods import Period
from core.lifecycle.usage.prices import get_rates
from core.tables import OverheadTotal, now

_AMOUNTS = ("start_ms", "idle_ms", "cost")


@dataclass(frozen=True, slots=True)
class Overhead:
    """Milliseconds in which drivers started and waited, and their cost in millionths of the currency."""

    start_ms: int = 0
    idle_ms: int = 0
    cost: int = 0


def add_overhead(session: Session, organization_id: str, start_ms: int, idle_ms: int) -> None:
    """Add time to the organization's overhead of this hour, at the price of a driver's machine."""
    hour = now().replace(minute=0, second=0, microsecond=0)
    cost = multiply(start_ms + idle_ms, 1000 * SECONDS_PER_HOUR, get_rates(session).driver_hour)
    values = {"organization_id": organization_id, "start": hour, "start_ms": start_ms, "idle_ms": idle_ms, "cost": cost}
    statement = build_upsert(session, OverheadTotal).values(values)
    sums = {name: getattr(OverheadTotal, name) + statement.excluded[name] for name in _AMOUNTS}
    session.execute(statement.on_conflict_do_update(index_elements=("organization_id", "start"), set_=sums))


def sum_overhead(session: Session, organization_id: str, period: Period) -> Overhead:
    """Sum up the hours that begin in the period."""
    within = (OverheadTotal.start >= period.start, OverheadTotal.start < period.end)
    query = select(*(func.sum(getattr(OverheadTotal, name)) for name in _AMOUNTS))
    row = session.execute(query.where(OverheadTotal.organization_id == organization_id, *within)).one()
    return Overhead(*(int(amount or 0) for amount in row))
