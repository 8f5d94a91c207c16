"""Export and import of package contents."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from sqlalchemy import event, select

from core.data.datasets.models import DatasetCreate
from core.data.datasets.repository import DatasetRepository
from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.repository import AgentRepository
from core.definitions.agents.texts import check_texts
from core.definitions.categories.models import CategoryCreate, CategoryUpdate
from core.definitions.categories.repository import CategoryRepository
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.models import ExtensionCreate
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.definitions.schedules.models import ScheduleUpdate
from core.errors import BadInput
from core.integrations.declarations import service
from core.integrations.declarations.export import export_declaration
from core.integrations.declarations.models import (
    AgentDeclaration,
    CategoryDeclaration,
    Declaration,
    JobDeclaration,
    ProjectDeclaration,
    ScheduleDeclaration,
)
from core.integrations.declarations.service import Application
from core.integrations.packages.archive import pack, unpack
from core.tables import Agent, Category, Job, Project, now
from tests.support.shop import PIPELINE, Shop

CANARY = "canary-4711"


def declared(shop: Shop) -> Declaration:
    with shop.database.read() as session:
        return export_declaration(session, shop.caller)


def exported(shop: Shop) -> bytes:
    return pack(declared(shop))


def apply(shop: Shop, declaration: Declaration) -> Application:
    return service.apply(shop.database, shop.settings, shop.caller, declaration, complete=True)


def imported(shop: Shop, package: bytes) -> Application:
    return apply(shop, unpack(io.BytesIO(package)))


def fill(shop: Shop) -> None:
    """Everything that a package can hold, with names that repeat and what must stay behind."""
    codes = (PIPELINE, PIPELINE.replace("h1", "h2"), "print('python')")
    texts = check_texts(shop.database, shop.settings, shop.organization_id, [], codes)
    secret = shop.add_credential("OPENAI", name="models", api_key=CANARY)
    with shop.database.write() as session:
        categories, agents = (
            CategoryRepository(session, shop.organization_id),
            AgentRepository(session, shop.organization_id, texts=texts),
        )
        tools = categories.create(
            CategoryCreate(name="Tools", icon="wrench", visibility="PRIVATE", description="\u00e9")
        )
        for text in codes:
            agents.create(AgentCreate(name="Twin", code=text))
        filed = agents.create(AgentCreate(name="Filed", category_id=tools.id, pipeline_yaml=PIPELINE, enabled=False))
        extensions = PythonExtensionRepository(session, shop.organization_id)
        for name in ("tidy", "Clean_Up"):
            extensions.create(filed.id, ExtensionCreate(name=name, source=f"def {name}(row):\n    return row\n"))
        twins = [agent for agent in agents.list() if agent.name == "Twin"]
        project = ProjectRepository(session, shop.organization_id).create(
            ProjectCreate(name="Big", parameters={"A": [1, None, "x"]})
        )
        jobs = JobRepository(session, shop.organization_id)
        for agent in (*twins, filed):
            jobs.create(project.id, JobCreate(name="Same", agent_id=agent.id, scheduled_time=now()))
        jobs.create(project.id, JobCreate(name="Keyed", cloud_credential_ids=[secret], description="d"))


def test_a_round_trip_gives_the_same_bytes(shop: Shop, other_shop: Shop) -> None:
    """Also where the credential is another of the same name: it is named, never held."""
    fill(shop)
    package = exported(shop)
    assert exported(shop) == package
    other_shop.add_credential("OPENAI", name="models", api_key="theirs")
    report = imported(other_shop, package)
    assert (report.warnings, {each.action for each in report.changes}) == ([], {"create"})
    assert exported(other_shop) == package
    again = imported(other_shop, package)
    assert (again.changes, again.warnings) == ([], [])
    for secret in (CANARY, shop.organization_id, shop.project_id, shop.agent_id, "acme"):
        unpacked = zipfile.ZipFile(io.BytesIO(package))
        assert secret.encode() not in b"".join(unpacked.read(name) for name in unpacked.namelist())


def test_an_import_updates_fields_that_differ_also_to_null(shop: Shop) -> None:
    package = exported(shop)
    shop.change_project(description="changed")
    shop.write_pipeline(PIPELINE.replace("h1", "h3"))
    shop.change_job(enabled=False)
    report = imported(shop, package)
    assert {(each.kind, each.name) for each in report.changes} == {
        ("project", "Shop"),
        ("agent", "Crawler"),
        ("job", "Shop/Books"),
    }
    assert exported(shop) == package
    with shop.database.read() as session:
        assert session.get_one(Agent, shop.agent_id).revision == 3


def test_unresolved_references_are_warnings(shop: Shop, other_shop: Shop) -> None:
    fill(shop)
    with shop.database.write() as session:
        dataset = DatasetRepository(session, shop.organization_id).create(DatasetCreate(name="goods"))
    shop.add_job("Next", agent_id=None, input_dataset_id=dataset.id)
    report = imported(other_shop, exported(shop))
    assert report.warnings == [
        "job 'Big/Keyed': there is no OPENAI credential 'models' here.",
        "job 'Shop/Next': its input, the table default.goods, is not here.",
    ]


def counts(shop: Shop) -> list[int]:
    with shop.database.read() as session:
        return [session.query(table).count() for table in (Category, Agent, Project, Job)]


def test_a_failed_import_changes_nothing(shop: Shop, other_shop: Shop) -> None:
    """The last of the package's jobs is the one that cannot be."""
    fill(shop)
    broken = declared(shop).model_dump(mode="json", by_alias=True)
    broken["projects"][-1]["jobs"][-1]["name"] = "x" * 300
    before = counts(other_shop)
    with pytest.raises(BadInput, match=r"job 'Shop/x+': 'name' is longer"):
        apply(other_shop, Declaration.model_validate(broken))
    broken["projects"][-1]["jobs"] = []
    broken["agents"][0]["pipeline"] = "pipeline: [{stage: extracts}]"
    with pytest.raises(BadInput, match="unknown stage 'extracts'"):
        apply(other_shop, Declaration.model_validate(broken))
    assert counts(other_shop) == before


def test_thousands_of_projects_take_no_more_statements_than_a_few(shop: Shop, other_shop: Shop) -> None:
    """Also where their names give one slug, and where each job names a table that is here or is not."""
    shop.complete(shop.submit())
    other_shop.complete(other_shop.submit())

    def package(count: int) -> Declaration:
        jobs = [{"name": "Same", "inputDataset": each} for each in ("shop.books", "shop.none")]
        projects = [{"name": "!" * (n + 1), "jobs": jobs} for n in range(count)]
        return Declaration.model_validate({"projects": projects})

    def statements(owner: Shop, count: int) -> int:
        made: list[str] = []

        def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            made.append(statement)

        event.listen(owner.database.engine, "before_cursor_execute", note)
        report = apply(owner, package(count))
        event.remove(owner.database.engine, "before_cursor_execute", note)
        assert (len(report.changes), len(report.warnings)) == (3 * count, count)
        return len(made)

    assert statements(shop, 200) <= statements(other_shop, 20) + 10
    with shop.database.read() as session:
        slugs = set(session.scalars(select(Project.slug)))
    assert {"unnamed", "unnamed_2", "unnamed_200"} <= slugs
    again = imported(shop, pack(package(200)))
    assert (again.changes, again.unchanged) == ([], 600)


def test_a_package_without_projects_reads_no_jobs(shop: Shop) -> None:
    made: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        made.append(statement)

    event.listen(shop.database.engine, "before_cursor_execute", note)
    imported(shop, pack(Declaration()))
    event.remove(shop.database.engine, "before_cursor_execute", note)
    assert made
    assert not [statement for statement in made if "FROM jobs" in statement]


def test_a_package_repacked_by_another_tool_is_accepted(shop: Shop) -> None:
    package, again = exported(shop), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as unpacked, zipfile.ZipFile(again, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in reversed(unpacked.namelist()):
            packed.writestr(name, unpacked.read(name))
    assert unpack(io.BytesIO(again.getvalue())) == unpack(io.BytesIO(package))


def test_every_writable_field_is_exported() -> None:
    named = {"agent_id": "agent", "input_dataset_id": "input_dataset", "category_id": "category", "job_id": "job"}
    named |= dict.fromkeys(("cloud_credential_id", "cloud_credential_ids"), "cloud_credentials")
    named |= {"pipeline_yaml": "pipeline"}
    nouns = {
        AgentUpdate: AgentDeclaration,
        CategoryUpdate: CategoryDeclaration,
        JobUpdate: JobDeclaration,
        ProjectUpdate: ProjectDeclaration,
        ScheduleUpdate: ScheduleDeclaration,
    }
    for noun, model in nouns.items():
        fields = noun.model_fields.keys() - {"schedule"}  # the cron expression, which is the project's
        assert {named.get(field, field) for field in fields} <= model.model_fields.keys() | {"cron_schedule"}
