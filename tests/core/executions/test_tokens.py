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
from core.executions.tokens import execution_token, sign, verify_signature
from core.infra.settings import Settings

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BODY = json.dumps({"status": "RUNNING"}).encode()


@pytest.fixture
def token(tmp_path: Path) -> str:
    return execution_token(Settings(data=tmp_path), "e1", 1)


def signed(token: str, at: datetime = NOW, body: bytes = BODY) -> dict[str, str]:
    """Signed by the protocol's own formula, not by the code under test."""
    timestamp = str(int(at.timestamp()))
    key = base64.b64decode(token.removeprefix("whsec_"))
    digest = hmac.new(key, b"msg_1." + timestamp.encode() + b"." + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": timestamp, "webhook-signature": signature}


def test_a_signed_message_is_accepted(token: str) -> None:
    verify_signature(token, signed(token), BODY, NOW)
    headers = signed(token)
    assert sign(token, "msg_1", int(headers["webhook-timestamp"]), BODY) == headers["webhook-signature"]


def test_one_of_several_signatures_is_enough(token: str) -> None:
    headers = signed(token)
    headers["webhook-signature"] = f"v1,AAAA v2,xyz {headers['webhook-signature']}"
    verify_signature(token, headers, BODY, NOW)


def test_every_flipped_bit_is_refused(token: str) -> None:
    headers = signed(token)
    for bit in range(len(BODY) * 8):
        body = bytearray(BODY)
        body[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Unauthorized):
            verify_signature(token, headers, bytes(body), NOW)


@pytest.mark.parametrize(("minutes", "accepted"), [(-5, True), (5, True), (-5.1, False), (5.1, False)])
def test_five_minutes_of_tolerance(token: str, minutes: float, accepted: bool) -> None:
    headers = signed(token, NOW + timedelta(minutes=minutes))
    if accepted:
        verify_signature(token, headers, BODY, NOW)
    else:
        with pytest.raises(Unauthorized, match="five minutes"):
            verify_signature(token, headers, BODY, NOW)


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
        verify_signature(token, signed(token) | changes, BODY, NOW)
    with pytest.raises(Unauthorized):
        verify_signature(token, {}, BODY, NOW)


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
            verify_signature(wrong, signed(tokens[0]), BODY, NOW)
