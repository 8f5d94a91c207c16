"""The columns of a job's table as Dagster's metadata: types, descriptions and lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dagster import AssetKey, TableColumn, TableColumnDep, TableColumnLineage, TableSchema

from core.lifecycle.outlines.outlines import JobKey, JobOutline
from core.lifecycle.outlines.sources import ColumnOutline
from orchestration.markdown import clean_text, escape_markdown
from pipelines.language.origins import OTHERS

_MOST_NAMED = 5  # sources in a description


def build_columns(outline: JobOutline, columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema and the lineage of these columns; those of a version may have a `description`."""
    if not columns:
        return {}
    named = {each.name.casefold(): each for each in outline.lineage}
    found = {each["name"]: _find(each["name"], named) for each in columns}
    schema = TableSchema(
        [
            TableColumn(each["name"], each["type"], _describe(found[each["name"]], each.get("description")))
            for each in columns
        ]
    )
    deps = {
        name: [TableColumnDep(AssetKey(key), clean_text(own or OTHERS)) for key, own in column.sources]
        for name, column in found.items()
        if column.sources
    }
    lineage = {"dagster/column_lineage": TableColumnLineage(deps)} if deps else {}
    return {"dagster/column_schema": schema, **lineage}


def _find(name: str, named: Mapping[str, ColumnOutline]) -> ColumnOutline:
    """Return the outline of a column; one without an entry has that of all others, for its own name."""
    if found := named.get(name.casefold()):
        return found
    others = named.get(OTHERS, ColumnOutline(OTHERS))
    sources = tuple((key, name if own == OTHERS else own) for key, own in others.sources)
    return ColumnOutline(name, sources=sources, is_whole=others.is_whole)


def _describe(column: ColumnOutline, description: str | None) -> str | None:
    """Return a column's description and its first sources, as Markdown of one line."""
    text = escape_markdown(description or column.description or "")
    if column.is_whole:
        named = [f"all columns of {_name(key)}" for key in dict.fromkeys(key for key, _ in column.sources)]
    else:
        named = [f"{own} of {_name(key)}" if own else _name(key) for key, own in column.sources]
    more = ", …" if len(named) > _MOST_NAMED else ""
    read = f"(from {escape_markdown(', '.join(named[:_MOST_NAMED]))}{more})" if named else ""
    return " ".join(filter(None, (text, read))) or None


def _name(key: JobKey) -> str:
    """Return the name of a job or of a source, whose key has its kind in front of that."""
    kind = next((place for place, part in enumerate(key) if " " in part), -1)
    return "/".join(key[kind + 1 :])
