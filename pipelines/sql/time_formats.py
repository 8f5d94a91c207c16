"""Formats of date_format and date_parse, whose parts Trino and DuckDB write differently."""

from __future__ import annotations

import re

from sqlglot import exp

from pipelines.errors import SqlError
from pipelines.sql.syntax_tree import refuse

PART = re.compile("%(.)", re.DOTALL)
KNOWN = "abcdefHhIijklMmprSsTvWxYy%"
UNSUPPORTED = "DUuVwX"  # by Trino


def check_format(node: exp.Anonymous) -> None:
    """Rewrite the format of a call for sqlglot. Raises SqlError for parts that Trino or DuckDB does not have."""
    name, format_ = node.name.lower(), node.expressions[-1]
    if not isinstance(format_, exp.Literal):
        raise refuse(f"{name} with a format that is not a text")
    for part in PART.findall(format_.name):
        if part in UNSUPPORTED:
            raise SqlError(f"%{part} not supported in date format string.", code="INVALID_FUNCTION_ARGUMENT")
        if part in "vx" and name == "date_parse":
            raise refuse(f"date_parse with %{part}")
    format_.replace(exp.Literal.string(PART.sub(_write, format_.name)))


def _write(match: re.Match[str]) -> str:
    part = match[1]
    return "%V" if part == "v" else match[0] if part in KNOWN else part
