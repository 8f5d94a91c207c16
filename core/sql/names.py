"""What a name in a query means: which catalog, which schema, which of the organization's tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from core.errors import BadInput
from core.infra.settings import Settings
from core.sql.catalog import Table

OWN_NAMES = frozenset({"output", "output_table", "dataset"})


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as a query writes it, in lower case: `catalog.schema.name`, the first two optional."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part)


@dataclass(frozen=True, slots=True)
class NameScope:
    """The defaults of one request: its schema, and the dataset that the query is bound to, if any."""

    catalogs: frozenset[str]
    schema: str | None = None
    bound: Table | None = None

    def resolve(self, name: TableName, tables: Iterable[Table]) -> Table | None:
        """The table that `name` means among `tables`, None where there is none or the name is ambiguous.

        Raises:
            BadInput: the name's catalog does not exist.
        """
        self.check_catalog(name.catalog)
        if self.bound is not None and name.schema is None and name.name in OWN_NAMES | {self.bound.name}:
            return self.bound
        same = [table for table in tables if table.name == name.name]
        if name.schema is not None:
            return next((table for table in same if table.schema == name.schema), None)
        here = [table for table in same if table.schema == self.schema]
        found = here or same
        return found[0] if len(found) == 1 else None

    def check_catalog(self, catalog: str | None) -> None:
        if catalog is not None and catalog.lower() not in self.catalogs:
            raise BadInput(f"There is no catalog {catalog}{near(catalog, self.catalogs)}.")


def name_scope(settings: Settings, catalog: str | None, schema: str | None, bound: Table | None = None) -> NameScope:
    """The scope of a request that names `catalog` and `schema` as its session's defaults."""
    catalogs = frozenset(name.lower() for name in (settings.sql_catalog, *settings.sql_catalog_aliases))
    scope = NameScope(catalogs, schema.lower() if schema else None, bound)
    scope.check_catalog(catalog or None)
    return scope


def unknown_table(name: TableName, tables: Iterable[Table]) -> BadInput:
    """The error for a name that means no table, or more than one."""
    everything = list(tables)
    schemas = sorted(table.schema for table in everything if table.name == name.name)
    if name.schema is None and len(schemas) > 1:
        return BadInput(f"The table {name} is in several schemas ({', '.join(schemas)}); name one of them.")
    wanted = name.name if name.schema is None else f"{name.schema}.{name.name}"
    known = {table.view: table.view for table in everything} | {table.name: table.view for table in everything}
    return BadInput(f"There is no table {name}{near(wanted, known)}.")


def near(wanted: str, known: Iterable[str]) -> str:
    """`; did you mean a or b?` without its question mark, empty where nothing is near."""
    matches = get_close_matches(wanted.lower(), list(known), n=3, cutoff=0.6)
    return f" (near matches: {', '.join(matches)})" if matches else ""
