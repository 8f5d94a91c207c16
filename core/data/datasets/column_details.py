"""Details of the columns of a version from its pipeline: descriptions, and the columns of sources they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict

from core.infra.records import RECORD
from core.tables import DatasetVersion
from pipelines.contract.request import get_input_name
from pipelines.language.origins import OTHERS, TracedColumn
from pipelines.planning.lineage import find_column
from pipelines.sql.type_names import convert_type


@dataclass(frozen=True, slots=True)
class SourceColumnRecord:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    source: str
    """A host, path, bucket or table of a database, or a dataset as the pipeline names it."""
    column: str | None
    """Its column, or the selector of a part of its pages; null for any."""
    dataset_id: str | None
    """Id of the dataset; null for other sources."""


@dataclass(frozen=True, slots=True)
class DescribedColumn:
    """A column of a version, with Trino's type name, its description, and the columns of sources it is made of."""

    name: str
    type: str
    description: str | None
    sources: tuple[SourceColumnRecord, ...]
    all: bool


def add_details(
    columns: Iterable[Mapping[str, Any]], traced: Iterable[TracedColumn], dataset_ids: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return stored columns with their descriptions and sources, of which these are datasets."""
    named = {each.name: each for each in traced}
    others = named.pop(OTHERS, TracedColumn(OTHERS))
    detailed = list[dict[str, Any]]()
    for column in columns:
        found = find_column(column["name"], named, others)
        sources = [
            {"source": get_input_name(each.source), "column": each.column, "dataset": dataset_ids.get(each.source)}
            for each in found.sources
        ]
        details = {"description": found.description, "sources": sources, "whole": found.is_whole}
        detailed.append({**column, **{name: value for name, value in details.items() if value}})
    return detailed


def read_columns(version: DatasetVersion | None) -> list[DescribedColumn]:
    """Return the columns of a version; none without one."""
    return [
        DescribedColumn(
            each["name"],
            convert_type(each["type"], "spark", "trino"),
            each.get("description"),
            tuple(SourceColumnRecord(one["source"], one["column"], one["dataset"]) for one in each.get("sources", ())),
            each.get("whole", False),
        )
        for each in (version.columns if version else ())
    ]
