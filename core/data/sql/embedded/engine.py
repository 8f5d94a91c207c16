"""DuckDB as a SqlEngine: queries run in processes of their organization, over the Parquet files of their tables."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from core.data.columns import Column
from core.data.datasets.version_files import get_folder_columns
from core.data.sql.catalog import Table
from core.data.sql.embedded.messages import Header, QueryAnswer, QueryRequest
from core.data.sql.embedded.pool import Pool, WorkerDied, WorkerTimedOut
from core.data.sql.engine import (
    EngineQuery,
    QueryCancelled,
    Relation,
    ResultPage,
    StoredResult,
    report_memory_limit,
    report_refusals,
    report_size_limit,
    report_timeout,
)
from core.data.sql.files import check_files_again, list_parquet_files
from core.data.sql.rows import MAX_PAGE_BYTES
from core.errors import BadInput, SpindleError
from core.infra.checks import Check
from core.infra.storage.protocol import Storage
from pipelines.duckdb.views import View
from pipelines.language.formats import TABLE_FORMATS
from pipelines.sql.duckdb_text import write_duckdb
from pipelines.sql.gate import TRINO_FUNCTIONS, find_references
from pipelines.sql.names import TableName
from pipelines.sql.scopes import Output
from pipelines.sql.statement import Select, find_bounds, list_value_columns
from pipelines.sql.type_names import convert_type
from pipelines.sql.types import find_column_type

TYPES = {"U?HUGEINT": "BIGINT", "UBIGINT": "BIGINT", "UINTEGER": "BIGINT", "TIMESTAMP_(S|MS|NS)": "TIMESTAMP"}
CHECK_SECONDS = 5
UNNAMED_FIELD = re.compile(r'"?\b_\d+"? (?=[A-Z])')  # of rows


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """A pool of query processes, and the time and size of answer that one of its queries may take."""

    pool: Pool
    timeout_seconds: float
    max_bytes: int = MAX_PAGE_BYTES


class DuckDbEngine:
    """Implements SqlEngine with two pools of query processes: for queries that somebody waits for, and for others."""

    functions: Set[str] = TRINO_FUNCTIONS

    def __init__(self, storage: Storage, interactive: WorkerLimits, stored: WorkerLimits) -> None:
        self._storage = storage
        self._interactive = interactive
        self._stored = stored
        self._storage_check = Check("storage", storage.check, "storage-unavailable")

    def register(self, organization_id: str, table: Table) -> Relation:
        """List the table's files. Queries read them through a view whose one identifier is `schema.table@version`."""
        name = f"{table.full_name}@{table.version}"
        return Relation(table, (name,), list_parquet_files(self._storage, organization_id, table, "signed"))

    def translate(
        self, query: Select, relations: Mapping[TableName, Relation | exp.Select], limit: int | None, offset: int
    ) -> str:
        outputs = {name: _list_output(each) for name, each in relations.items()}
        with report_refusals():
            return write_duckdb(query.tree, outputs, lambda tree: rewrite(tree, relations, limit, offset))

    def run(self, query: EngineQuery) -> ResultPage:
        answer = self._ask(query, self._interactive)
        return ResultPage(_list_columns(answer), answer.header.rows, answer.body)

    def store(self, query: EngineQuery, key: str, report_progress: Callable[[float], object]) -> StoredResult:
        with tempfile.TemporaryDirectory(dir=self._stored.pool.folder, ignore_cleanup_errors=True) as scratch:
            file = Path(scratch) / "rows.parquet"
            answer = self._ask(query, self._stored, str(file), report_progress)
            with file.open("rb") as content:
                stored = self._storage.put(key, content)
        return StoredResult(_list_columns(answer), answer.header.rows, stored.size_bytes)

    def _ask(
        self,
        query: EngineQuery,
        limits: WorkerLimits,
        store: str | None = None,
        report_progress: Callable[[float], object] = lambda _: None,
    ) -> QueryAnswer:
        views = [_make_view(relation) for relation in query.relations]
        request = QueryRequest(query.sql, views, query.explain, query.exact_numbers, limits.max_bytes, store)
        seconds = limits.timeout_seconds
        try:
            answer = limits.pool.run(query.organization_id, query.id, request, seconds, report_progress)
        except WorkerTimedOut:
            self._check_storage(query)
            raise report_timeout(seconds) from None
        except WorkerDied as error:
            if error.cancelled:
                raise QueryCancelled("The query was cancelled.") from None
            raise report_memory_limit() from None
        if answer.header.failure is not None:
            if answer.header.code == "query-failed":
                self._check_storage(query)
                for relation in query.relations:
                    check_files_again(self._storage, query.organization_id, relation.table)
            raise _convert_error(answer.header, limits.max_bytes)
        return answer

    def _check_storage(self, query: EngineQuery) -> None:
        """Raise Unavailable when a query of tables may have failed because their storage does not work."""
        problem = self._storage_check.find_problem(CHECK_SECONDS) if query.relations else None
        if problem is not None:
            raise problem

    def check(self) -> None:
        """Its processes are started when they are needed."""

    def cancel(self, query_id: str) -> bool:
        return self._interactive.pool.cancel(query_id) or self._stored.pool.cancel(query_id)

    def close(self) -> None:
        self._interactive.pool.close()
        self._stored.pool.close()


def _list_output(relation: Relation | exp.Select) -> Output:
    """Return the columns of a relation with their types, and of a view those of its VALUES."""
    if isinstance(relation, Relation):
        return [(each.name.lower(), find_column_type(each.type)) for each in relation.table.get_trino_columns()]
    return [(each.alias_or_name.lower(), None) for each in relation.expressions]


def _make_view(relation: Relation) -> View:
    table = relation.table
    columns = [(column.name, convert_type(column.type, "spark", "duckdb")) for column in table.columns]
    partition_by = get_folder_columns(table.format, table.partition_by)
    return View(relation.identifiers[0], relation.files, columns, partition_by, table.format in TABLE_FORMATS)


def _list_columns(answer: QueryAnswer) -> tuple[Column, ...]:
    return tuple(Column(name, _name_type(type)) for name, type in answer.header.columns)


def _name_type(type: str) -> str:
    """Return Trino's name of a type of DuckDB, some of which Trino does not have."""
    for own, name in TYPES.items():
        type = re.sub(rf"\b{own}\b", name, type)
    if type == "INTERVAL":
        return "interval day to second"
    return convert_type(UNNAMED_FIELD.sub("", type), "duckdb", "trino")


def _convert_error(header: Header, max_bytes: int) -> SpindleError:
    match header.failure:
        case "too large":
            return report_size_limit(max_bytes)
        case "memory":
            return report_memory_limit()
        case "refused":
            return BadInput(header.message, code="query-refused")
        case _:
            return BadInput(header.message, code=header.code)


def rewrite(
    tree: exp.Expr, relations: Mapping[TableName, Relation | exp.Select], limit: int | None, offset: int
) -> exp.Expr:
    """Return a checked query over an engine's relations or other queries, with at most `limit` rows; None means all."""
    references = list(find_references(tree))
    for node, name in references:
        relation = relations[name]
        if isinstance(relation, Relation):
            _point_to_relation(node, name, relation)
        else:
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name.name, quoted=True))
            node.replace(exp.Subquery(this=relation.copy(), alias=alias, joins=node.args.get("joins")))
    _unqualify_columns(tree, {(name.schema, name.name) for _, name in references if name.schema})
    return _limit_rows(tree, limit, offset)


def _point_to_relation(node: exp.Table, name: TableName, relation: Relation) -> None:
    """Replace the table's name; an alias keeps the written one for the columns."""
    if not node.alias:
        alias = exp.TableAlias(this=exp.to_identifier(name.name, quoted=True))
        node.set("alias", alias)
    parts = [exp.to_identifier(part, quoted=True) for part in reversed(relation.identifiers)]
    for key, part in zip(("this", "db", "catalog"), [*parts, None, None], strict=False):
        node.set(key, part)


def _unqualify_columns(tree: exp.Expr, qualified: set[tuple[str | None, str]]) -> None:
    """Turn `schema.table.column` into `table.column` for tables that the query names with their schema."""
    for column in tree.find_all(exp.Column):
        if column.db and (column.db.lower(), column.table.lower()) in qualified:
            column.set("db", None)
            column.set("catalog", None)


def _limit_rows(tree: exp.Expr, limit: int | None, offset: int) -> exp.Expr:
    """Return a query for one page, within the limit that the query sets itself."""
    bounds = find_bounds(tree)
    if bounds is not None and isinstance(tree, exp.Select | exp.SetOperation):
        # one LIMIT keeps the order of the query's ORDER BY, which a subquery need not
        rows, start = bounds.cut(limit, offset)
        tree = tree if rows is None else tree.limit(rows, copy=False)
        return tree.offset(start, copy=False)
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    columns = list_value_columns(inner) if isinstance(inner, exp.Values) else None
    page = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("page"), columns=columns))
    query = exp.select("*").from_(page, copy=False)
    return (query if limit is None else query.limit(limit, copy=False)).offset(offset, copy=False)
