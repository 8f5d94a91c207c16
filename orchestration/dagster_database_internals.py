"""Dagster's private API for its tables in PostgreSQL: connections, their schema, and the log of an outage.

Every use states why the public API is not enough, and its fallback.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache, partial
from types import MethodType
from typing import Any

from dagster import DagsterInstance
from dagster._core.errors import DagsterRunAlreadyExists
from sqlalchemy import Connection, Engine, create_engine, event, make_url

from core.infra.commit_mark import CommitMark
from core.infra.connection_pool import LIMITS, POOLED, configure_connections, describe_pool, replace_lost
from orchestration.outages import RETRY_SECONDS, OutageFilter, is_outage

CALLS = ("add_", "fetch_", "get_", "handle_", "has_", "replace_", "store_", "update_", "upsert_")
RUN_COLUMNS = (
    "has_run_stats_index_cols",
    "has_bulk_actions_selector_cols",
    "has_backfill_id_column",
    "has_bulk_action_job_name_column",
    "has_backfill_tags_table",
)
SCHEDULE_TABLES = ("has_instigators_table", "has_built_index")


def share_connections(connections: int, schema: str, mark: CommitMark) -> None:
    """Let the storages of this process share few connections.

    Behind a pooler such as PgBouncer, which refuses options of the startup and gives each statement another connection
    of the server, a statement carries the schema and its limits with it.
    Public API: each storage has its own engine, with a connection for every statement or one that stays, and the schema
    is an option of the address. Fallback: leave it out; DAGSTER_DATABASE_URL has the option, but then there is no
    pooler, and no bound.
    """
    from dagster_postgres.event_log import event_log
    from dagster_postgres.run_storage import run_storage
    from dagster_postgres.schedule_storage import schedule_storage

    remember_schema()
    engines = dict[tuple[int, str], Engine]()

    def share_engine(url: str, _tokens: object = None, **_options: object) -> Engine:
        key = (os.getpid(), url)
        if key not in engines:
            engines[key] = _create_engine(url, connections, schema, mark)
        return engines[key]

    replaced = {
        "create_pg_engine": share_engine,
        "create_pg_connection": _connect,
        "set_pg_statement_timeout": _keep_limits,
    }
    for module in (event_log, run_storage, schedule_storage):
        for name, value in replaced.items():
            setattr(module, name, value)


def _create_engine(url: str, connections: int, schema: str, mark: CommitMark) -> Engine:
    values = {**LIMITS, "search_path": schema}
    prefix = "".join(f"SET LOCAL {name} = '{value}'; " for name, value in values.items())
    address = make_url(url).difference_update_query(["options"])
    engine = create_engine(address, isolation_level="AUTOCOMMIT", **describe_pool(connections))
    replace_lost(engine)
    configure_connections(engine, values)

    def add_settings(
        connection: Connection, _cursor: object, statement: str, parameters: Any, _context: object, _many: bool
    ) -> tuple[str, Any]:
        return (prefix if connection.info[POOLED] else "") + statement, parameters

    def note_statement(
        _connection: Connection, _cursor: object, _statement: str, _parameters: object, context: Any, _many: bool
    ) -> None:
        outage_filter.note_answer()
        if context.isinsert or context.isupdate or context.isdelete:
            mark.touch()

    event.listen(engine, "before_cursor_execute", add_settings, retval=True)
    event.listen(engine, "after_cursor_execute", note_statement)
    return engine


def wait_out_outages(instance: DagsterInstance, pause: Callable[[float], bool]) -> None:
    """Let the threads of runs wait for PostgreSQL where it does not answer, instead of failing.

    `pause` waits, and returns False where the caller is to have the error. Public API: none; Dagster gives up after
    some seconds, and the run fails. Fallback: leave it out; the launcher corrects the ends of such runs.
    """
    for storage in (instance.event_log_storage, instance.run_storage):
        for name in dir(type(storage)):
            if name.startswith(CALLS) and callable(getattr(type(storage), name)):
                setattr(storage, name, partial(_call, getattr(storage, name), pause))


def _call(method: MethodType, pause: Callable[[float], bool], *arguments: Any, **options: Any) -> Any:
    is_repeated = False
    while True:
        try:
            return method(*arguments, **options)
        except DagsterRunAlreadyExists:
            if not is_repeated:
                raise
            (run,) = arguments  # it was stored before its connection was lost, perhaps without its tags
            storage: Any = method.__self__
            storage.add_run_tags(run.run_id, run.tags_for_storage())
            return run
        except Exception as error:
            if not is_outage(error) or not pause(RETRY_SECONDS):
                raise
            is_repeated = True


CONFIGURE = "configure_loggers"
outage_filter = OutageFilter()


def count_outages() -> None:
    """Let the daemon log an outage of its database in two lines.

    Public API: none; each of its loops logs all failures with tracebacks. Fallback: leave it out.
    """
    from dagster._daemon import controller

    configure = getattr(controller, CONFIGURE)

    def configure_and_count(*arguments: Any, **options: Any) -> None:
        configure(*arguments, **options)
        for handler in logging.getLogger("dagster").handlers:
            handler.addFilter(outage_filter)

    setattr(controller, CONFIGURE, configure_and_count)


def remember_schema() -> None:
    """Look up once which columns and tables there are: no process changes Dagster's tables while others work.

    Public API: none; Dagster queries PostgreSQL's catalogue before many of its queries. Fallback: leave it out.
    """
    from dagster._core.storage.runs import SqlRunStorage
    from dagster._core.storage.schedules import SqlScheduleStorage

    for storage, names in ((SqlRunStorage, RUN_COLUMNS), (SqlScheduleStorage, SCHEDULE_TABLES)):
        for name in names:
            setattr(storage, name, lru_cache(getattr(storage, name)))


@contextmanager
def _connect(engine: Engine) -> Generator[Connection]:
    """Connect once: the caller knows whether it can wait for a database that does not answer."""
    with engine.connect() as connection:
        yield connection


def _keep_limits(_connection: object, _milliseconds: int) -> None:
    """Leave the statement timeout to the statements."""
