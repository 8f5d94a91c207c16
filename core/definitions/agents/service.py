"""Operations on agents, one transaction each; pipelines are parsed outside of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from core.definitions.agents.plan_outline import PlanOutline
from core.definitions.agents.repository import NO_PIPELINES, AgentRepository
from core.definitions.agents.validation import find_valid_pipelines, find_warnings, looks_like_pipeline
from core.definitions.identity.api_keys import Identity
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag
from core.tables import Agent
from pipelines.planning.script import make_script


@dataclass(frozen=True, slots=True)
class AgentWithScript:
    """An agent and its pipeline as a Python script, None without a pipeline.

    After a change `warnings` lists ignored keys, and row transforms and Java libraries that are missing.
    """

    agent: Agent
    pyspark_code: str | None
    warnings: Sequence[str] = ()


class AgentService:
    """Agents that the caller may see: of those in private categories only its own, unless it is an admin."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self, caller: Identity, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[AgentWithScript]:
        with self._database.read() as session:
            agents = _open_repository(session, caller)
            found = [(each, agents.load_row_transforms(each)) for each in agents.list(limit=limit, after=after)]
        return [_add_script(agent, transforms) for agent, transforms in found]

    def list_of_category(
        self, caller: Identity, category_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[AgentWithScript]:
        with self._database.read() as session:
            agents = _open_repository(session, caller)
            page = agents.list_of_category(category_id, limit=limit, after=after)
            found = [(each, agents.load_row_transforms(each)) for each in page]
        return [_add_script(agent, transforms) for agent, transforms in found]

    def get(self, caller: Identity, category_id: str, agent_id: str) -> Versioned[AgentWithScript]:
        with self._database.read() as session:
            agents = _open_repository(session, caller)
            agent = agents.get_in_category(category_id, agent_id)
            transforms = agents.load_row_transforms(agent)
        return Versioned(_add_script(agent, transforms), compute_etag(agent))

    def get_by_name(self, caller: Identity, category_id: str, name: str) -> Versioned[AgentWithScript]:
        with self._database.read() as session:
            agents = _open_repository(session, caller)
            agent = agents.get_by_name(category_id, name)
            transforms = agents.load_row_transforms(agent)
        return Versioned(_add_script(agent, transforms), compute_etag(agent))

    def create(self, caller: Identity, values: Mapping[str, Any]) -> Versioned[AgentWithScript]:
        valid = _find_valid_pipelines(values)
        with self._database.write() as session:
            agents = _open_repository(session, caller, valid)
            agent = agents.create(values)
            transforms = agents.load_row_transforms(agent)
        return Versioned(_add_script_and_warnings(agent, transforms), compute_etag(agent))

    def update(
        self,
        caller: Identity,
        category_id: str,
        agent_id: str,
        changes: Mapping[str, Any],
        if_match: Collection[str],
    ) -> Versioned[AgentWithScript]:
        valid = _find_valid_pipelines(changes)
        with self._database.write() as session:
            agents = _open_repository(session, caller, valid)
            agents.lock(agents.get_in_category(category_id, agent_id), if_match)
            agent = agents.update(agent_id, changes)
            transforms = agents.load_row_transforms(agent)
        return Versioned(_add_script_and_warnings(agent, transforms), compute_etag(agent))

    def delete(self, caller: Identity, agent_id: str, if_match: Collection[str]) -> None:
        with self._database.write() as session:
            agents = _open_repository(session, caller)
            agents.lock(agents.get(agent_id), if_match)
            agents.delete(agent_id)


def _find_valid_pipelines(values: Mapping[str, Any]) -> Mapping[str, PlanOutline]:
    code = values.get("code")
    return find_valid_pipelines(
        [values.get("pipeline_yaml"), code if code is not None and looks_like_pipeline(code) else None]
    )


def _open_repository(
    session: Session, caller: Identity, valid_pipelines: Mapping[str, PlanOutline] = NO_PIPELINES
) -> AgentRepository:
    return AgentRepository(
        session, caller.organization_id, viewer_key_id=caller.viewer_key_id, valid_pipelines=valid_pipelines
    )


def _add_script(agent: Agent, transforms: Mapping[str, str]) -> AgentWithScript:
    return AgentWithScript(
        agent, make_script(agent.pipeline_yaml, transforms) if agent.pipeline_yaml is not None else None
    )


def _add_script_and_warnings(agent: Agent, transforms: Mapping[str, str]) -> AgentWithScript:
    found = _add_script(agent, transforms)
    return AgentWithScript(agent, found.pyspark_code, find_warnings(agent.pipeline_yaml, transforms))
