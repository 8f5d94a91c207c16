"""The headers `ETag` and `If-Match`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Response

from core.infra.preconditions import ANY, Versioned

HEADER = {"ETag": {"description": "Names this state of the record, for `If-Match`.", "schema": {"type": "string"}}}
TAGGED: dict[int | str, dict[str, Any]] = {200: {"headers": HEADER}}

Value = TypeVar("Value")


def set_etag(response: Response, record: Versioned[Value]) -> Value:
    """Set the response's `ETag` header and return the record itself."""
    response.headers["ETag"] = f'"{record.etag}"'
    return record.value


async def _parse_if_match(
    header: Annotated[
        str | None,
        Header(
            alias="If-Match",
            max_length=4096,
            description="The `ETag` of the state that is to be changed; another state answers 412.",
        ),
    ] = None,
) -> Collection[str]:
    """Return the header's ETags without quotes; empty without the header.

    Weak tags (`W/"..."`) stay as they are and so match nothing (RFC 9110, section 13.1.1).
    """
    return [] if header is None else [_unquote(tag.strip()) for tag in header.split(",")]


def _unquote(tag: str) -> str:
    """Remove the quotes; `"*"` keeps them, because it is an ordinary tag and not the wildcard."""
    bare = tag.removeprefix('"').removesuffix('"')
    return tag if bare == ANY else bare


IfMatch = Annotated[Collection[str], Depends(_parse_if_match)]
