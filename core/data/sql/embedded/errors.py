"""Trino's names of DuckDB's errors. Query processes import this module, so it imports nothing of the service."""

from __future__ import annotations

import re

UNSUPPORTED = "unsupported: "  # begins the messages of macros that refuse a type
NAMES = [  # the first pattern that the message contains
    (r"Division by zero", "DIVISION_BY_ZERO"),
    (r"GROUPING statement cannot be used without groups", "MISSING_GROUP_BY"),
    (r"Unimplemented type for cast", "unsupported-sql"),
    (r"Separator argument to StringAgg must be a constant", "unsupported-sql"),
    (r"UNNEST requires a single list|TRY can not be used|Unknown TimeZone", "unsupported-sql"),
    (r"Could not find key .* in struct", "COLUMN_NOT_FOUND"),
    (r"Referenced column .* not found|does not have a column named|Referenced table .* not found", "COLUMN_NOT_FOUND"),
    (r"must appear in the GROUP BY clause", "EXPRESSION_NOT_AGGREGATE"),
    (r"Ambiguous reference", "AMBIGUOUS_NAME"),
    (r"More than one row returned by a subquery", "SUBQUERY_MULTIPLE_ROWS"),
    (r"^No function matches .*'[-+*/%<>=|&!~]+\(", "TYPE_MISMATCH"),
    (r"Could not choose a best candidate function", "TYPE_MISMATCH"),
    (r"No function matches|Function with name .* does not exist", "FUNCTION_NOT_FOUND"),
    (r"Cannot (compare|mix|combine) .*types?|an explicit cast is required", "TYPE_MISMATCH"),
    (r"Overflow in|Overflow on|Failed to cast decimal value|out of range for|is out of range",
     "NUMERIC_VALUE_OUT_OF_RANGE"),
    (r"Could not convert|Could not cast|Cannot cast|field value out of range|invalid (date|timestamp)|Conversion Error",
     "INVALID_CAST_ARGUMENT"),
    (r"Malformed JSON|regular expression|Invalid Input", "INVALID_FUNCTION_ARGUMENT"),
]  # fmt: skip


NO_FIELD = re.compile(r'Could not find key "(.*)" in struct Candidate Entries: (.*)')


def word_error(message: str) -> str:
    """Return the sentence of an error without DuckDB's own words for what Trino names otherwise."""
    message = NO_FIELD.sub(r'The row has no field "\1"; it has \2', message)
    return message.replace(UNSUPPORTED, "This engine does not have: ")


def find_code(message: str, kind: str) -> str:
    """Return Trino's name of an error, by its message and DuckDB's class of it."""
    if message.startswith(UNSUPPORTED):
        return "unsupported-sql"
    name = next((name for pattern, name in NAMES if re.search(pattern, message)), None)
    if name == "NUMERIC_VALUE_OUT_OF_RANGE" and kind == "ConversionException" and "DECIMAL" in message:
        return "INVALID_CAST_ARGUMENT"
    if name is None and kind in ("InvalidInputException", "OutOfRangeException"):
        return "INVALID_FUNCTION_ARGUMENT"
    return name or "query-failed"
