from __future__ import annotations

from collections.abc import Iterator

import pytest

from driver.webhook import WebhookClient, WebhookFailed, signature
from tests.support.webhook_receiver import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def client(receiver: Receiver) -> Iterator[WebhookClient]:
    client = WebhookClient(receiver.url, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    yield client
    client.close()


def test_signature_is_that_of_the_standard() -> None:
    # the example of the Standard Webhooks specification's reference libraries
    secret, message = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature(secret, message, 1614265330, '{"test": 2432232314}') == expected


def test_a_message_is_repeated_under_its_own_id_until_it_is_taken(receiver: Receiver, client: WebhookClient) -> None:
    receiver.answers = [503, 429]
    client.send({"status": "COMPLETED"}, patience=60)
    messages = receiver.take()
    assert len(messages) == 3
    assert len({message.headers["webhook-id"] for message in messages}) == 1
    assert {message.payload["status"] for message in messages} == {"COMPLETED"}


def test_a_refusal_is_final(receiver: Receiver, client: WebhookClient) -> None:
    receiver.answers = [404]
    with pytest.raises(WebhookFailed, match="answered 404"):
        client.send({}, patience=10)
    assert len(receiver.take()) == 1


def test_patience_ends(client: WebhookClient, receiver: Receiver) -> None:
    receiver.answers = [500, 500, 500]
    with pytest.raises(WebhookFailed, match="answered 500"):
        client.send({}, patience=1)


def test_nobody_there() -> None:
    client = WebhookClient("http://127.0.0.1:1/", "whsec_AAAA")
    with pytest.raises(WebhookFailed, match="ConnectError"):
        client.send({}, patience=0)
    client.close()
