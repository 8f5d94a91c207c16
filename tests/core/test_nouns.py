"""Projects, categories, agents and jobs: names, merging, deletion, and what belongs to whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.repository import DatasetRepository
from core.data.sql.catalog import Catalog
from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.repository import AgentRepository
from core.definitions.agents.texts import check_texts
from core.definitions.categories.models import CategoryCreate
from core.definitions.categories.repository import CategoryRepository
from core.definitions.credentials.models import CredentialCreate
from core.definitions.credentials.repository import CredentialRepository
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.errors import BadInput, Conflict, NotFound
from core.infra.encryption import KeyRing
from core.infra.secrets import load_service_key
from core.lifecycle.executions.repository import ExecutionRepository
from core.tables import Dataset, Execution, OutboxMessage, Task
from tests.support.cases import each_case
from tests.support.shop import PIPELINE, Shop

FLOW = "{'pipeline': [{stage: wget, args: ['http://x/']}], spindle: {keepColumns: [_url]}}"
UNKNOWN = "01a1fdfc-0000-7000-8000-000000000000"


class TestProjects:
    def test_slugs_are_unique_and_stay_under_rename(self, shop: Shop) -> None:
        with shop.database.write() as session:
            projects = ProjectRepository(session, shop.organization_id)
            same = projects.create(ProjectCreate(name="shop"))
            reserved = projects.create(ProjectCreate(name="Default"))
            hidden = projects.create(ProjectCreate(name="Information Schema"))
            renamed = projects.update(shop.project_id, ProjectUpdate(name="Renamed"))
            slugs = (same.slug, reserved.slug, hidden.slug, renamed.slug)
            assert slugs == ("shop_2", "default_2", "information_schema_2", "shop")

    def test_update_merges(self, shop: Shop) -> None:
        with shop.database.write() as session:
            projects = ProjectRepository(session, shop.organization_id)
            projects.update(shop.project_id, ProjectUpdate(name="Shop", description="Toys.", parameters={"A": 1}))
            project = projects.update(
                shop.project_id, ProjectUpdate(name=None, description=None, enabled=False, id="x", slug="x")
            )
            assert (project.name, project.description, project.enabled) == ("Shop", "Toys.", False)
            assert (project.id, project.slug, project.parameters) == (shop.project_id, "shop", {"A": 1})

    def test_names_are_unique_in_an_organization(self, shop: Shop, other_shop: Shop) -> None:
        with shop.database.write() as session:
            projects = ProjectRepository(session, shop.organization_id)
            with pytest.raises(Conflict):
                projects.create(ProjectCreate(name="Shop"))
            second = projects.create(ProjectCreate(name="Second"))
            with pytest.raises(Conflict):
                projects.update(second.id, ProjectUpdate(name="Shop"))

    @each_case("name", ["", "  ", "test", "id", "admin", "query", "upload", "x" * 256, "a\0b", "\ud800"])
    def test_unusable_names_are_refused(self, shop: Shop, name: str) -> None:
        with shop.database.write() as session:
            projects = ProjectRepository(session, shop.organization_id)
            for write in (
                lambda: projects.create(ProjectCreate(name=name)),
                lambda: projects.update(shop.project_id, ProjectUpdate(name=name)),
            ):
                with pytest.raises(BadInput) as error:
                    write()
                assert error.value.details[0].path == "name"

    @each_case("value", [{"a": "\0"}, {"\ud800": 1}, {"a": [float("inf")]}])
    def test_parameters_that_cannot_be_stored_are_refused(self, shop: Shop, value: dict[str, Any]) -> None:
        with shop.database.write() as session, pytest.raises(BadInput, match="parameters"):
            ProjectRepository(session, shop.organization_id).update(shop.project_id, ProjectUpdate(parameters=value))

    def test_by_name_and_pages(self, shop: Shop) -> None:
        with shop.database.write() as session:
            projects = ProjectRepository(session, shop.organization_id)
            ids = [shop.project_id, *(projects.create(ProjectCreate(name=f"P{n}")).id for n in range(4))]
            assert projects.get_by_name("P2").id == ids[3]
            assert [project.id for project in projects.list()] == ids
            assert [project.id for project in projects.list(limit=2, after=ids[1])] == ids[2:4]
            assert [list(each.job_ids) for each in projects.list_with_jobs(limit=2)] == [[shop.job_id], []]
            for name in ("unknown", "\0"):
                with pytest.raises(NotFound, match="There is no project with this name"):
                    projects.get_by_name(name)

    def test_delete_takes_everything_with_it(self, shop: Shop, other_shop: Shop) -> None:
        shop.complete(shop.submit())
        shop.submit()
        kept = other_shop.submit()
        shop.delete_project()
        with shop.database.read() as session:
            assert session.query(Execution).all()[0].id == kept.id
            for table in (Task, OutboxMessage):
                assert session.query(table).count() == 1
            assert session.query(Dataset).count() == 0
            assert AgentRepository(session, shop.organization_id).get(shop.agent_id)


class TestCategories:
    def test_private_ones_are_seen_by_their_creator_and_by_admins(self, shop: Shop) -> None:
        with shop.database.write() as session:
            admin = CategoryRepository(session, shop.organization_id)
            admin.create(CategoryCreate(name="Open"), created_by_key_id="k1")
            private = admin.create(CategoryCreate(name="Mine", visibility="private"), created_by_key_id="k1")

            def names(key_id: str | None) -> list[str]:
                return [each.name for each in CategoryRepository(session, shop.organization_id, key_id).list()]

            assert names(None) == names("k1") == ["Open", "Mine"]
            assert names("k2") == ["Open"]
            with pytest.raises(NotFound):
                CategoryRepository(session, shop.organization_id, "k2").get(private.id)

    def test_a_deleted_category_keeps_its_agents(self, shop: Shop) -> None:
        with shop.database.write() as session:
            categories, agents = (
                CategoryRepository(session, shop.organization_id),
                AgentRepository(session, shop.organization_id),
            )
            category = categories.create(CategoryCreate(name="Books"))
            agents.update(shop.agent_id, AgentUpdate(category_id=category.id))
            assert categories.load_agent_ids([category])[0].agent_ids == [shop.agent_id]
            categories.delete(category.id)
        with shop.database.read() as session:
            assert AgentRepository(session, shop.organization_id).get(shop.agent_id).category_id is None

    def test_names_and_visibility_are_checked(self, shop: Shop) -> None:
        with shop.database.write() as session:
            categories = CategoryRepository(session, shop.organization_id)
            categories.create(CategoryCreate(name="Books"))
            with pytest.raises(Conflict):
                categories.create(CategoryCreate(name="Books"))
            with pytest.raises(BadInput, match="reserved"):
                categories.create(CategoryCreate(name="test"))
            with pytest.raises(BadInput, match="PUBLIC or PRIVATE"):
                categories.create(CategoryCreate(name="Toys", visibility="SECRET"))
            assert categories.get_by_name("Books").visibility == "PUBLIC"


class TestAgents:
    def test_an_invalid_pipeline_is_refused_with_its_line(self, shop: Shop) -> None:
        wrong = "pipeline:\n  - {stage: wget, args: ['http://x/']}\n  - {stage: extrakt, args: []}\n"
        with pytest.raises(BadInput, match="extract") as error:
            shop.write_pipeline(wrong)
        assert error.value.details[0].path.startswith("line 3, column ")
        with shop.database.read() as session:
            agent = AgentRepository(session, shop.organization_id).get(shop.agent_id)
            assert (agent.pipeline_yaml, agent.revision) == (PIPELINE, 1)

    @pytest.mark.parametrize("code", [PIPELINE, PIPELINE.replace("\n", "\r\n"), FLOW])
    def test_code_with_a_pipeline_is_the_pipeline(self, shop: Shop, code: str) -> None:
        agent = shop.write_code(code)
        assert (agent.pipeline_yaml, agent.code) == (code, None)

    @pytest.mark.parametrize("code", ["print('pipeline')", "pipeline: list = []\nrun(pipeline)"])
    def test_other_code_is_python(self, shop: Shop, code: str) -> None:
        agent = shop.write_code(code)
        assert (agent.pipeline_yaml, agent.code) == (None, code)

    def test_a_record_sent_back_with_one_text_changed(self, shop: Shop) -> None:
        newer, newest = PIPELINE.replace("h1", "h2"), PIPELINE.replace("h1", "h3")
        texts = check_texts(shop.database, shop.settings, shop.organization_id, [newer], [PIPELINE, newest])
        with shop.database.write() as session:
            agents = AgentRepository(session, shop.organization_id, texts=texts)
            assert agents.update(shop.agent_id, AgentUpdate(pipeline_yaml=newer, code=PIPELINE)).pipeline_yaml == newer
            agent = agents.update(shop.agent_id, AgentUpdate(pipeline_yaml=newer, code=newest))
            assert (agent.pipeline_yaml, agent.revision) == (newest, 3)
            assert agents.update(shop.agent_id, AgentUpdate(pipeline_yaml=newest, description="x")).revision == 3

    def test_names_are_unique_in_a_category(self, shop: Shop) -> None:
        with shop.database.write() as session:
            agents = AgentRepository(session, shop.organization_id)
            first, second = (
                CategoryRepository(session, shop.organization_id).create(CategoryCreate(name=n)).id for n in ("A", "B")
            )
            agent = agents.create(AgentCreate(name="X", category_id=first))
            other = agents.create(AgentCreate(name="X", category_id=second))
            assert agents.get_by_name(first, "X").id == agent.id
            with pytest.raises(Conflict):
                agents.create(AgentCreate(name="X", category_id=first))
            with pytest.raises(Conflict):
                agents.update(other.id, AgentUpdate(category_id=first))

    def test_the_category_must_be_the_organizations_own(self, shop: Shop, other_shop: Shop) -> None:
        with shop.database.write() as session:
            theirs = CategoryRepository(session, other_shop.organization_id).create(CategoryCreate(name="A")).id
            for category_id in (theirs, UNKNOWN):
                with pytest.raises(BadInput, match="no category with this id") as error:
                    AgentRepository(session, shop.organization_id).create(
                        AgentCreate(name="X", category_id=category_id)
                    )
                assert error.value.details[0].path == "categoryId"

    def test_deleting_it_leaves_its_jobs_without_one(self, shop: Shop) -> None:
        with shop.database.write() as session:
            AgentRepository(session, shop.organization_id).delete(shop.agent_id)
        with shop.database.read() as session:
            assert JobRepository(session, shop.organization_id).get(shop.project_id, shop.job_id).agent_id is None


class TestJobs:
    def test_credentials_are_known_when_they_are_named(self, shop: Shop, other_shop: Shop) -> None:
        key_ring = KeyRing(load_service_key(shop.settings))
        with shop.database.write() as session:
            jobs, credentials = (
                JobRepository(session, shop.organization_id),
                CredentialRepository(session, shop.organization_id),
            )
            new = CredentialCreate(provider="OPENAI")
            known = credentials.create(new, key_ring).id
            theirs = CredentialRepository(session, other_shop.organization_id).create(new, key_ring).id
            for unknown in (UNKNOWN, theirs, "x"):
                for field, value in {"cloud_credential_ids": [known, unknown], "cloud_credential_id": unknown}.items():
                    with pytest.raises(BadInput, match="no cloud credential") as refused:
                        jobs.update(shop.project_id, shop.job_id, JobUpdate(**{field: value}))
                    assert refused.value.details[0].path.startswith("cloudCredentialId")
                    with pytest.raises(BadInput, match="no cloud credential"):
                        jobs.create(shop.project_id, JobCreate(name="keyed", **{field: value}))
            both = {"cloud_credential_ids": [known], "cloud_credential_id": known}
            assert jobs.update(shop.project_id, shop.job_id, JobUpdate(**both)).cloud_credential_ids == [known]
            credentials.delete(known)
            assert jobs.update(shop.project_id, shop.job_id, JobUpdate(**both, name="sent back")).name == "sent back"
            none = {"cloud_credential_ids": [], "cloud_credential_id": ""}
            assert jobs.create(shop.project_id, JobCreate(name="open", **none)).cloud_credential_ids == []

    def test_slugs_are_unique_in_the_project(self, shop: Shop) -> None:
        with shop.database.write() as session:
            job = JobRepository(session, shop.organization_id).create(shop.project_id, JobCreate(name="Bóoks!"))
            assert (job.slug, job.enabled) == ("books_2", True)

    def test_status_is_that_of_the_newest_execution(self, shop: Shop) -> None:
        def status() -> str:
            with shop.database.read() as session:
                jobs = JobRepository(session, shop.organization_id)
                return jobs.get_with_tasks(shop.project_id, shop.job_id).execution_state.public

        assert status() == "PENDING"
        first, second = shop.submit(), shop.submit()
        shop.report(second, "RUNNING")
        shop.complete(first)
        assert status() == "RUNNING"
        shop.report(second, "FAILED")
        assert status() == "FAILED"

    def test_its_tasks(self, shop: Shop) -> None:
        executions = [shop.submit() for _ in range(10)]  # 10 comes after 9, though its text comes before
        with shop.database.read() as session:
            records = JobRepository(session, shop.organization_id).list_with_tasks(shop.project_id)
        assert records[0].task_ids == [str(each.task_id) for each in executions]

    def test_its_tasks_are_the_newest(self, shop: Shop) -> None:
        with shop.database.write() as session:
            session.add_all(
                Task(organization_id=shop.organization_id, job_id=shop.job_id, name=str(number))
                for number in range(103)
            )
        with shop.database.read() as session:
            found = JobRepository(session, shop.organization_id).get_with_tasks(shop.project_id, shop.job_id).task_ids
            newest = session.scalars(select(Task.id).order_by(Task.id)).all()[3:]
        assert found == [str(each) for each in newest]

    def test_references_must_be_the_organizations_own(self, shop: Shop, other_shop: Shop) -> None:
        other_shop.complete(other_shop.submit())
        with shop.database.write() as session:
            (published,) = DatasetRepository(session, other_shop.organization_id).list()
            for field, path, theirs in (
                ("agent_id", "agentId", other_shop.agent_id),
                ("input_dataset_id", "inputDatasetId", published.dataset.id),
            ):
                for value in (theirs, UNKNOWN):
                    with pytest.raises(BadInput) as error:
                        JobRepository(session, shop.organization_id).update(
                            shop.project_id, shop.job_id, JobUpdate(**{field: value})
                        )
                    assert error.value.details[0].path == path

    def test_deleting_one_that_runs_frees_its_slots(self, shop: Shop) -> None:
        shop.submit()
        shop.report(shop.submit(), "RUNNING")
        shop.complete(shop.submit())
        shop.delete_job()
        assert shop.active() == 0

    def test_executions_newest_first_by_pages(self, shop: Shop) -> None:
        ids = [shop.submit().id for _ in range(3)]
        with shop.database.read() as session:
            executions = ExecutionRepository(session, shop.organization_id)
            page = executions.list_records(shop.project_id, shop.job_id, limit=2)
            assert [each["id"] for each in page] == [ids[2], ids[1]]
            rest = executions.list_records(shop.project_id, shop.job_id, before=page[-1]["id"])
            assert [each["id"] for each in rest] == [ids[0]]


Read = Callable[[Session, str, Shop, str], object]
READS: dict[str, Read] = {
    "project": lambda session, caller, theirs, row_id: ProjectRepository(session, caller).get(row_id),
    "job": lambda session, caller, theirs, row_id: JobRepository(session, caller).get(theirs.project_id, row_id),
    "agent": lambda session, caller, theirs, row_id: AgentRepository(session, caller).get(row_id),
    "dataset": lambda session, caller, theirs, row_id: DatasetRepository(session, caller).get(row_id),
    "execution": lambda session, caller, theirs, row_id: ExecutionRepository(session, caller).get(
        theirs.project_id, theirs.job_id, row_id
    ),
}


@pytest.mark.parametrize("noun", READS)
def test_another_organizations_row_is_an_unknown_one(shop: Shop, other_shop: Shop, noun: str) -> None:
    execution = other_shop.submit()
    other_shop.complete(execution)
    ids = {
        "project": other_shop.project_id,
        "job": other_shop.job_id,
        "agent": other_shop.agent_id,
        "dataset": other_shop.reload(execution).dataset_id or "",
        "execution": execution.id,
    }
    with shop.database.read() as session:
        assert READS[noun](session, other_shop.organization_id, other_shop, ids[noun])
        for row_id in (ids[noun], UNKNOWN, "", "\0", "\ud800", "x" * 10_000):
            with pytest.raises(NotFound) as error:
                READS[noun](session, shop.organization_id, other_shop, row_id)
            assert error.value.sentence == f"There is no {noun} with this id."


@pytest.mark.parametrize("name", ["\0", "a\0b", "\ud800"])
def test_a_table_by_a_name_that_no_text_has_is_an_unknown_one(shop: Shop, name: str) -> None:
    with shop.database.read() as session:
        catalog = Catalog(session, shop.organization_id)
        assert (catalog.load_tables(name), catalog.find_by_names({name})) == ([], [])
