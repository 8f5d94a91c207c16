"""Keyset pagination: the body is a bare array, and the `Link` header has the URL of the next page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request, Response

from api.kit.services import get_services
from core.errors import BadInput
from core.tables import ApiKey, AuditEntry, CloudCredential, Dataset, Person, StoredQuery, Webhook

MAX_PAGE = 1000
MAX_DIGITS = 9
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Row = TypeVar("Row", ApiKey, AuditEntry, CloudCredential, Dataset, Person, StoredQuery, Webhook)


class Page:
    """The requested part of a list: at most `limit` records after the cursor; all records without a limit."""

    def __init__(
        self,
        request: Request,
        response: Response,
        limit: Annotated[int | None, Query(ge=1, le=MAX_PAGE, description="Most records of the answer.")] = None,
        cursor: Annotated[str | None, Query(description="From the `Link` header of the page before.")] = None,
    ) -> None:
        self.limit = limit
        self.following: str | None = None
        """The query of the next page's address; None where this is the last one."""
        self._cursor = cursor
        self._request = request
        self._response = response

    @property
    def after(self) -> str | None:
        """Return the cursor of a list whose ids are UUIDs. Raises BadInput for another text."""
        if self._cursor is not None and not _UUID.fullmatch(self._cursor):
            raise _describe_invalid_cursor()
        return self._cursor

    @property
    def number(self) -> int | None:
        """Return the cursor of a list whose ids are integers. Raises BadInput for another text."""
        if self._cursor is None:
            return None
        if not (self._cursor.isascii() and self._cursor.isdecimal() and len(self._cursor) <= MAX_DIGITS):
            raise _describe_invalid_cursor()
        return int(self._cursor)

    def link_rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows; link the next page if there may be one."""
        self.link([row.id for row in rows])
        return rows

    def link(self, ids: Sequence[str | int]) -> None:
        """Set the `Link` header if this page is full."""
        if self.limit is not None and len(ids) == self.limit:
            following = self._request.url.include_query_params(cursor=ids[-1])
            self.following = following.query
            public = get_services(self._request).settings.api.public_url
            base = public.rstrip("/") if public else f"{following.scheme}://{following.netloc}"
            self._response.headers["Link"] = f'<{base}{following.path}?{following.query}>; rel="next"'


def _describe_invalid_cursor() -> BadInput:
    return BadInput("'cursor' does not belong to this list.", code="invalid-cursor", path="cursor")


PageOf = Annotated[Page, Depends()]
