"""The keys that open a request's secrets: the service's, and the one that the request may carry."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header

from api.kit.services import ServicesOf
from core.infra.encryption import HEADER, Keyring
from core.infra.secrets import service_key


def _keyring(
    services: ServicesOf,
    callers_key: Annotated[
        str | None,
        Header(
            alias=HEADER,
            min_length=1,
            max_length=1024,
            description="A key of the caller's own: cloud credentials are sealed under it in place of the service's. "
            "It is never stored.",
        ),
    ] = None,
) -> Keyring:
    return Keyring(service_key(services.settings), callers_key)


KeyringOf = Annotated[Keyring, Depends(_keyring)]
