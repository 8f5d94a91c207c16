"""Columns of an upload beside those of the version before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from core.data.files.stored_columns import is_number
from core.errors import Conflict
from core.tables import DatasetVersion
from pipelines.columns.types import UnknownType, parse_type
from pipelines.language.names import suggest
from pipelines.sql.type_names import convert_type


def compare_columns(
    version: DatasetVersion, columns: Sequence[Mapping[str, Any]], allow_changes: bool = False
) -> list[str]:
    """Return a warning for every column of a version that is missing or has another type now.

    Raises Conflict for columns with values of another kind, unless that is allowed: numbers may become wider.
    """
    before = {column["name"].casefold(): column for column in version.columns}
    after = {column["name"].casefold(): column for column in columns}
    changed = [
        (column, before[name]["type"])
        for name, column in after.items()
        if name in before and _name_type(column["type"]) != _name_type(before[name]["type"])
        if not before[name].get("untyped")
    ]
    refused = [] if allow_changes else [each for each in changed if not _is_wider(each[1], each[0]["type"])]
    if refused:
        named = ", ".join(f"{column['name']} ({_name_change(type, column)})" for column, type in refused)
        sentence = f"The columns have other types than in version {version.number}: {named}. "
        sentence += "Send allowTypeChanges=true to publish them."
        raise Conflict(sentence, code="types-changed", path="file")
    sentence = "The type of '{name}' has changed: {change}."
    warnings = [sentence.format(name=column["name"], change=_name_change(type, column)) for column, type in changed]
    return [*warnings, *_describe_missing(version, before, after)]


def _describe_missing(
    version: DatasetVersion, before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    missing, new = [name for name in before if name not in after], [name for name in after if name not in before]
    for name in missing:
        near = new if len(missing) == len(new) == 1 else suggest(name, new)
        renamed = f": '{after[near[0]]['name']}' is new, so it may have been renamed" if near else ""
        yield f"The column '{before[name]['name']}' of version {version.number} is missing{renamed}."


def _is_wider(before: str, after: str) -> bool:
    """Return whether both are numbers, or parts that are: numbers that do not fit the type before have a wider one."""
    try:
        return _are_alike(parse_type(before), parse_type(after))
    except UnknownType:
        return False


def _are_alike(before: Any, after: Any) -> bool:
    if before == after or (is_number(before) and is_number(after)):
        return True
    if pa.types.is_list(before) and pa.types.is_list(after):
        return _are_alike(before.value_type, after.value_type)
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        types = {field.name: field.type for field in _list_fields(before)}
        return all(_are_alike(types.get(field.name, field.type), field.type) for field in _list_fields(after))
    return False


def _list_fields(struct: Any) -> Iterable[Any]:
    return (struct.field(position) for position in range(struct.num_fields))


def _name_change(before: str, column: Mapping[str, Any]) -> str:
    return f"{_name_type(before)} → {_name_type(column['type'])}"


def _name_type(type: str) -> str:
    return convert_type(type, "spark", "trino")
