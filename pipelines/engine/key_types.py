"""Types in which two columns are compared, and the faults of keys: the same on both runners."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines.errors import RunError
from pipelines.language.names import truncate

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_FLOATING = ("float", "double")
_OTHERS = ("string", "boolean", "binary", "date", "timestamp", "timestamp_ntz")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_MOST_DIGITS = 38


def find_key_type(name: str, type_: str, key: str, key_type: str, dataset: str) -> str:
    """Return the type in which a column of the rows is compared with a key of a dataset.

    Numbers are compared with numbers, as doubles where one of them is floating; all else only with its own type.
    Raise RunError for types that cannot be compared.
    """
    if found := _find_common_type(type_, key_type):
        return found
    raise RunError(
        f"the column '{name}' is {type_}, and '{key}' of '{dataset}' is {key_type}: they cannot be compared; give them "
        "one type, by 'cast' in an extract, by inferSchema or schema where a file is loaded, or by CAST in sql_query"
    )


def _find_common_type(one: str, other: str) -> str | None:
    if one == "void" or other == "void":
        known = other if one == "void" else one
        return "string" if known == "void" else _find_common_type(known, known)
    if one == other and one in _OTHERS:
        return one
    sizes = _measure_number(one), _measure_number(other)
    if None in sizes:
        return None
    if one in _FLOATING or other in _FLOATING:
        return "double"
    if one in _DIGITS and other in _DIGITS:
        return "bigint"
    before, after = (max(size[part] for size in sizes if size) for part in (0, 1))
    return f"decimal({before + after},{after})" if before + after <= _MOST_DIGITS else None


def _measure_number(type_: str) -> tuple[int, int] | None:
    """Return how many digits a number has before and after the point; None for another type."""
    if type_ in _FLOATING:
        return 0, 0
    if type_ in _DIGITS:
        return _DIGITS[type_], 0
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]) - int(match[2]), int(match[2])) if match else None


def describe_repeated_key(dataset: str, keys: Sequence[str], values: Sequence[str]) -> str:
    """Return the sentence for a key that two rows of a dataset have: only one of them could be found."""
    shown = ", ".join(f"{key} {truncate(value)}" for key, value in zip(keys, values, strict=True))
    return f"'{dataset}' has several rows with {shown}: a lookup finds one row for each key, so leave out the others"
