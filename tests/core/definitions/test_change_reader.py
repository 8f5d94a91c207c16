"""Which transactions change what Dagster shows, and how the code server notices them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from core.definitions.agents.models import AgentUpdate
from core.definitions.agents.repository import AgentRepository
from core.definitions.change_reader import SETTLED_SECONDS, ChangeReader, delete_old_changes
from core.definitions.identity.organizations import create_organization
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.infra.database import Database, execute_update
from core.lifecycle.executions.transitions import end_executions
from core.tables import DefinitionChange, now
from tests.support.clock import Clock
from tests.support.shop import Shop


def changed_by(shop: Shop, change: Callable[[Session], object]) -> list[str]:
    """Run the change in a transaction; return the kinds of the changes that it recorded."""
    newest = select(func.max(DefinitionChange.id))
    with shop.database.write() as session:
        before = session.scalar(newest) or 0
        change(session)
    with shop.database.read() as session:
        kinds = session.scalars(select(DefinitionChange.kind).where(DefinitionChange.id > before))
        return sorted(kinds)


def test_changes_that_dagster_shows_are_recorded(shop: Shop) -> None:
    def jobs(session: Session) -> JobRepository:
        return JobRepository(session, shop.organization_id)

    def agents(session: Session) -> AgentRepository:
        return AgentRepository(session, shop.organization_id)

    def projects(session: Session) -> ProjectRepository:
        return ProjectRepository(session, shop.organization_id)

    text = "pipeline: [{stage: wget, args: ['http://x/']}, {stage: extract, args: [{selector: a, method: text}]}]"
    project, job, agent = shop.project_id, shop.job_id, shop.agent_id
    assert changed_by(shop, lambda session: jobs(session).create(project, JobCreate(name="New"))) == ["jobs"]
    assert changed_by(shop, lambda session: jobs(session).update(project, job, JobUpdate(name="Renamed"))) == ["jobs"]
    assert changed_by(shop, lambda session: jobs(session).update(project, job, JobUpdate(enabled=False))) == ["jobs"]
    planned = AgentUpdate(pipeline_yaml=text)
    assert changed_by(shop, lambda session: agents(session).update(agent, planned)) == ["agents"]
    off = ProjectUpdate(enabled=False)
    assert changed_by(shop, lambda session: projects(session).update(project, off)) == ["projects"]
    assert changed_by(shop, lambda session: create_organization(session, "second")) == ["organizations"]
    assert changed_by(shop, lambda session: agents(session).delete(agent)) == ["agents"]
    assert changed_by(shop, lambda session: jobs(session).delete(project, job, end_executions)) == ["jobs"]
    assert changed_by(shop, lambda session: projects(session).delete(project, end_executions)) == ["projects"]


def test_other_changes_are_not_recorded(shop: Shop) -> None:
    def update_same(session: Session) -> None:
        jobs = JobRepository(session, shop.organization_id)
        name = jobs.get(shop.project_id, shop.job_id).name
        jobs.update(shop.project_id, shop.job_id, JobUpdate(name=name, cloud_credential_ids=[]))

    assert changed_by(shop, update_same) == []


def test_executions_record_no_changes_after_the_first_output(shop: Shop) -> None:
    shop.complete(shop.submit())
    with shop.database.read() as session:
        before = session.scalar(select(func.max(DefinitionChange.id)))
    shop.complete(shop.submit())
    shop.report(shop.submit(), "FAILED", error_message="It broke.")
    with shop.database.read() as session:
        assert session.scalar(select(func.max(DefinitionChange.id))) == before


def test_each_change_is_noticed_once_also_one_that_commits_late(database: Database) -> None:
    clock = Clock()
    reader = ChangeReader(clock)

    def add(change_id: int) -> None:
        with database.write() as session:
            session.add(DefinitionChange(id=change_id, kind="jobs", record_id="1"))

    def poll() -> bool:
        with database.read() as session:
            return reader.has_changes(session)

    assert not poll()
    add(2)
    assert [poll(), poll()] == [True, False]
    add(1)  # of a transaction that began before, and committed after
    assert [poll(), poll()] == [True, False]
    clock.now += SETTLED_SECONDS + 1
    assert [poll(), poll()] == [False, False]
    add(3)
    assert [poll(), poll()] == [True, False]


def test_old_changes_are_deleted_and_their_numbers_are_not_used_again(database: Database) -> None:
    def add() -> int:
        with database.write() as session:
            change = DefinitionChange(kind="jobs", record_id="1")
            session.add(change)
            session.flush()
            return change.id

    old = add()
    with database.write() as session:
        execute_update(session, update(DefinitionChange).values(created_at=now() - timedelta(days=2)))
        delete_old_changes(session)
    with database.read() as session:
        assert session.get(DefinitionChange, old) is None
    assert add() > old
