"""The definition of a pass: the message to the workers that run it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipelines.coordination.messages import Endpoint
from pipelines.engine.frontier import Exploration
from pipelines.extract.rows import PageSelector
from pipelines.fetch import FetchOptions
from pipelines.fetch.files import FileFolder
from pipelines.fetch.requests import RequestTemplate
from pipelines.incremental.options import Tracking
from pipelines.language.columns import Columns
from pipelines.page_cache.options import CacheOptions
from pipelines.planning.stage import Fetching, LinkStage, RowStage, ServiceStage


@dataclass(frozen=True, slots=True)
class Pass:
    """The definition of a pass, as sent to the workers.

    The step `enters` provides rows with the columns `entering`, after fetching their links if `fetches`. The `stages`,
    with their step keys, are applied in order. With `links`, the step that follows, the output are links for the next
    pass. The output has `columns`.

    `follows` is the key of an explore whose links the pass follows itself, in its only task, while a level has at most
    `frontier` pages, or always without one. An explore and a pagination have at most `max_pages`, and that explore has
    `wanted` pages besides failed ones. Files and pictures are kept in `files`, and pages of archives below `downloads`.
    What is learned of pages that scripts make is in the folder `templates`.
    Pages of before the last of the `changes` are fetched again. Without `keeps_failures`, the output lacks rows with an
    error and no value in any column; with `hides_failures` only the preview does. With `tracking` the pass leaves out
    pages that earlier executions have published.
    """

    name: str
    enters: str
    fetches: bool
    entering: Columns
    stages: tuple[tuple[str, RowStage | Exploration], ...]
    links: tuple[str, LinkStage] | None
    columns: Columns
    options: FetchOptions
    cache: CacheOptions
    endpoint: Endpoint | None
    fetching: Fetching = field(default_factory=Fetching)
    request: RequestTemplate | None = None
    follows: str | None = None
    frontier: int | None = 0
    max_pages: int | None = None
    wanted: int | None = None
    tracking: Tracking | None = None
    files: FileFolder | None = None
    downloads: str | None = None
    templates: str | None = None
    changes: int = 0
    keeps_failures: bool = True
    hides_failures: bool = False

    @property
    def asks_questions(self) -> bool:
        """Whether a stage of the pass asks questions about pages."""
        stages = (each.stage if isinstance(each, Exploration) else each for _, each in self.stages)
        return any(each.asks_questions for each in stages) or (self.links is not None and self.links[1].asks_questions)

    @property
    def asks_services(self) -> bool:
        """Whether a stage of the pass asks services."""
        return any(isinstance(stage, ServiceStage) for _, stage in self.stages)

    def list_selectors(self) -> Iterator[PageSelector]:
        """Iterate over the selectors that the stages of the pass apply to pages."""
        stages = [each.stage if isinstance(each, Exploration) else each for _, each in self.stages]
        for stage in (*stages, *([self.links[1]] if self.links else ())):
            yield from stage.list_selectors()

    def get_explorations(self) -> dict[str, Exploration]:
        return {key: stage for key, stage in self.stages if isinstance(stage, Exploration)}
