"""Categories of agents."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from sqlalchemy.orm import Session

from api.categories.schemas import CategoryCreate, CategoryRecord, CategoryUpdate, category_record
from api.kit.auth import AnyKey, KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, ExpectedOf, TagOf
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from core.categories.repository import CategoryRepository
from core.identity.api_keys import Identity
from core.tables import Category

router = APIRouter(prefix="/categories", tags=["categories"], route_class=KeyRoute)
CategoryId = Annotated[str, Path(alias="categoryId", description="Id of the category.")]


def visible(session: Session, caller: Identity) -> CategoryRepository:
    """The categories that the caller may see: of the private ones only its own, unless it is an admin."""
    return CategoryRepository(session, caller.organization_id, None if caller.admin else caller.key_id)


def _record(repository: CategoryRepository, category: Category) -> CategoryRecord:
    return category_record(category, repository.agent_ids([category]).get(category.id, ()))


@router.get("", summary="List the categories")
def list_categories(caller: Reader, services: ServicesOf, page: PageOf) -> list[CategoryRecord]:
    with services.database.read() as session:
        repository = visible(session, caller)
        categories = page.linked(repository.list(limit=page.limit, after=page.after))
        agent_ids = repository.agent_ids(categories)
        return [category_record(category, agent_ids.get(category.id, ())) for category in categories]


@router.post("", summary="Create a category", responses={**TAGGED, **answers(409)})
def create_category(body: CategoryCreate, caller: Writer, services: ServicesOf, tag: TagOf) -> CategoryRecord:
    with services.database.write() as session:
        category = visible(session, caller).create(body.values(), created_by_key_id=caller.key_id)
        tag.put(category)
        return category_record(category, ())


@router.get("/test", summary="Tell that the categories answer")
def categories_answer(_caller: AnyKey) -> Nothing:
    return Nothing()


@router.get("/id/{categoryId}", summary="Read a category", responses={**TAGGED, **answers(404)})
def read_category(category_id: CategoryId, caller: Reader, services: ServicesOf, tag: TagOf) -> CategoryRecord:
    with services.database.read() as session:
        repository = visible(session, caller)
        category = repository.get(category_id)
        tag.put(category)
        return _record(repository, category)


@router.put(
    "/id/{categoryId}",
    summary="Change a category; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 409, 412)},
)
def update_category(
    category_id: CategoryId, body: CategoryUpdate, caller: Writer, services: ServicesOf, expected: ExpectedOf
) -> CategoryRecord:
    with services.database.write() as session:
        repository = visible(session, caller)
        expected.hold(session, caller, repository.get(category_id))
        category = repository.update(category_id, body.values())
        expected.put(category)
        return _record(repository, category)


@router.delete("/id/{categoryId}", summary="Delete a category; its agents stay", responses=answers(404, 412))
def delete_category(category_id: CategoryId, caller: Writer, services: ServicesOf, expected: ExpectedOf) -> Nothing:
    with services.database.write() as session:
        repository = visible(session, caller)
        expected.hold(session, caller, repository.get(category_id))
        repository.delete(category_id)
    return Nothing()


@router.get("/{categoryName}", summary="Read a category by its name", responses={**TAGGED, **answers(404)})
def read_category_by_name(
    category_name: Annotated[str, Path(alias="categoryName")], caller: Reader, services: ServicesOf, tag: TagOf
) -> CategoryRecord:
    with services.database.read() as session:
        repository = visible(session, caller)
        category = repository.by_name(category_name)
        tag.put(category)
        return _record(repository, category)
