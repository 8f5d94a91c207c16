"""Queries over the datasets of an organization, and the names of its schemas, tables and columns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.orm import Session
from sqlglot import exp

from core.data.columns import Column
from core.data.datasets.repository import DatasetRepository
from core.data.datasets.versions import find_task_output, get_version
from core.data.sql.catalog import Catalog, Table
from core.data.sql.embedded.engine import DuckDbEngine, WorkerLimits
from core.data.sql.embedded.pool import Pool
from core.data.sql.engine import EngineQuery, ResultPage, SqlEngine, report_refusals
from core.data.sql.information_schema import build_view
from core.data.sql.names import NameScope, UnknownTable, make_scope, report_unknown_table
from core.data.sql.query_limit import hold_slot
from core.data.sql.rows import encode_rows
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, NotFound
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.storage.protocol import Storage
from core.tables import new_id
from pipelines.sql import statement
from pipelines.sql.gate import check_tree, find_table_names
from pipelines.sql.names import TableName

Texts = tuple[str, ...]
DEFAULT_ROWS = 1000
MAX_ROWS = 10_000
STORED_QUERIES = 2  # that run at the same time in one process


def open_sql_engine(settings: Settings, storage: Storage) -> SqlEngine:
    """Return the engine that the settings select: Trino, or DuckDB in processes of this machine."""
    if settings.trino.address is not None:
        from core.data.sql.trino.engine import open_trino_engine  # here, because most instances have no Trino

        return open_trino_engine(settings, storage)
    folder = settings.data.resolve() / "sql"
    interactive = WorkerLimits(Pool(folder), settings.sql.timeout_seconds)
    stored = WorkerLimits(
        Pool(folder, STORED_QUERIES, keep_spare=False),
        settings.sql.async_timeout_seconds,
        int(settings.sql.result_gigabytes * 1e9),
    )
    return DuckDbEngine(storage, interactive, stored)


@dataclass(frozen=True, slots=True)
class Query:
    """One page of a query, or with no `limit` all its rows. `catalog` and `schema` are defaults of unqualified names.

    In a query bound to `dataset_id`, the names `output` and `dataset` mean that dataset: its current version, with
    `version` the one of this number or id, or with `execution_id` the one that the execution published. `tables` are
    versions under names that the query gives them.
    """

    sql: str
    catalog: str | None = None
    schema: str | None = None
    limit: int | None = DEFAULT_ROWS
    offset: int = 0
    dataset_id: str | None = None
    execution_id: str | None = None
    version: str | None = None
    exact_numbers: bool = False
    tables: Mapping[str, Table] = field(default_factory=dict[str, Table])


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A page of rows, with the id and the duration of the query."""

    query_id: str
    page: ResultPage
    milliseconds: int


class QueryService:
    """Every method sees the tables of the caller's organization and no others."""

    def __init__(self, settings: Settings, database: Database, engine: SqlEngine) -> None:
        self._settings = settings
        self._database = database
        self._engine = engine

    def run(self, caller: Identity, query: Query) -> QueryResult:
        """Raise BadInput, NotFound for the bound dataset, TooLarge for the page, TooMany at a limit, or Unavailable."""
        started, query_id = time.perf_counter(), new_id()
        if query.limit is None or query.limit > MAX_ROWS:
            raise BadInput(f"limit is at most {MAX_ROWS:,}; with `async` there is no limit.", path="limit")
        prepared = self.prepare(caller, query, query_id)
        if isinstance(prepared, ResultPage):
            return QueryResult(query_id, prepared, _measure(started))
        with hold_slot(self._database, caller.organization_id, self._settings.sql.timeout_seconds):
            page = self._engine.run(prepared)
        return QueryResult(query_id, page, _measure(started))

    def prepare(self, caller: Identity, query: Query, query_id: str) -> EngineQuery | ResultPage:
        """Check a query and translate it for the engine over the current versions; answer SHOW and DESCRIBE."""
        if query.offset < 0 or (query.limit is not None and query.limit < 0):
            raise BadInput("Neither limit nor offset is negative.", path="limit")
        with report_refusals():
            parsed = statement.parse(query.sql)
        owner = caller.organization_id
        with self._database.read() as session:
            catalog = Catalog(session, owner)
            bound = _get_bound_table(session, catalog, query, owner)
            scope = make_scope(self._settings.sql, query.catalog, query.schema, bound, query.tables)
            if isinstance(parsed, statement.Select):
                tables, views = self._resolve_tables(parsed, scope, catalog)
            else:
                return _build_page(*self._list_names(parsed, scope, catalog), query)
        relations = {name: self._engine.register(owner, table) for name, table in tables.items()}
        sql = self._engine.translate(parsed, {**relations, **views}, query.limit, query.offset)
        used = tuple({relation.identifiers: relation for relation in relations.values()}.values())
        return EngineQuery(query_id, owner, sql, used, parsed.explain, query.exact_numbers)

    def run_on_job(self, caller: Identity, project_id: str, job_id: str, query: Query) -> QueryResult:
        """Run a query that is bound to a dataset of this job. Raises NotFound for other datasets."""
        self.check_dataset_of_job(caller, project_id, job_id, query)
        return self.run(caller, query)

    def run_on_task(self, caller: Identity, task_id: str, query: Query) -> QueryResult:
        """Run a query bound to the dataset of a task's execution. Raises NotFound if it published no dataset."""
        return self.run(caller, self.bind_to_task(caller, task_id, query))

    def check_dataset_of_job(self, caller: Identity, project_id: str, job_id: str, query: Query) -> None:
        """Raise NotFound unless the query is bound to a dataset of this job."""
        with self._database.read() as session:
            datasets = DatasetRepository(session, caller.organization_id)
            datasets.get_of_job(project_id, job_id, query.dataset_id or "")

    def bind_to_task(self, caller: Identity, task_id: str, query: Query) -> Query:
        """Return the query bound to what the task's execution published. Raises NotFound if it published no dataset."""
        with self._database.read() as session:
            dataset_id, execution_id = find_task_output(session, caller.organization_id, task_id)
        return replace(query, dataset_id=dataset_id, execution_id=execution_id)

    def list_tables(
        self, session: Session, caller: Identity, catalog: str | None = None, schema: str | None = None
    ) -> list[Table]:
        """Return the published tables of one schema, or of all."""
        scope = make_scope(self._settings.sql, catalog, schema)
        return Catalog(session, caller.organization_id).load_tables(scope.schema)

    def list_columns(
        self, session: Session, caller: Identity, table: str, catalog: str | None, schema: str | None
    ) -> tuple[Column, ...]:
        """Return the columns of a table with Trino's type names.

        Raises NotFound for an unknown table, BadInput for a name in several schemas.
        """
        scope = make_scope(self._settings.sql, catalog, schema)
        try:
            found = _resolve(TableName(table.lower()), scope, Catalog(session, caller.organization_id))
        except UnknownTable as error:
            raise NotFound(error.sentence, error.details) from error
        return found.get_trino_columns()

    def get_table_of_job(
        self, session: Session, caller: Identity, project_id: str, job_id: str, dataset_id: str
    ) -> Table:
        """Return the table of a job's dataset. Raises NotFound before anything was published."""
        dataset = DatasetRepository(session, caller.organization_id).get_of_job(project_id, job_id, dataset_id)
        return _get_table(Catalog(session, caller.organization_id), dataset.id)

    def get_table_of_task(self, session: Session, caller: Identity, task_id: str) -> Table:
        """Return the dataset version that a task's execution published. Raises NotFound if it published no dataset."""
        output = find_task_output(session, caller.organization_id, task_id)
        return _get_table(Catalog(session, caller.organization_id), *output)

    def _resolve_tables(
        self, parsed: statement.Select, scope: NameScope, catalog: Catalog
    ) -> tuple[Mapping[TableName, Table], Mapping[TableName, exp.Select]]:
        """Return the published tables that a query names, and the views of `information_schema`."""
        with report_refusals():
            names = dict.fromkeys(find_table_names(parsed.tree))
            check_tree(parsed.tree, self._engine.functions)
        views = {name: self._build_view(name, scope, catalog) for name in names if scope.is_view(name)}
        tables = catalog.find_by_names({name.name for name in names})
        return {name: _choose(name, scope, tables, catalog) for name in names if name not in views}, views

    def _build_view(self, name: TableName, scope: NameScope, catalog: Catalog) -> exp.Select:
        scope.check_catalog(name.catalog)
        return build_view(name.name, self._settings.sql.catalog, catalog.load_tables())

    def _list_names(
        self, parsed: statement.NameQuestion, scope: NameScope, catalog: Catalog
    ) -> tuple[Texts, list[Texts]]:
        """Return the columns and the rows of the answer to SHOW or DESCRIBE."""
        match parsed:
            case statement.ShowCatalogs():
                return ("Catalog",), [(self._settings.sql.catalog,)]
            case statement.ShowSchemas():
                scope.check_catalog(parsed.catalog)
                return ("Schema",), [(name,) for name in sorted({table.schema for table in catalog.load_tables()})]
            case statement.ShowTables():
                scope.check_catalog(parsed.catalog)
                tables = catalog.load_tables(parsed.schema or scope.schema)
                return ("Table",), [(table.name,) for table in tables]
            case statement.ShowColumns():
                columns = _resolve(parsed.table, scope, catalog).get_trino_columns()
                return ("Column", "Type", "Comment"), [
                    (each.name, each.type, each.description or "") for each in columns
                ]


def _get_table(catalog: Catalog, dataset_id: str, execution_id: str | None = None) -> Table:
    table = catalog.find_by_execution(dataset_id, execution_id) if execution_id else catalog.find_by_dataset(dataset_id)
    if table is None:
        raise NotFound("There is no dataset with this id.")
    return table


def _get_bound_table(session: Session, catalog: Catalog, query: Query, organization_id: str) -> Table | None:
    """Return the version that the query is bound to; raise NotFound, BadInput for a version of no dataset."""
    if query.dataset_id is None:
        if query.version is not None:
            raise BadInput("'version' needs the 'datasetId' whose version it is.", path="version")
        return None
    if query.version is None:
        return _get_table(catalog, query.dataset_id, query.execution_id)
    dataset = DatasetRepository(session, organization_id).get(query.dataset_id)
    table = catalog.find_by_version(dataset.id, get_version(session, dataset, query.version).id)
    if table is None:
        raise BadInput("SQL cannot read the format of this version.", path="version", code="unsupported-format")
    return table


def _resolve(name: TableName, scope: NameScope, catalog: Catalog) -> Table:
    return _choose(name, scope, catalog.find_by_names({name.name}), catalog)


def _choose(name: TableName, scope: NameScope, tables: Sequence[Table], catalog: Catalog) -> Table:
    table = scope.resolve(name, tables)
    if table is None:
        raise report_unknown_table(name, catalog.load_tables())
    return table


def _build_page(columns: Texts, rows: Sequence[Texts], query: Query) -> ResultPage:
    page = rows[query.offset :][: query.limit]
    count, text = encode_rows(dict(zip(columns, row, strict=True)) for row in page)
    return ResultPage(tuple(Column(name, "varchar") for name in columns), count, text)


def _measure(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
