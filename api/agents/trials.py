"""Trials of pipelines: the first rows with their page, and selectors for an element of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from api.kit.auth import Executor, KeyRoute, Reader
from api.kit.concurrency import OUTBOUND
from api.kit.errors import answers
from api.kit.schemas import Body
from api.kit.services import ServicesOf
from core.definitions.agents.models import EXAMPLE
from core.infra.changes import example
from core.integrations.trials import service as trials
from core.integrations.trials.messages import ProposalRequest, ProposedSelectorRecord, TriedPipeline
from core.integrations.trials.service import TrialOptions

router = APIRouter(prefix="/agents", tags=["agents"], route_class=KeyRoute)


class PipelineTrial(Body):
    model_config = example({"pipelineYaml": EXAMPLE})

    pipeline_yaml: str | None = None
    """The pipeline; without one, `url` is fetched by a pipeline that is made for it."""
    url: str | None = None
    """The page that is shown; by default that of the first row."""
    agent_id: str | None = None
    """The agent whose row transforms the pipeline may name."""
    parameters: dict[str, str] | None = None
    """Values of the pipeline's `${NAME}`."""
    rows: Annotated[int, Field(ge=1, le=100)] = 20
    """Most rows of the answer."""
    pages: Annotated[int, Field(ge=1, le=20)] = 5
    """Most pages that are fetched."""


class ElementChoice(Body):
    model_config = example({"html": "<p n=1>Kettle</p>", "element": 1, "pipelineYaml": EXAMPLE})

    html: str
    """The `html` of a page that a trial has answered."""
    element: int
    """The number of the element."""
    pipeline_yaml: str
    """The pipeline that gets the selector."""
    line: int | None = None
    """The line whose first selector is replaced; without one there, a column is added."""


@router.post("/try", summary="Try a pipeline without storing it", responses=answers(404))
def try_agent_pipeline(body: PipelineTrial, caller: Executor, services: ServicesOf) -> TriedPipeline:
    """Fetch the first pages of a pipeline and return its first rows, and one page with the elements of its selectors.

    It ends before the first stage that needs a browser, a model, files, other datasets or a row transform; an execution
    with a `limit` runs those. Pages are requested as in an execution, with the same guard.
    """
    options = TrialOptions(
        pipeline=body.pipeline_yaml,
        url=body.url,
        parameters=body.parameters or {},
        agent_id=body.agent_id,
        max_rows=body.rows,
        max_pages=body.pages,
    )
    with OUTBOUND.acquire(caller.organization_id):
        return trials.try_pipeline(services.database, services.settings, caller, options)


@router.post("/propose-selectors", summary="Propose selectors for an element of a page")
def propose_agent_selectors(body: ElementChoice, caller: Reader, services: ServicesOf) -> list[ProposedSelectorRecord]:
    """Return up to six selectors that find the element, those first that survive most changes of the page."""
    request = ProposalRequest(html=body.html, element=body.element, pipeline=body.pipeline_yaml, line=body.line)
    with OUTBOUND.acquire(caller.organization_id):
        return trials.propose_selectors(services.settings, request).proposals
