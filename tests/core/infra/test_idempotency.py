from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import update

from core.definitions.jobs.models import JobCreate
from core.definitions.jobs.repository import JobRepository
from core.errors import Conflict, TooMany
from core.infra.idempotency import IdempotencyKey
from core.lifecycle.executions.transitions import end_executions
from core.tables import Execution, IdempotencyRecord, now
from tests.support.shop import Shop


def key(shop: Shop, name: str = "k1", operation: str = "POST /execute", body: bytes = b"{}") -> IdempotencyKey:
    return IdempotencyKey.from_request(shop.organization_id, name, operation, body)


def count(shop: Shop) -> int:
    with shop.database.read() as session:
        return session.query(Execution).count()


def test_the_same_call_gives_the_same_execution(shop: Shop) -> None:
    first = shop.submit(idempotency_key=key(shop))
    shop.complete(first)
    assert shop.submit(idempotency_key=key(shop)).id == first.id
    assert count(shop) == 1
    assert shop.submit(idempotency_key=key(shop, "k2")).id != first.id


def test_it_is_replayed_even_when_the_job_could_not_be_executed_any_more(shop: Shop) -> None:
    first = shop.submit(idempotency_key=key(shop))
    shop.change_job(enabled=False)
    assert shop.submit(idempotency_key=key(shop)).id == first.id


@pytest.mark.parametrize("other", [{"body": b'{"limit": 1}'}, {"operation": "POST /other"}])
def test_another_call_with_the_key_is_a_conflict(shop: Shop, other: dict[str, str]) -> None:
    shop.submit(idempotency_key=key(shop))
    with pytest.raises(Conflict, match="Idempotency-Key"):
        shop.submit(idempotency_key=key(shop, **other))
    assert count(shop) == 1


def test_keys_of_two_organizations_do_not_meet(shop: Shop, other_shop: Shop) -> None:
    assert shop.submit(idempotency_key=key(shop)).id != other_shop.submit(idempotency_key=key(other_shop)).id


def test_a_key_counts_for_a_day(shop: Shop) -> None:
    first = shop.submit(idempotency_key=key(shop))
    for hours, same in ((23.9, True), (24.1, False)):
        with shop.database.write() as session:
            session.execute(update(IdempotencyRecord).values(created_at=now() - timedelta(hours=hours)))
        assert (shop.submit(idempotency_key=key(shop)).id == first.id) is same


def test_a_refused_call_leaves_the_key_free(shop: Shop) -> None:
    executions = [shop.submit() for _ in range(10)]
    with pytest.raises(TooMany):
        shop.submit(idempotency_key=key(shop))
    shop.complete(executions[0])
    assert shop.submit(idempotency_key=key(shop)).id not in {execution.id for execution in executions}


def test_a_hundred_calls_at_once_start_one_execution(shop: Shop) -> None:
    with ThreadPoolExecutor(25) as pool:
        started = set(pool.map(lambda _: shop.submit(idempotency_key=key(shop)).id, range(100)))
    assert len(started) == count(shop) == shop.active() == 1


def test_a_deleted_execution_is_not_replayed(shop: Shop) -> None:
    shop.submit(idempotency_key=key(shop))
    with shop.database.write() as session:
        jobs = JobRepository(session, shop.organization_id)
        jobs.delete(shop.project_id, shop.job_id, end_executions)
        shop.job_id = jobs.create(shop.project_id, JobCreate(name="Books", agent_id=shop.agent_id)).id
    with pytest.raises(Conflict, match="deleted"):
        shop.submit(idempotency_key=key(shop))
