"""What happens reaches the receivers: signed, at least once, and no receiver keeps another waiting."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from core.errors import BadInput, Conflict, Unauthorized
from core.infra import dispatcher as deliver
from core.infra import http_client as outgoing
from core.infra.database import Database
from core.infra.dispatcher import Dispatcher, compute_pause
from core.infra.preconditions import compute_etag
from core.infra.settings import Settings
from core.integrations.webhooks.deliver import WebhookQueue, delete_old_events, send_test_event
from core.integrations.webhooks.models import WebhookCreate, WebhookUpdate
from core.integrations.webhooks.repository import WebhookRepository, bind_webhook
from core.lifecycle.executions.reports import cancel, fail
from core.lifecycle.executions.states import Trigger
from core.lifecycle.executions.tokens import find_signer
from core.lifecycle.executions.transitions import move
from core.tables import Delivery, Execution, ExecutionEvent, Webhook, now
from tests.support.cases import each_case
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.shop import Shop, make_shop
from tests.support.webhook_receiver import Receiver

QUEUES = (WebhookQueue(),)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The fetch guard is lifted for loopback."""
    return settings.replace(fetch_allow_networks=("127.0.0.1/32",))


@pytest.fixture
def delivering(settings: Settings, database: Database) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=Dispatcher(settings, database, QUEUES).run, args=(stop,))
    thread.start()
    yield
    stop.set()
    thread.join()


def hook(shop: Shop, url: str, **values: Any) -> tuple[str, str]:
    """The id and the secret of a new webhook."""
    with shop.database.write() as session:
        repository = WebhookRepository(session, shop.organization_id)
        new = WebhookCreate(url=url, **values)
        webhook, secret = repository.create(shop.settings, shop.make_key_ring(), shop.project_id, new)
        return webhook.id, secret


def deliveries(shop: Shop, webhook_id: str) -> list[Delivery]:
    with shop.database.read() as session:
        return list(
            reversed(WebhookRepository(session, shop.organization_id).list_deliveries(shop.project_id, webhook_id))
        )


def stored(shop: Shop, webhook_id: str) -> Webhook:
    with shop.database.read() as session:
        return WebhookRepository(session, shop.organization_id).get(shop.project_id, webhook_id)


@pytest.mark.usefixtures("delivering")
def test_all_events_are_delivered_signed_and_in_order(shop: Shop, receiver: Receiver) -> None:
    webhook_id, secret = hook(shop, f"{receiver.url}/200/all")
    execution = shop.submit()
    shop.report(execution, "RUNNING")
    shop.complete(execution)
    wait_until(lambda: len(receiver.of("/200/all")) == 3, PATIENCE_SECONDS)
    bodies = {}
    for message in receiver.of("/200/all"):
        find_signer([secret], message.headers, message.body)
        body = json.loads(message.body)
        bodies[body["type"]] = body
        with pytest.raises(Unauthorized):
            find_signer([secret], message.headers, message.body + b" ")
    assert list(bodies) == ["execution.pending", "execution.running", "execution.completed"]
    data = bodies["execution.completed"]["data"]
    assert (data["executionId"], data["status"], data["attempt"]) == (execution.id, "COMPLETED", 1)
    wait_until(lambda: all(one.state == "DELIVERED" for one in deliveries(shop, webhook_id)), PATIENCE_SECONDS)
    assert {message.headers["webhook-id"] for message in receiver.messages} == {
        d.id for d in deliveries(shop, webhook_id)
    }
    assert [len(delivery.tries) for delivery in deliveries(shop, webhook_id)] == [1, 1, 1]


def test_a_later_event_waits_for_the_earlier_ones_of_its_execution(shop: Shop) -> None:
    hook(shop, "http://127.0.0.1:1/x")
    first, second = shop.submit(), shop.submit()
    shop.report(first, "RUNNING")
    shop.complete(first)

    def take_due() -> list[tuple[str, str]]:
        """The events that may be sent now, which then are delivered."""
        with shop.database.write() as session:
            due = [delivery for delivery, _ in session.execute(WebhookQueue().select()) if delivery.state == "PENDING"]
            for delivery in due:
                delivery.state = "DELIVERED"
            return sorted((delivery.type, delivery.payload["data"]["executionId"]) for delivery in due)

    assert take_due() == [("execution.pending", first.id), ("execution.pending", second.id)]
    assert [take_due() for _ in range(3)] == [
        [("execution.running", first.id)],
        [("execution.completed", first.id)],
        [],
    ]


@pytest.mark.usefixtures("delivering")
def test_a_receiver_that_does_not_answer_keeps_no_other_waiting(
    shop: Shop, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "TOTAL_SECONDS", PATIENCE_SECONDS)
    silent, _ = hook(shop, f"{receiver.url}/hang/x")
    good, _ = hook(shop, f"{receiver.url}/200/x", events=["execution.pending"])
    for _ in range(3):
        fail(shop.database, shop.submit().id, "Over.")
    wait_until(lambda: len(receiver.of("/200/x")) == 3, PATIENCE_SECONDS)
    assert not any(delivery.tries for delivery in deliveries(shop, silent))
    assert stored(shop, good).failing_since is None


@pytest.mark.long
@pytest.mark.usefixtures("delivering")
def test_faults_of_a_receiver_are_shown(shop: Shop, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "TOTAL_SECONDS", 3.0)
    paths = ("hang", "reset", "302", "500", "flood")
    bad = {path: hook(shop, f"{receiver.url}/{path}/x")[0] for path in paths}
    fail(shop.database, shop.submit().id, "Over.")
    wait_until(lambda: all(deliveries(shop, bad[path])[0].tries for path in paths), PATIENCE_SECONDS)
    said = {path: deliveries(shop, bad[path])[0].tries[0]["error"] for path in paths}
    assert said.pop("flood") is None  # it said 200, and more than anybody wants to read
    assert "timed out after 3 s" in said["hang"]
    assert "connection" in said["reset"]
    assert "redirects are not followed" in said["302"]
    assert said["500"] == "It answered 500."
    assert receiver.of("/200/redirected") == []
    assert stored(shop, bad["500"]).failing_since is not None


def test_an_organization_with_many_receivers_leaves_room_for_others(shop: Shop) -> None:
    for number in range(6):
        hook(shop, f"http://127.0.0.1:9/{number}")
    other = make_shop(shop.settings, shop.database, "other")
    theirs, _ = hook(other, "http://127.0.0.1:9/other")
    for _ in range(4):
        shop.submit()
    dispatcher = Dispatcher(shop.settings, shop.database, QUEUES)
    assert len(dispatcher._lease_due(QUEUES[0], now())) == deliver.MAX_PER_ORGANIZATION[False] < deliver.THREADS[False]
    other.submit()
    assert [dispatch.receiver.id for dispatch in dispatcher._lease_due(QUEUES[0], now())] == [theirs]


def once(shop: Shop) -> None:
    """One round of deliveries, to its end."""
    dispatcher = Dispatcher(shop.settings, shop.database, QUEUES)
    dispatcher.deliver_due()
    dispatcher.finish()


def later(shop: Shop, by: timedelta) -> None:
    """Sets the clock of all deliveries and webhooks back, so that it is later than they think."""
    with shop.database.write() as session:
        for delivery in session.query(Delivery):
            delivery.available_at -= by
            delivery.created_at -= by
        for webhook in session.query(Webhook).filter(Webhook.failing_since.is_not(None)):
            webhook.failing_since = webhook.failing_since and webhook.failing_since - by


def test_tries_are_repeated_under_one_id_for_a_day_and_then_the_webhook_is_disabled(
    shop: Shop, receiver: Receiver
) -> None:
    webhook_id, _ = hook(shop, f"{receiver.url}/500/x", events=["execution.pending"])
    shop.submit()
    once(shop)
    once(shop)
    (delivery,) = deliveries(shop, webhook_id)
    assert (delivery.state, len(delivery.tries), len(receiver.messages)) == ("PENDING", 1, 1)
    for _ in range(20):
        later(shop, timedelta(hours=2, minutes=30))
        once(shop)
    (delivery,) = deliveries(shop, webhook_id)
    assert delivery.state == "FAILED"
    assert 9 <= len(delivery.tries) <= 12
    assert {message.headers["webhook-id"] for message in receiver.messages} == {delivery.id}
    assert all(one["status"] == 500 for one in delivery.tries)
    shop.submit()
    later(shop, timedelta(hours=20))
    once(shop)
    webhook = stored(shop, webhook_id)
    assert not webhook.enabled
    assert (webhook.disabled_reason or "").endswith("Last: It answered 500.")
    shop.submit()
    assert len(deliveries(shop, webhook_id)) == 2
    with shop.database.write() as session:
        again = WebhookUpdate(enabled=True)
        WebhookRepository(session, shop.organization_id).update(shop.settings, shop.project_id, webhook_id, again)
    assert (stored(shop, webhook_id).disabled_reason, stored(shop, webhook_id).failing_since) == (None, None)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"secret": "service-0.AAAA"}, "'secret' was encrypted under another service key"),
        ({"url": "http://127.0.0.1/\u00e9"}, "it could not be sent because of an internal error"),
    ],
)
def test_a_delivery_that_cannot_be_sent_is_a_failed_try(
    shop: Shop, capsys: pytest.CaptureFixture[str], broken: dict[str, str], sentence: str
) -> None:
    webhook_id, _ = hook(shop, "http://127.0.0.1:9/", events=["execution.pending"])
    with shop.database.write() as session:
        session.execute(update(Webhook).values(**broken))
    shop.submit()
    once(shop)
    (delivery,) = deliveries(shop, webhook_id)
    assert [sentence in one["error"] for one in delivery.tries] == [True]
    assert delivery.state == "PENDING"
    assert stored(shop, webhook_id).failing_since is not None
    receiver = capsys.readouterr()
    assert delivery.id in receiver.out + receiver.err


def test_a_receiver_that_answers_410_gets_no_more_events(shop: Shop, receiver: Receiver) -> None:
    webhook_id, _ = hook(shop, f"{receiver.url}/410/x")
    fail(shop.database, shop.submit().id, "Over.")
    once(shop)
    assert "gone" in (stored(shop, webhook_id).disabled_reason or "")
    assert {delivery.state for delivery in deliveries(shop, webhook_id)} == {"FAILED"}


def test_a_delivery_claimed_by_a_dead_process_is_sent_again(shop: Shop, receiver: Receiver) -> None:
    webhook_id, _ = hook(shop, f"{receiver.url}/200/x", events=["execution.pending"])
    shop.submit()
    assert len(Dispatcher(shop.settings, shop.database, QUEUES)._lease_due(QUEUES[0], now())) == 1  # and dies
    once(shop)
    assert receiver.messages == []
    later(shop, deliver.LEASE)
    once(shop)
    assert deliveries(shop, webhook_id)[0].state == "DELIVERED"


def test_a_change_that_is_rolled_back_sends_no_event(shop: Shop, receiver: Receiver) -> None:
    webhook_id, _ = hook(shop, f"{receiver.url}/200/x")
    execution = shop.submit()
    with suppress(RuntimeError), shop.database.write() as session:
        assert move(session, session.get_one(Execution, execution.id), Trigger.START)
        raise RuntimeError("the end")
    assert [delivery.type for delivery in deliveries(shop, webhook_id)] == ["execution.pending"]


def test_only_the_events_that_are_asked_for_and_only_of_the_project(
    shop: Shop, other_shop: Shop, receiver: Receiver
) -> None:
    webhook_id, _ = hook(shop, f"{receiver.url}/200/x", events=["execution.cancelled"])
    theirs, _ = hook(other_shop, f"{receiver.url}/200/y")
    cancel(shop.database, shop.organization_id, shop.submit().id, "Stopped.")
    shop.submit()
    assert [delivery.type for delivery in deliveries(shop, webhook_id)] == ["execution.cancelled"]
    assert deliveries(other_shop, theirs) == []


def test_during_a_rotation_both_secrets_sign(shop: Shop, receiver: Receiver) -> None:
    webhook_id, old = hook(shop, f"{receiver.url}/200/x")
    with shop.database.write() as session:
        rotated = WebhookRepository(session, shop.organization_id).rotate_secret(
            shop.make_key_ring(), shop.project_id, webhook_id
        )
        new = rotated[1]
    send_test_event(shop.settings, shop.database, shop.organization_id, shop.project_id, webhook_id)
    (message,) = receiver.messages
    for secret in (old, new):
        find_signer([secret], message.headers, message.body)
    with shop.database.write() as session:
        session.execute(update(Webhook).values(previous_until=now() - timedelta(seconds=1)))
    send_test_event(shop.settings, shop.database, shop.organization_id, shop.project_id, webhook_id)
    with pytest.raises(Unauthorized):
        find_signer([old], receiver.messages[1].headers, receiver.messages[1].body)


@each_case(
    "url",
    [
        "ftp://example.com/",
        "not an address",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest",
        "http://[::ffff:10.0.0.1]/",
        "http://0x0a000001/",
        "https://user:password@example.com/",
        "https://example.com/" + "x" * 3000,
    ],
)
def test_addresses_that_are_never_called_are_refused(shop: Shop, url: str) -> None:
    with pytest.raises(BadInput, match="'url'"):
        hook(shop, url)


def test_a_name_that_leads_to_a_private_address_is_refused_when_it_is_called(
    shop: Shop, database: Database, receiver: Receiver
) -> None:
    strict = make_shop(shop.settings.replace(fetch_allow_networks=()), database, "strict")
    webhook_id, _ = hook(strict, receiver.url.replace("127.0.0.1", "localhost") + "/200/x")
    shop_, id_ = strict.organization_id, strict.project_id
    send_test_event(strict.settings, database, shop_, id_, webhook_id)
    refused = deliveries(strict, webhook_id)[0].tries[0]["error"]
    assert receiver.messages == []
    unknown_id, _ = hook(strict, "http://nowhere.invalid/")
    send_test_event(strict.settings, database, shop_, id_, unknown_id)
    unknown = deliveries(strict, unknown_id)[0].tries[0]["error"]
    assert refused == unknown.replace("nowhere.invalid", "localhost")  # which of the two is not for everybody
    assert "may not call" in refused


def test_the_service_may_always_call_itself(shop: Shop, database: Database, receiver: Receiver) -> None:
    own = shop.settings.replace(fetch_allow_networks=(), public_url=receiver.url)
    webhook_id, _ = hook(make_shop(own, database, "own"), f"{receiver.url}/200/x")
    assert webhook_id


def test_failing_is_no_edit_and_being_disabled_is_one(shop: Shop, receiver: Receiver) -> None:
    webhook_id, _ = hook(shop, f"{receiver.url}/500/x")
    made = stored(shop, webhook_id)
    shop.submit()
    once(shop)
    failing = stored(shop, webhook_id)
    assert failing.failing_since is not None
    assert (compute_etag(failing), failing.updated_at) == (compute_etag(made), made.updated_at)
    later(shop, timedelta(hours=25))
    once(shop)
    disabled = stored(shop, webhook_id)
    assert not disabled.enabled
    assert compute_etag(disabled) != compute_etag(made)


def test_of_secrets_that_are_made_at_once_the_last_one_follows_the_one_before(shop: Shop, receiver: Receiver) -> None:
    webhook_id, _ = hook(shop, f"{receiver.url}/200/x")

    def rotate(_: int) -> str:
        with shop.database.write() as session:
            repository = WebhookRepository(session, shop.organization_id)
            return repository.rotate_secret(shop.make_key_ring(), shop.project_id, webhook_id)[1]

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(rotate, range(8)))
    webhook = stored(shop, webhook_id)
    kept = {shop.make_key_ring().decrypt(webhook.secret, bind_webhook(webhook, "secret"))}
    assert webhook.previous_secret is not None
    kept.add(shop.make_key_ring().decrypt(webhook.previous_secret, bind_webhook(webhook, "previous_secret")))
    assert len(kept & set(made)) == 2


def test_a_project_has_at_most_so_many(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.integrations.webhooks.repository.MAX_WEBHOOKS", 1)
    hook(shop, "https://example.com/")
    with pytest.raises(Conflict, match="the limit"):
        hook(shop, "https://example.com/")


def test_pauses_grow_to_two_hours() -> None:
    seconds = [compute_pause(tries).total_seconds() for tries in range(1, 12)]
    assert 4 < seconds[0] < 6
    assert 6000 < seconds[-1] < 8000


def delete_old(shop: Shop, before: datetime) -> None:
    with shop.database.write() as session:
        delete_old_events(session, before, None)


def test_old_events_and_deliveries_are_deleted(shop: Shop, receiver: Receiver) -> None:
    webhook_id, _ = hook(shop, f"{receiver.url}/200/x")
    shop.submit()
    delete_old(shop, now() - timedelta(days=7))
    assert len(deliveries(shop, webhook_id)) == 1
    delete_old(shop, now() + timedelta(days=1))
    assert deliveries(shop, webhook_id) == []
    with shop.database.read() as session:
        assert session.query(ExecutionEvent).count() == 0
        assert session.query(Execution).count() == 1
