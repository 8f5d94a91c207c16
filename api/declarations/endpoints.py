"""Declarations: export the records as one, and apply one, all or nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from api.declarations.schemas import AppliedChanges, build_applied_changes
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession
from core.integrations.declarations import service as declarations
from core.integrations.declarations.models import Declaration

router = APIRouter(tags=["declarations"], route_class=KeyRoute)


@router.get(
    "/export",
    summary="The categories, agents, projects and jobs as a declaration",
    description="Without defaults and secrets. Where two records share a name it is 409.",
    response_model_exclude_none=True,
    responses=answers(409),
)
def export_declaration(caller: Reader, session: ReadSession) -> Declaration:
    return declarations.export(session, caller)


@router.post(
    "/apply",
    dependencies=[REPLAYED],
    summary="Create and change the categories, agents, projects and jobs of a declaration",
    description="One transaction: all of it, or nothing where a record is not valid. Records are matched by name.",
    responses=answers(409),
)
def apply_declaration(
    body: Declaration,
    caller: Writer,
    services: ServicesOf,
    dry_run: Annotated[bool, Query(alias="dryRun", description="Return the changes without making them.")] = False,
    prune: Annotated[bool, Query(description="Delete records that a section of the declaration omits.")] = False,
) -> AppliedChanges:
    return build_applied_changes(
        declarations.apply(services.database, services.settings, caller, body, dry_run=dry_run, prune=prune)
    )
