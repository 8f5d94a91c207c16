"""Rows of a pass as Arrow batches: a stage gives values of its columns' types, or the person is told which is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from pipelines.contract.workers import Tools
from pipelines.engine.definition import Pass
from pipelines.engine.worker import run_pass
from pipelines.errors import RunError
from pipelines.extract.rows import Row
from pipelines.fetch import FetchOptions
from pipelines.language.columns import Columns
from pipelines.page_cache.options import CacheOptions
from pipelines.planning.stage import RowStage

pytestmark = pytest.mark.usefixtures("spark")  # which knows the types that columns are declared with


class Gives(RowStage):
    """Adds a column of a type, as a plugin's stage may: nobody looks whether the value is of it."""

    column: str
    type: str
    value: Any

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(((self.column, self.type),))

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        return lambda row: (row.with_values({self.column: self.value}),)


def made(*stages: Gives, declared: Columns | None = None) -> list[dict[str, Any]]:
    """The row that the stages give, in a pass outside of Spark."""
    columns = Columns()
    for stage in stages:
        columns = stage.infer_columns(columns)
    columns = declared or columns
    task = Pass(
        name="1.s00_load",
        enters="s00_load",
        fetches=False,
        entering=Columns(),
        stages=tuple((f"s{number:02d}_gives", stage) for number, stage in enumerate(stages, start=1)),
        links=None,
        columns=columns,
        options=FetchOptions(),
        cache=CacheOptions(),
        endpoint=None,
    )
    entering = pa.RecordBatch.from_pydict({"_ordinal": pa.array([[0]], pa.list_(pa.int64()))})
    return [row for batch in run_pass(task, [entering]) for row in batch.select(list(columns)).to_pylist()]


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        ("string", 5, "Expected bytes, got a 'int' object"),
        ("string", ["a"], "Expected bytes, got a 'list' object"),
        ("binary", 1.5, "Expected bytes, got a 'float' object"),
        ("double", "low", "Could not convert 'low' with type str: tried to convert to double"),
        ("bigint", 2**70, "Python int too large to convert to C long"),
        ("timestamp", "noon", "object of type <class 'str'> cannot be converted to int"),
    ],
)
def test_a_value_of_another_type_is_an_error_with_step_and_column(type_: str, value: object, reason: str) -> None:
    right, wrong = Gives(column="name", type="string", value="a"), Gives(column="price", type=type_, value=value)
    with pytest.raises(RunError) as told:
        made(right, wrong, right)
    assert str(told.value) == f"s02_gives: a value does not fit the column 'price' ({type_}): {reason}"


def test_an_error_without_a_known_step_names_the_column() -> None:
    class Silent(Gives):
        def infer_columns(self, before: Columns) -> Columns:
            return before

    with pytest.raises(RunError, match=r"^a value does not fit the column 'name' \(string\): Expected bytes"):
        made(Silent(column="name", type="", value=1), declared=Columns((("name", "string"),)))


def test_values_that_have_their_columns_types_pass() -> None:
    stages = (Gives(column="name", type="string", value="a"), Gives(column="price", type="double", value=2))
    assert made(*stages) == [{"name": "a", "price": 2.0}]
