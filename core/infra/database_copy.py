"""A copy of the metadata database in another one, such as SQLite's in PostgreSQL."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from sqlalchemy import Connection, Table, func, insert, inspect, literal_column, select, text
from sqlalchemy.orm import Session

from core.errors import Conflict
from core.infra.database import Database, open_database
from core.infra.migrations import check_current, migrate
from core.infra.settings import Settings
from core.tables import Base

_BATCH = 1_000  # rows of one statement


@dataclass(frozen=True, slots=True)
class DatabaseCopy:
    """The numbers of copied tables and rows, and the tables of plugins, which are not copied."""

    tables: int
    rows: int
    left_out: tuple[str, ...]


def copy_database(source: Settings, target: Settings) -> DatabaseCopy:
    """Copy all rows of the tables of Spindle in one transaction, into a database that has none.

    Raise Conflict for one that has rows, and OlderSchema where the source needs a migration first.
    """
    check_current(source)
    _check_empty(target)
    migrate(target)
    with closing(open_database(source)) as origin, closing(open_database(target)) as copy:
        with copy.write() as session:
            copied = {table.name: _copy_rows(origin, session, table) for table in Base.metadata.sorted_tables}
            _set_sequences(session.connection())
        left_out = _list_other_tables(origin)
    return DatabaseCopy(len(copied), sum(copied.values()), left_out)


def _check_empty(target: Settings) -> None:
    """Raise Conflict for a database with rows, before a migration changes it."""
    with closing(open_database(target)) as database, database.read() as session:
        there = {*inspect(session.connection()).get_table_names()} & Base.metadata.tables.keys()
        queries = {name: select(literal_column("1")).select_from(text(name)).limit(1) for name in sorted(there)}
        filled = next((name for name, query in queries.items() if session.execute(query).first()), None)
    if filled is not None:
        raise Conflict(
            f"The other database already has rows in the table {filled}. Name an empty one.", code="database-not-empty"
        )


def _copy_rows(origin: Database, session: Session, table: Table) -> int:
    count = 0
    with origin.read() as read:
        rows = read.execute(select(table).execution_options(yield_per=_BATCH)).mappings()
        for batch in rows.partitions(_BATCH):
            session.execute(insert(table), [dict(row) for row in batch])
            count += len(batch)
    return count


def _set_sequences(connection: Connection) -> None:
    """Let PostgreSQL count on from the copied ids; SQLite does so by itself."""
    if connection.dialect.name != "postgresql":
        return
    for table in Base.metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None:
            last = connection.scalar(select(func.max(column)))
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            connection.execute(select(func.setval(sequence, last or 1, last is not None)))


def _list_other_tables(origin: Database) -> tuple[str, ...]:
    """Return the tables of plugins; those of SQLite and of versions are no content."""
    names = inspect(origin.engine).get_table_names()
    return tuple(
        name
        for name in sorted(names)
        if name not in Base.metadata.tables and not name.startswith(("sqlite_", "alembic_version"))
    )
