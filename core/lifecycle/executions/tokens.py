"""Secrets derived from the service's key: those of an attempt, and those of a driver's pod."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Mapping, Sequence

from standardwebhooks import Webhook, WebhookVerificationError

from core.errors import Unauthorized
from core.infra.secrets import load_service_key
from core.infra.settings import Settings

PREFIX = "whsec_"
PAGE_SECONDS = 60


def execution_token(settings: Settings, execution_id: str, attempt: int) -> str:
    """Derive the signing secret of one attempt from the service's key; it is stored nowhere."""
    return PREFIX + base64.b64encode(_derive(settings, f"execution-token:{execution_id}:{attempt}")).decode()


def derive_log_mark(settings: Settings, execution_id: str, attempt: int) -> str:
    """Derive the mark before the messages in the log of an attempt's pod."""
    return _derive(settings, f"log-mark:{execution_id}:{attempt}").hex()


def derive_page_key(settings: Settings, driver: str) -> str:
    """Derive the key of the page that Spark serves in a driver's pod, as base64url, from the service's key."""
    return _encode(_derive(settings, f"spark-page:{driver}"))


def derive_channel_seed(settings: Settings, driver: str) -> bytes:
    """Derive the private key of the certificate with which a driver's pod takes further executions."""
    return _derive(settings, f"channel-key:{driver}")


def derive_channel_token(settings: Settings, driver: str) -> str:
    """Derive the token that such a pod wants from the service."""
    return _derive(settings, f"channel-token:{driver}").hex()


def sign_page_request(settings: Settings, driver: str) -> str:
    """Return a token (JWS) for requests to that page within the next minute."""
    key = derive_page_key(settings, driver)
    parts = ({"alg": "HS256"}, {"exp": int(time.time()) + PAGE_SECONDS})
    signed = ".".join(_encode(json.dumps(part).encode()) for part in parts)
    signature = hmac.digest(base64.urlsafe_b64decode(f"{key}="), signed.encode(), "sha256")
    return f"{signed}.{_encode(signature)}"


def _derive(settings: Settings, purpose: str) -> bytes:
    return hmac.digest(load_service_key(settings), purpose.encode(), "sha256")


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


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
