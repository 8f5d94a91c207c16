"""Queries in the background: submitted, followed, cancelled, and their rows read in pages or as a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from pydantic import ConfigDict
from sqlalchemy.orm import Session

from core.data.columns import Column
from core.data.datasets.repository import DatasetRepository
from core.data.datasets.service import Download
from core.data.datasets.versions import get_version
from core.data.sql.catalog import Catalog
from core.data.sql.differences import ColumnDifferenceRecord, Comparison
from core.data.sql.engine import ResultPage
from core.data.sql.service import MAX_ROWS, Query, QueryService
from core.data.sql.stored.repository import UNFINISHED, StoredQueryRepository, expire_after, list_surplus
from core.data.sql.stored.results import ResultReader
from core.data.sql.stored.runner import QueryRunner
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Conflict, NotFound, TooMany
from core.infra.database import Database
from core.infra.idempotency import IdempotencyKey, find_result, store_result
from core.infra.records import RECORD
from core.infra.repository import lock_organization
from core.infra.settings import Settings
from core.infra.storage.protocol import NotStored, Storage, query_key
from core.tables import StoredQuery, new_id

MAX_UNFINISHED = 8
MAX_KEPT = 20
RETRY_SECONDS = 10


@dataclass(frozen=True, slots=True)
class RowCounts:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    added: int
    """Rows whose keys only the second version has."""
    removed: int
    """Rows whose keys only the first version has."""
    changed: int
    """Rows that both versions have with different values."""


@dataclass(frozen=True, slots=True)
class VersionDiff:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    before: int
    """Number of the first version."""
    after: int
    """Number of the second version."""
    keys: Sequence[str]
    """The columns that tell rows apart."""
    columns: Sequence[ColumnDifferenceRecord]
    """The columns that one version lacks, or has with another type."""
    counts: RowCounts
    """How many rows differ."""
    query_id: str
    """Id of the query in the background whose results are the rows that differ."""


class StoredQueryService:
    """Every method sees the queries of the caller's organization and no others (NotFound)."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        storage: Storage,
        queries: QueryService,
        runner: QueryRunner,
        results: ResultReader,
    ) -> None:
        self._settings = settings
        self._database = database
        self._storage = storage
        self._queries = queries
        self._runner = runner
        self._results = results

    def submit(self, caller: Identity, query: Query, key: IdempotencyKey | None = None) -> StoredQuery:
        """Check a query, freeze the versions that it reads, and run it in the background; return the query of an
        earlier request with this key instead.

        Raises what QueryService.run raises for a query that cannot run, TooMany for a further unfinished one, and
        Conflict for a key of another request or of a query that is not kept any longer.
        """
        with self._database.read() as session:
            if submitted := _find_submitted(session, caller, key):
                return submitted
        prepared = self._queries.prepare(caller, query, new_id())
        if isinstance(prepared, ResultPage):
            raise BadInput("SHOW and DESCRIBE are answered at once; leave out `async`.", code="query-refused")
        owner = caller.organization_id
        with self._database.write() as session:
            lock_organization(session, owner)
            if submitted := _find_submitted(session, caller, key):  # by a request at the same time
                return submitted
            stored = StoredQueryRepository(session, owner)
            if sum(each.state in UNFINISHED for each in stored.list()) >= MAX_UNFINISHED:
                sentence = f"{MAX_UNFINISHED} queries of the organization are waiting or running."
                raise TooMany(sentence, RETRY_SECONDS, code="concurrency-limit")
            for surplus in list_surplus(session, owner, MAX_KEPT - 1):
                surplus.expires_at = expire_after(0)
            created = stored.create(prepared.id, query.sql)
            if key is not None:
                store_result(session, key, created.id)
        self._runner.submit(prepared)
        return created

    def compare(self, caller: Identity, dataset_id: str, before: str, after: str, keys: Sequence[str]) -> VersionDiff:
        """Compare two versions of a dataset by keys, or else by those of the job's output.

        The differing rows are those of a query in the background; one that compares them already is used again. Raises
        NotFound, and BadInput for missing, unknown or repeated keys.
        """
        owner = caller.organization_id
        with self._database.read() as session:
            dataset = DatasetRepository(session, owner).get(dataset_id)
            versions = [get_version(session, dataset, number) for number in (before, after)]
            tables = [Catalog(session, owner).find_by_version(dataset.id, version.id) for version in versions]
        keys = keys or versions[1].keys or versions[0].keys
        if not keys:
            sentence = "The dataset's job names no keys. Name in `keys` the columns that tell its rows apart."
            raise BadInput(sentence, code="missing-keys", path="keys")
        if not (tables[0] and tables[1]):
            raise BadInput("SQL cannot read the format of these versions.", path="version", code="unsupported-format")
        names = [f"version {version.id}" for version in versions]
        comparison = Comparison.from_tables(tables[0], tables[1], keys, names)

        def build_query(sql: str, limit: int | None = None) -> Query:
            return Query(sql, limit=limit, exact_numbers=True, tables=comparison.tables)

        for row in self._queries.run(caller, build_query(comparison.select_repeated_keys(), 1)).page.rows:
            raise comparison.report_repeated_key(row)
        (counts,) = self._queries.run(caller, build_query(comparison.select_counts(), 1)).page.rows
        sql = comparison.select_rows()
        with self._database.read() as session:
            stored = StoredQueryRepository(session, owner).find_usable(sql)
        query = stored or self.submit(caller, build_query(sql))
        columns = comparison.list_column_differences()
        numbers = {name: int(counts[name]) for name in ("added", "removed", "changed")}
        return VersionDiff(versions[0].number, versions[1].number, keys, columns, RowCounts(**numbers), query.id)

    def submit_on_job(
        self, caller: Identity, project_id: str, job_id: str, query: Query, key: IdempotencyKey | None = None
    ) -> StoredQuery:
        """Submit a query that is bound to a dataset of this job."""
        self._queries.check_dataset_of_job(caller, project_id, job_id, query)
        return self.submit(caller, query, key)

    def submit_on_task(
        self, caller: Identity, task_id: str, query: Query, key: IdempotencyKey | None = None
    ) -> StoredQuery:
        """Submit a query bound to the dataset of a task's execution."""
        return self.submit(caller, self._queries.bind_to_task(caller, task_id, query), key)

    def list(self, session: Session, caller: Identity, limit: int | None, after: str | None) -> Sequence[StoredQuery]:
        return StoredQueryRepository(session, caller.organization_id).list(limit, after)

    def get(self, session: Session, caller: Identity, query_id: str) -> StoredQuery:
        return StoredQueryRepository(session, caller.organization_id).get(query_id)

    def cancel(self, caller: Identity, query_id: str) -> StoredQuery:
        """Cancel a query; delete the result of one that has ended."""
        with self._database.write() as session:
            stored = StoredQueryRepository(session, caller.organization_id)
            cancelled = stored.cancel(query_id, expire_after(self._settings.sql.result_hours))
            query = stored.get(query_id)
            session.refresh(query)
            if not cancelled:
                stored.delete(query)
        if cancelled:
            self._runner.cancel(query_id)
            return query
        self._storage.delete(query_key(caller.organization_id, query_id))
        return query

    def read_page(
        self, caller: Identity, query_id: str, page: int, limit: int, exact_numbers: bool
    ) -> tuple[StoredQuery, ResultPage]:
        """Return a page of the rows, the first one being 0. Raises Conflict while there is no result."""
        if not (page >= 0 and 1 <= limit <= MAX_ROWS):
            raise BadInput(f"page begins with 0, and limit is 1 to {MAX_ROWS:,}.", path="page")
        query = self._get_completed(caller, query_id)
        return query, self._results.read_page(
            caller.organization_id, query_id, _get_columns(query), limit, page * limit, exact_numbers
        )

    def open_result(self, caller: Identity, query_id: str, format: str) -> Download:
        """Return all rows as a file. Raises Conflict while there is no result."""
        query = self._get_completed(caller, query_id)
        name, key = f"query-{query_id}.{format}", query_key(caller.organization_id, query_id)
        if format == "parquet":
            try:
                return Download(name, self._storage.open(key), query.id)
            except NotStored:
                _report_missing()
        return Download(name, self._results.export(key, format))

    def _get_completed(self, caller: Identity, query_id: str) -> StoredQuery:
        with self._database.read() as session:
            query = self.get(session, caller, query_id)
        if query.state in UNFINISHED:
            raise Conflict("The query has not ended; read its status first.", code="query-unfinished")
        if query.state != "COMPLETED":
            raise Conflict(query.error or "The query has failed.", code=query.error_code or "query-failed")
        return query


def _find_submitted(session: Session, caller: Identity, key: IdempotencyKey | None) -> StoredQuery | None:
    """Return the query that an earlier request with this key has submitted."""
    query_id = find_result(session, key) if key is not None else None
    if query_id is None:
        return None
    try:
        return StoredQueryRepository(session, caller.organization_id).get(query_id)
    except NotFound:
        sentence = "The query of this Idempotency-Key is not kept any longer. Use a new key to run it again."
        raise Conflict(sentence, code="query-lost", path="Idempotency-Key") from None


def _get_columns(query: StoredQuery) -> tuple[Column, ...]:
    return tuple(Column(column["name"], column["type"]) for column in query.columns)


def _report_missing() -> NoReturn:
    raise Conflict("The result of this query is not kept any longer.", code="query-lost")
