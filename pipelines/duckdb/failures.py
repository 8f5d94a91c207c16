"""Errors of DuckDB in Trino's words. Runs in query processes."""

from __future__ import annotations

import os
from collections.abc import Iterable

import duckdb

from pipelines.sql.errors import find_code, word_error

MAX_MESSAGE = 1000  # messages may quote values of any size
SAFE_ERRORS = (  # their messages concern the query's text and values; those of others may name files
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.DataError,
    duckdb.InvalidInputException,
    duckdb.InvalidTypeException,
    duckdb.NotImplementedException,
    duckdb.OutOfRangeException,
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.TypeMismatchException,
)


def describe_failure(error: duckdb.Error, files: Iterable[str]) -> tuple[str, str]:
    """Return DuckDB's message without its quote of the rewritten SQL, and a code; nothing that could name a file."""
    text = str(error).split("\n\nLINE ")[0].partition(": ")[2]
    folders = {os.path.dirname(file) for file in files}
    if not isinstance(error, SAFE_ERRORS) or any(folder in text for folder in folders):
        return "The query failed while it read the table.", "query-failed"
    sentence = " ".join(text.split()).rstrip(".")
    code = find_code(sentence, type(error).__name__)
    sentence = word_error(sentence)
    return (sentence if len(sentence) <= MAX_MESSAGE else f"{sentence[:MAX_MESSAGE]}…") + ".", code
