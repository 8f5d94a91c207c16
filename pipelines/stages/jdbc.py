"""load_jdbc: read rows from a PostgreSQL or MySQL database, whose address passes the fetch guard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import parse_qsl, quote, urlencode

from pydantic import Field, PositiveInt, field_validator, model_validator

from pipelines.errors import ArgumentError, RunError, summarize_error
from pipelines.language.columns import INTERNAL_COLUMNS, Columns
from pipelines.language.parameters import has_reference
from pipelines.planning.stage import Source, register_stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.contract.context import RunContext

_URL = re.compile(
    r"jdbc:(?P<kind>postgresql|mysql)://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?"
    r"/(?P<database>[^/?#;()]+)(?:\?(?P<options>[^#]*))?"
)
_SENTENCE = "'url' is jdbc:postgresql:// or jdbc:mysql://host:port/database, with options after a question mark"


@dataclass(frozen=True, slots=True)
class Database:
    """A kind of database, and the options that its addresses may have.

    Options that are not listed load classes, read files of the machine or have secrets. `proof` is the option by which
    a server must prove its name; `fixed` options are always added.
    """

    driver: str
    port: int
    options: frozenset[str]
    proof: tuple[str, str]
    fixed: Mapping[str, str] = field(default_factory=dict[str, str])


_DATABASES = {
    "postgresql": Database(
        "org.postgresql.Driver",
        5432,
        frozenset({"ssl", "sslmode", "currentSchema", "ApplicationName", "connectTimeout", "socketTimeout"}),
        ("sslmode", "verify-full"),
    ),
    "mysql": Database(
        "com.mysql.cj.jdbc.Driver",
        3306,
        frozenset(
            {
                "sslMode",
                "connectTimeout",
                "socketTimeout",
                "characterEncoding",
                "connectionTimeZone",
                "tinyInt1isBit",
                "yearIsDateType",
                "zeroDateTimeBehavior",
                "allowPublicKeyRetrieval",
            }
        ),
        ("sslMode", "VERIFY_IDENTITY"),
        {
            # a server may ask its client for files
            "allowLoadLocalInfile": "false",
            "allowUrlInLocalInfile": "false",
            "autoDeserialize": "false",
            # without a cursor, the driver reads the whole result into memory
            "useCursorFetch": "true",
        },
    ),
}


class Address(NamedTuple):
    """A database's address in parts."""

    kind: str
    host: str
    port: int
    name: str
    options: Mapping[str, str]

    @property
    def database(self) -> Database:
        return _DATABASES[self.kind]


def parse_address(url: str) -> Address:
    """Raise ArgumentError for an address of another form, and for options that are not allowed."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ArgumentError(_SENTENCE)
    database, options = _DATABASES[match["kind"]], dict(parse_qsl(match["options"] or "", keep_blank_values=True))
    for name in options:
        if name not in database.options:
            allowed = ", ".join(sorted(database.options))
            raise ArgumentError(f"the option '{name}' of 'url' is not allowed; there are {allowed}")
    return Address(match["kind"], match["host"], int(match["port"] or database.port), match["database"], options)


@register_stage("load_jdbc")
class LoadJdbc(Source):
    """Replace the rows by those of a table or a query of a PostgreSQL or MySQL database.

    User and password come from a cloud credential of the provider POSTGRESQL or MYSQL, by the names of its variables.
    The address must be public, or in a network that the service allows. For large tables, `partitionColumn`,
    `lowerBound`, `upperBound` and `numPartitions` read parts of the table at the same time.
    """

    example = """
pipeline:
  - stage: load_jdbc
    args:
      - {url: "jdbc:postgresql://db.example.com/shop", table: products, user: "${POSTGRESQL_USER}",
         password: "${POSTGRESQL_PASSWORD}"}
"""

    positional = ("url", "table")
    url: str
    table: str | None = Field(default=None, min_length=1, max_length=1000)
    query: str | None = Field(default=None, min_length=1, max_length=20_000)
    user: str | None = None
    password: str | None = Field(default=None, repr=False)
    fetch_size: PositiveInt = Field(default=1000, alias="fetchSize", le=100_000)
    partition_column: str | None = Field(default=None, alias="partitionColumn")
    lower_bound: str | None = Field(default=None, alias="lowerBound", coerce_numbers_to_str=True)
    upper_bound: str | None = Field(default=None, alias="upperBound", coerce_numbers_to_str=True)
    num_partitions: PositiveInt | None = Field(default=None, alias="numPartitions", le=256)

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if not has_reference(url):
            parse_address(url)
        return url

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ArgumentError("give either 'table' or 'query'", "missing-argument")
        parts = (self.partition_column, self.lower_bound, self.upper_bound, self.num_partitions)
        if len({each is None for each in parts}) > 1 or (self.query and self.partition_column):
            raise ArgumentError(
                "partitionColumn, lowerBound, upperBound and numPartitions belong together, with 'table'"
            )
        return self

    def describe(self) -> str:
        return f"{self.url.partition('?')[0]} {self.table or 'query'}"

    def list_libraries(self) -> tuple[str, ...]:
        # an address in a parameter has a name such as MYSQL_URL
        return ("mysql",) if "mysql" in self.url.partition("//")[0].casefold() else ("postgresql",)

    def list_sources(self) -> tuple[str, ...]:
        return (f"{self.url.partition('?')[0]}/{self.table or 'query'}",)

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(open=True)

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        from py4j.protocol import Py4JJavaError
        from pyspark.sql import functions as F

        address = parse_address(self.url)
        options = {
            "url": _resolve(address, context),
            "driver": address.database.driver,
            "dbtable": self.table,
            "query": self.query,
            "user": self.user,
            "password": self.password,
            "fetchsize": self.fetch_size,
            "partitionColumn": self.partition_column,
            "lowerBound": self.lower_bound,
            "upperBound": self.upper_bound,
            "numPartitions": self.num_partitions,
        }
        given = {name: str(value) for name, value in options.items() if value is not None}
        try:
            rows = spark.read.format("jdbc").options(**given).load()
        except Py4JJavaError as error:
            reason = summarize_error(Exception(str(error.java_exception.getMessage())))
            raise RunError(f"the database at {address.host}:{address.port} cannot be read: {reason}") from None
        if taken := [name for name in rows.columns if name.casefold() in INTERNAL_COLUMNS]:
            raise RunError(
                f"the table has a column '{taken[0]}', which is reserved for the engine: rename it in a query"
            )
        return rows.withColumn("_ordinal", F.array(F.monotonically_increasing_id()))


def _resolve(address: Address, context: RunContext) -> str:
    """Return the JDBC address with a numeric host that has passed the guard; raise RunError.

    A name that is looked up again could be of another host. Only a server that proves its name keeps it.
    """
    found = context.resolve_host(address.host, address.port, "the database")
    chosen = address.host.strip("[]") if address.database.proof in address.options.items() else found[0]
    written = f"[{chosen}]" if ":" in chosen else chosen
    options = urlencode({**address.options, **address.database.fixed}, quote_via=quote)
    return f"jdbc:{address.kind}://{written}:{address.port}/{address.name}{f'?{options}' if options else ''}"
