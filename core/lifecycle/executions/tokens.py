"""The secret of one attempt of an execution, which signs the driver's reports (Standard Webhooks)."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping, Sequence

from standardwebhooks import Webhook, WebhookVerificationError

from core.errors import Unauthorized
from core.infra.secrets import load_service_key
from core.infra.settings import Settings

PREFIX = "whsec_"


def execution_token(settings: Settings, execution_id: str, attempt: int) -> str:
    """Derive the signing secret of one attempt from the service's key; it is stored nowhere."""
    purpose = f"execution-token:{execution_id}:{attempt}"
    return PREFIX + base64.b64encode(hmac.digest(load_service_key(settings), purpose.encode(), "sha256")).decode()


def find_signer(secrets: Sequence[str], headers: Mapping[str, str], body: bytes) -> int:
    """Return the index of the secret that signed the message.

    Raises Unauthorized without a valid signature, and when the message is more than five minutes old.
    """
    for index, secret in enumerate(secrets):
        try:
            Webhook(secret).verify(body, dict(headers), json_parse=False)
        except (WebhookVerificationError, ValueError):  # ValueError: a header or the body is malformed
            continue
        return index
    raise Unauthorized("The webhook's signature is missing, does not match, or is more than five minutes old.")
