"""Of any number of changes to the state that all have seen, one is made; the others are told so. On both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from core.definitions.agents.models import AgentUpdate
from core.definitions.agents.repository import AgentRepository
from core.definitions.jobs.models import JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.errors import PreconditionFailed
from core.infra.preconditions import compute_etag
from core.tables import Agent, Job, Project
from tests.support.shop import PIPELINE, Shop


def test_one_of_twenty_simultaneous_edits_is_accepted(shop: Shop) -> None:
    with shop.database.read() as session:
        seen = compute_etag(session.get_one(Project, shop.project_id))

    def edit(number: int) -> bool:
        try:
            with shop.database.write() as session:
                projects = ProjectRepository(session, shop.organization_id)
                projects.lock(projects.get(shop.project_id), [seen])
                projects.update(shop.project_id, ProjectUpdate(description=str(number)))
        except PreconditionFailed:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        made = list(pool.map(edit, range(20)))
    assert sum(made) == 1
    with shop.database.read() as session:
        assert session.get_one(Project, shop.project_id).description == str(made.index(True))


def test_edits_of_different_fields_at_once_lose_nothing(shop: Shop) -> None:
    fields: list[dict[str, Any]] = [{"description": "kept"}, {"parameters": {"A": 1}}, {"name": "Renamed"}] * 4

    def edit(change: dict[str, Any]) -> None:
        with shop.database.write() as session:
            jobs = JobRepository(session, shop.organization_id)
            jobs.lock(jobs.get(shop.project_id, shop.job_id), [])
            jobs.update(shop.project_id, shop.job_id, JobUpdate(**change))

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(edit, fields))
    with shop.database.read() as session:
        job = session.get_one(Job, shop.job_id)
    assert (job.description, job.parameters, job.name) == ("kept", {"A": 1}, "Renamed")


def test_every_new_text_of_an_agent_is_a_revision_of_its_own(shop: Shop) -> None:
    def write(number: int) -> None:
        with shop.database.write() as session:
            agents = AgentRepository(session, shop.organization_id)
            agents.lock(agents.get(shop.agent_id), ["*"])
            agents.update(shop.agent_id, AgentUpdate(pipeline_yaml=PIPELINE.replace("h1", f"h1.x{number}")))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(write, range(10)))
    with shop.database.read() as session:
        assert session.get_one(Agent, shop.agent_id).revision == 11


def test_executing_is_no_edit_and_works_during_edits(shop: Shop) -> None:
    def read_etag() -> str:
        with shop.database.read() as session:
            return compute_etag(session.get_one(Job, shop.job_id))

    def edit(number: int) -> None:
        with shop.database.write() as session:
            jobs = JobRepository(session, shop.organization_id)
            jobs.lock(jobs.get(shop.project_id, shop.job_id), [])
            jobs.update(shop.project_id, shop.job_id, JobUpdate(description=str(number)))

    before = read_etag()
    execution = shop.submit()
    shop.report(execution, "FAILED")
    assert read_etag() == before
    with ThreadPoolExecutor(8) as pool:
        edits = [pool.submit(edit, number) for number in range(20)]
        ends = [pool.submit(lambda: shop.complete(shop.submit(queue=True))) for _ in range(10)]
        for each in (*edits, *ends):
            each.result()
    assert read_etag() != before
