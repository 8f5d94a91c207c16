"""Operations on the categories that the caller may see: of the private ones only its own, unless it is an admin."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.categories.models import CategoryCreate, CategoryUpdate
from core.definitions.categories.repository import CategoryRepository, CategoryWithAgents
from core.definitions.identity.api_keys import Identity
from core.infra.preconditions import Versioned, compute_etag
from core.tables import Category


def list_visible(
    session: Session, caller: Identity, *, limit: int | None = None, after: str | None = None
) -> Sequence[CategoryWithAgents]:
    categories = _open_repository(session, caller)
    return categories.load_agent_ids(categories.list(limit=limit, after=after))


def get(session: Session, caller: Identity, category_id: str) -> Versioned[CategoryWithAgents]:
    categories = _open_repository(session, caller)
    return _load(categories, categories.get(category_id))


def get_by_name(session: Session, caller: Identity, name: str) -> Versioned[CategoryWithAgents]:
    categories = _open_repository(session, caller)
    return _load(categories, categories.get_by_name(name))


def create(session: Session, caller: Identity, new: CategoryCreate) -> Versioned[CategoryWithAgents]:
    categories = _open_repository(session, caller)
    return _load(categories, categories.create(new, created_by_key_id=caller.owner_id))


def update(
    session: Session, caller: Identity, category_id: str, changes: CategoryUpdate, if_match: Collection[str]
) -> Versioned[CategoryWithAgents]:
    categories = _open_repository(session, caller)
    categories.lock(categories.get(category_id), if_match)
    return _load(categories, categories.update(category_id, changes))


def delete(session: Session, caller: Identity, category_id: str, if_match: Collection[str]) -> None:
    categories = _open_repository(session, caller)
    categories.lock(categories.get(category_id), if_match)
    categories.delete(category_id)


def _open_repository(session: Session, caller: Identity) -> CategoryRepository:
    return CategoryRepository(session, caller.organization_id, caller.viewer_key_id)


def _load(categories: CategoryRepository, category: Category) -> Versioned[CategoryWithAgents]:
    return Versioned(categories.load_agent_ids([category])[0], compute_etag(category))
