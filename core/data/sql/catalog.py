"""The tables that an organization's queries may read: the current versions of its datasets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, select
from sqlalchemy.orm import Session

from core.data.columns import Column
from core.data.datasets.repository import TRIAL
from core.infra.validation import is_storable
from core.tables import Dataset, DatasetVersion
from pipelines.language.formats import PARQUET_FORMATS
from pipelines.sql.type_names import convert_type

_CURRENT = DatasetVersion.id == Dataset.current_version_id


@dataclass(frozen=True, slots=True)
class Table:
    """A published version of a dataset. Column types are Spark's; locations and files are storage keys.

    `files` is None where they are not stored: then the folders are listed, or a table's log tells them.
    """

    dataset_id: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    format: str
    locations: tuple[str, ...]
    snapshot: str | None
    row_count: int | None
    size_bytes: int | None
    files: tuple[str, ...] | None = None
    partition_by: tuple[str, ...] = ()
    version: int = 1

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def title(self) -> str:
        """The version's name in sentences."""
        return f"version {self.version} of {self.full_name}"

    def get_trino_columns(self) -> tuple[Column, ...]:
        """Return the columns with Trino's type names: queries are written in Trino's dialect."""
        return tuple(replace(column, type=convert_type(column.type, "spark", "trino")) for column in self.columns)


class Catalog:
    """The published tables of one organization, each with its current version."""

    def __init__(self, session: Session, organization_id: str) -> None:
        self._session = session
        self._organization_id = organization_id

    def load_tables(self, schema: str | None = None) -> list[Table]:
        """Return all tables, or those of one schema, by name; without the rows that executions keep apart."""
        query = self._select().where(Dataset.dataset_type != TRIAL)
        if schema is not None:
            if not is_storable(schema):
                return []
            query = query.where(Dataset.schema_slug == schema)
        return self._load(query.order_by(Dataset.schema_slug, Dataset.slug))

    def find_by_names(self, names: Collection[str]) -> list[Table]:
        """Return the tables of any schema that have one of these names."""
        return self._load(self._select().where(Dataset.slug.in_([name for name in names if is_storable(name)])))

    def find_by_dataset(self, dataset_id: str) -> Table | None:
        return self._find(dataset_id, _CURRENT)

    def find_by_execution(self, dataset_id: str, execution_id: str) -> Table | None:
        """Return the version of a dataset that an execution published, current or not."""
        return self._find(dataset_id, DatasetVersion.execution_id == execution_id)

    def find_by_version(self, dataset_id: str, version_id: str) -> Table | None:
        """Return one version of a dataset, current or not."""
        return self._find(dataset_id, DatasetVersion.id == version_id)

    def _find(self, dataset_id: str, version: ColumnElement[bool]) -> Table | None:
        if not is_storable(dataset_id):
            return None
        chosen = and_(DatasetVersion.dataset_id == Dataset.id, version)
        return next(iter(self._load(self._select(chosen).where(Dataset.id == dataset_id))), None)

    def _select(self, version: ColumnElement[bool] = _CURRENT) -> Select[Any]:
        query = select(Dataset, DatasetVersion).join(DatasetVersion, version)
        return query.where(Dataset.organization_id == self._organization_id)

    def _load(self, query: Select[Any]) -> list[Table]:
        return [
            Table(
                dataset_id=dataset.id,
                schema=dataset.schema_slug,
                name=dataset.slug,
                columns=tuple(Column(each["name"], each["type"], each.get("description")) for each in version.columns),
                format=version.format,
                locations=tuple(version.locations),
                snapshot=version.snapshot,
                partition_by=tuple(version.partition_by),
                row_count=version.row_count,
                size_bytes=version.size_bytes,
                files=None if version.files is None else tuple(version.files),
                version=version.number,
            )
            for dataset, version in self._session.execute(query)
            if version.format in PARQUET_FORMATS  # not by the query: old versions share their values
        ]
