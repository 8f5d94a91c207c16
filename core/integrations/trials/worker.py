"""The process of one trial: a request on stdin, its answer on stdout. It has no secret, and no file of the service."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import yaml

from core.data.processes import limit_resources
from core.integrations.trials.markup import build_markup, number_elements
from core.integrations.trials.messages import (
    FoundSelectorRecord,
    ProposalAnswer,
    ProposalRequest,
    ShownPageRecord,
    TrialRequest,
    TriedPipeline,
)
from core.integrations.trials.proposals import propose_selectors
from pipelines.engine.options import make_fetch_options
from pipelines.errors import PipelineError, RunError
from pipelines.extract import (
    Document,
    Element,
    HtmlElement,
    SelectorError,
    SelectorFailed,
    SlowPattern,
    compile_selector,
)
from pipelines.extract.rows import Row
from pipelines.fetch import CrawlOptions, HttpFetcher, Page, canonical_url
from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.language.json_values import PREVIEW_LENGTH, to_json
from pipelines.pipeline import Pipeline
from pipelines.planning.draft import DraftSelector, find_selectors, write_draft
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import LinkStage, RowStage, Stage, TableStage
from pipelines.stages.extract import Extract, FlatSelect
from pipelines.stages.links import Wget, WgetExplore, WgetJoin
from pipelines.trial import Trial, TrialPages

CPU_SECONDS = 30
MAX_BODY = 5 * 2**20
MAX_SHOWN = 2000
"""Elements of one selector that are marked."""
PAGE_SECONDS = 20.0
TRIED = (Extract, FlatSelect, Wget, WgetExplore, WgetJoin)
"""Stages that need no file, no model, no browser and no code of a user; tables are tried after them where Arrow can."""


def main() -> None:
    limit_resources()
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    kind, text = sys.stdin.readline().strip(), sys.stdin.read()
    answer = (
        try_pipeline(TrialRequest.model_validate_json(text))
        if kind == TrialRequest.__name__
        else _propose(ProposalRequest.model_validate_json(text))
    )
    sys.stdout.write(answer.model_dump_json())


def _propose(request: ProposalRequest) -> ProposalAnswer:
    try:
        return propose_selectors(request)
    except yaml.YAMLError:
        return ProposalAnswer(problem="The pipeline is no valid YAML: mend it first.")


def try_pipeline(request: TrialRequest) -> TriedPipeline:
    """Return the first rows of the pipeline, and a page of it with the matches of its selectors."""
    text = request.pipeline if request.pipeline is not None else write_draft(request.url or "", ())
    answer = TriedPipeline(pipeline=text)
    try:
        plan = Pipeline.from_yaml(text).plan(request.parameters)
    except PipelineError as error:
        return answer.model_copy(update={"problem": "; ".join(map(str, error.problems[:3]))})
    defaults = CrawlOptions(
        total_timeout=PAGE_SECONDS,
        max_body=MAX_BODY,
        retries=0,
        user_agent=request.user_agent,
        own_endpoints=request.own_endpoints,
    )
    options = make_fetch_options(plan.options, request.allow_networks, defaults)
    tried, left_out = _limit_plan(plan)
    pages, rows = TrialPages(), list[Row]()
    try:
        with Trial(tried, options, request.max_pages, pages) as trial:
            for row in islice(trial.iter_shown_rows(), request.max_rows):
                rows.append(row)
            answer.columns, answer.rows = _show_rows(trial, rows)
            answer.notes = _list_notes(trial, left_out or trial.next_step)
    except RunError as error:
        answer.problem = str(error)
    answer.pages = [page.requested_url for page in pages.list_pages()]
    page = _find_page(request.url, rows, pages) or (_fetch(request.url, options) if request.url else None)
    if page is not None:
        answer.shown, answer.selectors = _show_page(page, text)
    return answer


def _limit_plan(plan: Plan) -> tuple[Plan, Step | None]:
    """Return the plan up to the first step that a trial on the server leaves out, and this step."""
    for number, step in enumerate(plan.steps[:-1]):
        if not _may_try(step.stage):
            return replace(plan, steps=(*plan.steps[:number], plan.steps[-1])), step
    return plan, None


def _may_try(stage: Stage | None) -> bool:
    if not isinstance(stage, RowStage | LinkStage | TableStage):
        return False
    if isinstance(stage, TableStage):
        return not (stage.list_inputs() or stage.list_tables() or stage.list_credentials())
    return isinstance(stage, TRIED) and not (stage.fetching.browsing or stage.fetching.scripts or stage.uses_model)


def _show_rows(trial: Trial, rows: Sequence[Row]) -> tuple[list[str], list[dict[str, object]]]:
    names = dict.fromkeys(name for name in trial.columns if name not in ENGINE_COLUMNS)
    names |= dict.fromkeys(name for row in rows for name in row.values)
    names |= dict.fromkeys(trial.kept_columns)
    names = names or {"_requestedUrl": None}
    shown = [{name: to_json(row.value(name), PREVIEW_LENGTH) for name in names} for row in rows]
    return [*names], shown


def _list_notes(trial: Trial, left_out: Step | None) -> list[str]:
    notes = [": ".join(filter(None, (each.url, each.message))) for each in trial.failures[:5]]
    notes += [str(found) for found in trial.list_empty_selectors()]
    if left_out is not None:
        notes.append(f"{left_out.location} is left out of a trial here. The rows are those before it.")
    return notes


def _find_page(url: str | None, rows: Sequence[Row], pages: TrialPages) -> Page | None:
    """Return the page that was asked for, if it was fetched; else that of the first row, or the first one."""
    fetched = pages.list_pages()
    if url is not None:
        wanted = canonical_url(url)
        return next((page for page in fetched if wanted in (page.requested_url, page.url)), None)
    return next((row.fetched.page for row in rows if row.fetched.page is not None), None) or next(iter(fetched), None)


def _fetch(url: str, options: CrawlOptions) -> Page | None:
    address = canonical_url(url)
    if address is None:
        return None
    with HttpFetcher(options) as fetcher:
        page, _ = next(fetcher.fetch([(address, None)]))
    return page


def _show_page(page: Page, text: str) -> tuple[ShownPageRecord, list[FoundSelectorRecord]]:
    shown = ShownPageRecord(url=page.url, status=page.status, html=None)
    if not page.ok:
        return shown.model_copy(update={"problem": page.error or f"It answered {page.status}."}), []
    root = Document(page).root
    if not isinstance(root, HtmlElement):
        return shown.model_copy(
            update={"problem": f"It is not HTML but {page.content_type or 'of no known type'}."}
        ), []
    numbers = number_elements(root)
    shown.html = build_markup(root, numbers)
    return shown, [
        FoundSelectorRecord(
            line=each.line,
            start=each.start,
            end=each.end,
            selector=each.text,
            elements=[numbers[found.key] for found in _select(root, each)[:MAX_SHOWN] if found.key in numbers],
        )
        for each in find_selectors(text)
    ]


def _select(root: Element, selector: DraftSelector) -> Sequence[Element]:
    try:
        if selector.key == "xpath":
            return root.select_xpath(selector.text)
        return root.select(compile_selector(selector.text))
    except (SelectorError, SelectorFailed, SlowPattern):
        return ()  # check reports it at its line


if __name__ == "__main__":
    main()
