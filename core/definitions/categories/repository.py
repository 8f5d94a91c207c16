"""Categories of agents: PUBLIC for the whole organization, PRIVATE for the key that created them and for admins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from core.definitions.categories.models import CategoryCreate, CategoryUpdate
from core.errors import Conflict
from core.infra.repository import Repository, lock_organization
from core.infra.validation import check_not_reserved, is_storable
from core.tables import Agent, Category


@dataclass(frozen=True, slots=True)
class CategoryWithAgents:
    """A category and the ids of its agents, oldest first."""

    category: Category
    agent_ids: Sequence[str]


class CategoryRepository(Repository[Category]):
    """The categories of one organization; with a `viewer_key_id` without the private ones of other keys."""

    row = Category
    noun = "category"

    def __init__(self, session: Session, organization_id: str, viewer_key_id: str | None = None) -> None:
        super().__init__(session, organization_id)
        self.viewer_key_id = viewer_key_id

    def create(self, new: CategoryCreate, *, created_by_key_id: str | None = None) -> Category:
        """Store a new category; raise BadInput without a valid name, Conflict when the name is taken."""
        category = self.build(new, created_by_key_id=created_by_key_id)
        self._check_name_is_free(category.name)
        self.session.add(category)
        self.session.flush()
        return category

    def build(self, new: CategoryCreate, *, created_by_key_id: str | None = None) -> Category:
        """Return a valid category that is not stored yet: its name may be taken."""
        columns = new.to_columns()
        check_not_reserved(new.name)
        return Category(organization_id=self.organization_id, created_by_key_id=created_by_key_id, **columns)

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[Category]:
        return self._fetch_page(self._select(), limit, after)

    def get(self, category_id: str) -> Category:
        return self._fetch_by_id(category_id)

    def get_by_name(self, name: str) -> Category:
        if not is_storable(name):
            raise self._not_found("name")
        return self._fetch_one(self._select().where(Category.name == name), "name")

    def update(self, category_id: str, changes: CategoryUpdate) -> Category:
        category, columns = self.get(category_id), changes.to_columns()
        if changes.name is not None and changes.name != category.name:
            check_not_reserved(changes.name)
            self._check_name_is_free(changes.name)
        return self._apply(category, columns)

    def delete(self, category_id: str) -> None:
        """Delete the category; its agents stay, without a category."""
        self.session.delete(self.get(category_id))
        self.session.flush()

    def load_agent_ids(self, categories: Sequence[Category]) -> Sequence[CategoryWithAgents]:
        query = select(Agent.category_id, Agent.id).where(Agent.category_id.in_([each.id for each in categories]))
        agent_ids = self._group(query.order_by(Agent.id))
        return [CategoryWithAgents(each, agent_ids.get(each.id, ())) for each in categories]

    def select_visible_ids(self) -> Select[tuple[str]]:
        return self._select().with_only_columns(Category.id)

    def _select(self) -> Select[tuple[Category]]:
        query = super()._select()
        if self.viewer_key_id is None:
            return query
        return query.where(or_(Category.visibility == "PUBLIC", Category.created_by_key_id == self.viewer_key_id))

    def _check_name_is_free(self, name: str) -> None:
        """Raise Conflict when the organization has a category of this name, visible or not."""
        lock_organization(self.session, self.organization_id)
        if self.session.scalar(super()._select().where(Category.name == name)):
            raise Conflict("There is a category with this name already.", path="name", code="name-taken")
