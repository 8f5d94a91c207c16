"""Records of the queries that run in the background, and their states.

PENDING -> RUNNING -> COMPLETED | FAILED | CANCELLED. Every change is one conditional UPDATE, so that a cancel, the end
of the query and the loss of its process cannot overwrite each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from core.data.sql.engine import StoredResult
from core.errors import SpindleError
from core.infra.database import execute_update
from core.infra.repository import Repository
from core.tables import StoredQuery, now
from pipelines.contract.report import describe_columns

_READ_TIME = timedelta(minutes=10)  # for which a result that is named again is there at least
UNFINISHED = ("PENDING", "RUNNING")
LOST = {
    "state": "FAILED",
    "error": "The service ended while this query ran. Submit it again.",
    "error_code": "query-lost",
}


class StoredQueryRepository(Repository[StoredQuery]):
    """The background queries of one organization."""

    row = StoredQuery
    noun = "query"

    def list(self, limit: int | None = None, after: str | None = None) -> Sequence[StoredQuery]:
        return self._fetch_page(self._select(), limit, after)

    def get(self, query_id: str) -> StoredQuery:
        return self._fetch_by_id(query_id)

    def find_usable(self, sql: str) -> StoredQuery | None:
        """Return the newest query with this text that has not failed; the text names all that it reads."""
        states = (*UNFINISHED, "COMPLETED")
        query = self._select().where(StoredQuery.sql == sql, StoredQuery.state.in_(states))
        query = query.where(StoredQuery.expires_at.is_(None) | (StoredQuery.expires_at > now() + _READ_TIME))
        return self.session.scalar(query.order_by(StoredQuery.id.desc()).limit(1))

    def create(self, query_id: str, sql: str) -> StoredQuery:
        query = StoredQuery(id=query_id, organization_id=self.organization_id, sql=sql)
        self.session.add(query)
        self.session.flush()
        return query

    def cancel(self, query_id: str, expires_at: datetime) -> bool:
        """Return False for a query that has ended before."""
        values = {"state": "CANCELLED", "error": "The query was cancelled.", "error_code": "query-cancelled"}
        return _end(self.session, self.get(query_id).id, values, expires_at)

    def delete(self, query: StoredQuery) -> None:
        self.session.delete(query)
        self.session.flush()


def start_query(session: Session, query_id: str) -> bool:
    """Return False for a query that was cancelled while it waited."""
    statement = update(StoredQuery).where(StoredQuery.id == query_id, StoredQuery.state == "PENDING")
    return execute_update(session, statement.values(state="RUNNING", started_at=now(), heartbeat_at=now())) == 1


def complete_query(session: Session, query_id: str, result: StoredResult, expires_at: datetime) -> bool:
    """Return False for a query that was cancelled, or counted as lost, in the meantime."""
    values = {
        "state": "COMPLETED",
        "progress": 1.0,
        "columns": describe_columns((column.name, column.type) for column in result.columns),
        "row_count": result.row_count,
        "size_bytes": result.size_bytes,
    }
    return _end(session, query_id, values, expires_at)


def fail_query(session: Session, query_id: str, error: SpindleError, expires_at: datetime) -> None:
    values = {"state": "FAILED", "error": error.sentence, "error_code": error.details[0].code}
    _end(session, query_id, values, expires_at)


def beat(session: Session, progress: Mapping[str, float | None]) -> set[str]:
    """Write the heartbeat and progress of a process's queries; return those that are unfinished."""
    rows = session.execute(select(StoredQuery.id, StoredQuery.state).where(StoredQuery.id.in_(progress))).all()
    unfinished = {query_id for query_id, state in rows if state in UNFINISHED}
    for query_id in unfinished:
        statement = update(StoredQuery).where(StoredQuery.id == query_id, StoredQuery.state.in_(UNFINISHED))
        execute_update(session, statement.values(heartbeat_at=now(), progress=progress[query_id]))
    return unfinished


def list_lost(session: Session, silent_since: datetime) -> Sequence[str]:
    """Return the queries of all organizations whose process has been silent since a time."""
    lost = (StoredQuery.state.in_(UNFINISHED), StoredQuery.heartbeat_at < silent_since)
    return session.scalars(select(StoredQuery.id).where(*lost)).all()


def fail_lost_query(session: Session, query_id: str, expires_at: datetime) -> bool:
    return _end(session, query_id, LOST, expires_at)


def list_expired(session: Session, at: datetime, limit: int) -> Sequence[StoredQuery]:
    """Return queries of all organizations whose results are not kept any longer."""
    return session.scalars(select(StoredQuery).where(StoredQuery.expires_at <= at).limit(limit)).all()


def list_surplus(session: Session, organization_id: str, kept: int) -> Sequence[StoredQuery]:
    """Return the organization's oldest finished queries beyond the number that is kept."""
    query = select(StoredQuery).where(
        StoredQuery.organization_id == organization_id, StoredQuery.state.not_in(UNFINISHED)
    )
    return session.scalars(query.order_by(StoredQuery.id.desc()).offset(kept)).all()


def delete_queries(session: Session, ids: Sequence[str]) -> None:
    session.execute(delete(StoredQuery).where(StoredQuery.id.in_(ids)))


def _end(session: Session, query_id: str, values: Mapping[str, Any], expires_at: datetime) -> bool:
    statement = update(StoredQuery).where(StoredQuery.id == query_id, StoredQuery.state.in_(UNFINISHED))
    return execute_update(session, statement.values(**values, completed_at=now(), expires_at=expires_at)) == 1


def expire_after(hours: float) -> datetime:
    return now() + timedelta(hours=hours)
