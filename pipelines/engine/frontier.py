"""An explore within a pass: its pages, and its links, which a task follows itself while they are few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from typing import NamedTuple

from pipelines.engine.output import PassOutput
from pipelines.engine.progress import StepProgress
from pipelines.extract.rows import NOTHING, Fetched, Link, Ordinal, Row, place_link
from pipelines.fetch.address_templates import MAX_TEMPLATES, get_template
from pipelines.fetch.requests import RequestTemplate
from pipelines.incremental.options import Tracking
from pipelines.language.columns import Columns
from pipelines.planning.plan import Step
from pipelines.planning.stage import LinkStage

Emit = Callable[[Row], object]
FindLinks = Callable[[Row], Iterable[Link]]
PendingWriters = list[Iterator[None]]  # each step writes one row, or appends a writer for the rows derived from it
_MAX_CHARACTERS = 32 * 1024 * 1024  # of the links that a task holds, with the values of their rows
_MAX_VISITED = 50_000
_SPARE_LINKS = 1_000  # to replace failed pages
MOST_FAILED = 100  # pages that fail one after another: the site is down, and a limit is not reached
_MAX_HELD = 64  # redirected pages that wait for the end of their level
_NAMED = 5  # templates of addresses in a sentence
_VISITED = Row({}, ())  # a visited page matters only by its URL


@dataclass(frozen=True, slots=True)
class Exploration:
    """One level of an explore within a pass: its pages are of `level`, their links of the next level.

    `columns` are those of the rows before the explore, which its links carry. With `tracking`, known pages of its last
    level are left out.
    """

    stage: LinkStage
    columns: Columns
    level: int = 0
    request: RequestTemplate | None = None
    tracking: Tracking | None = None

    @property
    def gives_pages_once(self) -> bool:
        """Whether links that redirect to one page give one row of it.

        The page of a browser may have been changed by its trace, and the answer to a form may be the sender's own.
        """
        return self.stage.fetching.browsing is None and (self.request is None or not self.request.is_per_row)


class FoundLink(NamedTuple):
    """A link of an explore with the row of its page, and the page's depth; 0 marks a visited page."""

    row: Row
    url: str
    level: int


class Frontier:
    """Holds the links to the next level of an explore while there are at most `limit`; then hands all over.

    Without a limit, it holds all.

    The links that `add` and `add_start` return are for an exchange between tasks. These are no links while the frontier
    is within its limit, and all links afterwards. Only a task that sees all links of an explore may hold links. A page
    is visited once; of links to the same page the first in document order counts. `max_pages` limits the pages, the
    visited ones included, and `wanted` those that have not failed: other links of their level replace these. Of pages
    whose addresses have one template there are at most `max_per_template`; `bounded` gets the templates with more.
    """

    def __init__(
        self,
        limit: int | None = 0,
        max_pages: int | None = None,
        wanted: int | None = None,
        max_per_template: int | None = None,
        bounded: set[str] | None = None,
    ) -> None:
        self._limit = limit
        self._max_pages = max_pages
        self._wanted = wanted
        self._max_per_template = max_per_template
        self._bounded = bounded if bounded is not None else set[str]()
        self._per_template = Counter[str]()
        self._failed = self._failed_in_a_row = 0
        self._rest: list[tuple[str, Row]] = []  # links of the current level that are not followed
        self._handed_over = limit == 0
        self._visited = set[str]()
        self._reached = set[str]()
        self._visited_here: list[str] = []
        self._links: dict[str, Row] = {}
        self._characters = 0

    def add_visited(self, url: str) -> None:
        """Add a page that an earlier pass has visited."""
        if not self._handed_over:
            self._visit([url])

    def _visit(self, urls: Sequence[str]) -> None:
        if self._max_per_template is not None:
            self._per_template.update(get_template(url) for url in {*urls} - self._visited)
        self._visited.update(urls)

    def reach(self, url: str) -> None:
        """Add a page that a redirect led to, so that no link of a later level does."""
        self._reached.add(url)

    def has_page(self, url: str) -> bool:
        """Return whether the page is visited in this task, or a redirect has led to it."""
        return url in self._visited or url in self._reached

    def add_start(self, url: str) -> Iterable[FoundLink]:
        """Add a page of depth 0, which no link leads to; return the links to hand over."""
        if self._handed_over:
            return (FoundLink(_VISITED, url, 0),)
        self._visit([url])
        self._visited_here.append(url)
        return ()

    def add(self, link: FoundLink) -> Iterable[FoundLink]:
        """Add a link to a page of the next level; return the links to hand over."""
        if self._handed_over:
            return (link,)
        row, url, level = link
        if self.has_page(url):
            return ()
        known = self._links.get(url)
        if known is None or row.ordinal < known.ordinal:
            self._links[url] = row
            self._characters += len(url) + _count_characters(row)
        if self._limit is None and self._wanted is not None and len(self._links) > 2 * (self._wanted + _SPARE_LINKS):
            self._links = dict(self._sort_links()[: self._wanted + _SPARE_LINKS])
        return self._hand_over(level) if self._is_full() else ()

    def count_page(self, has_failed: bool) -> None:
        """Count a visited page, so that another one can replace it if it has failed."""
        self._failed += has_failed
        self._failed_in_a_row = self._failed_in_a_row + 1 if has_failed else 0

    def count_repeated(self) -> None:
        """Count a page that the explore has already, which another one can replace."""
        self._failed += 1

    def take_replacements(self) -> list[tuple[str, Row]]:
        """Return links of the current level in place of failed pages, unless a hundred have failed in a row."""
        return self._take(self._rest) if self._rest and self._failed_in_a_row < MOST_FAILED else []

    def take_level(self) -> list[tuple[str, Row]]:
        """Return the links to the pages of the next level in document order, unless they were handed over."""
        found = self._sort_links()
        self._links, self._characters = {}, 0
        return self._take(found) if self._failed_in_a_row < MOST_FAILED else []

    def _sort_links(self) -> list[tuple[str, Row]]:
        found = ((url, row) for url, row in self._links.items() if not self.has_page(url))
        return self._bound(sorted(found, key=lambda each: each[1].ordinal))

    def _bound(self, found: list[tuple[str, Row]]) -> list[tuple[str, Row]]:
        """Return the first links of each template, as many as its visited pages leave."""
        if self._max_per_template is None:
            return found
        counts, kept = self._per_template.copy(), found[:0]
        for each in found:
            template = get_template(each[0])
            counts[template] += 1
            if counts[template] <= self._max_per_template:
                kept.append(each)
            elif len(self._bounded) < MAX_TEMPLATES:
                self._bounded.add(template)
        return kept

    def _take(self, found: list[tuple[str, Row]]) -> list[tuple[str, Row]]:
        """Take the first of these links, as many as `max_pages` and `wanted` allow."""
        if self._max_pages is not None:
            del found[max(self._max_pages - len(self._visited), 0) :]
        if self._wanted is not None:
            number = max(self._wanted - len(self._visited) + self._failed, 0)
            found, self._rest = found[:number], found[number:]
        urls = [*map(itemgetter(0), found)]
        self._visit(urls)
        self._visited_here += urls
        return found

    def _is_full(self) -> bool:
        if self._limit is None:
            return False
        is_large = self._characters > _MAX_CHARACTERS or len(self._visited) > max(_MAX_VISITED, self._limit)
        return len(self._links) > self._limit or is_large

    def _hand_over(self, level: int) -> Iterable[FoundLink]:
        visited, links = self._visited_here, self._links
        self._handed_over, self._links, self._visited, self._visited_here = True, {}, set(), []
        return chain(
            (FoundLink(_VISITED, url, 0) for url in visited),
            (FoundLink(row, url, level) for url, row in links.items()),
        )


def describe_bounded(step: Step, templates: Collection[str]) -> str:
    """Return a sentence about the templates of which an explore has left out addresses."""
    most = step.stage.max_per_template if isinstance(step.stage, LinkStage) else None
    named, where = sorted(templates), f" in line {step.line}" if step.line else ""
    more = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{more}: {most:,} pages kept of more, by maxPerTemplate{where}"


def _count_characters(row: Row) -> int:
    texts = (value for value in row.values.values() if isinstance(value, str | bytes))
    return len(row.link_text or "") + sum(map(len, texts))


class ExploreStep:
    """Emits the pages of an explore once, and gives their links to the frontier, or to the output for the next pass.

    The pages themselves go to the output as visited with the links, so that no level fetches them again. A redirected
    page waits for the end of its level: of several links to it the first in document order counts.
    """

    def __init__(
        self,
        key: str,
        exploration: Exploration,
        frontier: Frontier,
        emit: Emit,
        output: PassOutput[object],
        pending: PendingWriters,
        progress: StepProgress,
        find_links: FindLinks,
    ) -> None:
        self.key = key
        self._level = exploration.level
        self._max_depth = exploration.stage.max_depth or 0
        self._columns = tuple(exploration.columns)
        self._find_links = find_links
        self._frontier = frontier
        self._emit = emit
        self._output = output
        self._pending = pending
        self._progress = progress
        self._latest: Fetched = NOTHING
        self._gives_once = exploration.gives_pages_once
        self._held: dict[str, Row] = {}
        self._chosen: dict[str, Ordinal] = {}
        self._most_held = _MAX_HELD
        self._starts: set[str] | None = None
        # of a stage that asks: how rows enter, and what takes those whose answers are pending
        self.enter: Emit = self.add
        self.flush: Callable[[], None] | None = None

    def expect_order(self) -> None:
        """Expect rows in document order, of which none is held back; those of one page may come apart."""
        self._most_held, self._starts = 0, set()

    def load(self, links: Iterable[tuple[str | None, Row | None]]) -> Iterator[None]:
        """Put the links that earlier passes handed over into the frontier; without a row, the page is visited."""
        for url, row in links:
            if url and row:
                yield from self._write(self._frontier.add(FoundLink(row, url, self._level + 1)))
            elif url:
                self._frontier.add_visited(url)

    @property
    def is_last_level(self) -> bool:
        """Whether the links of the current pages are not followed."""
        return self._level >= self._max_depth

    def take_links(self) -> list[tuple[str, list[Row]]]:
        """Return the links of the frontier with their rows; the next pages are theirs."""
        if self.flush:
            self.flush()
            self.add_held()
            while self._pending:
                for _ in self._pending.pop():
                    pass
        if replacing := self._frontier.take_replacements():
            return [(url, [row]) for url, row in replacing]
        self._level += 1
        return [(url, [row]) for url, row in self._frontier.take_level()]

    def add(self, row: Row) -> None:
        """Take the row of a page."""
        redirected = self._find_redirected(row.fetched)
        if self._level == 0:
            is_whole_page = row.element is not None and row.element is row.fetched.root
            url = row.fetched.requested_url
            is_known = row.fetched is self._latest or (self._starts is not None and url in self._starts)
            if is_whole_page and is_known:  # another row of the same page
                return
            self._latest = row.fetched
            row = row.set_depth(0, (*row.ordinal, 0))
            if url and self._starts is not None:
                self._starts.add(url)
            if url:
                self._pending.append(self._write(self._frontier.add_start(url)))
            if redirected:
                self._frontier.reach(redirected)
        elif redirected and not self._choose(redirected, row):
            return
        self._progress.add_row(row)
        self._frontier.count_page(row.is_empty_failure(self._columns))
        if not self.is_last_level:
            self._pending.append(self._write_links(row, self._level))
        self._emit(row)

    def take_held(self) -> list[Row]:
        """Return the redirected pages of the level that no other link has led to, to be added again."""
        held, self._held = sorted(self._held.items(), key=lambda each: each[1].ordinal), {}
        self._chosen = {url: row.ordinal for url, row in held}
        for url, _ in held:
            self._frontier.reach(url)
        return [row for _, row in held]

    def add_held(self) -> None:
        for row in self.take_held():
            self.add(row)

    def _find_redirected(self, fetched: Fetched) -> str | None:
        """Return the address of a page to which a redirect has led."""
        is_redirected = fetched.url != fetched.requested_url and not fetched.error
        return fetched.url if self._gives_once and is_redirected else None

    def _choose(self, url: str, row: Row) -> bool:
        """Return whether the row of a page to which a redirect led is to be added now; hold it back or drop it else."""
        if self._chosen.get(url) == row.ordinal:
            return True
        if self._frontier.has_page(url):
            self._frontier.count_repeated()
            return False
        if (other := self._held.get(url)) is None and len(self._held) >= self._most_held:
            self._frontier.reach(url)
            return True
        if other:
            self._frontier.count_repeated()
        self._held[url] = min(other or row, row, key=attrgetter("ordinal"))
        return False

    def _write_links(self, row: Row, level: int) -> Iterator[None]:
        for position, link in enumerate(self._find_links(row), start=1):
            if link.url:
                ordinal = place_link(row.ordinal, level, position)
                found = FoundLink(row.follow_link(link, ordinal, level + 1), link.url, level + 1)
                yield from self._write(self._frontier.add(found))

    def _write(self, links: Iterable[FoundLink]) -> Iterator[None]:
        for row, url, level in links:
            self._output.add_link(self.key, row, url, level)
            yield
