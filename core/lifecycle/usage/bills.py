"""Bills of executions: usage times prices, stored in the transaction that ends an attempt and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from sqlalchemy.orm import Session

from core.infra.database import build_upsert
from core.lifecycle.usage.periods import Grain
from core.lifecycle.usage.prices import Rates, get_rates
from core.lifecycle.usage.usage import GB, Usage
from core.tables import Execution, ExecutionBill, Total, now
from core.tables.metrics import Amounts

MILLION = 10**6
SECONDS_PER_HOUR = 3600
AMOUNTS = tuple(Amounts.__annotations__)
_KEYS = ("organization_id", "grain", "start", "project_id", "job_id", "agent_id")


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in millionths of the currency, rounded half to even. A total is the exact sum of its parts."""

    driver_cost: int
    executors_cost: int
    read_cost: int
    write_cost: int
    network_cost: int


def compute_costs(usage: Usage, rates: Rates) -> Costs:
    """Charge the driver's machine for the duration, and executors' machines for as long as each of them ran."""
    return Costs(
        driver_cost=multiply(usage.seconds, SECONDS_PER_HOUR, rates.driver_hour),
        executors_cost=multiply(usage.executor_seconds, SECONDS_PER_HOUR, rates.executor_hour),
        read_cost=multiply(usage.bytes_read, GB, rates.read_gb),
        write_cost=multiply(usage.bytes_written, GB, rates.write_gb),
        network_cost=multiply(usage.network_bytes, GB, rates.network_gb),
    )


def store_bill(session: Session, execution: Execution) -> None:
    """Store the bill of an attempt that has ended, and add it to the totals of its day and month."""
    bill = _make_bill(session, execution)
    session.add(bill)
    for grain in Grain:
        _add_to_total(session, bill, grain)


def get_bill(session: Session, execution: Execution) -> ExecutionBill:
    """Return the bill of the newest attempt; until it ends, an estimate at the prices of now."""
    return session.get(ExecutionBill, (execution.id, execution.attempt)) or _make_bill(session, execution)


def _make_bill(session: Session, execution: Execution) -> ExecutionBill:
    usage, rates = Usage.of(execution), get_rates(session)
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
        **asdict(compute_costs(usage, rates)),
    )


def _add_to_total(session: Session, bill: ExecutionBill, grain: Grain) -> None:
    added: Mapping[str, object] = {
        "organization_id": bill.organization_id,
        "grain": grain,
        "start": grain.round_down(bill.ended_at.date()),
        "project_id": bill.project_id,
        "job_id": bill.job_id,
        "agent_id": bill.agent_id,
        **{name: getattr(bill, name) for name in AMOUNTS},
    }
    statement = build_upsert(session, Total).values(added)
    sums = {name: getattr(Total, name) + statement.excluded[name] for name in AMOUNTS}
    session.execute(statement.on_conflict_do_update(index_elements=_KEYS, set_=sums))


def multiply(amount: int, per: int, price: Decimal) -> int:
    """Return the cost in millionths of an amount whose price is for `per` of it."""
    return int((amount * price * MILLION / per).to_integral_value(ROUND_HALF_EVEN))
