"""Operations on the pools of the caller's organization."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.pools.models import PoolCreate, PoolUpdate
from core.definitions.pools.repository import PoolRepository
from core.infra.preconditions import Versioned, add_etag
from core.tables import ExecutionPool


def list_pools(
    session: Session, caller: Identity, *, limit: int | None = None, after: str | None = None
) -> Sequence[ExecutionPool]:
    return PoolRepository(session, caller.organization_id).list(limit=limit, after=after)


def get(session: Session, caller: Identity, name: str) -> Versioned[ExecutionPool]:
    return add_etag(PoolRepository(session, caller.organization_id).get(name))


def create(session: Session, caller: Identity, new: PoolCreate) -> Versioned[ExecutionPool]:
    return add_etag(PoolRepository(session, caller.organization_id).create(new))


def update(
    session: Session, caller: Identity, name: str, changes: PoolUpdate, if_match: Collection[str]
) -> Versioned[ExecutionPool]:
    pools = PoolRepository(session, caller.organization_id)
    pools.lock(pools.get(name), if_match)
    return add_etag(pools.update(name, changes))


def delete(session: Session, caller: Identity, name: str, if_match: Collection[str]) -> None:
    pools = PoolRepository(session, caller.organization_id)
    pools.lock(pools.get(name), if_match)
    pools.delete(name)
