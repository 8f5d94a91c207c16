"""The header `X-Encryption-Key`: a key of the caller's own, for cloud credentials."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header

from api.kit.services import ServicesOf
from core.infra.encryption import HEADER, KeyRing
from core.infra.secrets import load_service_key


def _build_key_ring(
    services: ServicesOf,
    caller_key: Annotated[
        str | None,
        Header(
            alias=HEADER,
            min_length=1,
            max_length=1024,
            description="A key of the caller's own: cloud credentials are encrypted under it instead of the service's. "
            "It is never stored.",
        ),
    ] = None,
) -> KeyRing:
    return KeyRing(load_service_key(services.settings), caller_key)


KeyRingOf = Annotated[KeyRing, Depends(_build_key_ring)]
