"""Rows of Spark as tables take them: in the names and types of their columns, and with a mark where a merge removes."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pipelines.columns.appending import FittedColumn
from pipelines.language.columns import quote_column, quote_fields

GONE = "__gone"


def name_void(rows: DataFrame) -> DataFrame:
    """Return the rows with columns of nulls only as text: tables have no type for them."""
    void = [name for name, type_ in rows.dtypes if type_ == "void"]
    return rows.withColumns({name: F.col(quote_column(name)).cast("string") for name in void}) if void else rows


def select_fitted(rows: DataFrame, columns: Iterable[FittedColumn]) -> DataFrame:
    """Return the rows with the names and types of existing columns."""
    types = dict(rows.dtypes)
    return rows.select(
        *(
            convert_value(F.col(quote_column(each.name)), types[each.name], each.type).alias(each.existing)
            for each in columns
        )
    )


def convert_value(value: Column, given: str, wanted: str) -> Column:
    """Return a value in another type, in which structs have fields by name; null for the fields that it lacks."""
    if given == wanted:
        return value
    if "struct<" not in wanted or given == "void":
        return value.cast(quote_fields(wanted))
    return _convert(value, *(DataType.fromDDL(quote_fields(each)) for each in (given, wanted)))


def _convert(value: Column, given: DataType, wanted: DataType) -> Column:
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return F.transform(value, lambda item: _convert(item, given.elementType, wanted.elementType))
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return F.transform_values(value, lambda _, item: _convert(item, given.valueType, wanted.valueType))
    if not (isinstance(given, StructType) and isinstance(wanted, StructType)):
        return value.cast(wanted)
    own = {field.name.casefold(): field for field in given}
    fields = (
        _convert(value.getField(own[field.name.casefold()].name), own[field.name.casefold()].dataType, field.dataType)
        if field.name.casefold() in own
        else F.lit(None).cast(field.dataType)
        for field in wanted
    )
    struct = F.struct(*(each.alias(field.name) for each, field in zip(fields, wanted, strict=True)))
    return F.when(value.isNotNull(), struct)


def list_covered(rows: DataFrame, within: str) -> DataFrame:
    """Return the distinct values of the column `within` that are not null."""
    return rows.select(quote_column(within)).where(F.col(quote_column(within)).isNotNull()).distinct()


def mark_gone(rows: DataFrame, gone: DataFrame) -> DataFrame:
    """Return the rows of a merge with a row for every removed key, in which the column GONE is true."""
    kept = rows.withColumn(GONE, F.lit(False))
    return kept.unionByName(gone.withColumn(GONE, F.lit(True)), allowMissingColumns=True)
