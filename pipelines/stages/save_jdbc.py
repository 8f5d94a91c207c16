"""save_jdbc: write rows to a table of PostgreSQL, MySQL, MariaDB or SQLite, without Spark and without Java."""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from pipelines.errors import ArgumentError, RunError
from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.language.formats import Mode
from pipelines.language.names import validate_choice
from pipelines.language.parameters import has_reference
from pipelines.planning.stage import Export, register_stage
from pipelines.stages.jdbc import Address, parse_address

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import Engine

    from pipelines.contract.context import RunContext

_SQLITE = "jdbc:sqlite:"
_MODES = (Mode.APPEND, Mode.OVERWRITE, Mode.MERGE)
_CONNECT_SECONDS = 30


@register_stage("save_jdbc")
class SaveJdbc(Export):
    """Write the rows to a table of a PostgreSQL, MySQL or MariaDB database; the rows pass on unchanged.

    The address, user and password are those of load_jdbc, and the address must be public or in a network that the
    service allows. `append` adds the rows, `overwrite` replaces those of the table, and `merge` updates the rows with
    equal `keys` and adds the others; keys without a value are an error. All of it is one transaction at the end of the
    run. A later attempt of an execution does not repeat an append, which the table `spindle_saves` of the database
    remembers for 30 days. A missing table is created; a column that the table lacks is an error. Nested values are
    JSON. `spindle run` also writes to a file of SQLite, `jdbc:sqlite:shop.sqlite`.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: dedup, args: [name]}
  - {stage: save_jdbc, args: [{url: "jdbc:sqlite:${FOLDER}/shop.sqlite", table: products, mode: merge, keys: [name]}]}
"""

    positional = ("url", "table", "mode")
    url: str
    table: str = Field(min_length=1, max_length=200)
    mode: Annotated[Mode, validate_choice("mode", _MODES)] = Mode.APPEND
    keys: tuple[str, ...] = ()
    user: str | None = None
    password: str | None = Field(default=None, repr=False)

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if not has_reference(url):
            _parse(url)
        return url

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if self.mode is Mode.MERGE and not self.keys:
            raise ArgumentError("merge needs 'keys', the columns that tell rows apart", "missing-argument")
        if self.keys and self.mode is not Mode.MERGE:
            sentence = f"'keys' belong to the mode merge, and the mode is {self.mode}"
            raise ArgumentError(sentence, "conflicting-arguments")
        if engine := next((name for name in self.keys if name in ENGINE_COLUMNS), None):
            raise ArgumentError(f"'{engine}' is a column of the engine: give it another name first", "reserved-column")
        return self

    def describe(self) -> str:
        return f"{self.url.partition('?')[0]} {self.table} {self.mode}"

    def list_references(self) -> tuple[str, ...]:
        return self.keys

    def prepare(self, context: RunContext) -> None:
        """Raise RunError for a database that must not or cannot be reached, or that refuses the user."""
        from pipelines.engine.databases import check_connection

        place = _parse(self.url)
        if isinstance(place, Address) or _resolve_file(place, context).exists():
            with self._open(context) as engine:
                check_connection(engine, _describe(place))

    def export(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], context: RunContext) -> None:
        from pipelines.engine.databases import TableWrite, write_to_database

        author = f"{context.author} {context.step}" if context.author else None
        with self._open(context) as engine:
            write_to_database(engine, TableWrite(self.table, self.mode, self.keys, author), schema, batches)

    def _open(self, context: RunContext) -> Any:
        """Return a context manager of an engine for the database."""
        from pipelines.engine.databases import dispose_after, open_sqlite

        place = _parse(self.url)
        if isinstance(place, str):
            return dispose_after(open_sqlite(_resolve_file(place, context)))
        numeric = context.resolve_host(place.host, place.port, "the database")[0]
        open_engine = _open_postgresql if place.kind == "postgresql" else _open_mysql
        return dispose_after(open_engine(place, numeric, self.user, self.password))


def _parse(url: str) -> Address | str:
    """Return the parts of an address, or the path of a file of SQLite; raise ArgumentError."""
    if not url.startswith(_SQLITE):
        return parse_address(url)
    path = url.removeprefix(_SQLITE)
    if not path or path.startswith((":", "file:")) or "?" in path:
        raise ArgumentError("'url' is jdbc:sqlite: and the path of a file, without options")
    return path


def _describe(place: Address | str) -> str:
    return f"the database {place}" if isinstance(place, str) else f"the database at {place.host}:{place.port}"


def _resolve_file(path: str, context: RunContext) -> Path:
    if context.saves_folder is not None:
        raise RunError("a service writes no file of SQLite: name a server's database, or use spindle run")
    target = context.resolve_local_target(path)
    if target is None:
        raise RunError(f"'{path}' is not a local path")
    return target


def _open_postgresql(address: Address, numeric: str, user: str | None, password: str | None) -> Engine:
    """Return an engine whose connections go to a numeric address, and prove the name where the options say so."""
    import sqlalchemy as sa

    options = address.options
    mode = options.get("sslmode", "verify-full" if options.get("ssl", "false") != "false" else "prefer")
    given: dict[str, Any] = {
        "host": address.host.strip("[]"),
        "hostaddr": numeric,
        "port": address.port,
        "dbname": address.name,
        "user": user,
        "password": password,
        "sslmode": mode,
        "sslrootcert": "system" if mode == "verify-full" else None,  # libpq takes these authorities for no less
        "application_name": options.get("ApplicationName", "spindle"),
        "connect_timeout": options.get("connectTimeout", _CONNECT_SECONDS),
        "options": f"-csearch_path={options['currentSchema']}" if "currentSchema" in options else None,
    }
    if seconds := options.get("socketTimeout"):
        given["tcp_user_timeout"] = int(seconds) * 1000
    arguments = {name: value for name, value in given.items() if value is not None}
    return sa.create_engine("postgresql+psycopg://", connect_args=arguments, poolclass=sa.NullPool)


def _open_mysql(address: Address, numeric: str, user: str | None, password: str | None) -> Engine:
    """Return an engine whose connections go to a numeric address, and never send files of this machine."""
    import socket

    import sqlalchemy as sa

    pymysql: Any = importlib.import_module("pymysql")  # which has no types
    options = address.options
    mode = options.get("sslMode", "PREFERRED").upper()
    seconds = _read_milliseconds(options.get("connectTimeout")) or _CONNECT_SECONDS

    def connect() -> Any:
        connection = pymysql.connect(
            host=address.host.strip("[]"),  # for the server's certificate
            port=address.port,
            user=user,
            password=password or "",
            database=address.name,
            charset="utf8mb4",
            init_command="SET time_zone = '+00:00'",
            local_infile=False,
            ssl=_create_tls(mode),
            ssl_disabled=mode == "DISABLED" or None,
            read_timeout=_read_milliseconds(options.get("socketTimeout")),
            write_timeout=_read_milliseconds(options.get("socketTimeout")),
            defer_connect=True,
        )
        try:
            opened = socket.create_connection((numeric, address.port), seconds)
        except OSError as error:
            raise pymysql.OperationalError(2003, str(error)) from None
        opened.settimeout(None)
        connection.connect(opened)
        return connection

    return sa.create_engine("mysql+pymysql://", creator=connect, poolclass=sa.NullPool)


def _create_tls(mode: str) -> ssl.SSLContext | None:
    """Return how a connection is encrypted; None for the driver's own way: if the server can, unverified."""
    if mode in ("PREFERRED", "DISABLED"):
        return None
    context = ssl.create_default_context()
    context.check_hostname = mode == "VERIFY_IDENTITY"
    if mode == "REQUIRED":
        context.verify_mode = ssl.CERT_NONE
    return context


def _read_milliseconds(text: str | None) -> int | None:
    return max(int(text) // 1000, 1) if text else None
