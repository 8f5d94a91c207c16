"""The links of one page: however many and long they are, they are held and passed on a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from pipelines.contract.workers import Tools
from pipelines.engine.definition import Pass
from pipelines.engine.frontier import Exploration
from pipelines.engine.worker import run_pass
from pipelines.extract.rows import Fetched, Link, Row
from pipelines.fetch import FetchOptions
from pipelines.language.columns import Columns
from pipelines.page_cache.options import CacheOptions
from pipelines.planning.stage import LinkStage
from pipelines.stages.links import WgetExplore, WgetJoin
from pipelines.stages.visits import VisitExplore, VisitJoin
from tests.support.pages import document
from tests.support.pipelines import crawl, find_problem
from tests.support.tools import TOOLS

COUNT, LENGTH, HELD = 100, 1_000_000, 8 * 1024 * 1024
COLUMNS = Columns()


class Long(LinkStage):
    """Has a hundred links of a megabyte in each row, and counts those that were made."""

    depth: int | None = None
    _made: int = 0

    @property
    def made(self) -> int:
        return self._made

    @property
    def max_depth(self) -> int | None:
        return self.depth

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Link]]:
        return self._links

    def _links(self, row: Row) -> Iterator[Link]:
        for number in range(COUNT):
            self._made += 1
            yield Link(f"http://shop.test/{number}/{'a' * LENGTH}", "link")


def batches(stage: LinkStage, explores: bool) -> Iterator[pa.RecordBatch]:
    """What a pass outside of Spark gives, of a single row."""
    exploration = Exploration(stage, COLUMNS)
    task = Pass(
        name="1.s00_load",
        enters="s00_load",
        fetches=False,
        entering=COLUMNS,
        stages=(("s01_explore", exploration),) if explores else (),
        links=None if explores else ("s01_join", stage),
        columns=COLUMNS,
        options=FetchOptions(),
        cache=CacheOptions(),
        endpoint=None,
    )
    return run_pass(task, [pa.RecordBatch.from_pydict({"_ordinal": pa.array([[0]], pa.list_(pa.int64()))})])


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("explores", [False, True])
def test_links_are_made_as_they_are_taken(explores: bool) -> None:
    stage, links = Long(depth=1 if explores else None), 0
    for batch in batches(stage, explores):
        assert batch.nbytes < HELD + 2 * LENGTH
        assert stage.made - links <= HELD // LENGTH + 1
        links = stage.made
    assert links == COUNT


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("join_type", "rows"), [("LeftOuter", 1), ("Inner", 0)])
def test_a_row_without_link_stays_unless_the_join_drops_it(join_type: str, rows: int) -> None:
    stage = WgetJoin.model_validate({"selector": "a", "joinType": join_type})
    assert sum(batch.num_rows for batch in batches(stage, False)) == rows


@pytest.mark.parametrize("stage", [WgetJoin, WgetExplore])
@pytest.mark.parametrize(("length", "end"), [(10_000, "aa"), (10_001, "a…"), (1_000_000, "a…")])
def test_the_text_of_a_link_is_cut(stage: type[WgetJoin | WgetExplore], length: int, end: str) -> None:
    page = document(f"<a href=x>{'a' * length}</a>")
    row = Row({}, (0,), Fetched.from_page(page.page), page.root)
    (link,) = stage.model_validate({"selector": "a"}).work(TOOLS)(row)
    assert len(link.text) == 10_000
    assert link.text[-2:] == end


@pytest.mark.parametrize("stage", [WgetJoin, WgetExplore, VisitJoin, VisitExplore])
@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({}, ["/a", "/b/1", "/b/2", "//www.shop.test/", "//other.test/b"]),
        ({"sameHost": "true"}, ["/a", "/b/1", "/b/2"]),
        ({"include": "/b"}, ["/b/1", "/b/2", "//other.test/b"]),
        ({"include": ["/a$", "1$"]}, ["/a", "/b/1"]),
        ({"exclude": ["2", "other"], "sameHost": True, "include": "/b"}, ["/b/1"]),
    ],
)
def test_links_are_followed_by_host_and_pattern(
    stage: type[LinkStage], arguments: dict[str, Any], paths: list[str]
) -> None:
    all_paths = ("a", "b/1", "b/2", "//www.shop.test/", "//other.test/b")
    page = document("".join(f"<a href={path}>x</a>" for path in all_paths), url="http://shop.test/")
    row = Row({}, (0,), Fetched.from_page(page.page), page.root)
    links = stage.model_validate({"selector": "a", **arguments}).work(TOOLS)(row)
    assert [link.url for link in links] == [
        f"http:{path}" if path.startswith("//") else f"http://shop.test{path}" for path in paths
    ]


def test_the_host_of_a_first_page_is_also_the_one_that_it_redirects_to() -> None:
    page = document(
        "<a href=/1>1</a><a href=http://shop.test/2>2</a><a href=http://x.test/>x</a>", "http://www.shop.test/"
    )
    fetched = Fetched("http://www.shop.test/", "http://shop.test/", page=page.page, root=page.root)
    find = WgetExplore.model_validate({"selector": "a", "sameHost": True}).work(TOOLS)
    first, later = (Row({}, (0,), fetched, page.root, depth=depth) for depth in (0, 1))
    assert [link.url for link in find(first)] == ["http://www.shop.test/1", "http://shop.test/2"]
    assert [link.url for link in find(later)] == ["http://shop.test/2"]


def test_a_pattern_that_does_not_parse_is_a_problem() -> None:
    problem = find_problem(crawl("http://a/", "{stage: explore, args: [a, {exclude: '('}]}"))
    assert (problem.code, problem.line) == ("invalid-pattern", 3)
