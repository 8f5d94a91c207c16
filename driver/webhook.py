"""Client of the completion webhook: signed messages (Standard Webhooks), repeated until the service accepts them."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
from standardwebhooks import Webhook
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_before_delay, wait_exponential

_log = logging.getLogger(__name__)
_BACKOFF = wait_exponential(multiplier=0.5, max=30)


class WebhookFailed(Exception):
    """The service did not accept a message."""


class _Unanswered(WebhookFailed):
    """The message may be accepted later: no answer, 429, or a server error."""


class WebhookClient:
    """Sends payloads to one URL."""

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._signer = Webhook(secret)
        # the environment's proxy settings are not meant for the driver's own service; to load certificates takes a
        # tenth of a small execution's time
        self._client = httpx.Client(timeout=10, trust_env=False, verify=url.startswith("https:"))

    def send(self, payload: Mapping[str, Any], patience: float) -> None:
        """Send one payload, with exponential backoff for up to `patience` seconds; raise WebhookFailed."""
        body, message_id = json.dumps(payload), f"msg_{uuid.uuid4().hex}"
        retrying = Retrying(
            retry=retry_if_exception_type(_Unanswered),
            wait=_BACKOFF,
            stop=stop_before_delay(patience),
            before_sleep=_log_retry,
            reraise=True,
        )
        retrying(self._post, message_id, body)

    def close(self) -> None:
        self._client.close()

    def _post(self, message_id: str, body: str) -> None:
        now = datetime.now(UTC)
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(message_id, now, body),
        }
        try:
            response = self._client.post(self._url, content=body, headers=headers)
        except httpx.TransportError as error:
            raise _Unanswered(f"The service did not accept the report: {type(error).__name__}: {error}") from error
        if response.status_code == 429 or response.is_server_error:
            raise _Unanswered(f"The service did not accept the report: it answered {response.status_code}.")
        if not response.is_success:
            raise WebhookFailed(f"The service refused the report: it answered {response.status_code}.")


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    fields = {"reason": str(error), "pauseSeconds": state.next_action.sleep if state.next_action else 0}
    _log.warning("webhook retried", extra={"fields": fields})
