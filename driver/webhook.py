"""The completion webhook, signed as Standard Webhooks 1.0 says, and repeated until the service has it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx

_log = logging.getLogger(__name__)
_LONGEST_PAUSE = 30.0


class WebhookFailed(Exception):
    """The service did not take a message."""


def signature(secret: str, message_id: str, timestamp: int, body: str) -> str:
    """Header value for a secret of the form whsec_<base64>."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{message_id}.{timestamp}.{body}".encode(), hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


class WebhookClient:
    """Sends payloads to one URL."""

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._secret = secret
        # an operator's proxy has no business between a driver and its own service
        self._client = httpx.Client(timeout=10, trust_env=False)

    def send(self, payload: Mapping[str, Any], patience: float) -> None:
        """Sends one payload, repeating it with growing pauses for `patience` seconds; raises WebhookFailed."""
        body, message_id = json.dumps(payload), f"msg_{uuid.uuid4().hex}"
        deadline, pause = time.monotonic() + patience, 0.5
        while (reason := self._attempt(message_id, body)) is not None:
            if time.monotonic() + pause > deadline:
                raise WebhookFailed(f"the service did not take the report: {reason}")
            _log.warning("webhook repeated", extra={"fields": {"reason": reason, "pauseSeconds": pause}})
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def close(self) -> None:
        self._client.close()

    def _attempt(self, message_id: str, body: str) -> str | None:
        """None when the message was taken, else why it may be repeated; raises WebhookFailed when it is refused."""
        timestamp = int(datetime.now(UTC).timestamp())
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._secret, message_id, timestamp, body),
        }
        try:
            answer = self._client.post(self._url, content=body, headers=headers)
        except httpx.TransportError as error:
            return f"{type(error).__name__}: {error}"
        if answer.is_success:
            return None
        if answer.status_code == 429 or answer.is_server_error:
            return f"it answered {answer.status_code}"
        raise WebhookFailed(f"the service refused the report: it answered {answer.status_code}")
