"""The headers `ETag` and `If-Match`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Response
from sqlalchemy import RowMapping
from sqlalchemy.orm import Session

from core.executions.transitions import lock_project
from core.identity.api_keys import Identity
from core.infra.preconditions import ANY, Versioned, compute_etag
from core.infra.repository import lock_organization, lock_row
from core.tables import Base

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


class Tag:
    """To be removed: use `set_etag`."""

    def __init__(self, response: Response) -> None:
        self._response = response

    def put(self, row: Base | RowMapping) -> None:
        self._response.headers["ETag"] = f'"{compute_etag(row)}"'


class Expected(Tag):
    """To be removed: pass `IfMatch` to a service."""

    def __init__(self, response: Response, if_match: IfMatch) -> None:
        super().__init__(response)
        self._if_match = if_match

    def hold(self, session: Session, caller: Identity, row: Base, project_id: str | None = None) -> None:
        lock_organization(session, caller.organization_id)
        if project_id is not None:
            lock_project(session, project_id)
        lock_row(session, caller.organization_id, row, self._if_match)


async def _tag(response: Response) -> Tag:
    return Tag(response)


TagOf = Annotated[Tag, Depends(_tag)]
ExpectedOf = Annotated[Expected, Depends()]
