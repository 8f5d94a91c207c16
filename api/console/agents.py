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
from api.kit.services import ServicesOf
from api.selectors import endpoints as selectors
from core.definitions.agents.models import EXAMPLE
from core.definitions.agents.service import find_category
from core.definitions.jobs.service import find_job_of_agent

SHOP = Path(__file__).with_name("templates") / "shop.yaml"
SHOP_URL = "http://127.0.0.1:8900/"
MOST_SELECTORS = 20
router = open_router()


@router.get("/agents")
def show_agents(request: Request, caller: Reader, services: ServicesOf, page: ConsolePageOf) -> HTMLResponse:
    with services.database.read() as session:
        listed = agents.list_agents(caller, session, page)
    return render(request, "agents.html", agents=listed, following=page.following)


@router.get("/agents/new")
def show_new_agent(request: Request, _caller: Reader) -> HTMLResponse:
    return render(request, "agent.html", agent=None, etag=None, text=EXAMPLE, job=None)


@router.get("/agents/{agentId}")
def show_agent(
    request: Request, response: Response, agent_id: AgentId, caller: Reader, services: ServicesOf
) -> HTMLResponse:
    with services.database.read() as session:
        category_id = find_category(session, caller, agent_id)
        agent = agents.read_agent(category_id, agent_id, caller, session, response)
        job = find_job_of_agent(session, caller, agent_id)
    etag = response.headers["ETag"]
    return render(request, "agent.html", agent=agent, etag=etag, text=agent.pipeline_yaml, job=job)


@router.get("/guide")
def show_guide(request: Request, _caller: Reader) -> HTMLResponse:
    return render(request, "guide.html", text=SHOP.read_text(), shop=SHOP_URL)


@router.get("/selectors")
def show_selectors(request: Request, caller: Reader, services: ServicesOf) -> HTMLResponse:
    found = selectors.list_selectors(caller, services)
    return render(request, "selectors.html", selectors=found[:MOST_SELECTORS], count=len(found))
