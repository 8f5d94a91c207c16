"""The token of one attempt of an execution, and the signatures made with it (Standard Webhooks)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime

from core.errors import Unauthorized
from core.infra.secrets import service_key
from core.infra.settings import Settings

PREFIX = "whsec_"
TOLERANCE_SECONDS = 300


def execution_token(settings: Settings, execution_id: str, attempt: int) -> str:
    """The signing secret of this attempt alone, derived from the service's key; stored nowhere."""
    purpose = f"execution-token:{execution_id}:{attempt}"
    return PREFIX + base64.b64encode(hmac.digest(service_key(settings), purpose.encode(), "sha256")).decode()


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of the header webhook-signature."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def verify_signature(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
    """Raises Unauthorized unless one of the signatures fits and the message is at most five minutes old or ahead."""
    signer((secret,), headers, body, now)


def signer(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime) -> int:
    """Which of the secrets the message is signed with; raises Unauthorized as `verify_signature` does."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not (message_id and timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise Unauthorized("The webhook's signature headers are missing or malformed.")
    if abs(now.timestamp() - int(timestamp)) > TOLERANCE_SECONDS:
        raise Unauthorized("The webhook's timestamp is more than five minutes away from the service's time.")
    given = headers.get("webhook-signature", "").split(" ")
    for index, secret in enumerate(secrets):
        expected = sign(secret, message_id, int(timestamp), body).encode()
        if any(hmac.compare_digest(expected, each.encode("utf-8", "replace")) for each in given):
            return index
    raise Unauthorized("The webhook's signature does not fit.")
