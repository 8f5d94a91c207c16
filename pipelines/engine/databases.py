"""Writes Arrow rows to a table of a database in one transaction: PostgreSQL, MariaDB, MySQL, SQLite."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.exc import SQLAlchemyError

from pipelines.errors import RunError, summarize_error
from pipelines.language.formats import Mode
from pipelines.language.json_values import to_json

_log = logging.getLogger(__name__)
_BATCH_ROWS = 1000  # of an INSERT
_KEY_LENGTH = 255  # characters of a text key in MariaDB, which indexes no longer ones
_SAVES = "spindle_saves"  # appends that are committed, so that a later attempt does not repeat them
_SAVES_KEPT = timedelta(days=30)
_STAGED = "spindle_staged"


@dataclass(frozen=True, slots=True)
class TableWrite:
    """How rows are written to a table, which may have a schema before a dot.

    `author` names the execution and stage of an append, which is done once for equal ones; None repeats it.
    Columns that the table lacks are added, or an error.
    """

    table: str
    mode: Mode
    keys: tuple[str, ...] = ()
    author: str | None = None
    adds_columns: bool = False


def open_sqlite(path: Path) -> sa.Engine:
    """Return an engine for a file of SQLite, whose transactions contain the statements that create tables too."""
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)), poolclass=sa.NullPool)

    def disable_implicit_begin(connection: Any, _: object) -> None:
        connection.isolation_level = None

    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", disable_implicit_begin)
    event.listen(engine, "begin", begin)
    return engine


def write_to_database(
    engine: sa.Engine, write: TableWrite, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> int:
    """Write the rows in one transaction and return their number; raise RunError.

    A missing table is created. Rows of a merge pass through a temporary table.
    """
    with _convert_errors(write.table):
        with engine.begin() as connection:  # MariaDB commits where it creates a table
            target = _Target.open(connection, write, schema)
            if write.author:
                _create_saves(connection, target.schema)
        with engine.begin() as connection:
            if write.mode is Mode.MERGE:
                return target.merge(connection, write.keys, schema, batches)
            if write.mode is Mode.OVERWRITE:
                connection.execute(sa.delete(target.table))
            elif write.author and not _claim_append(connection, target.schema, write.author):
                _log.info("an earlier attempt has appended the rows to the table '%s'", write.table)
                return 0
            return _insert(connection, target.table, schema, batches)


@contextmanager
def _convert_errors(table: str) -> Generator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise RunError(f"the table '{table}' cannot be written: {summarize_error(Exception(str(cause)))}") from None


@contextmanager
def dispose_after(engine: sa.Engine) -> Generator[sa.Engine]:
    """Provide an engine and close its connections afterwards."""
    try:
        yield engine
    finally:
        engine.dispose()


def check_connection(engine: sa.Engine, system: str) -> None:
    """Raise RunError when the database does not answer or refuses the user."""
    try:
        with engine.connect():
            pass
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise RunError(f"{system} cannot be reached: {summarize_error(Exception(str(cause)))}") from None


@dataclass(frozen=True, slots=True)
class _Target:
    """The table that rows are written to, with its spelling of their columns and their types in it."""

    table: sa.TableClause
    schema: str | None
    types: Sequence[sa.types.TypeEngine[Any]]

    @classmethod
    def open(cls, connection: sa.Connection, write: TableWrite, schema: pa.Schema) -> _Target:
        """Return the table, created where there is none; raise RunError for columns that it lacks."""
        place, _, name = write.table.rpartition(".")
        inspector = sa.inspect(connection)
        if not inspector.has_table(name, place or None):
            types = [_choose_type(each.type, each.name in write.keys) for each in schema]
            table = sa.Table(name, sa.MetaData(), *map(sa.Column, schema.names, types), schema=place or None)
            if write.keys:
                sa.Index(f"{name[:40]}_keys", *(table.columns[key] for key in write.keys), unique=True)
            table.create(connection)
            return cls(_name_table(name, schema.names, place or None), place or None, types)
        known = {each["name"].casefold(): each for each in inspector.get_columns(name, place or None)}
        lacking = [each for each in schema if each.name.casefold() not in known]
        if write.adds_columns:
            known |= {each.name.casefold(): _add_column(connection, name, place or None, each) for each in lacking}
        elif lacking:
            listed = ", ".join(f"'{each.name}'" for each in lacking)
            raise RunError(
                f"the table '{write.table}' has no column {listed}: add it to the table, or leave it out of the rows"
            )
        own = [known[each.casefold()] for each in schema.names]
        table = _name_table(name, [each["name"] for each in own], place or None)
        return cls(table, place or None, [each["type"] for each in own])

    def merge(
        self, connection: sa.Connection, keys: Sequence[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> int:
        """Update the rows with equal keys and add the others."""
        columns = map(sa.Column, schema.names, self.types)
        definition = sa.Table(_STAGED, sa.MetaData(), *columns, prefixes=["TEMPORARY"])
        definition.create(connection)
        staged = _name_table(_STAGED, schema.names, None)
        written = _insert(connection, staged, schema, batches)
        pairs = dict(zip(schema.names, self.table.columns, strict=True))
        _check_staged_keys(connection, staged, keys)
        if connection.dialect.name == "postgresql":
            quoted = connection.dialect.identifier_preparer.format_table(self.table)
            connection.exec_driver_sql(f"LOCK TABLE {quoted} IN SHARE ROW EXCLUSIVE MODE")
        is_same = sa.and_(*(pairs[key] == staged.columns[key] for key in keys))
        changed = {own.name: staged.columns[name] for name, own in pairs.items() if name not in keys}
        if changed:
            connection.execute(sa.update(self.table).values(changed).where(is_same))
        known = sa.exists().select_from(self.table).where(is_same).correlate(staged)
        added = sa.select(*(staged.columns[name] for name in schema.names)).where(~known)
        connection.execute(sa.insert(self.table).from_select([each.name for each in pairs.values()], added))
        definition.drop(connection)
        return written


def _add_column(connection: sa.Connection, table: str, schema: str | None, column: pa.Field) -> ReflectedColumn:
    type_, quote = _choose_type(column.type, False), connection.dialect.identifier_preparer
    place = quote.format_table(_name_table(table, (), schema))
    written = type_.compile(connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {place} ADD COLUMN {quote.quote(column.name)} {written}")
    return {"name": column.name, "type": type_, "nullable": True, "default": None}


def _check_staged_keys(connection: sa.Connection, staged: sa.TableClause, keys: Sequence[str]) -> None:
    """Raise RunError for rows of a merge with equal keys, and for those without."""
    columns = [staged.columns[key] for key in keys]
    empty = connection.execute(
        sa.select(*columns).where(sa.or_(*(each.is_(None) for each in columns))).limit(1)
    ).first()
    if empty is not None:
        lacking = next(key for key, value in zip(keys, empty, strict=True) if value is None)
        raise RunError(f"a row has no value in the key '{lacking}': put a filter or dropna of it before the stage")
    twice = sa.select(*columns).group_by(*columns).having(sa.func.count() > 1).limit(1)
    if (found := connection.execute(twice).first()) is not None:
        named = ", ".join(f"{key} {value!r}" for key, value in zip(keys, found, strict=True))
        raise RunError(f"several rows have the same keys ({named}); put a dedup of {', '.join(keys)} before it")


def _create_saves(connection: sa.Connection, schema: str | None) -> None:
    columns = (
        sa.Column("author", sa.String(_KEY_LENGTH), primary_key=True),
        sa.Column("saved_at", sa.String(40), nullable=False),
    )
    sa.Table(_SAVES, sa.MetaData(), *columns, schema=schema).create(connection, checkfirst=True)


def _claim_append(connection: sa.Connection, schema: str | None, author: str) -> bool:
    """Note the append in the database; return whether no earlier attempt has committed it."""
    saves, now = _name_table(_SAVES, ("author", "saved_at"), schema), datetime.now(UTC)
    connection.execute(sa.delete(saves).where(saves.columns.saved_at < (now - _SAVES_KEPT).isoformat()))
    if connection.execute(sa.select(saves.columns.author).where(saves.columns.author == author)).first():
        return False
    connection.execute(sa.insert(saves).values(author=author, saved_at=now.isoformat()))
    return True


def _name_table(name: str, columns: Iterable[str], schema: str | None) -> sa.TableClause:
    """Return a table whose columns have no types: the database converts values to its own."""
    return sa.table(name, *(sa.column(each) for each in columns), schema=schema)


def _choose_type(type_: pa.DataType, is_key: bool) -> sa.types.TypeEngine[Any]:
    kinds = pa.types
    if kinds.is_boolean(type_):
        return sa.Boolean()
    if kinds.is_integer(type_):
        return sa.BigInteger() if type_.bit_width > 32 else sa.Integer()
    if kinds.is_floating(type_):
        return sa.Double()
    if kinds.is_decimal(type_):
        return sa.Numeric(type_.precision, type_.scale).with_variant(sa.Text(), "sqlite")  # which has doubles only
    if kinds.is_date(type_):
        return sa.Date()
    if kinds.is_timestamp(type_):
        return sa.DateTime(timezone=type_.tz is not None).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    if kinds.is_binary(type_):
        return sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
    if kinds.is_nested(type_):
        return sa.JSON().with_variant(postgresql.JSONB(), "postgresql").with_variant(sa.Text(), "sqlite")
    text = sa.String(_KEY_LENGTH) if is_key else mysql.LONGTEXT()
    return sa.Text().with_variant(text, "mysql", "mariadb")


def _insert(
    connection: sa.Connection, table: sa.TableClause, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> int:
    names, statement, written = [each.name for each in table.columns], sa.insert(table), 0
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            records = [*_list_records(batch.slice(start, _BATCH_ROWS), names, connection.dialect.name)]
            connection.execute(statement, records)
            written += len(records)
    return written


def _list_records(batch: pa.RecordBatch, names: Sequence[str], dialect: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows as parameters of an INSERT."""
    cells = [_convert_column(column, dialect) for column in batch.columns]
    return (dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True))


def _convert_column(column: pa.Array, dialect: str) -> list[Any]:
    values = column.to_pylist()
    convert: Callable[[Any], Any] | None = None
    if pa.types.is_nested(column.type):
        convert = _dump_json
    elif dialect == "sqlite" and pa.types.is_temporal(column.type):
        convert = _format_time
    elif dialect == "sqlite" and pa.types.is_decimal(column.type):
        convert = _format_decimal
    return values if convert is None else [None if each is None else convert(each) for each in values]


def _dump_json(value: Any) -> str:
    return json.dumps(to_json(value, None), ensure_ascii=False)


def _format_time(value: datetime) -> str:
    return value.isoformat()


def _format_decimal(value: Decimal) -> str:
    return format(value, "f")
