"""Trino's names of DuckDB's errors. Query processes import this module, so it imports nothing of the service."""

from __future__ import annotations

import re

UNSUPPORTED = "unsupported: "  # begins the messages of macros that refuse a type
NAMES = [  # the first pattern that the message contains
    (r"Division by zero", "DIVISION_BY_ZERO"),
    (r"Value cannot be cast", "INVALID_CAST_ARGUMENT"),
    (r"Cannot extract field", "TYPE_MISMATCH"),
    (r"syntax error at or near|extract specifier|as base64|APPROXIMATE QUANTILE", "INVALID_FUNCTION_ARGUMENT"),
    (r"^frame (starting|ending)", "INVALID_WINDOW_FRAME"),
    (r"not in timestamp range", "NUMERIC_VALUE_OUT_OF_RANGE"),
    (r"ROW comparison not supported", "NOT_SUPPORTED"),
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


# DuckDB's sentences with words of its dialect, and ours
SENTENCES = [
    (r'Could not find key "(.*)" in struct Candidate Entries: (.*)', r'The row has no field "\1"; it has \2'),
    (r"Type (.+?) with value (.*?) can't be cast .* destination type ([\w(), ]+?)( when casting .*)?$",
     r"The \1 \2 is out of range for \3"),
    (r"Overflow in (\w+) of (\w+) \((.*)\)!?", r"\2 \1 overflow: \3"),
    (r"No function matches the given name and argument types '(.*?)'\..*",
     r"This engine does not have \1 for these types"),
    (r"Could not choose a best candidate function .* '(.*?)'.*",
     r"The types of \1 are not clear; write CAST(value AS type)"),
    (r"Cannot extract field .* from expression (.*?) because .*", r"The value \1 is not a row"),
    (r'(?:syntax error at or near|extract specifier) "(.*?)".*', r"'\1' is not a unit of time"),
    (r"APPROXIMATE QUANTILE can only.*", "The percentile must be between 0 and 1"),
    (r"invalid (date|timestamp|time) field format: (.*?), expected.*", r"Cannot cast \2 to \1"),
    (r"(Overflow in \w+ of DECIMAL)\(.*", r"\1"),
    (r'Referenced column "(.*?)" (was )?not found.*', r"Column '\1' cannot be resolved"),
    (r'Referenced table "(.*?)" not found.*', r"Table '\1' cannot be resolved"),
    (r"Could not convert string '(.*)' to ([\w(), ]+)", r"Cannot cast '\1' to \2"),
    (r"Could not cast value (.*) to ([\w(), ]+)", r"Cannot cast \1 to \2"),
    (r"(?:Failed to cast decimal value|Casting value) .*", "The number has too many digits for its type"),
    (r"Unimplemented type for cast \((.*) -> (.*)\)", r"This engine does not have a cast of \1 to \2"),
    (r"Cannot (?:mix|combine) (?:values )?of types? (.*?) and (.*?) .*", r"Values of \1 and \2 have no common type"),
    (r"Cannot compare values of type (.*?) and (?:type )?(.*?) - .*", r"Cannot compare \1 with \2"),
    (r'column "(.*?)" must appear in the GROUP BY clause.*',
     r"Column '\1' must be an aggregate expression or appear in GROUP BY"),
    (r'Ambiguous reference to column name "(.*?)".*', r"Column '\1' is ambiguous"),
    (r"More than one row returned by a subquery.*", "Scalar sub-query has returned multiple rows"),
]  # fmt: skip
OWN_WORDS = re.compile(
    r"[;,.!(]? *(You might need|Use |Candidate|Did you mean|Try |LINE \d|SET |If you want).*", re.DOTALL
)
OWN_TYPES = {
    **{"INT8": "tinyint", "INT16": "smallint", "INT32": "integer", "INT64": "bigint", "INT128": "decimal(38,0)"},
    **{"HUGEINT": "decimal(38,0)", "FLOAT": "real", "BLOB": "varbinary", "STRUCT": "row"},
    **dict.fromkeys(
        ("INTEGER", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP"), ""
    ),
    **dict.fromkeys(("DECIMAL", "MAP", "INTERVAL", "TIME"), ""),
}
OWN_TYPE = re.compile(rf"\b({'|'.join(OWN_TYPES)})\b(?![^']*'(?:[^']*'[^']*')*[^']*$)")  # not within a quoted value
MACRO = re.compile(r"\btrino_(\w+)")


def word_error(message: str) -> str:
    """Return the sentence of an error without DuckDB's own words for what Trino names otherwise."""
    for pattern, sentence in SENTENCES:
        message, found = re.subn(pattern, sentence, message, count=1, flags=re.DOTALL)
        if found:
            break
    else:
        message = OWN_WORDS.sub("", message)
    message = OWN_TYPE.sub(lambda match: OWN_TYPES[match[1]] or match[1].lower(), message)
    return MACRO.sub(r"\1", message).replace(UNSUPPORTED, "This engine does not have: ")


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
