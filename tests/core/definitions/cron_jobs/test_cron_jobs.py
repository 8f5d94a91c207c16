"""Each tick of a cron job calls its address once: with the key, repeated after a failure, and not after a deletion."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from core.definitions.credentials.repository import CredentialRepository
from core.definitions.cron_jobs.models import CronJobCreate
from core.definitions.cron_jobs.repository import SHOWN_CALLS, CronJobRepository
from core.errors import BadInput, Conflict, NotFound
from core.infra.database import Database
from core.infra.dispatcher import Dispatcher
from core.infra.settings import Settings
from core.lifecycle.firing.cron_job_calls import CallQueue, delete_old_calls
from core.lifecycle.firing.cron_jobs import FiredCall, fire, fire_overdue_calls
from core.lifecycle.firing.schedules import GRACE
from core.tables import CronJob, CronJobCall, DefinitionChange, now
from tests.support.shop import Shop, make_shop
from tests.support.webhook_receiver import Receiver

SECRET = "the-key-of-the-receiver"
MINUTE = timedelta(minutes=1)
QUEUE = CallQueue()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The fetch guard is lifted for loopback."""
    return settings.replace(fetch_allow_networks=("127.0.0.1/32",))


def create_credential(shop: Shop, caller_key: str | None = None, **values: Any) -> str:
    return shop.add_credential(
        callers_key=caller_key, **{"name": "hook", "provider": "OTHER", "api_key": SECRET} | values
    )


def create_cron_job(shop: Shop, **values: Any) -> CronJob:
    """A cron job that was created two hours ago."""
    values = {"name": "each minute", "schedule": "* * * * *", "webhook_url": "https://example.com/"} | values
    with shop.database.write() as session:
        cron_jobs = CronJobRepository(session, shop.organization_id)
        cron_job = cron_jobs.create(shop.settings, shop.make_key_ring(), CronJobCreate(**values))
        cron_job.created_at -= timedelta(hours=2)
        return cron_job


def list_calls(shop: Shop, cron_job: CronJob) -> list[CronJobCall]:
    with shop.database.read() as session:
        return list(CronJobRepository(session, shop.organization_id).list_last_calls(cron_job))


def tick(shop: Shop, cron_job: CronJob, minutes_ago: int = 0) -> FiredCall:
    """Fire the tick of this minute or of an earlier one, as if it were that time."""
    tick_at = now().replace(second=0, microsecond=0) - minutes_ago * MINUTE
    return fire(shop.database, cron_job.id, tick_at, tick_at)


def deliver(shop: Shop) -> None:
    """One round of deliveries, to its end."""
    dispatcher = Dispatcher(shop.settings, shop.database, [QUEUE])
    dispatcher.deliver_due()
    dispatcher.finish()


def advance(shop: Shop, by: timedelta) -> None:
    """Make all calls older, as if the time had passed."""
    with shop.database.write() as session:
        for call in session.query(CronJobCall):
            call.available_at -= by
            call.created_at -= by


def test_a_tick_posts_the_ids_with_the_key(shop: Shop, receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    create_credential(shop)
    ids = {"project_id": shop.project_id, "job_id": shop.job_id}
    secret = {"secret_name": "hook", "secret_key": "API_KEY"}
    cron_job = create_cron_job(shop, webhook_url=f"{receiver.url}/200/x", **ids, **secret)
    fired = tick(shop, cron_job)
    deliver(shop)
    (message,) = receiver.messages
    assert message.payload == {"jobId": shop.job_id, "projectId": shop.project_id}
    assert message.headers["x-api-key"] == SECRET
    assert message.headers["idempotency-key"] == fired.call_id
    (call,) = list_calls(shop, cron_job)
    assert (call.id, call.state, call.tries[0]["status"]) == (fired.call_id, "DELIVERED", 200)
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err + str(call.tries)


def test_a_cron_job_without_secret_sends_no_key(shop: Shop, receiver: Receiver) -> None:
    cron_job = create_cron_job(shop, webhook_url=f"{receiver.url}/200/x")
    tick(shop, cron_job)
    deliver(shop)
    assert "x-api-key" not in receiver.messages[0].headers
    assert receiver.messages[0].payload == {"jobId": None, "projectId": None}


def test_a_failed_call_is_repeated_under_one_key(shop: Shop, receiver: Receiver) -> None:
    receiver.answers = [500, 200]
    cron_job = create_cron_job(shop, webhook_url=f"{receiver.url}/x")
    tick(shop, cron_job)
    began = now()
    deliver(shop)
    deliver(shop)
    (call,) = list_calls(shop, cron_job)
    assert (call.state, len(receiver.messages), call.tries[0]["error"]) == ("PENDING", 1, "It answered 500.")
    assert began + timedelta(seconds=4) <= call.available_at <= now() + timedelta(seconds=6)
    advance(shop, timedelta(seconds=6))
    deliver(shop)
    (call,) = list_calls(shop, cron_job)
    assert (call.state, [each["status"] for each in call.tries]) == ("DELIVERED", [500, 200])
    assert len({message.headers["idempotency-key"] for message in receiver.messages}) == 1


def test_a_call_that_failed_is_not_repeated_after_the_next_tick(shop: Shop, receiver: Receiver) -> None:
    receiver.answers = [500, 200]
    cron_job = create_cron_job(shop, webhook_url=f"{receiver.url}/x")
    tick(shop, cron_job, minutes_ago=1)
    deliver(shop)
    tick(shop, cron_job)
    advance(shop, MINUTE)
    deliver(shop)
    newest, oldest = list_calls(shop, cron_job)
    assert (newest.state, oldest.state, len(oldest.tries)) == ("DELIVERED", "FAILED", 1)
    assert "It answered 500. It was not repeated" in oldest.tries[0]["error"]


def test_calls_that_were_never_sent_are_all_made(shop: Shop, receiver: Receiver) -> None:
    cron_job = create_cron_job(shop, webhook_url=f"{receiver.url}/200/x")
    for minutes_ago in (3, 2, 1):
        tick(shop, cron_job, minutes_ago)
    deliver(shop)
    assert len(receiver.messages) == 3


def test_a_call_ends_after_a_day_or_when_the_receiver_is_gone(shop: Shop, receiver: Receiver) -> None:
    daily = create_cron_job(shop, name="daily", schedule="@daily", webhook_url=f"{receiver.url}/500/x")
    gone = create_cron_job(shop, name="gone", webhook_url=f"{receiver.url}/410/x")
    for cron_job in (daily, gone):
        tick(shop, cron_job)
    deliver(shop)
    assert list_calls(shop, gone)[0].state == "FAILED"
    for _ in range(13):
        advance(shop, timedelta(hours=2, minutes=30))
        deliver(shop)
    assert list_calls(shop, daily)[0].state == "FAILED"
    assert 9 <= len(list_calls(shop, daily)[0].tries) <= 12
    assert tick(shop, gone, minutes_ago=-1).call_id is not None  # later ticks are called


def test_a_tick_fired_by_many_has_one_call(shop: Shop) -> None:
    cron_job = create_cron_job(shop)
    tick_at = now().replace(second=0, microsecond=0)
    with ThreadPoolExecutor(8) as pool:
        fired = list(pool.map(lambda _: fire(shop.database, cron_job.id, tick_at, tick_at), range(8)))
    assert sum(each.call_id is not None for each in fired) == 1
    assert len(list_calls(shop, cron_job)) == 1


def test_a_tick_that_dagster_does_not_fire_is_fired_by_the_watchdog(shop: Shop) -> None:
    with shop.database.write() as session:
        cron_jobs = CronJobRepository(session, shop.organization_id)
        new = CronJobCreate(name="soon", schedule="30 6 * * *", webhook_url="https://example.com/")
        cron_job = cron_jobs.create(shop.settings, shop.make_key_ring(), new)
    first = cron_job.next_tick_at
    assert first is not None
    assert fire_overdue_calls(shop.database, first + GRACE - timedelta(seconds=1)) == []
    (fired,) = fire_overdue_calls(shop.database, first + GRACE)
    assert [(call.id, call.tick_at) for call in list_calls(shop, cron_job)] == [(fired.call_id, first)]
    assert fire_overdue_calls(shop.database, first + GRACE) == []
    assert fire(shop.database, cron_job.id, first, first + GRACE).call_id is None  # Dagster, late
    last = first + timedelta(days=40)  # nothing was running meanwhile
    assert len(fire_overdue_calls(shop.database, last + GRACE)) == 1
    assert [call.tick_at for call in list_calls(shop, cron_job)] == [last, first]


def test_a_call_by_hand_does_not_take_the_place_of_a_tick(shop: Shop) -> None:
    cron_job = create_cron_job(shop, schedule="30 6 * * *")
    first = cron_job.next_tick_at
    assert first is not None
    by_hand = first + timedelta(seconds=5)
    assert fire(shop.database, cron_job.id, by_hand, by_hand).call_id is not None
    assert len(fire_overdue_calls(shop.database, first + GRACE)) == 1
    assert [call.tick_at for call in list_calls(shop, cron_job)] == [by_hand, first]


def test_ticks_that_were_missed_deleted_or_before_the_cron_job_have_no_call(shop: Shop) -> None:
    cron_job = create_cron_job(shop)
    at = now().replace(second=0, microsecond=0)
    assert fire(shop.database, cron_job.id, at - 3 * MINUTE, at).call_id is None
    assert fire(shop.database, cron_job.id, at - timedelta(hours=3), at - timedelta(hours=3)).call_id is None
    assert fire(shop.database, cron_job.id, at, at + timedelta(seconds=59)).call_id is not None
    assert fire(shop.database, shop.job_id, at, at).call_id is None
    assert [call.tick_at for call in list_calls(shop, cron_job)] == [at]


def test_a_deleted_cron_job_makes_no_pending_call(shop: Shop, receiver: Receiver) -> None:
    cron_job = create_cron_job(shop, webhook_url=f"{receiver.url}/500/x")
    tick(shop, cron_job, minutes_ago=1)
    deliver(shop)
    tick(shop, cron_job)
    with shop.database.write() as session:
        CronJobRepository(session, shop.organization_id).delete(cron_job.name, "default")
    advance(shop, timedelta(hours=1))
    deliver(shop)
    assert len(receiver.messages) == 1
    with shop.database.read() as session:
        assert session.query(CronJobCall).count() == 0
    assert tick(shop, cron_job).call_id is None


@pytest.mark.parametrize(
    ("credential", "error", "code"),
    [
        ({"name": "another"}, BadInput, "unknown-credential"),
        ({"everywhere": True}, BadInput, "unknown-credential"),
        ({"enabled": False}, Conflict, "credential-disabled"),
        ({"api_key": "", "api_secret": SECRET}, BadInput, "missing-field"),
        ({"api_key": f"{SECRET}\r\nX-Evil: 1"}, BadInput, "invalid-value"),
        ({"caller_key": "a key of the caller's"}, BadInput, "missing-encryption-key"),
    ],
)
def test_a_secret_that_no_tick_could_send_is_refused(
    shop: Shop, credential: dict[str, Any], error: type[BadInput | Conflict], code: str
) -> None:
    create_credential(shop, **credential)
    with pytest.raises(error) as raised:
        create_cron_job(shop, secret_name="hook")
    assert raised.value.details[0].code == code
    assert SECRET not in raised.value.sentence


def test_a_call_whose_secret_is_gone_fails_without_being_sent(shop: Shop, receiver: Receiver) -> None:
    credential_id = create_credential(shop)
    cron_job = create_cron_job(shop, webhook_url=f"{receiver.url}/200/x", secret_name="hook")
    with shop.database.write() as session:
        CredentialRepository(session, shop.organization_id).delete(credential_id)
    tick(shop, cron_job)
    deliver(shop)
    (call,) = list_calls(shop, cron_job)
    assert (call.state, call.tries[0]["status"]) == ("PENDING", None)
    assert "no cloud credential" in call.tries[0]["error"]
    assert receiver.messages == []
    create_credential(shop, api_key="the next one")
    advance(shop, MINUTE)
    deliver(shop)
    assert receiver.messages[0].headers["x-api-key"] == "the next one"


def test_a_name_that_leads_to_a_private_address_is_refused_when_it_is_called(
    shop: Shop, database: Database, receiver: Receiver
) -> None:
    strict = make_shop(shop.settings.replace(fetch_allow_networks=()), database, "strict")
    cron_job = create_cron_job(strict, webhook_url=receiver.url.replace("127.0.0.1", "localhost") + "/200/x")
    tick(strict, cron_job)
    deliver(strict)
    assert "may not call" in list_calls(strict, cron_job)[0].tries[0]["error"]
    assert receiver.messages == []
    own = strict.settings.replace(public_url=receiver.url)
    tick(strict, create_cron_job(make_shop(own, database, "own"), webhook_url=f"{receiver.url}/200/own"))
    dispatcher = Dispatcher(own, database, [QUEUE])
    dispatcher.deliver_due()
    dispatcher.finish()
    assert [message.path for message in receiver.messages] == ["/200/own"]


@pytest.mark.parametrize("setting", ["ui_port", "port"])
def test_the_services_own_ports_are_not_called_though_their_network_is_allowed(
    shop: Shop, database: Database, receiver: Receiver, setting: str
) -> None:
    port = int(receiver.url.rpartition(":")[2])
    own = {setting: port, "public_url": "https://spindle.example.com", "fetch_allow_networks": ("127.0.0.0/8", "::1")}
    mine = make_shop(shop.settings.replace(**own), database, "mine")
    with pytest.raises(BadInput) as raised:
        create_cron_job(mine, webhook_url=f"{receiver.url}/200/x")
    assert raised.value.details[0].code == "address-refused"
    by_name = create_cron_job(mine, webhook_url=f"http://localhost:{port}/200/x")
    tick(mine, by_name)
    deliver(mine)
    assert "may not call" in list_calls(mine, by_name)[0].tries[0]["error"]
    assert receiver.messages == []


@pytest.mark.parametrize("noun", ["job", "project"])
def test_a_deleted_job_or_project_takes_its_cron_jobs_with_it(shop: Shop, other_shop: Shop, noun: str) -> None:
    ids = {"project_id": shop.project_id, "job_id": shop.job_id}
    create_cron_job(shop, **ids)
    kept = [create_cron_job(shop, name="kept"), create_cron_job(other_shop, **ids)]
    shop.delete_job() if noun == "job" else shop.delete_project()
    with shop.database.read() as session:
        assert {row.id for row in session.query(CronJob)} == {row.id for row in kept}


def test_names_are_unique_in_a_namespace_of_an_organization(shop: Shop, other_shop: Shop) -> None:
    create_cron_job(shop)
    for owner, values in ((shop, {"namespace": "night"}), (other_shop, {})):
        create_cron_job(owner, **values)
    with pytest.raises(BadInput) as raised:
        create_cron_job(shop, namespace="default")
    assert raised.value.details[0].code == "name-taken"
    with other_shop.database.read() as session, pytest.raises(NotFound):
        CronJobRepository(session, other_shop.organization_id).get("each minute", "night")


def test_an_organization_has_at_most_so_many(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.definitions.cron_jobs.repository.MAX_CRON_JOBS", 1)
    create_cron_job(shop)
    with pytest.raises(BadInput, match="the limit"):
        create_cron_job(shop, name="one more")


def test_calls_older_than_a_week_are_deleted_except_for_the_last_ones(shop: Shop) -> None:
    cron_job = create_cron_job(shop)
    with shop.database.write() as session:
        start = datetime(2026, 1, 1, tzinfo=UTC)
        for number in range(SHOWN_CALLS + 5):
            session.add(CronJobCall(cron_job_id=cron_job.id, tick_at=start + number * MINUTE, payload={}))
    for age, left in ((0, 25), (8, SHOWN_CALLS)):
        with shop.database.write() as session:
            delete_old_calls(session, now() + timedelta(days=age - 7), 100)
        with shop.database.read() as session:
            assert session.query(CronJobCall).count() == left
    assert list_calls(shop, cron_job)[-1].tick_at == start + 5 * MINUTE


def test_an_error_before_the_request_is_a_failed_attempt(shop: Shop) -> None:
    create_credential(shop)
    cron_job = create_cron_job(shop, secret_name="hook")
    with shop.database.write() as session:
        session.execute(update(CronJob).values(url="http://127.0.0.1/\u00e9"))
    tick(shop, cron_job)
    deliver(shop)
    (call,) = list_calls(shop, cron_job)
    assert "internal error" in call.tries[0]["error"]
    assert SECRET not in str(call.tries)


def test_new_and_deleted_cron_jobs_change_the_definitions_and_ticks_do_not(shop: Shop, receiver: Receiver) -> None:
    def count_changes() -> int:
        with shop.database.read() as session:
            return session.query(DefinitionChange).filter_by(kind="cron_jobs").count()

    cron_job = create_cron_job(shop, webhook_url=f"{receiver.url}/500/x", project_id=shop.project_id)
    assert count_changes() == 1
    tick(shop, cron_job)
    deliver(shop)
    assert count_changes() == 1
    shop.delete_project()
    assert count_changes() == 2
