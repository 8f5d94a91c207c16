"""Resolution of the names in a query: catalog, schema and table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from core.data.datasets.references import choose_table
from core.data.sql.catalog import Table
from core.data.sql.information_schema import COLUMNS, INFORMATION_SCHEMA
from core.errors import BadInput
from core.infra.settings.sql import SqlSettings
from pipelines.sql.names import TableName, suggest

OWN_NAMES = frozenset({"output", "output_table", "dataset"})


class UnknownTable(BadInput):
    """A name that means no table of the organization."""

    default_code = "unknown-table"


@dataclass(frozen=True, slots=True)
class NameScope:
    """The name resolution of one request: its default schema, the table that the query is bound to, if any, and tables
    under names of the request's own."""

    catalogs: frozenset[str]
    schema: str | None = None
    bound: Table | None = None
    named: Mapping[str, Table] = field(default_factory=dict[str, Table])

    def resolve(self, name: TableName, tables: Iterable[Table]) -> Table | None:
        """Return the table that a name means; None for an unknown or ambiguous name.

        All names of the bound table mean its bound version. Raises BadInput for an unknown catalog.
        """
        self.check_catalog(name.catalog)
        if name.schema is None and name.name in self.named:
            return self.named[name.name]
        if self.bound is not None and name.schema is None and name.name in OWN_NAMES | {self.bound.name}:
            return self.bound
        return choose_table(name.name, name.schema, self.schema, map(self._bind, tables))

    def is_view(self, name: TableName) -> bool:
        """Whether a name means `tables` or `columns` of `information_schema`."""
        return (name.schema or self.schema) == INFORMATION_SCHEMA and name.name in COLUMNS

    def _bind(self, table: Table) -> Table:
        return self.bound if self.bound is not None and table.dataset_id == self.bound.dataset_id else table

    def check_catalog(self, catalog: str | None) -> None:
        if catalog is not None and catalog.lower() not in self.catalogs:
            raise BadInput(f"There is no catalog {catalog}{suggest(catalog, self.catalogs)}.", code="unknown-catalog")


def make_scope(
    settings: SqlSettings,
    catalog: str | None,
    schema: str | None,
    bound: Table | None = None,
    named: Mapping[str, Table] | None = None,
) -> NameScope:
    """Return the scope of a request with these defaults. Raises BadInput for an unknown catalog."""
    catalogs = frozenset(name.lower() for name in (settings.catalog, *settings.catalog_aliases))
    scope = NameScope(catalogs, schema.lower() if schema else None, bound, named or {})
    scope.check_catalog(catalog or None)
    return scope


def report_unknown_table(name: TableName, tables: Iterable[Table]) -> BadInput:
    """Return the error for a name that means no table, or more than one."""
    everything = list(tables)
    schemas = sorted(table.schema for table in everything if table.name == name.name)
    if name.schema is None and len(schemas) > 1:
        sentence = f"The table {name} is in several schemas ({', '.join(schemas)}); name one of them."
        return BadInput(sentence, code="ambiguous-table")
    wanted = name.name if name.schema is None else f"{name.schema}.{name.name}"
    known = [name for table in everything for name in (table.full_name, table.name)]
    return UnknownTable(f"There is no table {name}{suggest(wanted, known)}.")
