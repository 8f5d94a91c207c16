"""Categories of agents: create, list, read by id or name, update, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.categories.schemas import CategoryRecord, build_category_record
from api.kit.auth import AnyKey, KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import CategoryId, Nothing
from api.kit.sessions import ReadSession, WriteSession
from core.definitions.categories import service as categories
from core.definitions.categories.models import CategoryCreate, CategoryUpdate

router = APIRouter(prefix="/categories", tags=["categories"], route_class=KeyRoute)


@router.get("", summary="List the categories")
def list_categories(caller: Reader, session: ReadSession, page: PageOf) -> list[CategoryRecord]:
    """Return the categories that the key may see, oldest first: the public ones and its own private ones; all of them
    for an admin."""
    found = categories.list_visible(session, caller, limit=page.limit, after=page.after)
    page.link([each.category.id for each in found])
    return [build_category_record(each) for each in found]


@router.post("", dependencies=[REPLAYED], summary="Create a category", responses={**TAGGED, **answers(409)})
def create_category(body: CategoryCreate, caller: Writer, session: WriteSession, response: Response) -> CategoryRecord:
    """Store a category, which groups agents.

    Its name is unique in the organization. A PRIVATE one is visible to its creator's key and to admins.
    """
    return build_category_record(set_etag(response, categories.create(session, caller, body)))


@router.get("/test", summary="Tell that the categories answer")
def categories_answer(_caller: AnyKey) -> Nothing:
    """Return an empty object. Clients call it to check their address and key."""
    return Nothing()


@router.get("/id/{categoryId}", summary="Read a category", responses={**TAGGED, **answers(404)})
def read_category(category_id: CategoryId, caller: Reader, session: ReadSession, response: Response) -> CategoryRecord:
    """Return a category with the ids of its agents."""
    return build_category_record(set_etag(response, categories.get(session, caller, category_id)))


@router.put(
    "/id/{categoryId}",
    summary="Change a category; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 409, 412)},
)
def update_category(
    category_id: CategoryId,
    body: CategoryUpdate,
    caller: Writer,
    session: WriteSession,
    if_match: IfMatch,
    response: Response,
) -> CategoryRecord:
    """Change the fields that the body has."""
    updated = categories.update(session, caller, category_id, body, if_match)
    return build_category_record(set_etag(response, updated))


@router.delete("/id/{categoryId}", summary="Delete a category; its agents stay", responses=answers(404, 412))
def delete_category(category_id: CategoryId, caller: Writer, session: WriteSession, if_match: IfMatch) -> Nothing:
    """Delete a category. Its agents stay, without a category. This cannot be undone."""
    categories.delete(session, caller, category_id, if_match)
    return Nothing()


@router.get("/{categoryName}", summary="Read a category by its name", responses={**TAGGED, **answers(404)})
def read_category_by_name(
    category_name: Annotated[str, Path(alias="categoryName", description="Name of the category.")],
    caller: Reader,
    session: ReadSession,
    response: Response,
) -> CategoryRecord:
    """Return the category with this name. A slash in it is sent as `%2F`."""
    return build_category_record(set_etag(response, categories.get_by_name(session, caller, category_name)))
