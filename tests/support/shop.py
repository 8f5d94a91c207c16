"""A small world for the tests of core: one organization, one project, one job that can be executed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from sqlalchemy import select

from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.repository import AgentRepository
from core.definitions.agents.texts import check_texts
from core.definitions.credentials.models import CredentialCreate, CredentialUpdate
from core.definitions.credentials.repository import CredentialRepository
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.organizations import create_organization
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import Storage, output_key, saves_key
from core.lifecycle.executions.payload import CompletionPayload
from core.lifecycle.executions.reconcile import Sighting
from core.lifecycle.executions.reports import fail, record_report
from core.lifecycle.executions.repository import ExecutionRepository
from core.lifecycle.executions.transitions import end_executions
from core.lifecycle.submission.planning import SubmitRequest
from core.lifecycle.submission.submit import RetryRequest, retry, submit
from core.tables import Agent, Execution, Project
from core.tables.states import State

PIPELINE = """\
fetch: {url: "http://127.0.0.1/"}
pipeline:
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
"""
SCHEMA = '[{"name": "title", "type": "string"}]'


GONE = Sighting(False, "its process has ended")


@dataclass
class Shop:
    """An organization with one project, whose one job has an agent with a pipeline."""

    settings: Settings
    database: Database
    organization_id: str
    project_id: str
    agent_id: str
    job_id: str

    @property
    def storage(self) -> Storage:
        return open_storage(self.settings.storage)

    def submit(self, **request: Any) -> Execution:
        return submit(self.database, self.settings, SubmitRequest(**self._name_job(), **request))

    def report(self, execution: Execution, status: str, **fields: Any) -> State:
        payload = CompletionPayload(execution_id=execution.id, status=status, **fields)
        return record_report(
            self.database, self.storage, self.organization_id, execution.project_id, execution.job_id, payload
        )

    def complete(self, execution: Execution, rows: int = 3, **fields: Any) -> State:
        """With a file in its output folder, and in the folder of each save."""
        key = output_key(self.organization_id, execution.id, execution.attempt)
        saves = (fields.get("additional_metrics") or {}).get("saves", ())
        folder = saves_key(self.organization_id, execution.id, execution.attempt)
        for each in (key, *(f"{folder}/{save['folder']}" for save in saves if save["folder"].isdecimal())):
            self.storage.put(f"{each}/part-0", BytesIO())
        written = {
            "output_dataset_path": self.storage.url_for(key, "spark"),
            "output_dataset_schema": SCHEMA,
            "records_output": rows,
        }
        return self.report(execution, "COMPLETED", **(written | fields))

    def retry(self, execution: Execution, **request: Any) -> Execution:
        named = RetryRequest(**self._name_job(), execution_id=execution.id, **request)
        with self.database.write() as session:
            return retry(session, self.settings, named)

    def _name_job(self) -> dict[str, str]:
        return {"organization_id": self.organization_id, "project_id": self.project_id, "job_id": self.job_id}

    def free_one_slot(self) -> None:
        """Ends one of the executions that hold a slot."""
        with self.database.read() as session:
            holds = (Execution.project_id == self.project_id, Execution.state.in_(["PENDING", "RUNNING"]))
            holder = session.query(Execution).filter(*holds).order_by(Execution.id).first()
        fail(self.database, holder.id, "It made room.")

    def reload(self, execution: Execution) -> Execution:
        with self.database.read() as session:
            return session.get_one(Execution, execution.id)

    def content(self, execution: Execution) -> dict[str, Any]:
        """All that is stored of the execution."""
        stored = self.reload(execution)
        return {column.key: getattr(stored, column.key) for column in Execution.__table__.columns}

    def list_states(self, *executions: Execution) -> list[str]:
        return [self.reload(each).state for each in executions]

    def list_obstacles(self, execution: Execution) -> list[str]:
        """Return what the execution waits for."""
        with self.database.read() as session:
            executions = ExecutionRepository(session, self.organization_id)
            return executions.load_record(session.get_one(Execution, execution.id))["waits_for"]

    def list_executions(self) -> list[Execution]:
        with self.database.read() as session:
            return list(session.scalars(select(Execution).order_by(Execution.id)))

    def active(self) -> int:
        with self.database.read() as session:
            return session.get_one(Project, self.project_id).active_executions

    @property
    def caller(self) -> Identity:
        """An admin of the organization."""
        return Identity(self.organization_id, "key", frozenset({"admin"}))

    def add_job(self, name: str, pipeline: str | None = None, **fields: Any) -> Shop:
        """Return the shop with another job of the project, which has an agent of its own if it has a pipeline."""
        with self.database.write() as session:
            agents = AgentRepository(session, self.organization_id)
            new = None if pipeline is None else agents.create(AgentCreate(name=name, pipeline_yaml=pipeline))
            fields = {"name": name, "agent_id": new.id if new else self.agent_id} | fields
            job = JobRepository(session, self.organization_id).create(self.project_id, JobCreate(**fields))
        return replace(self, agent_id=job.agent_id, job_id=job.id)

    def add_project(self, name: str, **fields: Any) -> Shop:
        """Return the shop with another project of the organization, whose job has these fields."""
        with self.database.write() as session:
            project = ProjectRepository(session, self.organization_id).create(ProjectCreate(name=name))
        return replace(self, project_id=project.id).add_job("Books", **fields)

    def make_key_ring(self, callers_key: str | None = None) -> KeyRing:
        return KeyRing(load_service_key(self.settings), callers_key)

    def add_credential(self, provider: str, callers_key: str | None = None, **fields: Any) -> str:
        """Return the id of a new cloud credential, which may be a global one."""
        with self.database.write() as session:
            credentials = CredentialRepository(session, self.organization_id, super_admin=True)
            return credentials.create(CredentialCreate(provider=provider, **fields), self.make_key_ring(callers_key)).id

    def change_credential(self, credential_id: str, **fields: Any) -> None:
        with self.database.write() as session:
            credentials = CredentialRepository(session, self.organization_id)
            credentials.update(credential_id, CredentialUpdate(**fields), self.make_key_ring())

    def change_job(self, **fields: Any) -> None:
        with self.database.write() as session:
            JobRepository(session, self.organization_id).update(self.project_id, self.job_id, JobUpdate(**fields))

    def change_project(self, **fields: Any) -> None:
        with self.database.write() as session:
            ProjectRepository(session, self.organization_id).update(self.project_id, ProjectUpdate(**fields))

    def delete_job(self) -> None:
        with self.database.write() as session:
            JobRepository(session, self.organization_id).delete(self.project_id, self.job_id, end_executions)

    def delete_project(self) -> None:
        with self.database.write() as session:
            ProjectRepository(session, self.organization_id).delete(self.project_id, end_executions)

    def write_pipeline(self, text: str) -> None:
        with self.database.write() as session:
            AgentRepository(session, self.organization_id).update(self.agent_id, AgentUpdate(pipeline_yaml=text))

    def write_code(self, code: str) -> Agent:
        texts = check_texts(self.database, self.settings, self.organization_id, [], [code])
        with self.database.write() as session:
            agents = AgentRepository(session, self.organization_id, texts=texts)
            return agents.update(self.agent_id, AgentUpdate(code=code))


def make_shop(settings: Settings, database: Database, name: str = "acme") -> Shop:
    with database.write() as session:
        organization_id = create_organization(session, name).id
        project = ProjectRepository(session, organization_id).create(ProjectCreate(name="Shop"))
        agent = AgentRepository(session, organization_id).create(AgentCreate(name="Crawler", pipeline_yaml=PIPELINE))
        job = JobRepository(session, organization_id).create(project.id, JobCreate(name="Books", agent_id=agent.id))
        return Shop(settings, database, organization_id, project.id, agent.id, job.id)
