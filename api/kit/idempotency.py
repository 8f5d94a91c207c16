"""The header `Idempotency-Key`."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Depends, Header, Request

from core.definitions.identity.api_keys import Identity
from core.infra.idempotency import IdempotencyKey


async def _parse_idempotency_key(
    request: Request,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            max_length=255,
            description="The same key and body within 24 hours start nothing new; another body is a conflict.",
        ),
    ] = None,
) -> IdempotencyKey | None:
    identity: Identity = request.state.identity
    if key is None:
        return None
    # the route's name and the ids of the path, which are the same in both spellings of the path
    operation = json.dumps([request.scope["route"].name, request.path_params], sort_keys=True)
    return IdempotencyKey.from_request(identity.organization_id, key, operation, _normalize(await request.body()))


def _normalize(body: bytes) -> bytes:
    """Return JSON without whitespace and with sorted keys, so that equal bodies are equal bytes; others as they are."""
    try:
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return body


Idempotent = Annotated[IdempotencyKey | None, Depends(_parse_idempotency_key)]
