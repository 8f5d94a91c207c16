"""Trials of pipelines: the first rows with their page, and selectors for an element of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from api.kit.auth import Executor, KeyRoute, Reader
from api.kit.concurrency import OUTBOUND
from api.kit.errors import answers
from api.kit.schemas import Body, Record
from api.kit.services import ServicesOf
from core.definitions.agents.models import EXAMPLE
from core.infra.changes import example
from core.integrations.trials import service as trials
from core.integrations.trials.messages import ProposalRequest
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


class ShownPageRecord(Record):
    url: str
    """Its address."""
    status: int | None
    """The status that its server answered."""
    html: str | None
    """Its elements without scripts, styles and addresses; the attribute `n` has the number of each."""
    problem: str | None
    """Why there is no page to show; null otherwise."""


class FoundSelectorRecord(Record):
    line: int
    """Its line in the pipeline."""
    start: int
    """Where it begins in the pipeline, in characters."""
    end: int
    """Where it ends there."""
    selector: str
    """Its text."""
    elements: list[int]
    """The numbers of the elements that it finds on the whole page."""


class TriedPipeline(Record):
    pipeline: str
    """The pipeline that was tried."""
    columns: list[str]
    """Names of the columns of the rows."""
    rows: list[dict[str, Any]]
    """The first rows; long values are cut."""
    pages: list[str]
    """Addresses of the pages that were fetched."""
    shown: ShownPageRecord | None
    """The page; null where none was fetched."""
    selectors: list[FoundSelectorRecord]
    """The pipeline's selectors in the order of its text."""
    notes: list[str]
    """Pages that failed, selectors that found nothing, and the stage at which the trial ends before the pipeline."""
    problem: str | None
    """Why the trial ended early; null otherwise."""


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


class ProposedSelectorRecord(Record):
    selector: str
    """The selector."""
    stability: int
    """How likely it survives changes of the page, 1 to 100."""
    elements: list[int]
    """The numbers of the elements that it finds."""
    texts: list[str]
    """The texts of the first of them."""
    rows: list[str | None]
    """The column's values in the first rows of the page (segments of flatSelect, or the page); null for nothing."""
    pipeline: str
    """The pipeline with the selector in it."""


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
        tried = trials.try_pipeline(services.database, services.settings, caller, options)
    return TriedPipeline.model_validate(tried)


@router.post("/propose-selectors", summary="Propose selectors for an element of a page")
def propose_agent_selectors(body: ElementChoice, caller: Reader, services: ServicesOf) -> list[ProposedSelectorRecord]:
    """Return up to six selectors that find the element, those first that survive most changes of the page."""
    request = ProposalRequest(html=body.html, element=body.element, pipeline=body.pipeline_yaml, line=body.line)
    with OUTBOUND.acquire(caller.organization_id):
        found = trials.propose_selectors(services.settings, request)
    return [ProposedSelectorRecord.model_validate(each) for each in found.proposals]
