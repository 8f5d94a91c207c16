"""Two versions of a dataset compared by keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.sql.catalog import Catalog
from core.data.sql.differences import Comparison
from core.data.sql.service import Query
from core.errors import BadInput
from core.tables import DatasetVersion, new_id
from tests.support.warehouse import Warehouse

Row = dict[str, Any]
NAMES = {
    **{pa.int64(): "bigint", pa.int32(): "int", pa.string(): "string", pa.float64(): "double"},
    pa.list_(pa.string()): "array<string>",
}
INTS, TEXTS, FLOATS = pa.int64(), pa.string(), pa.float64()


def publish(warehouse: Warehouse, name: str, rows: Sequence[Row], types: Mapping[str, pa.DataType]) -> str:
    table = pa.Table.from_pylist([*rows], pa.schema([*types.items()]))
    columns = [{"name": column, "type": NAMES[type_]} for column, type_ in types.items()]
    return warehouse.publish("acme", "shop", name, table, columns)


def compare(warehouse: Warehouse, dataset: str, *keys: str) -> Comparison:
    """Compare the dataset's last two versions."""
    with warehouse.database.read() as session:
        query = session.query(DatasetVersion).filter_by(dataset_id=dataset).order_by(DatasetVersion.number)
        ids = [version.id for version in query][-2:]
        tables = [Catalog(session, warehouse.ids["acme"]).find_by_version(dataset, each) for each in ids]
    before, after = (table for table in tables if table is not None)
    return Comparison.from_tables(before, after, keys, [f"version {each}" for each in ids])


def load(warehouse: Warehouse, comparison: Comparison, sql: str) -> list[Row]:
    return warehouse.rows(sql, tables=comparison.tables, exact_numbers=True)


def diff(warehouse: Warehouse, comparison: Comparison) -> list[Row]:
    rows = load(warehouse, comparison, comparison.select_rows())
    (counts,) = load(warehouse, comparison, comparison.select_counts())
    kinds = [row["kind"] for row in rows]
    assert {name: int(count) for name, count in counts.items()} == {
        name: kinds.count(name) for name in ("added", "removed", "changed")
    }
    return rows


@pytest.mark.long
def test_rows_are_added_removed_and_changed_in_the_order_of_the_keys(busy_warehouse: Warehouse) -> None:
    types = {"sku": TEXTS, "price": FLOATS, "n": INTS}
    name = f"t{new_id()[-12:]}"
    before = [("a", 1.0, 1), ("b", math.nan, None), ("c", 3.0, 3), ("d", 4.0, 4), (None, 5.0, 5)]
    after = [("e", 9.0, 9), ("d", None, 5), ("b", math.nan, None), ("a", 1.0, 1), (None, 5.5, 5)]
    for rows in (before, after):
        dataset = publish(busy_warehouse, name, [dict(zip(types, row, strict=True)) for row in rows], types)
    comparison = compare(busy_warehouse, dataset, "SKU")
    assert comparison.list_column_differences() == []
    found = [{name.casefold(): value for name, value in row.items()} for row in diff(busy_warehouse, comparison)]
    assert found == [
        {"kind": "removed", "sku": "c", "changed": [], "before": {"sku": "c", "price": 3.0, "n": "3"}, "after": None},
        {
            **{"kind": "changed", "sku": "d", "changed": ["price", "n"]},
            **{"before": {"sku": "d", "price": 4.0, "n": "4"}, "after": {"sku": "d", "price": None, "n": "5"}},
        },
        {"kind": "added", "sku": "e", "changed": [], "before": None, "after": {"sku": "e", "price": 9.0, "n": "9"}},
        {
            **{"kind": "changed", "sku": None, "changed": ["price"]},
            **{"before": {"sku": None, "price": 5.0, "n": "5"}, "after": {"sku": None, "price": 5.5, "n": "5"}},
        },
    ]


def test_columns_that_come_go_and_change_their_types(busy_warehouse: Warehouse) -> None:
    name = f"t{new_id()[-12:]}"
    old = {"id": pa.int32(), "same": TEXTS, "gone": TEXTS, "code": INTS, "wider": pa.int32(), "_url": TEXTS}
    new = {"id": INTS, "come": TEXTS, "code": TEXTS, "wider": INTS, "same": TEXTS, "_url": TEXTS}
    publish(
        busy_warehouse,
        name,
        [
            {"id": 1, "same": "x", "gone": "g", "code": None, "wider": 1, "_url": "u1"},
            {"id": 2, "same": "x", "gone": None, "code": None, "wider": 2, "_url": "u2"},
            {"id": 3, "same": "x", "gone": None, "code": 7, "wider": 3, "_url": "u3"},
        ],
        old,
    )
    dataset = publish(
        busy_warehouse,
        name,
        [
            {"id": 1, "same": "x", "come": None, "code": None, "wider": 1, "_url": "w1"},
            {"id": 2, "same": "x", "come": None, "code": None, "wider": 2, "_url": "w2"},
            {"id": 3, "same": "x", "come": "c", "code": "7", "wider": 3, "_url": "w3"},
        ],
        new,
    )
    comparison = compare(busy_warehouse, dataset, "id")
    assert [astuple(each) for each in comparison.list_column_differences()] == [
        ("id", "integer", "bigint"),
        ("gone", "varchar", None),
        ("code", "bigint", "varchar"),
        ("wider", "integer", "bigint"),
        ("come", None, "varchar"),
    ]
    one, three = diff(busy_warehouse, comparison)
    assert (one["changed"], three["changed"]) == (["gone"], ["code", "come"])
    assert list(one["before"]) == list(old)
    assert list(one["after"]) == list(new)
    assert (three["before"]["_url"], three["after"]["_url"]) == ("u3", "w3")


def test_keys_that_compare_nothing_are_refused(busy_warehouse: Warehouse) -> None:
    name = f"t{new_id()[-12:]}"
    publish(busy_warehouse, name, [{"id": 1, "shop": "a"}, {"id": 1, "shop": "b"}], {"id": INTS, "shop": TEXTS})
    dataset = publish(busy_warehouse, name, [{"id": 1.0, "shop": "a"}], {"id": FLOATS, "shop": TEXTS})
    for keys, code in ((("nothing",), "COLUMN_NOT_FOUND"), (("id",), "incomparable-keys")):
        with pytest.raises(BadInput) as error:
            compare(busy_warehouse, dataset, *keys)
        assert [(each.code, each.path) for each in error.value.details] == [(code, "keys")]
    rows = [{"id": 1, "shop": "b"}, {"id": 2, "shop": None}, {"id": 3, "shop": None}]
    for version in (rows[:2], rows):
        dataset = publish(busy_warehouse, name, version, {"id": INTS, "shop": TEXTS})
    comparison = compare(busy_warehouse, dataset, "shop")
    (row,) = load(busy_warehouse, comparison, comparison.select_repeated_keys())
    assert comparison.report_repeated_key(row).sentence.startswith(
        f"Several rows of version 4 of shop.{name} have the same keys (shop null), so"
    )
    comparison = compare(busy_warehouse, dataset, "shop", "id")
    assert load(busy_warehouse, comparison, comparison.select_repeated_keys()) == []


KEYS = st.none() | st.integers(0, 9)
CELLS = st.none() | st.sampled_from([0.5, -0.0, 0.0, math.nan, math.inf, 1e300])
ROWS = st.dictionaries(
    st.tuples(KEYS, st.none() | st.sampled_from(["", "a", "A", "ä'"])),
    st.tuples(CELLS, st.none() | st.lists(st.none() | st.text("ab\"'", max_size=2), max_size=2)),
    max_size=12,
)
TYPES = {"id": INTS, "shop": TEXTS, "price": FLOATS, "tags": pa.list_(TEXTS)}


def build_rows(found: Mapping[Any, Any], columns: Sequence[str]) -> list[Row]:
    return [
        {name: value for name, value in zip(TYPES, (*keys, *cells), strict=True) if name in columns}
        for keys, cells in found.items()
    ]


@pytest.mark.long
@given(before=ROWS, after=ROWS, kept=st.floats(0, 1), dropped=st.sampled_from(["", "price", "tags"]), data=st.data())
@settings(max_examples=8)
def test_a_diff_applied_to_the_first_version_gives_the_second(
    busy_warehouse: Warehouse, before: Any, after: Any, kept: float, dropped: str, data: st.DataObject
) -> None:

    after = after | dict([*before.items()][: round(kept * len(before))])  # many rows stay the same
    name = f"t{new_id()[-12:]}"
    lacking = data.draw(st.sampled_from([0, 1]))  # the version that lacks a column
    columns = [[each for each in TYPES if version != lacking or each != dropped] for version in (0, 1)]
    datasets = [
        publish(busy_warehouse, name, build_rows(rows, names), {each: TYPES[each] for each in names})
        for rows, names in zip((before, after), columns, strict=True)
    ]
    comparison = compare(busy_warehouse, datasets[0], "id", "shop")
    first, second = (load(busy_warehouse, comparison, f'SELECT * FROM "{table}"') for table in comparison.names)
    applied = {(row["id"], row["shop"]): {each: row.get(each) for each in columns[1]} for row in first}
    for row in diff(busy_warehouse, comparison):
        key = row["id"], row["shop"]
        if row["kind"] == "removed":
            del applied[key]
        else:
            assert (key in applied) == (row["kind"] == "changed")
            assert bool(row["changed"]) == (row["kind"] == "changed")
            applied[key] = row["after"]
    assert applied == {(row["id"], row["shop"]): row for row in second}


VALUES: dict[str, tuple[pa.DataType, str, object, object]] = {  # of a column: types, and two values
    "flag": (pa.bool_(), "boolean", True, False),
    "day": (pa.date32(), "date", date(2026, 1, 1), date(2026, 1, 2)),
    "at": (pa.timestamp("us", "UTC"), "timestamp", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
    "local": (pa.timestamp("us"), "timestamp_ntz", datetime(2026, 1, 1), datetime(2026, 1, 2)),  # noqa: DTZ001 - no zone
    "cost": (pa.decimal128(20, 2), "decimal(20,2)", Decimal("123456789012345678.25"), Decimal("123456789012345678.26")),
    "bytes": (pa.binary(), "binary", b"a", b"b"),
    "small": (pa.float32(), "float", 0.5, math.nan),
    "place": (pa.struct([("x", INTS)]), "struct<x:bigint>", {"x": 1}, {"x": None}),
    "words": (pa.map_(TEXTS, INTS), "map<string,bigint>", [("a", 1)], [("a", 2)]),
    "lists": (pa.list_(pa.list_(FLOATS)), "array<array<double>>", [[math.nan]], [[math.nan], []]),
}


def test_values_of_every_type_are_compared(busy_warehouse: Warehouse) -> None:
    name = f"t{new_id()[-12:]}"
    schema = pa.schema([("id", INTS), *((each, type_) for each, (type_, *_) in VALUES.items())])
    columns = [{"name": "id", "type": "bigint"}, *({"name": each, "type": VALUES[each][1]} for each in VALUES)]
    same = {each: one for each, (_, _, one, _) in VALUES.items()}
    other = [same | {each: two} for each, (_, _, _, two) in VALUES.items()]
    nulls = [same | {each: None} for each in VALUES]
    before = [{"id": at} | same for at in range(1 + len(other) + len(nulls))]
    after = [{"id": at} | row for at, row in enumerate([same, *other, *nulls])]
    for rows in (before, after):
        dataset = busy_warehouse.publish("acme", "shop", name, pa.Table.from_pylist(rows, schema), columns)
    found = diff(busy_warehouse, compare(busy_warehouse, dataset, "id"))
    assert [row["changed"] for row in found] == [[each] for each in (*VALUES, *VALUES)]
    keys = [each for each in VALUES if each not in ("words", "place")]  # Trino orders no rows that have nulls
    comparison = compare(busy_warehouse, dataset, "id", *keys)
    assert load(busy_warehouse, comparison, comparison.select_repeated_keys()) == []
    assert {row["kind"] for row in diff(busy_warehouse, comparison)} == {"added", "removed", "changed"}


def test_a_query_of_versions_reads_no_other_table_under_their_names(busy_warehouse: Warehouse) -> None:
    dataset = publish(busy_warehouse, f"t{new_id()[-12:]}", [{"id": 1}], {"id": INTS})
    publish(busy_warehouse, f"u{new_id()[-12:]}", [{"id": 1}], {"id": INTS})
    with busy_warehouse.database.read() as session:
        table = Catalog(session, busy_warehouse.ids["acme"]).find_by_dataset(dataset)
    assert table is not None
    query = Query('SELECT * FROM "products"', tables={"products": table})
    assert busy_warehouse.queries.run(busy_warehouse.caller("acme"), query).page.rows == [{"id": 1}]
