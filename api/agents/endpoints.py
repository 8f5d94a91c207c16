"""Agents: create, list, read by id or name, update, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.agents.schemas import (
    AgentRecord,
    CheckedPipeline,
    PipelineCompletion,
    PipelinePlace,
    WrittenAgent,
    build_agent_record,
    build_written_agent,
)
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import AgentId, CategoryId, Nothing
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from core.definitions.agents import service as agents
from core.definitions.agents.models import AgentCreate, AgentUpdate, PipelineCheck
from core.definitions.plugins.service import list_uploaded_stages
from core.lifecycle.outlines.outlines import find_cycle_warnings
from pipelines.completion import complete_pipeline
from pipelines.listing import list_all_stages
from pipelines.planning.notebook import MEDIA_TYPE

router = APIRouter(prefix="/agents", tags=["agents"], route_class=KeyRoute)


@router.get("", summary="List the agents")
def list_agents(caller: Reader, session: ReadSession, page: PageOf) -> list[AgentRecord]:
    """Return the agents that the key may see, oldest first.

    With `limit` the answer is a page, and the `Link` header has the next one.
    """
    found = agents.list_visible(session, caller, limit=page.limit, after=page.after)
    page.link([each.agent.id for each in found])
    return [build_agent_record(each) for each in found]


@router.post(
    "", dependencies=[REPLAYED], summary="Create an agent with its pipeline", responses={**TAGGED, **answers(409)}
)
def create_agent(body: AgentCreate, caller: Writer, services: ServicesOf, response: Response) -> WrittenAgent:
    """Check the pipeline and store the agent.

    A pipeline that does not parse or plan is 400 with the line of each problem, and nothing is stored. So is a package
    of its row functions that is not allowed or cannot be had; an index out of reach is 503 `index-unavailable`. Names
    are unique within a category.
    """
    return build_written_agent(set_etag(response, agents.create(services.database, services.settings, caller, body)))


@router.post("/check", summary="Check a pipeline without storing it", responses=answers(404))
def check_agent_pipeline(body: PipelineCheck, caller: Reader, session: ReadSession) -> CheckedPipeline:
    """Return the problems and warnings of a pipeline with their lines, and its plan.

    Editors call it while one types. Parameters may still lack a value.
    """
    return CheckedPipeline.model_validate(agents.check(session, caller, body.pipeline_yaml, body.agent_id))


@router.post("/complete", summary="List what may be written at a place of a pipeline")
def complete_agent_pipeline(body: PipelinePlace, caller: Reader, session: ReadSession) -> PipelineCompletion:
    """Return stages, arguments and values for a place of a pipeline, and help for it.

    Editors call it while one types: the text after the place, and what is wrong in it, do not matter.
    """
    stages = [*list_all_stages(), *list_uploaded_stages(session, caller)]
    return PipelineCompletion.model_validate(complete_pipeline(body.pipeline_yaml, body.line, body.column, stages))


@router.get(
    "/{categoryId}",
    summary="List the agents of a category",
    description="`none` stands for the category of the agents without one.",
    responses=answers(404),
)
def list_agents_of_category(
    category_id: CategoryId, caller: Reader, session: ReadSession, page: PageOf
) -> list[AgentRecord]:
    found = agents.list_of_category(session, caller, category_id, limit=page.limit, after=page.after)
    page.link([each.agent.id for each in found])
    return [build_agent_record(each) for each in found]


@router.get("/{categoryId}/name/{agentName}", summary="Read an agent by its name", responses={**TAGGED, **answers(404)})
def read_agent_by_name(
    category_id: CategoryId,
    agent_name: Annotated[str, Path(alias="agentName", description="Name of the agent.")],
    caller: Reader,
    session: ReadSession,
    response: Response,
) -> AgentRecord:
    """Return the agent of the category with this name.

    Without a category several may share a name, and the oldest is returned.
    """
    return build_agent_record(set_etag(response, agents.get_by_name(session, caller, category_id, agent_name)))


@router.get("/{categoryId}/{agentId}", summary="Read an agent", responses={**TAGGED, **answers(404)})
def read_agent(
    category_id: CategoryId, agent_id: AgentId, caller: Reader, session: ReadSession, response: Response
) -> AgentRecord:
    """Return an agent with its pipeline and the script that is generated from it."""
    return build_agent_record(set_etag(response, agents.get(session, caller, category_id, agent_id)))


@router.get(
    "/{categoryId}/{agentId}/notebook",
    summary="Export an agent's script as a Jupyter notebook",
    description="A cell for each part of `pysparkCode`. Sent as `code`, the notebook becomes the pipeline again, also "
    "after changes by hand. An agent without a pipeline is 409 `no-pipeline`.",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "object"}}}}, **answers(404, 409)},
)
def export_notebook(category_id: CategoryId, agent_id: AgentId, caller: Reader, session: ReadSession) -> Response:
    notebook = agents.make_agent_notebook(session, caller, category_id, agent_id)
    headers = {"Content-Disposition": f'attachment; filename="agent-{agent_id}.ipynb"'}
    return Response(notebook, media_type=MEDIA_TYPE, headers=headers)


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
    if_match: IfMatch,
    response: Response,
) -> WrittenAgent:
    changed = agents.update(services.database, services.settings, caller, category_id, agent_id, body, if_match)
    updated = set_etag(response, changed)
    with services.database.read() as session:
        cycles = find_cycle_warnings(session, caller.organization_id, agent_ids=[agent_id])
    return build_written_agent(updated, cycles)


@router.delete("/{agentId}", summary="Delete an agent; its jobs stay", responses=answers(404, 412))
def delete_agent(agent_id: AgentId, caller: Writer, session: WriteSession, if_match: IfMatch) -> Nothing:
    """Delete an agent with its Python extensions.

    Its jobs stay, without an agent, and cannot be executed until they have another one.
    """
    agents.delete(session, caller, agent_id, if_match)
    return Nothing()
