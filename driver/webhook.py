"""Client of the completion webhook: signed messages (Standard Webhooks), repeated until the service accepts them."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_before_delay, wait_exponential

from pipelines.http_client.client import send_request
from pipelines.http_client.guard import ALL_NETWORKS, Guard
from pipelines.http_client.handles import TimeLimits

_log = logging.getLogger(__name__)
_BACKOFF = wait_exponential(multiplier=0.5, max=30)
_LIMITS = TimeLimits(connect=10, total=20)
_MAX_ANSWER = 2**16  # bytes, none of which is read


class WebhookFailed(Exception):
    """The service did not accept a message."""


class _Unanswered(WebhookFailed):
    """The message may be accepted later: no answer, 429, or a server error."""


class WebhookClient:
    """Sends payloads to one URL."""

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._signer = Webhook(secret)
        self._guard = Guard(ALL_NETWORKS)  # the service is where its operator has put it

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

    def _post(self, message_id: str, body: str) -> None:
        now = datetime.now(UTC)
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(message_id, now, body),
        }
        answer = send_request(self._guard, "POST", self._url, headers, body.encode(), _LIMITS, _MAX_ANSWER)
        if answer.status is None:
            raise _Unanswered(f"The service did not accept the report: {answer.reason}.")
        if answer.status == 429 or answer.status >= 500:
            raise _Unanswered(f"The service did not accept the report: it answered {answer.status}.")
        if not answer.ok:
            raise WebhookFailed(f"The service refused the report: it answered {answer.status}.")


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    fields = {"reason": str(error), "pauseSeconds": state.next_action.sleep if state.next_action else 0}
    _log.warning("webhook retried", extra={"fields": fields})
