"""Pages of agents: their list, the editor with its trial, the guide of the first visit, and proven selectors."""

from __future__ import annotations

from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from api.agents import endpoints as agents
from api.console.rendering import render
from api.console.routes import ConsolePageOf, open_router
from api.kit.auth import Reader
from api.kit.schemas import AgentId
from api.kit.services import Services, ServicesOf
from api.selectors import endpoints as selectors
from core.definitions.agents.models import EXAMPLE
from core.definitions.agents.service import find_category
from core.definitions.categories.service import list_visible
from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.service import find_job_of_agent
from core.definitions.projects.service import get as get_project
from core.tables import Job

SHOP = Path(__file__).with_name("templates") / "shop.yaml"
SHOP_URL = "http://127.0.0.1:8900/"
MOST_SELECTORS = 20
router = open_router()


@router.get("/agents")
def show_agents(request: Request, caller: Reader, services: ServicesOf, page: ConsolePageOf) -> HTMLResponse:
    with services.database.read() as session:
        listed = agents.list_agents(caller, session, page)
        categories = {each.category.id: each.category.name for each in list_visible(session, caller)}
    return render(request, "agents.html", agents=listed, categories=categories, following=page.following)


@router.get("/agents/new")
def show_new_agent(request: Request, _caller: Reader) -> HTMLResponse:
    return render(request, "agent.html", agent=None, etag=None, pipeline=EXAMPLE, job=None, parameters={})


@router.get("/agents/{agentId}")
def show_agent(
    request: Request, response: Response, agent_id: AgentId, caller: Reader, services: ServicesOf
) -> HTMLResponse:
    with services.database.read() as session:
        category_id = find_category(session, caller, agent_id)
        agent = agents.read_agent(category_id, agent_id, caller, session, response)
        job = find_job_of_agent(session, caller, agent_id)
    etag, pipeline = response.headers["ETag"], agent.pipeline_yaml
    parameters = _find_parameters(services, caller, job, pipeline or "") if job else {}
    return render(request, "agent.html", agent=agent, etag=etag, pipeline=pipeline, job=job, parameters=parameters)


def _find_parameters(services: Services, caller: Identity, job: Job, text: str) -> dict[str, object]:
    """Return the values that the job and its project have for parameters of the pipeline, where a line holds them."""
    project = get_project(services.database, caller, job.project_id).value.project
    known = project.parameters | job.parameters
    return {
        name: value
        for name, value in known.items()
        if f"${{{name}" in text and isinstance(value, str | int | float) and "\n" not in str(value)
    }


@router.get("/guide")
def show_guide(request: Request, _caller: Reader) -> HTMLResponse:
    return render(request, "guide.html", pipeline=SHOP.read_text(), shop=SHOP_URL)


@router.get("/selectors")
def show_selectors(request: Request, caller: Reader, services: ServicesOf) -> HTMLResponse:
    found = selectors.list_selectors(caller, services)
    return render(request, "selectors.html", selectors=found[:MOST_SELECTORS], count=len(found))
