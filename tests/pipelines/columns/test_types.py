"""Types of columns: their names, and what they widen to."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, StructType

from pipelines.columns.types import UnknownType, format_type, parse_type
from pipelines.columns.widening import adds_fields_only, widen_type
from pipelines.language.columns import quote_fields
from pipelines.sql.type_names import convert_type

TYPES = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp"),
    *("timestamp_ntz", "decimal(38,18)", "decimal(9,0)", "DECIMAL", "array<string>", "array<array<double>>"),
    *("map<string,string>", "map<string,array<int>>", "struct<a:string,b:array<struct<c:double>>>", "struct<>"),
    *("void", "interval day to second", "array<interval day>", "struct<a:interval hour to second>"),
    *("struct<`a b`:string, `c``d` : int>", "array<map<string,struct<x:timestamp>>>"),
)


def test_types_are_those_of_spark(spark: SparkSession) -> None:
    different = dict[str, tuple[str, str]]()
    for text in TYPES:
        schema = StructType.fromDDL(f"value {text}")
        wanted, found = to_arrow_schema(schema).field("value").type, parse_type(text)
        if found != wanted:
            different[text] = str(found), str(wanted)
        elif "interval" not in text:  # Arrow has one type for all of them
            name = from_arrow_type(found, prefer_timestamp_ntz=True).simpleString()
            if format_type(found) != name:
                different[text] = format_type(found), name
    assert different == {}


@pytest.mark.parametrize("name", ["ab-c", "unit price", "@type", "2x", "select", "a.b", "Weight (kg)"])
def test_fields_of_any_name_are_read_as_spark_names_them(name: str) -> None:
    found = StructType.fromDDL(f"value struct<`{name}`:decimal(9,2),b:array<struct<c:int,`{name}`:string>>>")
    text = found[0].dataType.simpleString()
    assert format_type(parse_type(text)) == text
    assert DataType.fromDDL(quote_fields(text)) == found[0].dataType
    assert convert_type(text, "spark", "duckdb").count(f'"{name}"') == 2


@pytest.mark.parametrize(
    "text", ["", "variant", "array", "array<", "array<int>>", "map<string>", "int int", "interval"]
)
def test_other_types_are_unknown(text: str) -> None:
    with pytest.raises(UnknownType):
        parse_type(text)


@pytest.mark.parametrize(
    ("existing", "given", "widened"),
    [
        ("int", "bigint", "bigint"),
        ("bigint", "int", "bigint"),
        ("tinyint", "smallint", "smallint"),
        ("float", "double", "double"),
        ("double", "float", "double"),
        ("double", "int", "double"),
        ("float", "smallint", "float"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(8,2)", "decimal(10,2)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("struct<a:int>", "struct<b:string,A:bigint>", "struct<a:bigint,b:string>"),
        ("struct<a:int,b:string>", "struct<a:int>", "struct<a:int,b:string>"),
        ("array<struct<a:int>>", "array<struct<a:int,b:date>>", "array<struct<a:int,b:date>>"),
        ("map<string,struct<a:float>>", "map<string,struct<a:double>>", "map<string,struct<a:double>>"),
        ("string", "void", "string"),
        ("interval year to month", "interval year to month", "interval year to month"),
    ],
)
def test_a_type_that_holds_both(existing: str, given: str, widened: str) -> None:
    assert widen_type(existing, given) == widened


@pytest.mark.parametrize(
    ("existing", "given"),
    [
        *(("int", "double"), ("int", "string"), ("string", "int"), ("float", "int"), ("double", "bigint")),
        *(("decimal(38,2)", "decimal(10,4)"), ("decimal(10,2)", "double"), ("timestamp", "timestamp_ntz")),
        *(("map<int,int>", "map<bigint,int>"), ("struct<a:int>", "struct<a:string>"), ("array<int>", "int")),
        ("interval year to month", "int"),
    ],
)
def test_types_that_no_type_holds(existing: str, given: str) -> None:
    assert widen_type(existing, given) is None


def test_decimals_may_have_to_keep_their_scale() -> None:
    assert widen_type("array<decimal(10,2)>", "array<decimal(12,2)>", scales=False) == "array<decimal(12,2)>"
    assert widen_type("array<decimal(10,2)>", "array<decimal(12,3)>", scales=False) is None


def test_new_fields_leave_stored_values_as_they_are() -> None:
    assert adds_fields_only("array<struct<a:int>>", "array<struct<a:int,b:date>>")
    assert adds_fields_only("map<string,struct<a:int>>", "map<string,struct<a:int,b:date>>")
    assert not adds_fields_only("struct<a:struct<b:int>>", "struct<a:struct<b:bigint>>")
