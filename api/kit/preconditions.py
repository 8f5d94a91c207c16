"""`ETag` and `If-Match`: a change is made to the state of a record that the caller has seen, or not at all."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Response
from sqlalchemy import RowMapping
from sqlalchemy.orm import Session

from core.identity.api_keys import Identity
from core.infra.preconditions import ANY, edition, hold_edition
from core.tables import Base

HEADER = {"ETag": {"description": "Names this state of the record, for `If-Match`.", "schema": {"type": "string"}}}
TAGGED: dict[int | str, dict[str, Any]] = {200: {"headers": HEADER}}


class Tag:
    """Puts the entity tag of a record into the answer's headers."""

    def __init__(self, response: Response) -> None:
        self._response = response

    def put(self, row: Base | RowMapping) -> None:
        self._response.headers["ETag"] = f'"{edition(row)}"'


class Expected(Tag):
    """What the caller expects the record to be."""

    def __init__(
        self,
        response: Response,
        if_match: Annotated[
            str | None,
            Header(
                alias="If-Match",
                max_length=4096,
                description="The `ETag` of the state that is to be changed; another state answers 412.",
            ),
        ] = None,
    ) -> None:
        super().__init__(response)
        # a weak tag (W/"...") matches nothing here (RFC 9110, section 13.1.1)
        tags = [] if if_match is None else if_match.split(",")
        self._expected = [_opaque(tag.strip()) for tag in tags]

    def hold(self, session: Session, caller: Identity, row: Base, project_id: str | None = None) -> None:
        """Raises PreconditionFailed unless the record, which nobody else can change from now on, is as expected."""
        hold_edition(session, caller.organization_id, row, self._expected, project_id)


def _opaque(tag: str) -> str:
    """The tag without its quotes; `"*"` keeps them, for it is a tag like any other and not the star."""
    bare = tag.removeprefix('"').removesuffix('"')
    return tag if bare == ANY else bare


async def _tag(response: Response) -> Tag:  # a class would be made in a thread
    return Tag(response)


TagOf = Annotated[Tag, Depends(_tag)]
ExpectedOf = Annotated[Expected, Depends()]
