"""Which queued executions have room: a slot of their project and of its organization, and a place in all their pools.

An execution holds its places as long as it holds its project's slot, so the executions themselves are the count. A pool
that was deleted has no limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, or_, select, update
from sqlalchemy.orm import Session

from core.definitions.identity.limits import load_limits, lock_limits
from core.infra.database import execute_update
from core.lifecycle.executions.organization_limits import is_full
from core.tables import Execution, ExecutionPool, Project, now
from core.tables.executions import QUEUED
from core.tables.states import State

MAX_CONCURRENT_EXECUTIONS = 10
PROJECT, ORGANIZATION = "project", "organization"
MAX_TURNS = 100  # projects that a pool remembers


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The pools of an organization by their names: limits, places that are taken, and projects by their last turn."""

    limits: Mapping[str, int]
    taken: Counter[str]
    turns: Mapping[str, Sequence[str]]

    def list_full(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.taken[name] >= self.limits.get(name, self.taken[name] + 1)]

    def find_turn(self, names: Iterable[str], project_id: str) -> int:
        """Return the position of the project's last turn in one of these pools, -1 for none."""
        turns = (self.turns.get(name, ()) for name in names)
        return max((each.index(project_id) for each in turns if project_id in each), default=-1)


@dataclass(frozen=True, slots=True)
class Waiter:
    """A queued execution that has room, which it may share with those of other projects.

    `turn` grows with the time of its project's last turn in its pools.
    """

    id: str
    project_id: str
    pools: Sequence[str]
    shares: bool
    turn: int


def load_use(session: Session, organization_id: str) -> PoolUse:
    """Return the use of the organization's pools as this transaction sees it."""
    query = select(ExecutionPool.name, ExecutionPool.limit, ExecutionPool.turns)
    pools = session.execute(query.where(ExecutionPool.organization_id == organization_id)).tuples().all()
    holding = (Execution.organization_id == organization_id, Execution.holds_slot)
    taken = Counter(name for names in session.scalars(select(Execution.pools).where(*holding)) for name in names)
    return PoolUse({name: limit for name, limit, _ in pools}, taken, {name: turns for name, _, turns in pools})


def list_waiters(session: Session, *conditions: ColumnElement[bool]) -> list[Waiter]:
    """Return the queued executions that have room and need not pause any more, in the order of their acceptance."""
    waiting = session.scalars(select(Execution.organization_id).where(QUEUED, *conditions).distinct()).all()
    owners = [each for each in waiting if not is_full(session, each)]
    if not owners:
        return []
    due = or_(Execution.retry_at.is_(None), Execution.retry_at <= now())
    query = select(Execution.id, Execution.organization_id, Execution.project_id, Execution.pools)
    query = query.join(Project, Project.id == Execution.project_id).where(QUEUED, due, *conditions)
    query = query.where(Project.active_executions < MAX_CONCURRENT_EXECUTIONS).order_by(Execution.id)
    rows = session.execute(query.where(Execution.organization_id.in_(owners))).tuples().all()
    uses = {owner: load_use(session, owner) for owner in {owner for _, owner, _, pools in rows if pools}}
    nothing = PoolUse({}, Counter(), {})
    limited = {each for _, each, _, _ in rows if load_limits(session, each).executions_at_once is not None}
    return [
        Waiter(row_id, project_id, pools, bool(pools) or owner in limited, use.find_turn(pools, project_id))
        for row_id, owner, project_id, pools in rows
        if not (use := uses.get(owner, nothing)).list_full(pools)
    ]


def find_next(session: Session) -> str | None:
    """Return the id of the queued execution that begins next: projects take turns in their pools.

    Those of one project begin in the order of their acceptance, as far as they have room.
    """
    first: dict[str, Waiter] = {}
    for waiter in list_waiters(session):
        first.setdefault(waiter.project_id, waiter)
    found = min(first.values(), key=lambda each: (each.turn, each.id), default=None)
    return found.id if found else None


def lock_pools(session: Session, execution: Execution) -> None:
    """Let only one transaction at a time take places in the execution's pools; the caller has locked the project."""
    if execution.pools:
        session.execute(_select_pools(execution).with_for_update(key_share=True))


def find_full_pools(session: Session, execution: Execution, others: Sequence[Waiter]) -> list[str]:
    """Return the pools of an execution that are full, or will be when the others have begun."""
    if not execution.pools:
        return []
    use = load_use(session, execution.organization_id)
    use.taken.update(name for each in others for name in each.pools)
    return use.list_full(execution.pools)


def find_full_organization(session: Session, execution: Execution) -> list[str]:
    """Return ORGANIZATION where it has as many executions as it may at once, and lock its limits as pools are.

    As with pools, what others wait for is not free for one that does not.
    """
    owner = execution.organization_id
    if load_limits(session, owner).executions_at_once is None:
        return []
    lock_limits(session, owner)
    comes_first = execution.state == State.QUEUED or is_full(session, owner)
    others = [] if comes_first else list_waiters(session, Execution.organization_id == owner)
    return [ORGANIZATION] if is_full(session, owner, len(others)) else []


def note_turns(session: Session, execution: Execution) -> None:
    """Put the execution's project at the end of the turns of its pools, which are locked."""
    for pool_id, turns in session.execute(_select_pools(execution)).tuples() if execution.pools else ():
        later = [*(each for each in turns if each != execution.project_id), execution.project_id][-MAX_TURNS:]
        values = {"turns": later, "updated_at": ExecutionPool.updated_at}
        execute_update(session, update(ExecutionPool).where(ExecutionPool.id == pool_id).values(values))


def find_obstacles(session: Session, records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the limits that the queued executions among these wait for; no limits for the others.

    A limit is `project`, `organization` or `pool NAME`. An execution that pauses before its next attempt waits for no
    limit.
    """
    waiting = [each for each in records if each["state"] == State.QUEUED and (each["retry_at"] or now()) <= now()]
    if not waiting:
        return [[] for _ in records]
    theirs = Project.id.in_({each["project_id"] for each in waiting})
    full = select(Project.id).where(theirs, Project.active_executions >= MAX_CONCURRENT_EXECUTIONS)
    projects = {project_id: [PROJECT] for project_id in session.scalars(full)}
    owner = waiting[0]["organization_id"]
    organization = [ORGANIZATION] if is_full(session, owner) else []
    use = load_use(session, owner)
    return [
        [
            *projects.get(each["project_id"], ()),
            *organization,
            *(f"pool {name}" for name in use.list_full(each["pools"])),
        ]
        if each in waiting
        else []
        for each in records
    ]


def _select_pools(execution: Execution) -> Select[tuple[str, list[str]]]:
    mine = (ExecutionPool.organization_id == execution.organization_id, ExecutionPool.name.in_(execution.pools))
    return select(ExecutionPool.id, ExecutionPool.turns).where(*mine).order_by(ExecutionPool.name)
