"""A segment of a plan: rows, and the steps of one pass over them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar, cast

from pipelines.browser.model import BrowserOptions
from pipelines.contract.context import RunContext
from pipelines.engine.definition import Pass
from pipelines.engine.frontier import Exploration
from pipelines.fetch import FetchOptions
from pipelines.fetch.requests import RequestTemplate
from pipelines.incremental.options import Tracking
from pipelines.language.columns import Columns
from pipelines.planning.stage import Fetching, LinkStage, RowStage

Rows = TypeVar("Rows")
OtherRows = TypeVar("OtherRows")
_MEMORY = 256 * 1024 * 1024  # bytes of files in flight in a task
_FILE_SECONDS = 600.0
FRONTIER = 1_000  # pages of a level that one task fetches sooner than an exchange could spread
SLOW_FRONTIER = 50  # where rows pass through user functions
_MAX_CONCURRENCY = 256


@dataclass
class Segment(Generic[Rows]):
    """Rows and the steps of one pass over them; `columns` are those before the pass, `after` those after it.

    With `in_one_task`, the rows are in a single partition. `changes` is how many steps before its pages have changed
    what sites answer. With `wanted`, the first so many links are fetched, and more for those whose pages fail;
    `wanted_pages` is the same for the pages of an explore. `more` returns further links, of so many more pages of the
    stage before.
    """

    rows: Rows
    enters: str
    columns: Columns
    in_one_task: bool = False
    fetches: bool = False
    fetching: Fetching = field(default_factory=Fetching)
    request: RequestTemplate | None = None
    tracking: Tracking | None = None
    stages: list[tuple[str, RowStage | Exploration]] = field(default_factory=list[tuple[str, RowStage | Exploration]])
    max_pages: int | None = None
    wanted: int | None = None
    wanted_pages: int | None = None
    more: Callable[[int], Rows] | None = None
    changes: int = 0
    after: Columns = field(init=False)

    def __post_init__(self) -> None:
        self.after = self.columns

    def with_rows(self, rows: OtherRows) -> Segment[OtherRows]:
        """Return the segment with other rows, to which the stage before adds no more."""
        converted = cast("Segment[OtherRows]", copy(self))
        converted.rows, converted.more = rows, None
        return converted

    @property
    def has_pass(self) -> bool:
        return bool(self.stages or self.fetches)

    @property
    def last_worker_step(self) -> str | None:
        """The last step of the pass; None without a pass, and when its rows are kept to infer their columns."""
        if self.after.open or self.after.json_names or not self.has_pass:
            return None
        return self.last_step

    @property
    def last_step(self) -> str:
        return self.stages[-1][0] if self.stages else self.enters

    @property
    def has_one_page(self) -> bool:
        """Whether the pass begins with a single page, so that the pages of an explore are in document order."""
        widens = any(not isinstance(stage, RowStage) or stage.widens for _, stage in self.stages)
        return self.in_one_task and self.fetching.pagination is None and not widens

    def fetch_links(
        self, stage: LinkStage, request: RequestTemplate | None, tracking: Tracking | None
    ) -> Segment[Rows]:
        """Begin the pass with the pages of the rows' links."""
        self.fetches, self.request, self.tracking = True, request, tracking
        self.fetching = replace(stage.fetching, request=None)  # which the template has
        self.after = stage.infer_columns(self.columns)
        return self

    def add(
        self,
        key: str,
        stage: RowStage | LinkStage,
        request: RequestTemplate | None = None,
        tracking: Tracking | None = None,
    ) -> None:
        if isinstance(stage, LinkStage):
            self.stages.append((key, Exploration(stage, self.after, request=request, tracking=tracking)))
        else:
            self.stages.append((key, stage))
        self.after = stage.infer_columns(self.after)

    def find_open_step(self) -> tuple[str, bool]:
        """Return the key of the last step whose columns its rows tell, and whether a row that fails ends the run."""
        key, stage = next(each for each in reversed(self.stages) if _is_open(each[1]))
        return key, isinstance(stage, RowStage) and stage.fails_run

    def build_pass(
        self,
        context: RunContext,
        links: tuple[str, LinkStage] | None,
        max_pages: int | None,
        keeps_failures: bool = True,
        hides_failures: bool = False,
    ) -> Pass:
        """Return the segment's pass; with `links` its output are the links for the next one."""
        return Pass(
            name="",
            enters=self.enters,
            fetches=self.fetches,
            entering=self.columns,
            stages=tuple(self.stages),
            links=links,
            columns=self.after,
            options=_limit_files(context.fetch, self.fetching.file_limit),
            cache=context.cache,
            endpoint=context.endpoint,
            fetching=self.fetching,
            request=self.request,
            max_pages=min(filter(None, (self.max_pages, max_pages)), default=None),
            wanted=self.wanted_pages,
            tracking=self.tracking,
            files=context.files,
            downloads=context.downloads,
            templates=f"{context.selectors.rstrip('/')}-rendering" if context.selectors else None,
            changes=self.changes,
            keeps_failures=keeps_failures,
            hides_failures=hides_failures,
        )


def _is_open(stage: RowStage | Exploration) -> bool:
    """Return whether the stage's columns must be inferred from its rows."""
    return isinstance(stage, RowStage) and stage.infer_columns(Columns()).open


def _limit_files(options: FetchOptions, file_limit: int | None) -> FetchOptions:
    """Return options for files of that size: larger bodies, for longer, and fewer at a time."""
    if file_limit is None:
        return options
    concurrency = min(options.concurrency, max(1, _MEMORY // file_limit))
    seconds = max(options.total_timeout, _FILE_SECONDS)
    return replace(options, max_body=file_limit, concurrency=concurrency, total_timeout=seconds)


def follow_links(task: Pass, key: str, frontier: int | None, partitions: int) -> Pass:
    """Return the pass as one that follows the links of an explore, level by level, with at most `frontier` a level.

    Without a frontier there is no limit. The pass may send as many requests at once as `partitions` tasks.
    """
    frontier = None if fits_in_task(task, frontier) else frontier
    concurrency = min(task.options.concurrency * partitions, _MAX_CONCURRENCY)
    options = replace(task.options, concurrency=max(concurrency, task.options.concurrency))
    return replace(task, follows=key, frontier=frontier, options=options)


def fits_in_task(task: Pass, frontier: int | None) -> bool:
    """Return whether the pages that the pass wants of its explore are no more than a task fetches of one level."""
    return frontier is None or (task.wanted is not None and task.wanted <= frontier)


def build_next_pass(task: Pass, key: str, level: int) -> Pass:
    """Return the pass for the pages of an explore's next level."""
    exploration = task.get_explorations()[key]
    position = [name for name, _ in task.stages].index(key)
    stages = ((key, replace(exploration, level=level)), *task.stages[position + 1 :])
    stage = exploration.stage
    how = {"fetching": replace(stage.fetching, request=None), "request": exploration.request, "tracking": None}
    return replace(task, enters=key, fetches=True, entering=exploration.columns, stages=stages, **how)


def fetches_alike(task: Pass, other: Pass) -> bool:
    """Return whether two passes differ only in the rows that enter them, so that one fetcher can serve both."""
    start = {name: getattr(task, name) for name in ("enters", "fetches", "entering", "stages")}
    fetching = replace(other.fetching, pagination=task.fetching.pagination)
    return replace(other, fetching=fetching, **start) == task


def get_frontier_limit(task: Pass) -> int:
    """Return the number of pages of a level up to which one task fetches them sooner than an exchange could."""
    if task.fetching.browsing:
        return BrowserOptions.from_environment().pages
    stages = (stage for _, stage in task.stages if isinstance(stage, RowStage))
    return SLOW_FRONTIER if any(stage.is_slow for stage in stages) else FRONTIER
