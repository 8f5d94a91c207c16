"""An execution keeps the rows that its request gives, for all of its attempts."""

from __future__ import annotations

import json

import pytest

from core.errors import BadInput, Conflict
from core.lifecycle.executions.reports import fail
from core.lifecycle.executions.spec import build_spec
from core.tables import Execution
from pipelines.contract.request import GIVEN_ROWS
from tests.support.cases import each_case
from tests.support.shop import PIPELINE, Shop

READS = """\
pipeline:
  - {stage: load_rows}
  - {stage: wget, args: [$url]}
"""


@pytest.fixture
def reading(shop: Shop) -> Shop:
    shop.write_pipeline(READS)
    return shop


def locate(shop: Shop, execution: Execution) -> str:
    (key,) = shop.reload(execution).inputs[GIVEN_ROWS].locations
    return key


def test_rows_are_an_input_of_each_attempt(reading: Shop) -> None:
    execution = reading.submit(rows=["http://shop.test/a", {"url": "http://shop.test/b", "sku": "ü"}])
    fail(reading.database, execution.id, "It broke.", 1)
    again = reading.reload(reading.retry(execution))
    assert again.inputs[GIVEN_ROWS].rows == 2
    (path,) = build_spec(reading.settings, reading.storage, again).inputs[GIVEN_ROWS].paths
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert rows == [{"url": "http://shop.test/a"}, {"url": "http://shop.test/b", "sku": "ü"}]


def test_a_retry_without_its_rows_is_refused(reading: Shop) -> None:
    execution = reading.submit(rows=["http://shop.test/a"])
    fail(reading.database, execution.id, "It broke.", 1)
    reading.storage.delete(locate(reading, execution))
    with pytest.raises(Conflict, match="were removed"):
        reading.retry(execution)


@each_case(
    ("pipeline", "rows", "code", "path"),
    [
        (READS, None, "rows-required", "rows"),
        (READS, [], "invalid-row", "rows"),
        (READS, [{"a": 1}, 2], "invalid-row", "rows.1"),
        (READS, ["http://shop.test/"] * 10_001, "invalid-row", "rows"),
        (PIPELINE, ["http://shop.test/"], "rows-not-read", "rows"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(
    shop: Shop, pipeline: str, rows: list[object] | None, code: str, path: str
) -> None:
    shop.write_pipeline(pipeline)
    with pytest.raises(BadInput) as error:
        shop.submit(rows=rows)
    (detail,) = error.value.details
    assert (detail.code, detail.path) == (code, path)
