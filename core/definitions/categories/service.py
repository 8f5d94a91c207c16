"""Operations on categories, one transaction each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from core.definitions.categories.repository import CategoryRepository, CategoryWithAgents
from core.definitions.identity.api_keys import Identity
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag
from core.tables import Category


class CategoryService:
    """Categories that the caller may see: of the private ones only its own, unless it is an admin."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self, caller: Identity, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[CategoryWithAgents]:
        with self._database.read() as session:
            categories = _open_repository(session, caller)
            return categories.load_agent_ids(categories.list(limit=limit, after=after))

    def get(self, caller: Identity, category_id: str) -> Versioned[CategoryWithAgents]:
        with self._database.read() as session:
            categories = _open_repository(session, caller)
            return _load(categories, categories.get(category_id))

    def get_by_name(self, caller: Identity, name: str) -> Versioned[CategoryWithAgents]:
        with self._database.read() as session:
            categories = _open_repository(session, caller)
            return _load(categories, categories.get_by_name(name))

    def create(self, caller: Identity, values: Mapping[str, Any]) -> Versioned[CategoryWithAgents]:
        with self._database.write() as session:
            categories = _open_repository(session, caller)
            return _load(categories, categories.create(values, created_by_key_id=caller.key_id))

    def update(
        self, caller: Identity, category_id: str, changes: Mapping[str, Any], if_match: Collection[str]
    ) -> Versioned[CategoryWithAgents]:
        with self._database.write() as session:
            categories = _open_repository(session, caller)
            categories.lock(categories.get(category_id), if_match)
            return _load(categories, categories.update(category_id, changes))

    def delete(self, caller: Identity, category_id: str, if_match: Collection[str]) -> None:
        with self._database.write() as session:
            categories = _open_repository(session, caller)
            categories.lock(categories.get(category_id), if_match)
            categories.delete(category_id)


def _open_repository(session: Session, caller: Identity) -> CategoryRepository:
    return CategoryRepository(session, caller.organization_id, caller.viewer_key_id)


def _load(categories: CategoryRepository, category: Category) -> Versioned[CategoryWithAgents]:
    return Versioned(categories.load_agent_ids([category])[0], compute_etag(category))
