"""Organizations: everything else belongs to exactly one."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.slugs import unique_slug
from core.tables import Organization
from core.values import check_name


def create_organization(session: Session, name: str) -> Organization:
    check_name(name)
    slug = unique_slug(name, set(session.scalars(select(Organization.slug))))
    organization = Organization(name=name, slug=slug)
    session.add(organization)
    session.flush()
    return organization


def find_organization(session: Session, name: str) -> Organization | None:
    return session.scalar(select(Organization).where(Organization.name == name))
