"""The rows that one row becomes: however many and large they are, they are held and passed on a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pytest

from pipelines.contract.workers import Tools
from pipelines.engine.definition import Pass
from pipelines.engine.worker import run_pass
from pipelines.extract.rows import Row
from pipelines.fetch import FetchOptions
from pipelines.language.columns import Columns
from pipelines.page_cache.options import CacheOptions
from pipelines.planning.stage import RowStage

COUNT, LENGTH, HELD = 10, 1_000_000, 8 * 1024 * 1024
COLUMNS = Columns().with_columns((("text", "string"),))


class Wide(RowStage):
    """Makes ten rows of a megabyte of each, and counts them."""

    widens = True
    _made: int = 0

    @property
    def made(self) -> int:
        return self._made

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        return self._rows

    def _rows(self, row: Row) -> Iterator[Row]:
        for position in range(1, COUNT + 1):
            self._made += 1
            yield row.make_child(position, None).with_values({"text": "a" * LENGTH})


def batches(*stages: RowStage) -> Iterator[pa.RecordBatch]:
    """What a pass outside of Spark gives, of two rows."""
    task = Pass(
        name="1.s00_load",
        enters="s00_load",
        fetches=False,
        entering=Columns(),
        stages=tuple((f"s{number:02}_wide", stage) for number, stage in enumerate(stages, start=1)),
        links=None,
        columns=COLUMNS,
        options=FetchOptions(),
        cache=CacheOptions(),
        endpoint=None,
    )
    return run_pass(task, [pa.RecordBatch.from_pydict({"_ordinal": pa.array([[0], [1]], pa.list_(pa.int64()))})])


@pytest.mark.usefixtures("spark")
def test_rows_are_made_as_they_are_taken_however_stages_follow_each_other() -> None:
    outer, inner = Wide(), Wide()
    made, places = 0, list[list[int]]()
    for batch in batches(outer, inner):
        assert batch.nbytes < HELD + 2 * LENGTH
        assert inner.made - made <= HELD // LENGTH + 1
        made = inner.made
        places += batch.column("_ordinal").to_pylist()
    numbers = range(1, COUNT + 1)
    assert places == [[row, first, second] for row in (0, 1) for first in numbers for second in numbers]
    assert outer.made == 2 * COUNT
