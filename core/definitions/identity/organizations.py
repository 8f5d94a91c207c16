"""Organizations: every other record belongs to exactly one."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.errors import Conflict, NotFound
from core.infra.slugs import make_unique_slug
from core.infra.validation import check_name, is_storable
from core.tables import Organization


def create_organization(session: Session, name: str) -> Organization:
    check_name(name)
    if find_organization(session, name):
        raise Conflict("An organization with this name exists already.", code="name-taken", path="name")
    slug = make_unique_slug(name, set(session.scalars(select(Organization.slug))))
    organization = Organization(name=name, slug=slug)
    session.add(organization)
    session.flush()
    return organization


def list_organizations(session: Session) -> Sequence[Organization]:
    """Return all organizations of the instance; callers need the scope super_admin."""
    return session.scalars(select(Organization).order_by(Organization.id)).all()


def is_shared(session: Session) -> bool:
    """Return whether the instance has more than one organization."""
    return len(session.scalars(select(Organization.id).limit(2)).all()) > 1


def get_organization(session: Session, organization_id: str) -> Organization:
    return session.get_one(Organization, organization_id)


def get_visible_organization(session: Session, own_id: str, organization_id: str, *, others: bool) -> Organization:
    """Return the caller's own organization, or with `others` any; raise NotFound otherwise."""
    visible = is_storable(organization_id) and (others or organization_id == own_id)
    found = session.get(Organization, organization_id) if visible else None
    if found is None:
        raise NotFound("There is no organization with this id.")
    return found


def find_organization(session: Session, name: str) -> Organization | None:
    return session.scalar(select(Organization).where(Organization.name == name))
