"""Names that statements use: information_schema, fields of rows, and words that begin no statement."""

from __future__ import annotations

import pyarrow as pa
import pytest

from core.errors import SpindleError
from tests.support.warehouse import Warehouse


def test_information_schema_lists_what_the_caller_may_read(warehouse: Warehouse) -> None:
    tables = "SELECT table_schema, table_name FROM information_schema.tables ORDER BY 1, 2"
    assert [tuple(row.values()) for row in warehouse.rows(tables, "rival")] == [("vault", "secrets")]
    columns = """
        SELECT c.column_name, c.ordinal_position, c.data_type, c.is_nullable, c.column_default
        FROM spindle.information_schema.columns c JOIN information_schema.tables USING (table_schema, table_name)
        WHERE table_schema = 'shop' AND table_name = 'products' ORDER BY ordinal_position
    """
    assert [tuple(row.values()) for row in warehouse.rows(columns)] == [
        ("id", 1, "bigint", "YES", None),
        ("name", 2, "varchar", "YES", None),
        ("price", 3, "double", "YES", None),
    ]


def test_information_schema_is_read_with_tables_and_as_the_default_schema(warehouse: Warehouse) -> None:
    joined = """
        SELECT p.name, information_schema.columns.column_name FROM information_schema.columns
        JOIN shop.products p ON p.id = ordinal_position WHERE table_schema = 'shop' AND table_name = 'products'
        AND p.id = 1
    """
    assert warehouse.rows(joined) == [{"name": "kettle", "column_name": "id"}]
    assert warehouse.rows("SELECT count(*) AS n FROM tables WHERE table_schema = 'shop'", schema="INFORMATION_SCHEMA")
    with pytest.raises(SpindleError) as error:
        warehouse.rows("SELECT * FROM information_schema.views")
    assert error.value.details[0].code == "unknown-table"


def test_a_word_that_begins_no_statement_is_a_syntax_error(warehouse: Warehouse) -> None:
    for sql, code, where in (
        ("selec 1", "invalid-sql", "line 1, column 1"),
        ("\n  -- a comment\n  frobnicate", "invalid-sql", "line 3, column 3"),
        ("DELETE FROM products", "read-only", ""),
        ("vacuum", "read-only", ""),
    ):
        with pytest.raises(SpindleError) as error:
            warehouse.rows(sql)
        assert (error.value.details[0].code, where in error.value.sentence) == (code, True), sql


def test_a_field_that_a_row_does_not_have_is_named(busy_warehouse: Warehouse) -> None:
    columns = [{"name": "attributes", "type": "struct<a:bigint>"}]
    busy_warehouse.publish("acme", "shop", "rows", pa.table({"attributes": [{"a": 1}]}), columns)
    with pytest.raises(SpindleError) as error:
        busy_warehouse.rows("SELECT attributes.b FROM shop.rows")
    known = "COLUMN_NOT_FOUND" if busy_warehouse.settings.trino.address is None else "INVALID_COLUMN_REFERENCE"
    assert error.value.details[0].code == known
    assert "struct" not in error.value.sentence.lower()


def test_a_time_with_an_offset_is_understood_or_refused_by_name(warehouse: Warehouse) -> None:
    answer = warehouse.answer(
        "SELECT timestamp '2026-03-01 10:00:00 +02:00' = timestamp '2026-03-01 08:00:00 UTC' AS x"
    )
    if warehouse.settings.trino.address is None:
        assert isinstance(answer, SpindleError)
        assert (answer.details[0].code, "zone" in answer.sentence) == ("unsupported-sql", True)
    else:
        assert answer == [{"x": True}]


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT "$path" FROM shop.products',
        'SELECT p."$File_Size" FROM shop.products p',
        'SELECT 1 FROM shop.products WHERE "$file_modified_time" IS NOT NULL',
        'SELECT * FROM shop.products a JOIN shop.products b USING ("$path")',
    ],
)
def test_columns_that_show_the_storage_are_not_there(warehouse: Warehouse, sql: str) -> None:
    with pytest.raises(SpindleError) as error:
        warehouse.rows(sql)
    assert error.value.details[0].code == "COLUMN_NOT_FOUND"
