"""People are told what rules say: once, together, by every kind of target, through the guard, without secrets."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from core.definitions.credentials.models import PLAIN, SECRETS
from core.definitions.credentials.repository import CredentialRepository
from core.errors import BadInput, Conflict
from core.infra.dispatcher import LIFETIME, Dispatcher
from core.infra.settings import Settings
from core.infra.validation import format_time
from core.integrations.notifications import deliver
from core.integrations.notifications.channels import CHANNELS, FIELDS
from core.integrations.notifications.deliver import NotificationQueue, send_test
from core.integrations.notifications.health import HealthWatch
from core.integrations.notifications.models import RuleCreate, RuleUpdate
from core.integrations.notifications.repository import RuleRepository
from core.lifecycle.executions import notices
from core.lifecycle.executions.reports import fail
from core.tables import Notification, NotificationRule, now
from tests.support.certificates import create_certificate
from tests.support.mail_server import MailServer, serve_mail
from tests.support.shop import PIPELINE, Shop
from tests.support.webhook_receiver import Receiver

SECRET = "T0PSECRET"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The fetch guard is lifted for loopback."""
    return settings.replace(fetch_allow_networks=("127.0.0.1/32",))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "GATHER", timedelta())


def test_each_channel_names_its_fields():
    assert FIELDS.keys() == CHANNELS.keys()
    assert {name for fields in FIELDS.values() for name in fields} <= {*SECRETS, *PLAIN}


def write_rule(shop: Shop, provider: str, fields: dict[str, str], **values: Any) -> NotificationRule:
    target = shop.add_credential(provider, **fields)
    new = RuleCreate(**({"name": "ops", "events": ["failed"]} | values), cloud_credential_id=target)
    with shop.database.write() as session:
        return RuleRepository(session, shop.organization_id).create(shop.project_id, new)


def deliver_due(shop: Shop) -> None:
    dispatcher = Dispatcher(shop.settings, shop.database, [NotificationQueue()])
    dispatcher.deliver_due()
    dispatcher.finish()


def list_messages(shop: Shop) -> list[Notification]:
    with shop.database.read() as session:
        return [*reversed(RuleRepository(session, shop.organization_id).list_messages(shop.project_id, "ops"))]


def list_notices(shop: Shop) -> list[tuple[str, str]]:
    return [(each["event"], each["reason"]) for one in list_messages(shop) for each in one.payload["notices"]]


def fail_one(shop: Shop, reason: str = "The host <b>shop.test</b> is gone.") -> str:
    execution = shop.submit()
    fail(shop.database, execution.id, reason)
    return execution.id


def find_text(provider: str, body: Any) -> str:
    match provider:
        case "SLACK":
            return body["text"].replace("&lt;", "<").replace("&gt;", ">")
        case "DISCORD":
            assert body["allowed_mentions"] == {"parse": []}
            return body["content"]
        case "TEAMS":
            (card,) = body["attachments"]
            return "\n".join(each["text"] for each in card["content"]["body"])
        case "NTFY":
            assert (body["topic"], body["click"]) == ("alerts", "http://127.0.0.1:3000/assets/shop/books")
            return body["message"]
        case _:
            return body["text"]


@pytest.mark.parametrize("provider", ["SLACK", "TEAMS", "DISCORD", "NTFY", "WEBHOOK"])
def test_a_failure_is_told_by_every_kind_of_target(shop: Shop, receiver: Receiver, provider: str) -> None:
    path = f"/200/{SECRET}" if provider in ("SLACK", "TEAMS", "DISCORD") else "/200/alerts"
    fields = (
        {"api_key": receiver.url + path} if SECRET in path else {"endpoint": receiver.url + path, "api_key": SECRET}
    )
    write_rule(shop, provider, fields)
    fail_one(shop)
    deliver_due(shop)
    (message,) = receiver.messages
    first = find_text(provider, message.payload).split("\n")[0]
    reason = "Shop/Books failed: The host <b>shop.test</b> is gone."
    assert first == f"{reason} http://127.0.0.1:3000/assets/shop/books"
    if SECRET not in path:
        assert message.headers["authorization"] == f"Bearer {SECRET}"
    (stored,) = list_messages(shop)
    assert (stored.state, len(stored.tries)) == ("DELIVERED", 1)
    assert SECRET not in str(stored.payload) + str(stored.tries)


@pytest.mark.parametrize("provider", ["SLACK", "TEAMS", "DISCORD"])
def test_a_page_that_a_reason_quotes_makes_no_link_in_a_chat(shop: Shop, receiver: Receiver, provider: str) -> None:
    write_rule(shop, provider, {"api_key": f"{receiver.url}/200/x"})
    fail_one(shop, "The page says [sign in](http://evil.test) and <http://evil.test|sign in>.")
    deliver_due(shop)
    text = str(receiver.messages[0].payload)
    assert ("<http" if provider == "SLACK" else "](") not in text


def test_a_template_is_filled_in_at_any_depth(shop: Shop, receiver: Receiver) -> None:
    template = {"summary": "${title}", "links": [{"href": "${link}"}], "severity": 3, "cost": "$5"}
    write_rule(shop, "WEBHOOK", {"endpoint": f"{receiver.url}/200/x"}, template=template)
    fail_one(shop, 'It said "no".')
    deliver_due(shop)
    assert receiver.messages[0].payload == {
        "summary": 'Shop/Books failed: It said "no".',
        "links": [{"href": "http://127.0.0.1:3000/assets/shop/books"}],
        "severity": 3,
        "cost": "$5",
    }


def test_notices_within_the_pause_are_one_message(shop: Shop, receiver: Receiver) -> None:
    rule = write_rule(shop, "SLACK", {"api_key": f"{receiver.url}/200/x"}, pause_seconds=3600)
    send_test(shop.settings, shop.database, shop.organization_id, shop.project_id, rule.name)
    receiver.take()
    fail_one(shop, "First.")
    deliver_due(shop)
    for number in range(25):
        fail_one(shop, f"Later {number}.")
    deliver_due(shop)
    assert len(receiver.messages) == 1
    with shop.database.write() as session:
        session.get_one(NotificationRule, rule.id).next_send_at = now()
    deliver_due(shop)
    deliver_due(shop)
    assert len(receiver.messages) == 2
    lines = receiver.messages[1].payload["text"].split("\n")
    assert lines[0].startswith("Shop/Books failed: Later 0. http")
    assert (len(lines), lines[-1]) == (deliver.MAX_LINES + 1, "And 5 more.")


def test_a_target_that_refuses_is_told_again_with_what_came_meanwhile(shop: Shop, receiver: Receiver) -> None:
    write_rule(shop, "SLACK", {"api_key": f"{receiver.url}/x"})
    receiver.answers = [503]
    fail_one(shop, "First.")
    deliver_due(shop)
    fail_one(shop, "Second.")
    with shop.database.write() as session:
        for each in session.query(Notification):
            each.available_at = now()
    deliver_due(shop)
    (message,) = list_messages(shop)
    assert (message.state, [each["status"] for each in message.tries]) == ("DELIVERED", [503, 200])
    assert "Second." in receiver.messages[1].payload["text"]


def test_a_notice_that_came_later_is_not_given_up_with_an_old_one(shop: Shop, receiver: Receiver) -> None:
    write_rule(shop, "SLACK", {"api_key": f"{receiver.url}/x"})
    receiver.answers = [503, 503]
    fail_one(shop, "First.")
    deliver_due(shop)
    with shop.database.write() as session:
        (first,) = session.query(Notification)
        first.created_at = first.available_at = now() - LIFETIME
        first.payload = {"notices": [{**first.payload["notices"][0], "at": format_time(first.created_at)}]}
        first.tries = [{**first.tries[0], "at": format_time(first.created_at)}]
    fail_one(shop, "Second.")
    deliver_due(shop)
    told = [
        (each.state, len(each.tries), [one["reason"] for one in each.payload["notices"]])
        for each in list_messages(shop)
    ]
    assert sorted(told) == [("FAILED", 2, ["First."]), ("PENDING", 1, ["Second."])]
    with shop.database.write() as session:
        session.execute(update(Notification).values(available_at=now()))
    deliver_due(shop)
    assert sorted(each.state for each in list_messages(shop)) == ["DELIVERED", "FAILED"]
    assert "First." not in receiver.messages[-1].payload["text"]


def test_mail_goes_by_tls_with_a_login(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = create_certificate(tmp_path, "IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with serve_mail(certificate, ("etl", SECRET)) as server:
        fields = {
            "endpoint": f"smtp://127.0.0.1:{server.port}?from=etl@shop.test",
            "access_key_id": "etl",
            "secret_access_key": SECRET,
        }
        write_rule(shop, "SMTP", fields, recipients=["ops@shop.test", "boss@shop.test"])
        fail_one(shop, "Größe\nfehlt.\r\nBcc: all@shop.test")
        deliver_due(shop)
        ((mail, recipients),) = server.mails
        assert server.encrypted == [True]
    assert (mail["From"], recipients) == ("etl@shop.test", ["ops@shop.test", "boss@shop.test"])
    assert (mail["Subject"], mail["Bcc"]) == ("Shop/Books failed: Größe fehlt. Bcc: all@shop.test", None)
    assert mail.get_content().startswith(f"{mail['Subject']} http://127.0.0.1:3000/assets/shop/books")


def send_test_mail(shop: Shop, server: MailServer, recipient: str = "ops@shop.test", **fields: str) -> str | None:
    """The reason for which the test mail was not sent."""
    rule = write_rule(
        shop, "SMTP", {"endpoint": f"smtp://127.0.0.1:{server.port}"} | fields, recipients=[recipient], enabled=False
    )
    sent = send_test(shop.settings, shop.database, shop.organization_id, shop.project_id, rule.name)
    return sent.tries[-1]["error"]


def test_a_password_is_never_sent_without_encryption(shop: Shop) -> None:
    with serve_mail() as server:
        reason = send_test_mail(shop, server, access_key_id="etl", secret_access_key=SECRET)
        assert "offers no encryption" in (reason or "")
        assert server.mails == []


def test_mail_without_a_login_goes_in_clear_to_a_relay(shop: Shop) -> None:
    with serve_mail() as server:
        assert send_test_mail(shop, server) is None
        assert server.mails[0][0]["From"] == "spindle@127.0.0.1"


@pytest.mark.parametrize(
    ("provider", "fields"),
    [
        ("SMTP", {"endpoint": "smtp://127.0.0.1:99999"}),
        ("SMTP", {"endpoint": "smtp://[mail.test"}),
        ("SMTP", {"endpoint": "smtp://127.0.0.1?from=a%0ABcc:b@example.com"}),
        ("SMTP", {"endpoint": "smtp://m\xe4il.test"}),
        ("NTFY", {"endpoint": "http://127.0.0.1"}),
        ("WEBHOOK", {"endpoint": "http://127.0.0.1:99999/"}),
        ("SLACK", {"api_key": f"{SECRET}.test/hook"}),
    ],
)
def test_an_address_that_is_none_is_told(shop: Shop, provider: str, fields: dict[str, str]) -> None:
    write_rule(shop, provider, fields, recipients=["data@example.com"] if provider == "SMTP" else [])
    sent = send_test(shop.settings, shop.database, shop.organization_id, shop.project_id, "ops")
    reason: str = sent.tries[-1]["error"]
    assert "address" in reason
    assert SECRET not in reason


def test_a_refused_recipient_is_told(shop: Shop) -> None:
    with serve_mail() as server:
        assert "550" in (send_test_mail(shop, server, "nobody@refused.test") or "")


def test_no_target_leads_past_the_guard(shop: Shop, receiver: Receiver) -> None:
    shop.settings = shop.settings.replace(fetch_allow_networks=())
    write_rule(shop, "SLACK", {"api_key": f"{receiver.url}/200/{SECRET}"})
    fail_one(shop)
    deliver_due(shop)
    with serve_mail() as server:
        with shop.database.write() as session:
            RuleRepository(session, shop.organization_id).delete(shop.project_id, "ops")
        assert "may not call" in (send_test_mail(shop, server) or "")
        assert server.mails == []
    assert receiver.messages == []


def test_an_execution_is_told_by_what_the_rule_has(shop: Shop) -> None:
    values = {"events": ["failed", "recovered", "warned"], "min_row_share": 0.5}
    write_rule(shop, "NTFY", {"endpoint": "http://127.0.0.1:1/x"}, **values)
    shop.complete(shop.submit(), rows=100)
    assert list_notices(shop) == []
    checks = [{"check": "row_count", "severity": "warn", "passed": False, "message": "It has 40 rows."}]
    shop.complete(shop.submit(), rows=40, additional_metrics={"progress": {"checks": checks}})
    fail_one(shop, "Gone.")
    shop.complete(shop.submit(), rows=1)
    fail(shop.database, shop.submit(publish=False).id, "A trial tells nobody.")
    assert list_notices(shop) == [
        ("warned", "It has 40 rows."),
        ("rows", "It has 40 rows, less than 50% of the 100 before."),
        ("failed", "Gone."),
        ("recovered", "It has completed after a failure."),
    ]


def test_a_partition_is_told_by_the_one_before_of_its_values(shop: Shop) -> None:
    write_rule(shop, "NTFY", {"endpoint": "http://127.0.0.1:1/x"}, events=["recovered"], min_row_share=0.5)
    shop.write_pipeline(PIPELINE.replace("127.0.0.1/", "127.0.0.1/${COUNTRY}"))
    shop.change_job(partitions=[{"values": ["de", "it"], "parameter": "COUNTRY"}])
    for country, rows in (("de", 100), ("it", 3), ("de", None), ("it", 1), ("de", 100)):
        execution = shop.submit(partition=country)
        fail(shop.database, execution.id, "Gone.") if rows is None else shop.complete(execution, rows)
    assert list_notices(shop) == [
        ("rows", "It has 1 rows, less than 50% of the 3 before."),
        ("recovered", "It has completed after a failure."),
    ]


def test_of_a_recovery_by_hand_is_told_too(shop: Shop) -> None:
    write_rule(shop, "NTFY", {"endpoint": "http://127.0.0.1:1/x"}, events=["recovered"])
    execution = shop.submit()
    fail(shop.database, execution.id, "Gone.")
    shop.complete(shop.retry(execution))
    assert list_notices(shop) == [("recovered", "It has completed after a failure.")]


def test_a_degraded_service_is_told_once_and_its_recovery(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rule(shop, "NTFY", {"endpoint": "http://127.0.0.1:1/x"}, events=["degraded"])
    watch, problems = HealthWatch(shop.settings, shop.database), ["a", "The launcher is gone.", "b", None, None, "c"]
    monkeypatch.setattr(watch, "_find_problem", lambda: problems.pop(0))
    for _ in range(6):
        watch.check()
    assert list_notices(shop) == [
        ("degraded", "The launcher is gone."),
        ("recovered", "All of its parts work again."),
    ]


@pytest.mark.parametrize(
    ("provider", "values", "message"),
    [
        ("OPENAI", {}, "no target"),
        ("SLACK", {"events": []}, "never tells"),
        ("SLACK", {"events": ["faild"]}, "Unknown event"),
        ("SLACK", {"recipients": ["a@b.test"]}, "Only mail"),
        ("SMTP", {}, "needs 'recipients'"),
        ("SLACK", {"template": {"a": "b"}}, "WEBHOOK"),
        ("SLACK", {"begin_by": "25:00"}, "cron"),
        ("SLACK", {"name": "On Call"}, "no name"),
    ],
)
def test_a_rule_that_can_tell_nothing_is_refused(
    shop: Shop, provider: str, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        write_rule(shop, provider, {"api_key": "https://chat.test/x"}, **values)


def test_a_name_is_used_once_and_a_change_keeps_the_rest(shop: Shop) -> None:
    write_rule(shop, "SLACK", {"api_key": "https://chat.test/x"}, begin_by="06:30", timezone="Europe/Berlin")
    with pytest.raises(Conflict):
        write_rule(shop, "SLACK", {"api_key": "https://chat.test/x"})
    with shop.database.write() as session:
        rules = RuleRepository(session, shop.organization_id)
        changed = rules.update(shop.project_id, "ops", RuleUpdate(begin_by="", events=["failed", "late"]))
        assert (changed.begin_by, changed.next_begin_at, changed.timezone) == (None, None, "Europe/Berlin")


def test_a_rule_whose_credential_was_deleted_can_be_switched_off(shop: Shop) -> None:
    rule = write_rule(shop, "SLACK", {"api_key": "https://hooks.shop.test/"})
    with shop.database.write() as session:
        CredentialRepository(session, shop.organization_id).delete(rule.cloud_credential_id)
        rules = RuleRepository(session, shop.organization_id)
        assert not rules.update(shop.project_id, "ops", RuleUpdate(enabled=False)).enabled
        with pytest.raises(BadInput, match="no cloud credential"):
            rules.update(shop.project_id, "ops", RuleUpdate(recipients=["data@example.com"]))
