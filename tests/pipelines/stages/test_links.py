"""The links of one page: however many and long they are, they are held and passed on a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pytest

from pipelines.extract.rows import Fetched, Link, Row
from pipelines.fetch import FetchOptions
from pipelines.language.columns import Columns
from pipelines.page_cache.options import CacheOptions
from pipelines.planning.stage import LinkStage
from pipelines.spark.frontier import Exploration
from pipelines.spark.schema import build_explore_schema, build_links_schema, build_rows_schema
from pipelines.spark.worker import Pass, run_pass
from pipelines.stages.links import WgetExplore, WgetJoin
from tests.support.pages import document

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

    def build_worker(self) -> Callable[[Row], Iterable[Link]]:
        return self._links

    def _links(self, row: Row) -> Iterator[Link]:
        for number in range(COUNT):
            self._made += 1
            yield Link(f"http://shop.test/{number}/{'a' * LENGTH}", "link")


def batches(stage: LinkStage, explores: bool) -> Iterator[pa.RecordBatch]:
    """What a pass outside of Spark gives, of a single row."""
    exploration = Exploration(stage, COLUMNS, build_explore_schema(COLUMNS))
    task = Pass(
        name="1.s00_load",
        enters="s00_load",
        fetches=False,
        entering=COLUMNS,
        stages=(("s01_explore", exploration),) if explores else (),
        links=None if explores else stage,
        columns=COLUMNS,
        schema=build_rows_schema(COLUMNS) if explores else build_links_schema(COLUMNS),
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
    (link,) = stage.model_validate({"selector": "a"}).build_worker()(row)
    assert link.text is not None
    assert len(link.text) == 10_000
    assert link.text[-2:] == end
