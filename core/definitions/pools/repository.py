"""The pools of one organization, by their names."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select

from core.definitions.pools.models import PoolCreate, PoolUpdate
from core.errors import BadInput, Conflict
from core.infra.repository import Repository, lock_organization
from core.infra.validation import is_storable
from core.tables import ExecutionPool, Job, Project

MAX_POOLS = 1000
SHOWN_JOBS = 5


class PoolRepository(Repository[ExecutionPool]):
    """The pools of one organization."""

    row = ExecutionPool
    noun = "pool"

    def create(self, new: PoolCreate) -> ExecutionPool:
        """Store a new pool; raise Conflict when its name is taken, BadInput at the limit of pools."""
        lock_organization(self.session, self.organization_id)
        if self.session.scalar(self._select().where(ExecutionPool.name == new.name)):
            raise Conflict("There is a pool with this name already.", path="name", code="name-taken")
        count = select(func.count()).where(ExecutionPool.organization_id == self.organization_id)
        if (self.session.scalar(count) or 0) >= MAX_POOLS:
            raise BadInput(f"This organization has {MAX_POOLS} pools, which is the limit.", code="too-large")
        pool = self.build(new)
        self.session.add(pool)
        self.session.flush()
        return pool

    def build(self, new: PoolCreate) -> ExecutionPool:
        """Return a pool that is not stored yet: its name may be taken."""
        return ExecutionPool(organization_id=self.organization_id, **new.to_columns())

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[ExecutionPool]:
        return self._fetch_page(self._select(), limit, after)

    def get(self, name: str) -> ExecutionPool:
        if not is_storable(name):
            raise self._not_found("name")
        return self._fetch_one(self._select().where(ExecutionPool.name == name), "name")

    def update(self, name: str, changes: PoolUpdate) -> ExecutionPool:
        return self._apply(self.get(name), changes.to_columns())

    def delete(self, name: str) -> None:
        """Delete the pool; raise Conflict while jobs name it. Executions that wait for it do not any more."""
        pool = self.get(name)
        query = select(Project.name, Job.name, Job.pools).join(Project, Project.id == Job.project_id)
        rows = self.session.execute(query.where(Job.organization_id == self.organization_id).order_by(Job.id)).tuples()
        named = [f"{project}/{job}" for project, job, pools in rows if name in pools]
        if named:
            more = f" and {len(named) - SHOWN_JOBS} more" if len(named) > SHOWN_JOBS else ""
            sentence = f"The pool '{name}' is named by {', '.join(named[:SHOWN_JOBS])}{more}: change these jobs first."
            raise Conflict(sentence, code="pool-in-use")
        self.session.delete(pool)
        self.session.flush()
