"""Pools of executions: create, list, read, update, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import Nothing
from api.kit.sessions import ReadSession, WriteSession
from api.pools.schemas import PoolRecord
from core.definitions.pools import service as pools
from core.definitions.pools.models import PoolCreate, PoolUpdate

router = APIRouter(prefix="/pools", tags=["pools"], route_class=KeyRoute)
PoolPath = Annotated[str, Path(alias="poolName", description="Name of the pool.")]


@router.get("", summary="List the pools")
def list_pools(caller: Reader, session: ReadSession, page: PageOf) -> list[PoolRecord]:
    """Return the organization's pools, oldest first."""
    found = pools.list_pools(session, caller, limit=page.limit, after=page.after)
    page.link([each.id for each in found])
    return [PoolRecord.from_row(each) for each in found]


@router.post("", dependencies=[REPLAYED], summary="Create a pool", responses={**TAGGED, **answers(409)})
def create_pool(body: PoolCreate, caller: Writer, session: WriteSession, response: Response) -> PoolRecord:
    """Store a pool, which limits how many executions of the jobs that name it run at once, in all projects.

    Its name is unique in the organization.
    """
    return PoolRecord.from_row(set_etag(response, pools.create(session, caller, body)))


@router.get("/{poolName}", summary="Read a pool", responses={**TAGGED, **answers(404)})
def read_pool(name: PoolPath, caller: Reader, session: ReadSession, response: Response) -> PoolRecord:
    """Return a pool with its limit."""
    return PoolRecord.from_row(set_etag(response, pools.get(session, caller, name)))


@router.put("/{poolName}", summary="Change the limit of a pool", responses={**TAGGED, **answers(404, 412)})
def update_pool(
    name: PoolPath, body: PoolUpdate, caller: Writer, session: WriteSession, if_match: IfMatch, response: Response
) -> PoolRecord:
    """Change the limit. Executions that run already go on, also above a smaller one."""
    return PoolRecord.from_row(set_etag(response, pools.update(session, caller, name, body, if_match)))


@router.delete("/{poolName}", summary="Delete a pool that no job names", responses=answers(404, 409, 412))
def delete_pool(name: PoolPath, caller: Writer, session: WriteSession, if_match: IfMatch) -> Nothing:
    """Delete a pool. Executions that waited for it begin."""
    pools.delete(session, caller, name, if_match)
    return Nothing()
