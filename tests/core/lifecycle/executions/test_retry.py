"""A retry is a new attempt of the same execution; what an earlier attempt still says changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from core.definitions.credentials.repository import CredentialRepository, decrypt_environment
from core.errors import BadInput, Conflict, NotFound, TooMany
from core.infra.idempotency import IdempotencyKey
from core.lifecycle.executions.outbox import fetch_due
from core.lifecycle.executions.reports import cancel, claim, fail
from core.tables import Execution, now
from tests.support.shop import PIPELINE, Shop


def failed(shop: Shop) -> Execution:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, "run")
    shop.report(execution, "RUNNING", additional_metrics={"attempt": 1, "progress": {"fraction": 0.5}})
    fail(shop.database, execution.id, "It broke.", 1)
    return execution


def test_a_retry_uses_the_frozen_inputs(shop: Shop) -> None:
    execution = failed(shop)
    shop.write_pipeline(PIPELINE.replace("h1", "h2"))
    again = shop.reload(shop.retry(execution))
    assert (again.id, again.attempt, again.state, again.pipeline_yaml) == (execution.id, 2, "PENDING", PIPELINE)
    assert (again.error_message, again.completed_at, again.claimed_at, again.progress) == (None, None, None, {})
    assert shop.active() == 1
    with shop.database.read() as session:
        assert [(message.execution_id, message.attempt) for message in fetch_due(session, now())] == [(execution.id, 2)]
    assert claim(shop.database, execution.id, 1, "late") is None
    assert claim(shop.database, execution.id, 2, "new") is not None


def test_the_earlier_attempt_cannot_touch_the_new_one(shop: Shop) -> None:
    execution = failed(shop)
    shop.retry(execution)
    before = shop.content(execution)
    first = {"additional_metrics": {"attempt": 1}}
    for status in ("RUNNING", "FAILED", "COMPLETED"):
        assert shop.report(execution, status, **first) == "PENDING"
    assert fail(shop.database, execution.id, "It lost its driver.", 1) == "PENDING"
    assert cancel(shop.database, shop.organization_id, execution.id, "Its run was terminated.", 1) == "PENDING"
    assert shop.content(execution) == before
    assert shop.report(execution, "RUNNING", additional_metrics={"attempt": 2}) == "RUNNING"


@pytest.mark.parametrize("status", [None, "RUNNING", "COMPLETED"])
def test_only_failed_executions_are_retried(shop: Shop, status: str | None) -> None:
    execution = shop.submit()
    if status == "COMPLETED":
        shop.complete(execution)
    elif status:
        shop.report(execution, status)
    with pytest.raises(Conflict, match=f"this one is {status or 'PENDING'}"):
        shop.retry(execution)
    assert shop.reload(execution).attempt == 1


def test_a_retry_takes_a_slot(shop: Shop) -> None:
    execution = failed(shop)
    others = [shop.submit() for _ in range(10)]
    with pytest.raises(TooMany):
        shop.retry(execution)
    assert shop.reload(execution).state == "FAILED"
    cancel(shop.database, shop.organization_id, others[0].id, "Stopped.")
    shop.retry(execution)
    assert shop.active() == 10


def test_a_retry_waits_for_a_slot_where_it_may(shop: Shop) -> None:
    execution = failed(shop)
    running = [shop.submit() for _ in range(10)]
    later = shop.submit(queue=True)
    waiting = shop.retry(execution, queue=True)
    assert (waiting.state, waiting.attempt, shop.active()) == ("QUEUED", 2, 10)
    assert claim(shop.database, execution.id, 2, "run") is None
    cancel(shop.database, shop.organization_id, running[0].id, "Stopped.")
    assert [shop.reload(each).state for each in (execution, later)] == ["PENDING", "QUEUED"]
    assert claim(shop.database, execution.id, 2, "run") is not None


def test_the_same_idempotency_key_retries_once(shop: Shop) -> None:
    execution = failed(shop)
    key = IdempotencyKey.from_request(shop.organization_id, "k", f"retry {execution.id}", b"")
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: shop.retry(execution, idempotency_key=key), range(20)))
    assert {(each.id, each.attempt) for each in answers} == {(execution.id, 2)}
    assert shop.active() == 1
    fail(shop.database, execution.id, "It broke again.")
    assert shop.retry(execution, idempotency_key=key).attempt == 2
    other = failed(shop)
    with pytest.raises(Conflict, match="another request"):
        shop.retry(
            other, idempotency_key=IdempotencyKey.from_request(shop.organization_id, "k", f"retry {other.id}", b"")
        )
    assert shop.retry(other).attempt == 2


def test_a_refused_retry_keeps_its_idempotency_key(shop: Shop) -> None:
    execution = failed(shop)
    key = IdempotencyKey.from_request(shop.organization_id, "k", f"retry {execution.id}", b"")
    running = [shop.submit() for _ in range(10)]
    with pytest.raises(TooMany):
        shop.retry(execution, idempotency_key=key)
    fail(shop.database, running[0].id, "It made room.")
    assert shop.retry(execution, idempotency_key=key).attempt == 2


def test_a_disabled_job_and_another_organization_are_refused(shop: Shop, other_shop: Shop) -> None:
    execution = failed(shop)
    other_shop.project_id, other_shop.job_id = shop.project_id, shop.job_id
    with pytest.raises(NotFound):
        other_shop.retry(execution)
    shop.change_job(enabled=False)
    with pytest.raises(Conflict, match="disabled"):
        shop.retry(execution)
    assert shop.active() == 0


def test_a_retry_reads_the_credentials_again(shop: Shop) -> None:
    key_ring, stored = shop.make_key_ring(), shop.add_credential("OPENAI", api_key="old")
    execution = failed(shop)
    assert shop.reload(execution).sealed_environment is None
    shop.change_credential(stored, api_key="new")
    assert decrypt_environment(shop.reload(shop.retry(execution)), key_ring) == {"OPENAI_API_KEY": "new"}
    fail(shop.database, execution.id, "It broke again.")
    with shop.database.write() as session:
        CredentialRepository(session, shop.organization_id).delete(stored)
    with pytest.raises(BadInput, match="no cloud credential"):
        shop.retry(execution)
    assert shop.active() == 0
