"""Proven selectors of prompts: list, read, change, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from api.selectors.schemas import SelectorsRecord, build_selectors_record
from core.definitions.selectors import service as selectors
from core.definitions.selectors.service import SelectorsUpdate

router = APIRouter(prefix="/selectors", tags=["selectors"], route_class=KeyRoute)
SelectorsId = Annotated[str, Path(alias="selectorsId", description="Id of the proven selectors.")]


@router.get("", summary="List the proven selectors")
def list_selectors(
    caller: Reader,
    services: ServicesOf,
    host: Annotated[str | None, Query(description="Only those of this host.")] = None,
) -> list[SelectorsRecord]:
    """Return the proven selectors of prompts, by host: with scores, sample pages, model, tokens and cost."""
    return [build_selectors_record(each) for each in selectors.list_selectors(services.storage, caller, host)]


@router.get("/{selectorsId}", summary="Read proven selectors", responses=answers(404))
def read_selectors(selectors_id: SelectorsId, caller: Reader, services: ServicesOf) -> SelectorsRecord:
    """Return the proven selectors of one host, template and prompt."""
    return build_selectors_record(selectors.get_selectors(services.storage, caller, selectors_id))


@router.put("/{selectorsId}", summary="Pin or edit proven selectors", responses=answers(404))
def update_selectors(
    selectors_id: SelectorsId, body: SelectorsUpdate, caller: Writer, services: ServicesOf
) -> SelectorsRecord:
    """Change what the body has; selectors are checked as those of a model are."""
    return build_selectors_record(selectors.update_selectors(services.storage, caller, selectors_id, body))


@router.delete("/{selectorsId}", summary="Delete proven selectors", responses=answers(404))
def delete_selectors(selectors_id: SelectorsId, caller: Writer, services: ServicesOf) -> Nothing:
    """Delete proven selectors; the next run infers them again."""
    selectors.delete_selectors(services.storage, caller, selectors_id)
    return Nothing()
