"""The tables that an organization's queries may name: its datasets' current versions and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, select
from sqlalchemy.orm import Session

from core.infra.validation import storable
from core.tables import Dataset, DatasetVersion


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its type under Spark's name, as the driver reported it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Table:
    """One published dataset: `schema.name` in SQL, the folders of its current version behind it."""

    dataset_id: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    folders: tuple[str, ...]
    row_count: int | None
    size_bytes: int | None

    @property
    def view(self) -> str:
        """The one identifier that stands for this table inside the query process."""
        return f"{self.schema}.{self.name}"


class Catalog:
    """Reads the published tables of one organization."""

    def __init__(self, session: Session, organization_id: str) -> None:
        self._session = session
        self._organization_id = organization_id

    def tables(self, schema: str | None = None) -> list[Table]:
        if schema is not None and not storable(schema):
            return []
        query = self._published()
        if schema is not None:
            query = query.where(Dataset.schema_slug == schema)
        return self._all(query.order_by(Dataset.schema_slug, Dataset.slug))

    def named(self, names: Collection[str]) -> list[Table]:
        """The tables, of any schema, that have one of these names."""
        return self._all(self._published().where(Dataset.slug.in_([name for name in names if storable(name)])))

    def dataset(self, dataset_id: str) -> Table | None:
        found = self._all(self._published().where(Dataset.id == dataset_id))
        return found[0] if found else None

    def _published(self) -> Select[Any]:
        version = DatasetVersion.id == Dataset.current_version_id
        query = select(Dataset, DatasetVersion).join(DatasetVersion, version)
        # what was saved as CSV is for pipelines to load: queries read Parquet alone
        return query.where(Dataset.organization_id == self._organization_id, Dataset.format == "parquet")

    def _all(self, query: Select[Any]) -> list[Table]:
        return [_table(row) for row in self._session.execute(query)]


def _table(row: Row[Any]) -> Table:
    dataset, version = row
    return Table(
        dataset_id=dataset.id,
        schema=dataset.schema_slug,
        name=dataset.slug,
        columns=tuple(Column(column["name"], column["type"]) for column in version.columns),
        folders=tuple(version.paths),
        row_count=version.row_count,
        size_bytes=version.size_bytes,
    )
