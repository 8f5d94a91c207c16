"""Agents: each holds a pipeline, which is checked when it is written."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from sqlalchemy.orm import Session

from api.agents.schemas import AgentCreate, AgentRecord, AgentUpdate, WrittenAgent, agent_record, written_agent
from api.categories.endpoints import CategoryId, visible
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, ExpectedOf, TagOf
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from core.agents.repository import NO_CATEGORY, AgentRepository, row_transforms
from core.errors import NotFound
from core.identity.api_keys import Identity
from core.tables import Agent

router = APIRouter(prefix="/agents", tags=["agents"], route_class=KeyRoute)
AgentId = Annotated[str, Path(alias="agentId", description="Id of the agent.")]


def _agents(session: Session, caller: Identity) -> AgentRepository:
    return AgentRepository(session, caller.organization_id, viewer_key_id=visible(session, caller).viewer_key_id)


def _within(agents: AgentRepository, category_id: str, agent_id: str) -> Agent:
    """The agent, if it is in this category; `none` stands for the category of an agent without one."""
    agent = agents.get(agent_id)
    if category_id != (agent.category_id or NO_CATEGORY):
        raise NotFound("There is no agent with this id.")
    return agent


@router.get("", summary="List the agents")
def list_agents(caller: Reader, services: ServicesOf, page: PageOf) -> list[AgentRecord]:
    with services.database.read() as session:
        agents = _agents(session, caller).list(limit=page.limit, after=page.after)
        return [agent_record(agent) for agent in page.linked(agents)]


@router.post("", summary="Create an agent with its pipeline", responses={**TAGGED, **answers(409)})
def create_agent(body: AgentCreate, caller: Writer, services: ServicesOf, tag: TagOf) -> WrittenAgent:
    with services.database.write() as session:
        agent = _agents(session, caller).create(body.values())
        tag.put(agent)
        record, transforms = agent_record(agent), row_transforms(agent)
    return written_agent(record, transforms)


@router.get(
    "/{categoryId}",
    summary="List the agents of a category",
    description="`none` stands for the category of the agents without one.",
    responses=answers(404),
)
def list_agents_of_category(
    category_id: CategoryId, caller: Reader, services: ServicesOf, page: PageOf
) -> list[AgentRecord]:
    with services.database.read() as session:
        if category_id != NO_CATEGORY:
            visible(session, caller).get(category_id)
        agents = _agents(session, caller).list(category_id=category_id, limit=page.limit, after=page.after)
        return [agent_record(agent) for agent in page.linked(agents)]


@router.get("/{categoryId}/name/{agentName}", summary="Read an agent by its name", responses={**TAGGED, **answers(404)})
def read_agent_by_name(
    category_id: CategoryId,
    agent_name: Annotated[str, Path(alias="agentName")],
    caller: Reader,
    services: ServicesOf,
    tag: TagOf,
) -> AgentRecord:
    with services.database.read() as session:
        agent = _agents(session, caller).by_name(category_id, agent_name)
        tag.put(agent)
        return agent_record(agent)


@router.get("/{categoryId}/{agentId}", summary="Read an agent", responses={**TAGGED, **answers(404)})
def read_agent(
    category_id: CategoryId, agent_id: AgentId, caller: Reader, services: ServicesOf, tag: TagOf
) -> AgentRecord:
    with services.database.read() as session:
        agent = _within(_agents(session, caller), category_id, agent_id)
        tag.put(agent)
        return agent_record(agent)


@router.put(
    "/{categoryId}/{agentId}",
    summary="Change an agent; what the body leaves out stays",
    description="The first segment is the id of the agent's category, `none` for an agent without one.",
    responses={**TAGGED, **answers(404, 409, 412)},
)
def update_agent(
    category_id: CategoryId,
    agent_id: AgentId,
    body: AgentUpdate,
    caller: Writer,
    services: ServicesOf,
    expected: ExpectedOf,
) -> WrittenAgent:
    with services.database.write() as session:
        agents = _agents(session, caller)
        expected.hold(session, caller, _within(agents, category_id, agent_id))
        agent = agents.update(agent_id, body.values())
        expected.put(agent)
        record, transforms = agent_record(agent), row_transforms(agent)
    return written_agent(record, transforms)


@router.delete("/{agentId}", summary="Delete an agent; its jobs stay", responses=answers(404, 412))
def delete_agent(agent_id: AgentId, caller: Writer, services: ServicesOf, expected: ExpectedOf) -> Nothing:
    with services.database.write() as session:
        agents = _agents(session, caller)
        expected.hold(session, caller, agents.get(agent_id))
        agents.delete(agent_id)
    return Nothing()
