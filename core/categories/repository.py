"""Categories of agents: PUBLIC ones are the organization's, PRIVATE ones their creator's key's and the admins'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from core.errors import BadInput, Conflict, Detail
from core.infra.repository import Repository, lock_organization, validate_fields
from core.infra.validation import check_not_reserved, storable
from core.tables import Agent, Category

VISIBILITIES = ("PUBLIC", "PRIVATE")


class CategoryRepository(Repository[Category]):
    """`viewer_key_id` hides the private categories of other keys; an admin's view goes without."""

    row = Category
    noun = "category"
    fields = frozenset({"name", "description", "icon", "visibility", "enabled"})

    def __init__(self, session: Session, organization_id: str, viewer_key_id: str | None = None) -> None:
        super().__init__(session, organization_id)
        self.viewer_key_id = viewer_key_id

    def create(self, values: Mapping[str, Any], *, created_by_key_id: str | None = None) -> Category:
        """Raises BadInput without a usable name, Conflict when the name is taken."""
        category = self.new(values, created_by_key_id=created_by_key_id)
        self._check_free(category.name)
        self.session.add(category)
        self.session.flush()
        return category

    def new(self, values: Mapping[str, Any], *, created_by_key_id: str | None = None) -> Category:
        """One that is right in itself, not stored yet, of a name that may be taken; or BadInput."""
        known = _checked(values)
        if "name" not in known:
            raise BadInput("A category needs a 'name'.", [Detail("name", "is missing")])
        check_not_reserved(known["name"])
        return Category(organization_id=self.organization_id, created_by_key_id=created_by_key_id, **known)

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[Category]:
        return self._fetch_page(self._select(), limit, after)

    def get(self, category_id: str) -> Category:
        return self._fetch_by_id(category_id)

    def by_name(self, name: str) -> Category:
        if not storable(name):
            raise self._not_found("name")
        return self._fetch_one(self._select().where(Category.name == name), "name")

    def update(self, category_id: str, changes: Mapping[str, Any]) -> Category:
        category, known = self.get(category_id), _checked(changes)
        if known.get("name", category.name) != category.name:
            check_not_reserved(known["name"])
            self._check_free(known["name"])
        return self._apply(category, known)

    def delete(self, category_id: str) -> None:
        """Removes the category; its agents stay, without one."""
        self.session.delete(self.get(category_id))
        self.session.flush()

    def agent_ids(self, categories: Sequence[Category]) -> Mapping[str, Sequence[str]]:
        """Ids of the agents of each category, oldest first."""
        ids = [category.id for category in categories]
        return self._group(select(Agent.category_id, Agent.id).where(Agent.category_id.in_(ids)).order_by(Agent.id))

    def visible_ids(self) -> Select[tuple[str]]:
        return self._select().with_only_columns(Category.id)

    def _select(self) -> Select[tuple[Category]]:
        own = super()._select()
        if self.viewer_key_id is None:
            return own
        return own.where(or_(Category.visibility == "PUBLIC", Category.created_by_key_id == self.viewer_key_id))

    def _check_free(self, name: str) -> None:
        lock_organization(self.session, self.organization_id)
        if self.session.scalar(super()._select().where(Category.name == name)):
            raise Conflict("There is a category with this name already.")


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    known = validate_fields(values, CategoryRepository.fields)
    visibility = known.get("visibility", "PUBLIC").upper()
    if visibility not in VISIBILITIES:
        raise BadInput("'visibility' is PUBLIC or PRIVATE.", [Detail("visibility", "is neither PUBLIC nor PRIVATE")])
    return known | ({"visibility": visibility} if "visibility" in known else {})
