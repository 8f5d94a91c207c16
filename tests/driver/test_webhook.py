from __future__ import annotations

import pytest
from standardwebhooks import Webhook

from driver.webhook import WebhookClient, WebhookFailed
from tests.support.webhook_receiver import Receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def client(receiver: Receiver) -> WebhookClient:
    return WebhookClient(receiver.url, SECRET)


def test_a_message_is_retried_under_the_same_id_until_accepted(receiver: Receiver, client: WebhookClient) -> None:
    receiver.answers = [503, 429]
    client.send({"status": "COMPLETED"}, patience=60)
    messages = receiver.take()
    for message in messages:
        Webhook(SECRET).verify(message.body, message.headers)
    assert len(messages) == 3
    assert len({message.headers["webhook-id"] for message in messages}) == 1
    assert {message.payload["status"] for message in messages} == {"COMPLETED"}


def test_a_refusal_is_final(receiver: Receiver, client: WebhookClient) -> None:
    receiver.answers = [404]
    with pytest.raises(WebhookFailed, match="answered 404"):
        client.send({}, patience=10)
    assert len(receiver.take()) == 1


def test_retries_stop_when_patience_is_over(client: WebhookClient, receiver: Receiver) -> None:
    receiver.answers = [500, 500, 500]
    with pytest.raises(WebhookFailed, match="answered 500"):
        client.send({}, patience=1)


def test_an_unreachable_service_fails_the_message() -> None:
    client = WebhookClient("http://127.0.0.1:1/", "whsec_AAAA")
    with pytest.raises(WebhookFailed, match="did not accept the report"):
        client.send({}, patience=0)
