"""Keyset pages: a bare array, and the address of the next page in the `Link` header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Query, Request, Response

from core.repository import Row

MAX_PAGE = 1000


class Page:
    """The part of a list that a request asks for; all of it when no limit is given."""

    def __init__(
        self,
        request: Request,
        response: Response,
        limit: Annotated[int | None, Query(ge=1, le=MAX_PAGE, description="Most records of the answer.")] = None,
        cursor: Annotated[str | None, Query(description="From the `Link` header of the page before.")] = None,
    ) -> None:
        self.limit = limit
        self.after = cursor
        self._request = request
        self._response = response

    def linked(self, rows: Sequence[Row]) -> Sequence[Row]:
        """`rows`, with a link to the next page where there may be one."""
        if self.limit is not None and len(rows) == self.limit:
            following = self._request.url.include_query_params(cursor=rows[-1].id)
            self._response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
        return rows


PageOf = Annotated[Page, Depends()]
