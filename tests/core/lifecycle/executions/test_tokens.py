from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from core.errors import Unauthorized
from core.infra.settings import Settings
from core.lifecycle.executions.tokens import execution_token, find_signer

BODY = json.dumps({"status": "RUNNING"}).encode()


@pytest.fixture
def token(tmp_path: Path) -> str:
    return execution_token(Settings(data=tmp_path), "e1", 1)


def sign(token: str, at: datetime | None = None, body: bytes = BODY) -> dict[str, str]:
    """Sign by the protocol's formula, independently of the code under test."""
    timestamp = str(int((at or datetime.now(UTC)).timestamp()))
    key = base64.b64decode(token.removeprefix("whsec_"))
    digest = hmac.new(key, b"msg_1." + timestamp.encode() + b"." + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": timestamp, "webhook-signature": signature}


def test_a_signed_message_is_accepted(token: str) -> None:
    find_signer([token], sign(token), BODY)


def test_one_of_several_signatures_is_enough(token: str) -> None:
    headers = sign(token)
    headers["webhook-signature"] = f"v1,AAAA v2,xyz {headers['webhook-signature']}"
    find_signer([token], headers, BODY)


def test_every_flipped_bit_is_refused(token: str) -> None:
    headers = sign(token)
    for bit in range(0, len(BODY) * 8, 7):
        body = bytearray(BODY)
        body[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Unauthorized):
            find_signer([token], headers, bytes(body))


@pytest.mark.parametrize(("minutes", "accepted"), [(-4.9, True), (4.9, True), (-5.1, False), (5.1, False)])
def test_messages_older_or_newer_than_five_minutes_are_refused(token: str, minutes: float, accepted: bool) -> None:
    headers = sign(token, datetime.now(UTC) + timedelta(minutes=minutes))
    if accepted:
        assert find_signer([token], headers, BODY) == 0
    else:
        with pytest.raises(Unauthorized):
            find_signer([token], headers, BODY)


@pytest.mark.parametrize(
    "changes",
    [
        {"webhook-id": "msg_2"},
        {"webhook-id": ""},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "1e9"},
        {"webhook-timestamp": "²"},
        {"webhook-timestamp": "9" * 400},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,\ud800"},
    ],
)
def test_other_headers_are_refused(token: str, changes: dict[str, str]) -> None:
    with pytest.raises(Unauthorized):
        find_signer([token], sign(token) | changes, BODY)
    with pytest.raises(Unauthorized):
        find_signer([token], {}, BODY)


def test_each_attempt_of_each_execution_has_its_own_token(tmp_path: Path) -> None:
    settings, other = Settings(data=tmp_path), Settings(data=tmp_path, secret_key=SecretStr("another key " * 4))
    tokens = [
        execution_token(settings, "e1", 1),
        execution_token(settings, "e1", 2),
        execution_token(settings, "e2", 1),
    ]
    assert len({*tokens, execution_token(other, "e1", 1)}) == 4
    assert execution_token(settings, "e1", 1) == tokens[0]
    for wrong in tokens[1:]:
        with pytest.raises(Unauthorized):
            find_signer([wrong], sign(tokens[0]), BODY)
