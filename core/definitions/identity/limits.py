"""The limits of an organization: those of its own record, else those of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.infra.changes import Changes, example
from core.infra.database import build_upsert
from core.infra.settings import Settings
from core.tables import OrganizationLimits

MAX_COUNT = 1_000_000
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Bytes = Annotated[int, Field(ge=0, le=2**60)]


class LimitsUpdate(Changes):
    """Limits of one organization; one that is null or left out is that of the settings."""

    model_config = example({"executionsAtOnce": 20, "executionsADay": 2000, "storageBytes": 50_000_000_000})

    executions_at_once: Count | None = None
    """How many executions are pending or running; more wait, or are refused with `execution-limit`."""
    executions_a_day: Count | None = None
    """How many executions begin in a day (UTC); more are refused with `daily-limit`."""
    storage_bytes: Bytes | None = None
    """What the kept versions of datasets take; beyond it uploads and executions are refused with `storage-limit`."""
    queries_at_once: Count | None = None
    """How many queries run; more are refused with `concurrency-limit`, and those in the background wait."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that hold for one organization; None without one."""

    executions_at_once: int | None
    executions_a_day: int | None
    storage_bytes: int | None
    queries_at_once: int | None


def load_limits(session: Session, organization_id: str) -> Limits:
    settings: Settings = session.info["settings"]
    own = session.get(OrganizationLimits, organization_id)
    gigabytes = settings.limits.storage_gigabytes
    defaults = {
        "executions_at_once": settings.limits.executions,
        "executions_a_day": settings.limits.daily_executions,
        "storage_bytes": None if gigabytes is None else int(gigabytes * 1e9),
        "queries_at_once": settings.limits.queries,
    }
    chosen = {name: getattr(own, name) for name in defaults if own is not None}
    return Limits(**{name: value if chosen.get(name) is None else chosen[name] for name, value in defaults.items()})


def lock_limits(session: Session, organization_id: str) -> OrganizationLimits:
    """Return the organization's record, locked: what counts against its limits is decided by one after another."""
    query = select(OrganizationLimits).where(OrganizationLimits.organization_id == organization_id)
    query = query.with_for_update(key_share=True).execution_options(populate_existing=True)
    if (found := session.scalar(query)) is None:
        values = {"organization_id": organization_id, "day_executions": 0}
        session.execute(build_upsert(session, OrganizationLimits).values(values).on_conflict_do_nothing())
        found = session.scalars(query).one()
    return found


def change_limits(session: Session, organization_id: str, changes: LimitsUpdate) -> None:
    row = lock_limits(session, organization_id)
    for name in LimitsUpdate.model_fields:
        setattr(row, name, getattr(changes, name))
    session.flush()
