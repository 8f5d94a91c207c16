"""The bill of an execution: made once, in the transaction that ends it, and never changed by later prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy.orm import Session

from core.infra.database import insert
from core.metrics.costs import costs
from core.metrics.periods import Grain
from core.metrics.prices import rates_of
from core.metrics.usage import Usage
from core.tables import Execution, ExecutionBill, Total, now
from core.tables.metrics import Amounts

AMOUNTS = tuple(Amounts.__annotations__)
_KEYS = ("organization_id", "grain", "start", "project_id", "job_id", "agent_id")


def settle(session: Session, execution: Execution) -> None:
    """Stores the bill of an attempt that has just ended, and adds it to the totals of its day and month."""
    bill = _bill(session, execution)
    session.add(bill)
    for grain in Grain:
        _add(session, bill, grain)


def bill_of(session: Session, execution: Execution) -> ExecutionBill:
    """The bill of the newest attempt; of one that has not ended, what it would be now."""
    return session.get(ExecutionBill, (execution.id, execution.attempt)) or _bill(session, execution)


def _bill(session: Session, execution: Execution) -> ExecutionBill:
    usage, rates = Usage.of(execution), rates_of(session)
    return ExecutionBill(
        execution_id=execution.id,
        attempt=execution.attempt,
        organization_id=execution.organization_id,
        project_id=execution.project_id,
        job_id=execution.job_id,
        agent_id=execution.agent_id,
        ended_at=execution.completed_at or now(),
        provider=rates.provider,
        region=rates.region,
        currency=rates.currency,
        driver_instance=rates.driver_instance,
        executor_instance=rates.executor_instance,
        **asdict(usage),
        **asdict(costs(usage, rates)),
    )


def _add(session: Session, bill: ExecutionBill, grain: Grain) -> None:
    added: Mapping[str, Any] = {
        "organization_id": bill.organization_id,
        "grain": grain,
        "start": grain.floor(bill.ended_at.date()),
        "project_id": bill.project_id,
        "job_id": bill.job_id,
        "agent_id": bill.agent_id,
        **{name: getattr(bill, name) for name in AMOUNTS},
    }
    statement = insert(session, Total).values(added)
    sums = {name: getattr(Total, name) + statement.excluded[name] for name in AMOUNTS}
    session.execute(statement.on_conflict_do_update(index_elements=_KEYS, set_=sums))
