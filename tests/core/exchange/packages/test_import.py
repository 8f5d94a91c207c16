"""Export and import of package contents."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from sqlalchemy import event, select

from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.repository import AgentRepository
from core.definitions.categories.models import CategoryCreate, CategoryUpdate
from core.definitions.categories.repository import CategoryRepository
from core.definitions.credentials.models import CredentialCreate
from core.definitions.credentials.repository import CredentialRepository
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.models import ExtensionCreate
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.errors import BadInput
from core.exchange.packages.archive import pack, unpack
from core.exchange.packages.contents import AgentPart, CategoryPart, Contents, JobPart, ProjectPart
from core.exchange.packages.export import export_contents
from core.exchange.packages.import_ import ImportReport, import_contents
from core.infra.encryption import KeyRing
from core.infra.secrets import load_service_key
from core.tables import Agent, Category, Job, Project, now
from tests.support.shop import PIPELINE, Shop

CANARY = "canary-4711"


def read(package: bytes) -> Contents:
    return unpack(io.BytesIO(package))


def exported(shop: Shop) -> bytes:
    with shop.database.read() as session:
        return pack(export_contents(session, shop.organization_id))


def imported(shop: Shop, package: bytes) -> ImportReport:
    with shop.database.write() as session:
        return import_contents(session, shop.organization_id, read(package))


def fill(shop: Shop) -> None:
    """Everything that a package can hold, with names that repeat and what must stay behind."""
    with shop.database.write() as session:
        categories, agents = (
            CategoryRepository(session, shop.organization_id),
            AgentRepository(session, shop.organization_id),
        )
        tools = categories.create(
            CategoryCreate(name="Tools", icon="wrench", visibility="PRIVATE", description="\u00e9")
        )
        for text in (PIPELINE, PIPELINE.replace("h1", "h2"), "print('python')"):
            agents.create(AgentCreate(name="Twin", code=text))
        filed = agents.create(AgentCreate(name="Filed", category_id=tools.id, pipeline_yaml=PIPELINE, enabled=False))
        extensions = PythonExtensionRepository(session, shop.organization_id)
        for name in ("tidy", "Clean_Up"):
            extensions.create(filed.id, ExtensionCreate(name=name, source=f"def {name}(row):\n    return row\n"))
        twins = [agent for agent in agents.list() if agent.name == "Twin"]
        key_ring = KeyRing(load_service_key(shop.settings))
        secret = CredentialRepository(session, shop.organization_id).create(
            CredentialCreate(provider="OPENAI", name="models", api_key=CANARY), key_ring
        )
        project = ProjectRepository(session, shop.organization_id).create(
            ProjectCreate(name="Big", parameters={"A": [1, None, "x"]})
        )
        jobs = JobRepository(session, shop.organization_id)
        for agent in (*twins, filed):
            jobs.create(project.id, JobCreate(name="Same", agent_id=agent.id, scheduled_time=now()))
        jobs.create(project.id, JobCreate(name="Keyed", cloud_credential_ids=[secret.id], description="d"))


def test_a_round_trip_gives_the_same_bytes(shop: Shop, other_shop: Shop) -> None:
    """Also where the credential is another of the same name: it is named, never held."""
    fill(shop)
    package = exported(shop)
    assert exported(shop) == package
    with other_shop.database.write() as session:
        key_ring = KeyRing(load_service_key(shop.settings))
        new = CredentialCreate(provider="OPENAI", name="models", api_key="theirs")
        CredentialRepository(session, other_shop.organization_id).create(new, key_ring)
    report = imported(other_shop, package)
    assert (report.warnings, report.changed) == ([], [])
    assert exported(other_shop) == package
    again = imported(other_shop, package)
    assert (again.created, again.changed, again.warnings) == ([], [], [])
    for secret in (CANARY, shop.organization_id, shop.project_id, shop.agent_id, "acme"):
        unpacked = zipfile.ZipFile(io.BytesIO(package))
        assert secret.encode() not in b"".join(unpacked.read(name) for name in unpacked.namelist())


def test_an_import_updates_fields_that_differ_also_to_null(shop: Shop) -> None:
    package = exported(shop)
    with shop.database.write() as session:
        ProjectRepository(session, shop.organization_id).update(shop.project_id, ProjectUpdate(description="changed"))
        AgentRepository(session, shop.organization_id).update(
            shop.agent_id, AgentUpdate(pipeline_yaml=PIPELINE.replace("h1", "h3"))
        )
        JobRepository(session, shop.organization_id).update(shop.project_id, shop.job_id, JobUpdate(enabled=False))
    report = imported(shop, package)
    assert {(each.kind, each.name) for each in report.changed} == {
        ("project", "Shop"),
        ("agent", "Crawler"),
        ("job", "Shop/Books"),
    }
    assert exported(shop) == package
    with shop.database.read() as session:
        assert session.get_one(Agent, shop.agent_id).revision == 3


def test_unresolved_references_are_warnings(shop: Shop, other_shop: Shop) -> None:
    fill(shop)
    dataset = shop.submit()
    shop.complete(dataset)
    with shop.database.write() as session:
        output = session.get_one(Job, shop.job_id).output_dataset_id
        JobRepository(session, shop.organization_id).create(
            shop.project_id, JobCreate(name="Next", input_dataset_id=output)
        )
    report = imported(other_shop, exported(shop))
    assert report.warnings == [
        "job 'Big/Keyed': there is no OPENAI credential 'models' here.",
        "job 'Shop/Next': its input, the table shop.books, is not here.",
    ]


def counts(shop: Shop) -> list[int]:
    with shop.database.read() as session:
        return [session.query(table).count() for table in (Category, Agent, Project, Job)]


def test_a_failed_import_changes_nothing(shop: Shop, other_shop: Shop) -> None:
    """The last of the package's jobs is the one that cannot be."""
    fill(shop)
    with shop.database.read() as session:
        contents = export_contents(session, shop.organization_id)
    broken = contents.model_dump(mode="json")
    broken["projects"][-1]["jobs"][-1]["name"] = "x" * 300
    before = counts(other_shop)
    with pytest.raises(BadInput, match=r"job 'Shop/x+': 'name' is longer"):
        imported(other_shop, pack(Contents.model_validate(broken)))
    broken["projects"][-1]["jobs"] = []
    broken["agents"][0]["pipeline_yaml"] = "pipeline: [{stage: nothing}]"
    with pytest.raises(BadInput, match="unknown stage 'nothing'"):
        imported(other_shop, pack(Contents.model_validate(broken)))
    assert counts(other_shop) == before


def test_thousands_of_projects_take_no_more_statements_than_a_few(shop: Shop, other_shop: Shop) -> None:
    """Also where their names give one slug, and where each job names a table that is here or is not."""
    shop.complete(shop.submit())
    other_shop.complete(other_shop.submit())

    def package(count: int) -> Contents:
        tables = ("shop.books", "shop.none")
        jobs = [{"name": "Same", "parameters": {}, "enabled": True, "input_dataset": each} for each in tables]
        projects = [{"name": "!" * (n + 1), "parameters": {}, "enabled": True, "jobs": jobs} for n in range(count)]
        return Contents.model_validate({"categories": [], "agents": [], "projects": projects, "plugins": []})

    def statements(owner: Shop, count: int) -> int:
        made: list[str] = []

        def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            made.append(statement)

        event.listen(owner.database.engine, "before_cursor_execute", note)
        with owner.database.write() as session:
            report = import_contents(session, owner.organization_id, package(count))
        event.remove(owner.database.engine, "before_cursor_execute", note)
        assert (len(report.created), len(report.warnings)) == (3 * count, count)
        return len(made)

    assert statements(shop, 200) <= statements(other_shop, 20) + 10
    with shop.database.read() as session:
        slugs = set(session.scalars(select(Project.slug)))
    assert {"unnamed", "unnamed_2", "unnamed_200"} <= slugs
    again = imported(shop, pack(package(200)))
    assert (again.created, again.changed, again.unchanged) == ([], [], 600)


def test_a_package_without_projects_reads_no_jobs(shop: Shop) -> None:
    made: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        made.append(statement)

    event.listen(shop.database.engine, "before_cursor_execute", note)
    imported(shop, pack(Contents(categories=(), agents=(), projects=(), plugins=())))
    event.remove(shop.database.engine, "before_cursor_execute", note)
    assert made
    assert not [statement for statement in made if "FROM jobs" in statement]


def test_a_package_repacked_by_another_tool_is_accepted(shop: Shop) -> None:
    package, again = exported(shop), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as unpacked, zipfile.ZipFile(again, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in reversed(unpacked.namelist()):
            packed.writestr(name, unpacked.read(name))
    assert read(again.getvalue()) == read(package)


def test_every_writable_field_is_exported() -> None:
    named = {"agent_id": "agent", "input_dataset_id": "input_dataset", "category_id": "category"}
    named |= dict.fromkeys(("cloud_credential_id", "cloud_credential_ids"), "cloud_credentials")
    nouns = [
        (ProjectRepository.fields, ProjectPart),
        (JobRepository.fields, JobPart),
        (AgentUpdate.model_fields, AgentPart),
        (CategoryUpdate.model_fields, CategoryPart),
    ]
    for fields, part in nouns:
        assert {named.get(field, field) for field in fields} <= part.model_fields.keys()
