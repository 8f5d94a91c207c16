"""The common parts of requests for streams of events: their header, their key, and their entry in the OpenAPI file."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Header, Request

from api.kit.auth import extract_key
from api.kit.services import Services
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Detail

MAX_DIGITS = 18
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="Id of the last event that arrived; the stream continues there."),
]
STREAM = {"description": "The stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}


def make_key_check(services: Services, request: Request) -> partial[Identity]:
    """Return a function that raises Unauthorized once the request's key is no longer valid."""
    return partial(services.keys.authenticate_uncached, extract_key(request.headers) or "")


def parse_event_id(last_event_id: str | None) -> int | None:
    """Return the id of the last event; raise BadInput for anything but a number."""
    if last_event_id is None:
        return None
    if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= MAX_DIGITS):
        raise BadInput("'Last-Event-ID' is not an id of this stream.", [Detail("Last-Event-ID", "is not a number")])
    return int(last_event_id)
