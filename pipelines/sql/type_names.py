"""The names of types in the dialects of Spark, DuckDB and Trino."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from pipelines.language.columns import quote_fields


@lru_cache(4096)  # every query converts the types of its columns
def convert_type(type: str, source: str, target: str) -> str:
    """Convert a type's name to another dialect; to text when it is not a type of both, as drivers may report any."""
    text = quote_fields(type) if source == "spark" else type
    try:
        name = exp.DataType.build(text, dialect=source).sql(target, unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, ValueError):
        name = "VARCHAR"
    return name.lower() if target == "trino" else name
