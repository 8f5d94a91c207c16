"""Signed addresses: who has one may fetch or bring one package for an hour, without a key."""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta
from urllib.parse import urlencode

from core.errors import Unauthorized
from core.infra.secrets import service_key
from core.infra.settings import Settings

LIFETIME = timedelta(hours=1)


def signed_query(settings: Settings, method: str, package_id: str, now: datetime) -> str:
    """The query of an address that opens this package to this method, until it expires."""
    expires = int((now + LIFETIME).timestamp())
    return urlencode({"expires": expires, "signature": _signature(settings, method, package_id, str(expires))})


def check_link(settings: Settings, method: str, package_id: str, expires: str, signature: str, now: datetime) -> None:
    """Raises Unauthorized unless the signature is ours for exactly this, and has not expired."""
    expected = _signature(settings, method, package_id, expires)
    genuine = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
    if not genuine or int(expires) < now.timestamp():  # what is signed is ours, so a number
        raise Unauthorized("This link is not valid, or it has expired. Ask for a new one.")


def _signature(settings: Settings, method: str, package_id: str, expires: str) -> str:
    message = f"package-link:{method}:{package_id}:{expires}"
    return hmac.digest(service_key(settings), message.encode("utf-8", "replace"), "sha256").hex()
