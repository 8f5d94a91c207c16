"""The requests to the process of a trial, and its answers: JSON over its pipes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Cells = dict[str, Any]


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


class ShownPage(BaseModel):
    """A page as it may be shown: no script, no address, and the number of every element in its attribute `n`."""

    url: str
    status: int | None
    html: str | None
    problem: str | None = None


class FoundSelector(BaseModel):
    """A selector of the pipeline, its place in the text, and the numbers of the elements that it finds."""

    line: int
    start: int
    end: int
    selector: str
    elements: list[int]


class TrialAnswer(BaseModel):
    pipeline: str
    columns: list[str] = []
    rows: list[Cells] = []
    pages: list[str] = []
    shown: ShownPage | None = None
    selectors: list[FoundSelector] = []
    notes: list[str] = []
    problem: str | None = None


class ProposedSelector(BaseModel):
    selector: str
    stability: int
    elements: list[int]
    texts: list[str]
    rows: list[str | None]
    pipeline: str


class ProposalAnswer(BaseModel):
    proposals: list[ProposedSelector] = []
    problem: str | None = None
