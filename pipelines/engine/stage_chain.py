"""The stages of a pass as functions that take rows, each of which calls the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple, ParamSpec, TypeVar, cast
from weakref import ref

from pipelines.contract.questions import QuestionReader
from pipelines.contract.workers import BatchWorker, Tools
from pipelines.coordination.client import DriverGone
from pipelines.coordination.messages import Counts
from pipelines.coordination.services import ServiceClient
from pipelines.engine.deferred_rows import AnswerSource, DeferredRows
from pipelines.engine.definition import Pass
from pipelines.engine.frontier import Emit, ExploreStep, FindLinks, Frontier, PendingWriters
from pipelines.engine.output import PassOutput
from pipelines.engine.progress import ProgressReporter, StepProgress
from pipelines.engine.row_batcher import RowBatcher
from pipelines.errors import AnswerPending, StageFailed
from pipelines.extract.rows import NOTHING, Link, Row, count_links
from pipelines.fetch.urls import list_spellings
from pipelines.planning.stage import LinkStage, RowStage, ServiceStage

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Flush = Callable[[], None]

MAX_PAGE_ROWS = 64 * 2**20  # characters
PART_SIZE = 8  # of a row or a list's item besides its texts: four times the two bytes that one takes in a page of JSON


class Stages(NamedTuple):
    """The stages of a pass: a function that takes a row into the first one, and the explore that the pass follows.

    `flushes` process the rows that stages have not processed yet.
    """

    enter: Emit
    flushes: list[Flush]
    explore: ExploreStep | None


def chain_stages(
    task: Pass, output: PassOutput[object], pending: PendingWriters, reporter: ProgressReporter, tools: Tools
) -> Stages:
    """Chain the stages, so that each calls the next and the last writes the output.

    Writers of links and of multiplied rows go to `pending`.
    """
    flushes, followed = deque[Flush](), None
    last = task.stages[-1][0] if task.stages else task.enters
    add_row = _bound_pages(output.add_row, reporter.get_counts(last), task.keeps_failures)
    emit = _write_links(*task.links, output, pending, reporter, tools, flushes) if task.links else add_row
    if task.hides_failures or not task.keeps_failures:
        names = tuple(task.columns)
        reporter.get_step(last).preview.hides = lambda row: row.is_empty_failure(names)
    if not task.keeps_failures:
        emit = _leave_out_failures(emit, tuple(task.columns))
    for key, stage in reversed(task.stages):
        step = reporter.get_step(key)
        if isinstance(stage, RowStage):
            emit = _apply_row_stage(task, key, stage, emit, reporter, flushes, pending, tools)
            continue
        frontier, most = Frontier(), stage.stage.max_per_template
        if key == task.follows:
            frontier = Frontier(task.frontier, task.max_pages, task.wanted, most, step.counts.bounded)
        find_links = stage.stage.work(tools)
        counted = _count_links(stage.stage, find_links, step)
        explore = ExploreStep(key, stage, frontier, emit, output, pending, step, counted)
        flushes.appendleft(explore.add_held)
        if stage.stage.asks_questions:
            _defer_explore(explore, find_links, tools.reader, flushes)
        emit, followed = explore.enter, explore if key == task.follows else followed
    if task.enters not in task.get_explorations():  # an explore counts its pages itself
        emit = _count_rows(emit, reporter.get_step(task.enters))
    return Stages(emit, list(flushes), followed)


def _bound_pages(emit: Emit, counts: Counts, keeps_failures: bool) -> Emit:
    """Let a page make rows of a bounded size: what is nested is in the texts of all its ancestors."""
    page, size, most = ref(NOTHING), 0, 0

    def write(row: Row) -> None:
        nonlocal page, size, most
        fetched = row.fetched
        if fetched.page is None:
            emit(row)
            return
        if fetched is not page():
            page, size, most = ref(fetched), 0, max(MAX_PAGE_ROWS, 4 * len(fetched.page.body))
        if size > most:
            return
        size += PART_SIZE
        for value in row.values.values():  # mostly texts, for which a call would take longer
            size += len(value) if type(value) is str else _measure(value)
        if size <= most:
            emit(row)
            return
        counts.errors += 1
        if keeps_failures:
            emit(row.mark_failed(f"the rows of this page have more than {most / 1e6:.0f} MB: the rest is left out", {}))

    return write


def _measure(value: object) -> int:
    """Return about how many characters a value takes, with those of its parts and a little for itself."""
    match value:
        case str():
            return len(value)
        case dict():
            return PART_SIZE + sum(map(_measure, cast(dict[str, object], value).values()))
        case list() | tuple():
            return PART_SIZE + sum(PART_SIZE + _measure(each) for each in cast(Sequence[object], value))
        case _:
            return 0


def _leave_out_failures(emit: Emit, names: Sequence[str]) -> Emit:
    """Leave rows with an error and without values out of the output."""

    def write(row: Row) -> None:
        if row.fetched.error is None or not row.is_empty_failure(names):
            emit(row)

    return write


def _count_rows(emit: Emit, step: StepProgress) -> Emit:
    def count(row: Row) -> None:
        step.add_row(row)
        emit(row)

    return count


def _apply_row_stage(
    task: Pass,
    key: str,
    stage: RowStage,
    emit: Emit,
    reporter: ProgressReporter,
    flushes: deque[Flush],
    pending: PendingWriters,
    tools: Tools,
) -> Emit:
    step = reporter.get_step(key)
    counts, tally = step.counts, step.count_selectors(len(stage.list_selectors()))
    source = _choose_source(stage, tools)
    work = stage.work(replace(tools, tally=tally))
    if isinstance(source, ServiceClient) and not isinstance(work, BatchWorker):
        work = _count_read_pages(task, work, source, step, reporter)
    switch = reporter.switch  # the time of a row counts for the stage that works on it

    def take(row: Row, rows: Iterable[Row]) -> int:
        before, taken = switch(step), counts.rows
        for made in rows:
            step.add_row(made)
            if made.fetched.error and not row.fetched.error:
                counts.errors += 1
                if source is not None:
                    reporter.add_unread(step, made)
            emit(made)
        switch(before)
        return counts.rows - taken

    def take_one_by_one(row: Row, rows: Iterator[Row]) -> Iterator[None]:
        while take_next(row, islice(rows, 1)):
            yield

    take_next = _name_failures(key, take)

    def run_batch(batch: Callable[[], None]) -> None:
        before = switch(step)
        batch()
        switch(before)

    if isinstance(work, BatchWorker):
        batcher = RowBatcher(work, take)
        run = _name_failures(key, run_batch)
        flushes.appendleft(lambda: run(batcher.flush))
        return lambda row: run(lambda: batcher.add(row))
    if source is not None:
        return _defer(source, lambda row: take(row, [*work(row)]), flushes, partial(_name_failures, key))
    if stage.widens:
        return lambda row: pending.append(take_one_by_one(row, iter(work(row))))
    return _name_failures(key, lambda row: take(row, work(row)))


def _count_read_pages(
    task: Pass,
    work: Callable[[Row], Iterable[Row]],
    services: ServiceClient,
    step: StepProgress,
    reporter: ProgressReporter,
) -> Callable[[Row], Iterable[Row]]:
    """Return the function of a stage that counts the pages of sites that it reads for a row."""
    secrets, since = list_spellings(task.cache.secrets), task.cache.since

    def ask(row: Row) -> Iterable[Row]:
        try:
            return work(row)
        finally:
            for page in services.take_pages():
                step.counts.cached += since is not None and page.fetched_at < since
                reporter.add_optional_page(step, page, secrets)

    return ask


def _choose_source(stage: RowStage, tools: Tools) -> QuestionReader | ServiceClient | None:
    """Return the source of a stage's answers, if it waits for any."""
    if isinstance(stage, ServiceStage):
        return tools.client
    return tools.reader if stage.asks_questions else None


def _defer(
    source: QuestionReader | ServiceClient, take: Emit, flushes: deque[Flush], name: Callable[[Emit], Emit]
) -> Emit:
    """Return the function that takes rows into a stage that asks, now or when their answers have arrived."""
    if not isinstance(source, AnswerSource):
        return name(take)
    deferred = DeferredRows(source, name(take))
    flushes.appendleft(deferred.flush)
    return deferred.add


def _name_failures(key: str, function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Return the function with the step's key in its errors, unless a later stage has named them."""

    def call(*given: Given.args, **named: Given.kwargs) -> Returned:
        try:
            return function(*given, **named)
        except (StageFailed, DriverGone, AnswerPending):
            raise
        except Exception as error:
            raise StageFailed(key, error) from error

    return call


def _count_links(stage: LinkStage, find_links: FindLinks, step: StepProgress) -> FindLinks:
    """Return the function that also counts the pages on which the stage's selector finds no link."""
    if not (selectors := stage.list_selectors()):
        return find_links
    return count_links(find_links, step.count_selectors(len(selectors)))


def _write_links(
    key: str,
    stage: LinkStage,
    output: PassOutput[object],
    pending: PendingWriters,
    reporter: ProgressReporter,
    tools: Tools,
    flushes: deque[Flush],
) -> Emit:
    """Write a row for every link, which the next pass fetches."""
    find_links = _count_links(stage, stage.work(tools), reporter.get_step(key))
    drops = stage.drops_rows_without_link

    def write(row: Row, links: Iterable[Link]) -> Iterator[None]:
        position = 0
        for position, link in enumerate(links, start=1):
            output.add_row(row.follow_link(link, (*row.ordinal, position)), link.url)
            yield
        if position == 0 and not drops:
            output.add_row(row.keep_without_link(), None)

    if stage.asks_questions:
        return _defer(
            tools.reader, lambda row: pending.append(write(row, [*find_links(row)])), flushes, lambda take: take
        )
    return lambda row: pending.append(write(row, find_links(row)))


def _defer_explore(explore: ExploreStep, find_links: FindLinks, reader: QuestionReader, flushes: deque[Flush]) -> None:
    """Let the rows of an explore enter when the answers about their links have arrived."""

    def take(row: Row) -> None:
        errors = [] if explore.is_last_level else [link.error for link in find_links(row) if link.error]
        explore.add(row.add_error(errors[0]) if errors else row)

    own = deque[Flush]()
    explore.enter = _defer(reader, take, own, lambda each: each)
    if own:
        explore.flush = own[0]
        flushes.extendleft(own)
