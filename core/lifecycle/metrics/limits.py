"""The limits of an organization and their present use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from core.data.datasets.storage_limit import sum_stored
from core.data.sql.query_limit import count_running
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.limits import Limits, LimitsUpdate, change_limits, load_limits
from core.definitions.identity.organizations import get_visible_organization, list_organizations
from core.lifecycle.executions.organization_limits import count_active, count_of_day, find_midnight
from core.lifecycle.metrics.service import SUPER_ADMIN
from core.tables import OrganizationLimits, now


@dataclass(frozen=True, slots=True)
class LimitsInUse:
    """The limits of an organization and their use, by the same names. A new day begins at `next_day`."""

    organization_id: str
    limits: Limits
    used: Mapping[str, int]
    next_day: datetime


def get_limits(session: Session, caller: Identity, organization_id: str) -> LimitsInUse:
    """Return the limits of the caller's organization, or for a super admin of any. Raises NotFound for others."""
    others = caller.may(SUPER_ADMIN)
    return _load(session, get_visible_organization(session, caller.organization_id, organization_id, others=others).id)


def set_limits(session: Session, caller: Identity, organization_id: str, changes: LimitsUpdate) -> LimitsInUse:
    """Set the limits of any organization, for a super admin. Raises NotFound."""
    owner = get_visible_organization(session, caller.organization_id, organization_id, others=True).id
    change_limits(session, owner, changes)
    return _load(session, owner)


def list_limited(session: Session) -> list[tuple[str, LimitsInUse]]:
    """Return the organizations that have a limit, by their slugs."""
    return [
        (each.slug, _load(session, each.id))
        for each in list_organizations(session)
        if any(limit is not None for limit in asdict(load_limits(session, each.id)).values())
    ]


def _load(session: Session, owner: str) -> LimitsInUse:
    at = now()
    used = {
        "executions_at_once": count_active(session, owner),
        "executions_a_day": count_of_day(session, session.get(OrganizationLimits, owner), owner, at),
        "storage_bytes": sum_stored(session, owner),
        "queries_at_once": count_running(session, owner),
    }
    return LimitsInUse(owner, load_limits(session, owner), used, find_midnight(at) + timedelta(days=1))
