"""A filter gives the rows that meet it by their values, whatever the files' statistics and types are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from core.tables import DatasetVersion
from tests.support.filters import (
    KINDS,
    TRINO_WORDS,
    WIDER,
    Condition,
    build_query,
    choose_columns,
    find_wrong,
    list_conditions,
)
from tests.support.stored import store_rows
from tests.support.warehouse import Warehouse

# those of float differ from double's in their digits alone
CASES = [
    pytest.param(name, format_, marks=pytest.mark.long if name == "real" and format_ != "parquet" else ())
    for name in KINDS
    for format_ in ("parquet", "delta", "iceberg")
]


def find_wrong_answers(
    warehouse: Warehouse, table: str, conditions: Sequence[Condition], columns: Sequence[Sequence[Any]]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, values in enumerate(columns):
        rows = warehouse.rows(build_query(conditions, table, f"c{number}"), schema="filters")
        found |= find_wrong(conditions, values, {row["place"]: row["n"] for row in rows})
    return found


@pytest.mark.parametrize(("name", "format_"), CASES)
def test_filters_find_the_rows_that_meet_them(busy_warehouse: Warehouse, name: str, format_: str) -> None:
    kind, columns, table = KINDS[name], choose_columns(KINDS[name], seed=7), f"{name}_{format_}"
    rows = pa.table({f"c{number}": pa.array(values, kind.arrow) for number, values in enumerate(columns)})
    described = [{"name": each, "type": kind.spark} for each in rows.column_names]
    busy_warehouse.publish("acme", "filters", table, rows, described, format_)
    conditions = list_conditions(kind, TRINO_WORDS, nan_is_greatest=False)
    assert find_wrong_answers(busy_warehouse, table, conditions, columns) == {}


@pytest.mark.parametrize("name", WIDER)
def test_filters_compare_in_the_type_that_a_column_has_become(busy_warehouse: Warehouse, name: str) -> None:
    """Files of a version have a column in two types."""
    if busy_warehouse.settings.trino.address is not None:
        pytest.skip("Trino reads files in the types of the table only")
    arrow, earlier, kind = WIDER[name]
    later, table = kind.values[:2], f"wider_{name.replace(' ', '_')}"
    whole = [*pa.array(earlier, arrow).cast(kind.arrow).to_pylist(), *later]
    rows = pa.table({"c0": pa.array(later, kind.arrow)})
    dataset = busy_warehouse.publish("acme", "filters", table, rows, [{"name": "c0", "type": kind.spark}])
    narrow = pa.table({"c0": pa.array(earlier, arrow), "added": pa.array(range(len(earlier)))})
    with busy_warehouse.database.read() as session:
        (version,) = session.query(DatasetVersion).filter_by(dataset_id=dataset)
        (folder,) = version.locations
    store_rows(busy_warehouse.settings, folder, narrow, name="part-1.parquet")
    values = dataclasses.replace(kind, values=[*kind.values, *dict.fromkeys(whole[: len(earlier)])])
    conditions = list_conditions(values, TRINO_WORDS, nan_is_greatest=False)
    assert find_wrong_answers(busy_warehouse, table, conditions, [whole]) == {}
