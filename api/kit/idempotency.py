"""`Idempotency-Key`: the same call again is answered with what the first one made."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Depends, Header, Request

from core.identity.api_keys import Identity
from core.infra.idempotency import IdempotencyKey


async def _idempotency_key(
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
    return IdempotencyKey.of(identity.organization_id, key, _operation(request), _normalize(await request.body()))


def _normalize(body: bytes) -> bytes:
    """Return JSON without whitespace and with sorted keys, so that equal bodies are equal bytes; others as they are."""
    try:
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return body


def _operation(request: Request) -> str:
    """What is called, and the ids that its path has, in either of its spellings."""
    return json.dumps([request.scope["route"].name, request.path_params], sort_keys=True)


Idempotent = Annotated[IdempotencyKey | None, Depends(_idempotency_key)]
