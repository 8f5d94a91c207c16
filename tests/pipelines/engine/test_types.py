"""Arrow types of planned columns are those that Spark itself gives them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructType

from pipelines.engine.types import UnknownType, format_type, parse_type

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


@pytest.mark.parametrize(
    "text", ["", "variant", "array", "array<", "array<int>>", "map<string>", "int int", "interval"]
)
def test_other_types_are_unknown(text: str) -> None:
    with pytest.raises(UnknownType):
        parse_type(text)
