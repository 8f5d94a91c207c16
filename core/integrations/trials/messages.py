"""The requests to the process of a trial, and its answers: JSON over its pipes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from core.infra.records import RECORD


class TrialRequest(BaseModel):
    """The text of a pipeline, or None for one that fetches `url` alone; `url` is the page that is shown."""

    pipeline: str | None
    url: str | None
    parameters: dict[str, str]
    max_rows: int
    max_pages: int
    allow_networks: tuple[str, ...]
    own_endpoints: tuple[tuple[str, int], ...]
    user_agent: str


class ProposalRequest(BaseModel):
    """An element of a page that was shown, and the pipeline that gets a selector for it, in place of that of `line`."""

    html: str
    element: int
    pipeline: str
    line: int | None


class ShownPageRecord(BaseModel):
    model_config = RECORD

    url: str
    """Its address."""
    status: int | None
    """The status that its server answered."""
    html: str | None
    """Its elements without scripts, styles and addresses; the attribute `n` has the number of each."""
    problem: str | None = None
    """Why there is no page to show; null otherwise."""


class FoundSelectorRecord(BaseModel):
    model_config = RECORD

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


class TriedPipeline(BaseModel):
    model_config = RECORD

    pipeline: str
    """The pipeline that was tried."""
    columns: list[str] = []
    """Names of the columns of the rows."""
    rows: list[dict[str, Any]] = []
    """The first rows; long values are cut."""
    pages: list[str] = []
    """Addresses of the pages that were fetched."""
    shown: ShownPageRecord | None = None
    """The page; null where none was fetched."""
    selectors: list[FoundSelectorRecord] = []
    """The pipeline's selectors in the order of its text."""
    notes: list[str] = []
    """Pages that failed, selectors that found nothing, and the stage at which the trial ends before the pipeline."""
    problem: str | None = None
    """Why the trial ended early; null otherwise."""


class ProposedSelectorRecord(BaseModel):
    model_config = RECORD

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


class ProposalAnswer(BaseModel):
    proposals: list[ProposedSelectorRecord] = []
    problem: str | None = None
